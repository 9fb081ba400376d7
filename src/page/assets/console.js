// The serial console of a VMI, in xterm.js.

import "./nonce.js";
import { after, stream } from "./api.js";
import { button, element, write } from "./dom.js";
import { FitAddon } from "./vendor/addon-fit/lib/addon-fit.mjs";
import { Terminal } from "./vendor/xterm/lib/xterm.mjs";

/** A guest takes its serial port for a terminal of this size, unless it is told otherwise. */
const SIZE = { cols: 80, rows: 24 };
const FONT = { least: 9, most: 17 };
/** What may wait to be painted; a guest that writes more, faster than anybody reads, is cut short. */
const WAITING = 4 << 20;
/** The last of what is cut, which is shown all the same. */
const TAIL = 64 << 10;

const DARK = { background: "#10151a", foreground: "#d8dee4", cursor: "#d8dee4", selectionBackground: "#3d5a73" };
const LIGHT = {
  background: "#fdfdfb", foreground: "#1c2328", cursor: "#1c2328", selectionBackground: "#b9d6e8",
  black: "#1c2328", red: "#a8201a", green: "#2b6b1f", yellow: "#7a5900", blue: "#1b4f9c", magenta: "#7d2d84",
  cyan: "#0d6470", white: "#6a7278", brightBlack: "#5b646b", brightRed: "#c4312a", brightGreen: "#35802a",
  brightYellow: "#8a6700", brightBlue: "#2a63b8", brightMagenta: "#943a9c", brightCyan: "#13788a", brightWhite: "#434b51",
};

export class Console {
  #place;
  #row;
  #leave = () => {};
  #socket = null;
  #mode = "write";
  #tries = 0;
  #timer = null;
  #waiting = 0;
  #late = [];
  #kept = 0;
  #lost = 0;
  #fills = false;
  #scheme = matchMedia("(prefers-color-scheme: light)");
  #encoder = new TextEncoder();
  #fit = new FitAddon();
  #watch = new ResizeObserver(() => this.#size());
  #state = element("p", { class: "state", role: "status" });
  #take = button("Take the keyboard", () => this.#open("take"), { hidden: true });
  #again = button("Connect again", () => this.#open(this.#mode), { hidden: true });
  #screen = element("div", { class: "tty" });
  #terminal = new Terminal({
    ...SIZE, cursorBlink: true, scrollback: 5000, fontSize: 14,
    fontFamily: "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace",
    minimumContrastRatio: 4.5,
    // What a guest writes leads nowhere.
    linkHandler: { activate: () => {} },
  });

  constructor(host, place, row) {
    this.#place = place;
    this.#row = row;
    const terminal = this.#terminal;
    const toggle = (label, set) => {
      const made = button(label, () => {
        const on = made.getAttribute("aria-pressed") !== "true";
        made.setAttribute("aria-pressed", String(on));
        set(on);
        terminal.focus();
      }, { "aria-pressed": "false" });
      return made;
    };
    host.append(
      element("div", { class: "tools" }, this.#state, this.#take, this.#again,
        button("Copy", () => this.#copy()), button("Paste", () => this.#paste()),
        toggle("Fill", (on) => {
          this.#fills = on;
          this.#size();
        }),
        toggle("Screen reader", (on) => (terminal.options.screenReaderMode = on))),
      this.#screen,
      element("div", { class: "keys", role: "group", "aria-label": "Keys" },
        ...[["Esc", "\x1b"], ["Tab", "\t"], ["Ctrl-C", "\x03"], ["Ctrl-D", "\x04"], ["↑", "\x1b[A"], ["↓", "\x1b[B"]]
          .map(([label, keys]) => button(label, () => {
            this.#send(keys);
            terminal.focus();
          }, label.length === 1 ? { "aria-label": label === "↑" ? "Up" : "Down" } : {}))),
      element("p", { class: "faint" }, "Ctrl-Shift-C copies, Ctrl-Shift-V pastes, Ctrl-Shift-L leaves the console"));
    terminal.loadAddon(this.#fit);
    terminal.open(this.#screen);
    terminal.textarea?.setAttribute("aria-label", `Serial console of ${place.name}`);
    terminal.attachCustomKeyEventHandler((event) => this.#key(event));
    terminal.onData((text) => this.#send(text));
    terminal.onBinary((text) => this.#bytes(Uint8Array.from(text, (c) => c.charCodeAt(0) & 255)));
    this.#scheme.addEventListener("change", this.#paint);
    this.#paint();
    this.#watch.observe(this.#screen);
    this.#open(this.#mode);
  }

  update(row) {
    const runs = row.runs && !this.#row.runs;
    this.#row = row;
    if (runs && !this.#socket) this.#open("write");
  }

  close() {
    clearTimeout(this.#timer);
    this.#leave();
    this.#watch.disconnect();
    this.#scheme.removeEventListener("change", this.#paint);
    this.#terminal.dispose();
  }

  focus() {
    this.#terminal.focus();
  }

  #open(mode) {
    clearTimeout(this.#timer);
    this.#leave();
    this.#socket = null;
    this.#mode = mode;
    this.#again.hidden = this.#take.hidden = true;
    write(this.#state, "Connecting");
    const { namespace, name } = this.#place;
    this.#leave = stream(`/ws/console/${namespace}/${name}?mode=${mode}`, {
      opened: (socket) => {
        this.#socket = socket;
        this.#tries = 0;
        // The console begins with its last screen.
        this.#terminal.reset();
        this.#terminal.options.disableStdin = mode === "read";
        this.#take.hidden = mode !== "read";
        write(this.#state, mode === "read" ? "Connected; another client types" : "Connected");
        socket.onmessage = ({ data }) => typeof data !== "string" && this.#show(new Uint8Array(data));
      },
      ended: (end) => this.#ended(end),
    });
  }

  #ended(end) {
    const { error, code, reason } = end;
    this.#socket = null;
    const next = after(end, { mode: this.#mode, runs: this.#row.runs, tries: this.#tries });
    if (next?.wait === 0) return this.#open(next.mode);
    if (next) {
      this.#tries++;
      write(this.#state, `${reason ?? error}; connecting again`);
      this.#timer = setTimeout(() => this.#open(next.mode), next.wait);
    } else {
      write(this.#state, error ?? `The console ended: ${reason}`);
    }
    this.#take.hidden = !(this.#mode === "read" && code === 409);
    this.#again.hidden = false;
  }

  #show(bytes) {
    if (this.#waiting > WAITING || this.#late.length > 0) return this.#keep(bytes);
    this.#waiting += bytes.length;
    this.#terminal.write(bytes, () => {
      this.#waiting -= bytes.length;
      if (this.#waiting === 0) this.#catchUp();
    });
  }

  /** A guest that writes faster than the page draws: the last of it is shown later, and what was before that is left out. */
  #keep(bytes) {
    this.#late.push(bytes);
    this.#kept += bytes.length;
    while (this.#kept - this.#late[0].length >= TAIL) {
      const length = this.#late.shift().length;
      this.#kept -= length;
      this.#lost += length;
    }
  }

  #catchUp() {
    const late = this.#late;
    if (this.#lost > 0) this.#terminal.write(`\r\n[${this.#lost} bytes are left out]\r\n`);
    [this.#late, this.#kept, this.#lost] = [[], 0, 0];
    for (const bytes of late) this.#show(bytes);
  }

  #send(text) {
    this.#bytes(this.#encoder.encode(text));
  }

  #bytes(bytes) {
    if (this.#mode === "read" || this.#socket?.readyState !== WebSocket.OPEN) return;
    for (let at = 0; at < bytes.length; at += 16384) this.#socket.send(bytes.subarray(at, at + 16384));
  }

  /** Keys that are ours. All others are the guest's. */
  #key(event) {
    if (event.type !== "keydown") return true;
    const both = event.ctrlKey && event.shiftKey && !event.altKey;
    if (both && event.code === "KeyL") {
      event.preventDefault();
      this.#screen.dispatchEvent(new CustomEvent("leave", { bubbles: true }));
      return false;
    }
    // The browser pastes by itself, as an event that the terminal knows.
    if (both && event.code === "KeyV") return false;
    if (both && event.code === "KeyC" || event.ctrlKey && !event.shiftKey && event.code === "KeyC" && this.#terminal.hasSelection()) {
      event.preventDefault();
      this.#copy();
      return false;
    }
    return true;
  }

  async #copy() {
    const text = this.#terminal.getSelection();
    if (!text) return write(this.#state, "Mark text in the console first, then copy");
    try {
      await navigator.clipboard.writeText(text);
      this.#terminal.clearSelection();
      write(this.#state, "Copied");
    } catch {
      write(this.#state, "The browser does not permit to copy");
    }
    this.#terminal.focus();
  }

  async #paste() {
    try {
      this.#terminal.paste(await navigator.clipboard.readText());
    } catch {
      write(this.#state, "The browser does not permit to paste by a button; press Ctrl-Shift-V");
    }
    this.#terminal.focus();
  }

  #paint = () => {
    this.#terminal.options.theme = this.#scheme.matches ? LIGHT : DARK;
  };

  /** Letters as large as the place permits; or, where it is to be filled, more of them. */
  #size() {
    const terminal = this.#terminal;
    if (this.#screen.clientWidth === 0) return;
    if (this.#fills) {
      terminal.options.fontSize = 14;
      this.#fit.fit();
      write(this.#state, `Tell the guest: stty rows ${terminal.rows} cols ${terminal.cols}`);
      return;
    }
    if (terminal.cols !== SIZE.cols || terminal.rows !== SIZE.rows) terminal.resize(SIZE.cols, SIZE.rows);
    const fits = this.#fit.proposeDimensions();
    if (!fits || !fits.cols) return;
    const font = Math.floor(terminal.options.fontSize * Math.min(fits.cols / SIZE.cols, fits.rows / SIZE.rows) * 2) / 2;
    const wanted = Math.min(Math.max(font, FONT.least), FONT.most);
    if (Math.abs(wanted - terminal.options.fontSize) >= 0.5) terminal.options.fontSize = wanted;
  }
}
