// Elements, and what is said to people. Texts go in as texts: nothing here reads HTML.

/** An element with these properties and children. Names with a dash, and `role`, `for`, `type`, `href`, are attributes. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(label, onclick, properties = {}) {
  return element("button", { type: "button", onclick, ...properties }, label);
}

export const one = (selector, within = document) => within.querySelector(selector);

/** Sets a text, if it is another one: what does not change is not painted. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Says a state to who listens, not to who looks. */
export function announce(text) {
  write(one("#said"), text);
}

/** Says what went wrong, until it is dismissed or something else is said. */
export function alarm(text) {
  const box = one("#alarm");
  write(one("p", box), text);
  box.hidden = text === "";
}

/** How long ago, in one or two units. */
export function age(moment, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(moment)) / 1000));
  if (Number.isNaN(seconds)) return "";
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (seconds < 120) return `${seconds}s`;
  if (hours < 3) return `${minutes}m`;
  if (days < 2) return `${hours}h`;
  return `${days}d`;
}

const GOOD = new Set(["Running"]);
const OFF = new Set(["Stopped", "Succeeded"]);
const WAIT = new Set([
  "Starting", "Stopping", "Provisioning", "Migrating", "Paused", "Pending", "Scheduling", "Scheduled", "Terminating",
  "WaitingForVolumeBinding", "WaitingForReceiver",
]);

/** Whether a status is as it should be: good, off, wait or bad. The word itself always stands beside the colour. */
export function tone(status) {
  if (GOOD.has(status)) return "good";
  if (OFF.has(status)) return "off";
  return WAIT.has(status) ? "wait" : "bad";
}

export const narrow = matchMedia("(max-width: 46rem)");
