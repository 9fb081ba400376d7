// What a VM waits for, what its objects say, and its events: read again when its row changes, and while it is not well.

import { get, path } from "./api.js";
import { age, button, element, tone } from "./dom.js";

/** From one reading to the next, at least; and while the VM is on its way, at most. */
const LEAST = 2000;
const MOST = 8000;

export class Details {
  #place;
  #why = element("div", { class: "why", "aria-busy": "true" }, element("p", {}, "Reading what the VM says"));
  #facts = element("div");
  #events = element("div");
  #all = null;
  #seen = new Map();
  #read = 0;
  #timer = null;
  #row = null;
  #left = false;

  constructor(host, place, row) {
    this.#place = place;
    this.#row = row;
    host.append(this.#why, this.#facts, this.#events);
    this.#load();
  }

  update(row) {
    this.#row = row;
    this.#soon(LEAST - (Date.now() - this.#read));
  }

  close() {
    this.#left = true;
    clearTimeout(this.#timer);
  }

  #soon(wait) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => (document.hidden ? this.#soon(LEAST) : this.#load()), Math.max(wait, 0));
  }

  async #load() {
    this.#read = Date.now();
    const show = async (node, kind, paint) => {
      let value;
      try {
        value = await get(path(kind, this.#place));
      } catch (e) {
        value = { error: e.message };
      }
      const text = JSON.stringify(value);
      if (this.#left || this.#seen.get(node) === text) return;
      this.#seen.set(node, text);
      node.replaceChildren(...(value.error ? [element("p", { class: "bad" }, value.error)] : paint(value)));
      node.removeAttribute("aria-busy");
    };
    await Promise.all([
      show(this.#why, "why", (why) => this.#shownWhy(why)),
      show(this.#facts, "vms", shownDetails),
      this.#all && show(this.#events, "events", (all) => [table(all.events, all.more)]),
    ]);
    if (this.#left) return;
    const state = tone(this.#row?.status ?? "");
    this.#soon(state === "good" || state === "off" ? MOST * 8 : MOST);
  }

  #shownWhy({ says, since, words, advice, unread, events, more }) {
    if (!this.#all) {
      const rest = more > 0 && button(`Show ${more} older events`, () => {
        this.#all = true;
        this.#load();
      });
      this.#events.replaceChildren(table(events, 0), ...(rest ? [rest] : []));
    }
    const section = (title, items) => items.length === 0 ? [] : [element("h3", {}, title), element("ul", {}, ...items)];
    return [
      element("p", { class: "says" }, says.endsWith(".") ? says : `${says}.`),
      since && element("p", { class: "faint" }, `Since ${local(since)}, for ${age(since)}`),
      ...section("In the words of", words.map(({ who, text }) =>
        element("li", {}, element("b", {}, who), element("q", {}, text)))),
      ...section("What to do", advice.map((text) => element("li", {}, text))),
      ...section("Not read", unread.map((text) => element("li", {}, text))),
    ].filter(Boolean);
  }
}

function shownDetails({ facts, volumes, conditions }) {
  const rows = facts.map(([name, value]) => [element("dt", {}, name), element("dd", {}, name === "Created" ? local(value) : value)]);
  const parts = [element("h3", {}, "Facts"), element("dl", {}, ...rows.flat())];
  if (volumes.length > 0) {
    parts.push(element("h3", {}, "Volumes"), element("ul", {}, ...volumes.map(({ name, source, of, device }) =>
      element("li", {}, element("b", {}, name), ` ${source ?? ""} ${of}${device ? ` (${device})` : ""}`))));
  }
  if (conditions.length > 0) {
    parts.push(element("h3", {}, "Conditions"), element("ul", {}, ...conditions.map((condition) => {
      const { of, type, status, reason, message, since } = condition;
      const more = [reason, message].filter(Boolean).join(": ");
      return element("li", {}, element("b", {}, `${type} is ${status}`),
        ` ${of}${since ? `, for ${age(since)}` : ""}${more ? `. ${more}` : ""}`);
    })));
  }
  return parts;
}

function table(events, more) {
  if (events.length === 0) return element("p", { class: "faint" }, "No events");
  const items = events.map(({ when, warning, reason, object, from, message, count }) =>
    element("li", { class: warning ? "warning" : null },
      element("b", {}, `${warning ? "Warning: " : ""}${reason}`), ` ${message}`,
      element("span", { class: "faint" },
        ` ${object}${from ? `, ${from}` : ""}${when ? `, ${age(when)} ago` : ""}${count > 1 ? `, ${count} times` : ""}`)));
  const rest = more > 0 ? [element("p", { class: "faint" }, `${more} older events are left out`)] : [];
  return element("div", {}, element("h3", {}, "Events, newest first"), element("ul", { class: "events" }, ...items), ...rest);
}

const local = (moment) => new Date(moment).toLocaleString();
