// Requests to the program that serves this page, which asks the API server.

export const GONE = "coracle ui has ended, or cannot be reached; start it again in the terminal";

/** The way to a VM: `kind` is vms, why, events, or a stream. */
export const path = (kind, { namespace, name }) => `/api/${kind}/${namespace}/${name}`;

async function ask(method, where) {
  let response;
  try {
    response = await fetch(where, { method, cache: "no-store", credentials: "same-origin", redirect: "error" });
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

export const get = (where) => ask("GET", where);
export const post = (where) => ask("POST", where);

/**
 * A stream of bytes of a guest. Its first message is text, and says whether there is one; `opened` gets the socket within
 * it, so that no byte is missed. `ended` gets how it ended: `error` and `code` where it never was one, else `reason`.
 */
export function stream(where, { opened, ended }) {
  const socket = new WebSocket(`ws://${location.host}${where}`);
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
