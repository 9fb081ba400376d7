// All VMs and every change of them, for as long as the page is open: server-sent events, read by fetch, since an EventSource
// can send no session.

import { GONE, ask } from "./api.js";

const AGAIN = 3000;

/** Follows; `told` has list, changes, trouble and lost. */
export async function follow(told) {
  let words = GONE;
  try {
    const response = await ask("/api/changes", {});
    if (response.ok) await read(response.body, (name, data) => tell(told[name], data));
    else words = (await response.json()).error ?? GONE;
  } catch {
    // The program has gone, or goes.
  }
  told.lost(words);
  setTimeout(() => follow(told), AGAIN);
}

/** A fault of the page is not one of the stream. */
function tell(on, data) {
  try {
    on?.(data);
  } catch (e) {
    reportError(e);
  }
}

/** Tells each event until the stream ends. */
async function read(body, event) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  // A long list comes in many pieces, which are joined once.
  let pieces = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pieces.push(value);
    if (!value.includes("\n")) continue;
    const events = pieces.join("").split("\n\n");
    pieces = [events.pop()];
    for (const text of events) {
      const lines = text.split("\n");
      const field = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
      const [name] = field("event");
      if (name) event(name, JSON.parse(field("data").join("\n")));
    }
  }
}
