// The session, which the first page of an address is given. It stands in the storage of this origin, of which the port is a
// part: no other server of this computer gets it, as it would get a cookie.

const KEY = "coracle-session";
const given = document.querySelector('meta[name="session"]');
/** For a browser that keeps nothing. */
let kept = given.content;

if (given.content) {
  try {
    localStorage.setItem(KEY, given.content);
  } catch {
    // It lasts as long as this page.
  }
  // The token is spent, and is nobody's to see.
  history.replaceState(null, "", given.dataset.beginning);
  given.remove();
}

function session() {
  try {
    kept = localStorage.getItem(KEY) ?? kept;
  } catch {
    // See above.
  }
  return kept;
}

/** The header of each request. */
export const authorization = () => ({ authorization: `Bearer ${session()}` });

/** The subprotocols of a WebSocket, which can have no such header: the first one is chosen. */
export const subprotocols = () => ["coracle", `coracle.session.${session()}`];
