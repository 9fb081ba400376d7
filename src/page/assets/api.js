// Requests to the program that serves this page, which asks the API server.

import { authorization, subprotocols } from "./session.js";

export const GONE = "coracle ui has ended, or cannot be reached; start it again in the terminal";

/** The way to a VM or an upload: `kind` is vms, why, events, uploads, or a stream. */
export const path = (kind, { namespace, name }) => `/api/${kind}/${namespace}/${name}`;

/** A request of this page. */
export const ask = (where, { headers, ...more }) =>
  fetch(where, { ...more, headers: { ...headers, ...authorization() }, cache: "no-store", credentials: "omit", redirect: "error" });

/** Asks, with this body where there is one. */
export async function send(method, where, body, headers) {
  let response;
  try {
    response = await ask(where, { method, body, headers });
  } catch {
    throw new Error(GONE);
  }
  let value;
  try {
    value = await response.json();
  } catch {
    throw new Error(GONE);
  }
  if (!response.ok) throw new Error(value.error ?? `${where}: ${response.status}`);
  return value;
}

export const get = (where) => send("GET", where);
export const post = (where) => send("POST", where);
export const remove = (where) => send("DELETE", where);

/**
 * A stream of bytes of a guest. Its first message is text, and says whether there is one; `opened` gets the socket within
 * it, so that no byte is missed. `ended` gets how it ended: `error` and `code` where it never was one, else `reason`.
 */
export function stream(where, { opened, ended }) {
  const socket = new WebSocket(`ws://${location.host}${where}`, subprotocols());
  let refused = null, was = false, left = false;
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") return;
    const said = JSON.parse(data);
    if (said.error) {
      refused = said;
    } else {
      was = true;
      opened(socket);
    }
  };
  socket.addEventListener("close", ({ code, reason }) => {
    if (left) return;
    if (refused) ended({ error: refused.error, code: refused.code, again: false });
    else if (!was) ended({ error: GONE, code: 0, again: true });
    else ended({ reason: reason || "the stream ended", again: code !== 1000 && code < 4000 && code !== 1008 });
  });
  return () => {
    left = true;
    socket.close();
  };
}

/** Waits before a stream that broke is opened again, in milliseconds. */
const LATER = [1000, 2000, 5000, 10000];

/**
 * What follows the end of a stream that was opened in this mode: the mode of the next one, and the wait before it; nothing,
 * where it is not opened again by itself. `runs`: the VMI does; `tries`: those since a stream was open.
 */
export function after({ code, again }, { mode, runs, tries }) {
  // Another client has the keyboard, and keeps it: this one only reads.
  if (code === 409 && mode === "write" && runs) return { mode: "read", wait: 0 };
  if (!again || !runs || document.hidden) return null;
  return { mode: mode === "read" ? "read" : "write", wait: LATER[Math.min(tries, LATER.length - 1)] };
}
