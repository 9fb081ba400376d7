// Disks on their way from this computer to DataVolumes. The program that serves the page uploads; the page hands it the bytes
// that it wants, and shows how far it is. Nothing here is lost when the page is loaded anew, but the file: a person chooses it
// again, where the browser does not remember it.

import { ask as request, get, path, remove, send } from "./api.js";
import { alarm, announce, button, element, one, write } from "./dom.js";
import { Form } from "./form.js";
import { remember, remembered } from "./handles.js";
import { ask } from "./power.js";

/** Bytes of one request: it is answered now and then. */
const PART = 64 << 20;
const EVERY = 1000;
/** The rate is that of so many looks. */
const LOOKS = 8;
const TONES = { done: "good", failed: "bad" };
const WORDS = {
  preparing: "Preparing", waiting: "Waiting for the upload pod", sending: "Uploading", processing: "Processing",
  done: "Done", failed: "Failed",
};

const keyOf = ({ namespace, name }) => `${namespace}/${name}`;
const isOf = (entry, file) =>
  entry.file === file.name && entry.length === file.size && entry.modified === file.lastModified;
const isOver = ({ phase }) => phase === "done" || phase === "failed";

/** A number of bytes for people. */
export function human(bytes) {
  const power = bytes < 1024 ? 0 : Math.min(5, Math.floor(Math.log2(bytes) / 10));
  if (power === 0) return `${bytes} bytes`;
  const value = bytes / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)} ${["KiB", "MiB", "GiB", "TiB", "PiB"][power - 1]}`;
}

/** A time for people. */
export function lasts(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export class Uploads {
  #items = new Map();
  #form = new Form((file, place, form, handle) => this.#begin(file, place, form, handle));
  #wanted = null;
  #timer = 0;

  constructor() {
    const input = one("#file");
    one("#upload").addEventListener("click", () => this.#choose(null));
    input.addEventListener("change", () => {
      const [file] = input.files;
      // The same file can be chosen again.
      input.value = "";
      if (file) this.#take(file, null);
    });
    this.#drops();
    this.#look();
  }

  /** There are uploads here, to this namespace; null where a person says one. */
  serves(namespace) {
    this.#form.namespace = namespace;
    one("#upload").hidden = false;
  }

  #drops() {
    const has = (event) => event.dataTransfer?.types.includes("Files") && !one("#upload").hidden;
    let depth = 0;
    const shows = (by) => {
      depth = Math.max(0, depth + by);
      document.body.toggleAttribute("data-drop", depth > 0);
    };
    addEventListener("dragenter", (event) => has(event) && shows(1));
    addEventListener("dragleave", (event) => has(event) && shows(-1));
    addEventListener("dragover", (event) => has(event) && event.preventDefault());
    addEventListener("drop", async (event) => {
      if (!has(event)) return;
      event.preventDefault();
      shows(-depth);
      const [file, more] = event.dataTransfer.files;
      const item = [...event.dataTransfer.items].find(({ kind }) => kind === "file");
      if (item?.webkitGetAsEntry?.()?.isDirectory) return alarm("A folder is not a disk image: drop a file.");
      if (!file) return;
      if (more) alarm(`One disk at a time: ${file.name} is taken.`);
      // Asked for before anything is waited for, else it is gone.
      const handle = item?.getAsFileSystemHandle?.().catch(() => null);
      this.#take(file, (await handle) ?? null);
    });
  }

  #choose(key) {
    this.#wanted = key;
    one("#file").click();
  }

  /** A person has given a file: for an upload that waits for it, or for a new one. */
  #take(file, handle) {
    const wanted = this.#wanted;
    this.#wanted = null;
    const open = [...this.#items.values()].filter(({ entry, file: has }) => !isOver(entry) && !has);
    const fits = open.find(({ entry }) => isOf(entry, file));
    if (fits) return this.#has(fits, file, handle);
    const item = wanted && this.#items.get(wanted);
    if (item) return alarm(`${file.name} is not the file of this upload, or was changed since: that was ${item.entry.file}.`);
    this.#form.open(file, handle);
  }

  async #begin(file, place, form, handle) {
    const body = { file: file.name, length: file.size, modified: file.lastModified, ...form };
    await send("POST", path("uploads", place), JSON.stringify(body), { "content-type": "application/json" });
    alarm("");
    await this.#look();
    const item = this.#items.get(keyOf(place));
    if (item) this.#has(item, file, handle);
  }

  #has(item, file, handle) {
    Object.assign(item, { file, paused: false });
    if (handle) remember(keyOf(item.entry), handle);
    this.#paint(item);
    this.#flow(item);
  }

  /** How far are all? Once more a moment later, while one goes on. */
  async #look() {
    clearTimeout(this.#timer);
    try {
      const entries = await get("/api/uploads");
      const keys = new Set(entries.map(keyOf));
      for (const key of [...this.#items.keys()]) if (!keys.has(key)) this.#drop(key);
      for (const entry of entries) await this.#put(entry);
      one("#uploads").hidden = entries.length === 0;
    } catch (e) {
      for (const item of this.#items.values()) write(item.parts.state, e.message);
    }
    if ([...this.#items.values()].some(({ entry }) => !isOver(entry))) {
      this.#timer = setTimeout(() => this.#look(), EVERY);
    }
  }

  async #put(entry) {
    const key = keyOf(entry);
    let item = this.#items.get(key);
    if (!item) {
      item = this.#make(entry);
      this.#items.set(key, item);
      one("#uploads ul").append(item.node);
      // A page that was loaded anew.
      item.handle = isOver(entry) ? null : await remembered(key);
      if (item.handle) this.#recall(item, false);
    }
    if (item.entry.phase !== entry.phase) {
      announce(`Upload to ${entry.name}: ${WORDS[entry.phase]}${entry.error ? `: ${entry.error}` : ""}`);
      item.looks = [];
    }
    item.entry = entry;
    if (entry.phase === "sending") {
      item.looks = [...item.looks, [performance.now(), entry.sent]].slice(-LOOKS);
      // The server went back, or nothing moves for a person's will.
      if (item.looks.length > 1 && entry.sent < item.looks.at(-2)[1]) item.looks = item.looks.slice(-1);
    }
    this.#paint(item);
    this.#flow(item);
  }

  /** Reads the file that the browser remembers; `asks` where a person has just pressed something. */
  async #recall(item, asks) {
    try {
      const wish = { mode: "read" };
      const is = asks ? await item.handle.requestPermission(wish) : await item.handle.queryPermission(wish);
      const file = is === "granted" ? await item.handle.getFile() : null;
      if (file && isOf(item.entry, file)) {
        this.#has(item, file, null);
        return true;
      }
    } catch {
      // The file has gone: another one is chosen.
    }
    // Who said no, or has another file there now, chooses it himself.
    if (asks) item.handle = null;
    return false;
  }

  /** Hands over what is wanted, for as long as it is. */
  async #flow(item) {
    if (!item.file || item.paused || item.stop || item.entry.phase !== "sending") return;
    const stop = new AbortController();
    item.stop = stop;
    item.trouble = "";
    try {
      let at = item.entry.wants;
      while (at < item.entry.length) {
        const part = item.file.slice(at, at + PART);
        const answer = await request(path("uploads", item.entry), {
          method: "PATCH", body: part, signal: stop.signal,
          headers: { "content-type": "application/offset+octet-stream", "upload-offset": `${at}` },
        });
        if (answer.status !== 204) break;
        at = Number(answer.headers.get("upload-offset"));
      }
    } catch {
      if (!stop.signal.aborted) await this.#check(item);
    }
    item.stop = null;
    this.#paint(item);
  }

  /** A part did not go out: can the file be read? */
  async #check(item) {
    const { wants } = item.entry;
    try {
      await item.file.slice(wants, wants + 1).arrayBuffer();
    } catch {
      item.trouble = `${item.entry.file} was changed, or cannot be read any more: choose the file again.`;
      item.file = null;
    }
  }

  #make(entry) {
    const parts = {
      title: element("b"),
      bar: element("progress", { max: "1", "aria-label": `Upload to DataVolume ${entry.name}` }),
      state: element("span"), far: element("span", { class: "far" }), note: element("p", { class: "faint" }),
    };
    const item = { entry, parts, looks: [], file: null, handle: null, paused: false, stop: null, trouble: "" };
    const press = (label, action) => button(label, () => action(item));
    parts.pause = press("Pause", () => {
      item.paused = true;
      item.stop?.abort();
      item.looks = [];
      this.#paint(item);
    });
    parts.on = press("Go on", () => this.#goOn(item));
    parts.cancel = press("Cancel", async () => {
      const sure = `Cancel the upload to DataVolume ${item.entry.name}? The DataVolume stays.`;
      if (await ask(sure, "Cancel the upload", "Go on")) this.#remove(item);
    });
    parts.dismiss = press("Dismiss", () => this.#remove(item));
    item.node = element("li", {},
      element("div", { class: "line" }, parts.title, parts.state, parts.far), parts.bar, parts.note,
      element("div", { class: "tools" }, parts.pause, parts.on, parts.cancel, parts.dismiss));
    return item;
  }

  async #goOn(item) {
    item.paused = false;
    if (!item.file && !(item.handle && (await this.#recall(item, true)))) return this.#choose(keyOf(item.entry));
    this.#paint(item);
    this.#flow(item);
  }

  async #remove(item) {
    item.stop?.abort();
    item.paused = true;
    try {
      await remove(path("uploads", item.entry));
    } catch (e) {
      alarm(e.message);
    }
    remember(keyOf(item.entry), null);
    await this.#look();
    one("#upload").focus();
  }

  #drop(key) {
    const item = this.#items.get(key);
    item.stop?.abort();
    item.node.remove();
    this.#items.delete(key);
  }

  #paint(item) {
    const { entry, parts, paused, file } = item;
    const over = isOver(entry), sends = entry.phase === "sending";
    const lacks = !file && !over && entry.sent < entry.length;
    write(parts.title, `${entry.file} → DataVolume ${entry.name} in ${entry.namespace}`);
    write(parts.state, sends && paused ? "Paused" : sends && lacks ? "Waits for the file" : WORDS[entry.phase]);
    parts.state.dataset.tone = TONES[entry.phase] ?? (sends && !paused && !lacks ? "good" : "wait");
    write(parts.far, over ? human(entry.length) : this.#far(item));
    if (sends || over) parts.bar.value = entry.phase === "done" ? 1 : entry.sent / entry.length;
    else parts.bar.removeAttribute("value");
    parts.bar.hidden = over;
    const how = item.handle ? `Press "Go on", which lets this page read ${entry.file} again` : `Choose ${entry.file} again`;
    const asks = lacks ? `${how}, or drop it here.` : "";
    const done = entry.phase === "done" ? `The disk is whole: a VM names it in its volumes as dataVolume ${entry.name}.` : "";
    write(parts.note, entry.error ?? (item.trouble || asks || entry.note || done));
    parts.note.classList.toggle("bad", entry.phase === "failed" || item.trouble !== "");
    parts.pause.hidden = over || paused || !file || entry.phase === "processing";
    parts.on.hidden = over || !(paused || lacks);
    write(parts.on, lacks && !item.handle ? "Choose the file" : "Go on");
    parts.cancel.hidden = over;
    parts.dismiss.hidden = !over;
  }

  /** Bytes, rate and time left. */
  #far({ entry, looks, paused }) {
    if (entry.phase !== "sending") return human(entry.length);
    const far = `${human(entry.sent)} of ${human(entry.length)}`;
    const [[since, from] = [0, 0]] = looks;
    const seconds = (looks.at(-1)?.[0] - since) / 1000, rate = (entry.sent - from) / seconds;
    if (paused || looks.length < 2 || !(rate > 0)) return far;
    return `${far}, ${human(Math.round(rate))}/s, ${lasts((entry.length - entry.sent) / rate)} left`;
  }
}
