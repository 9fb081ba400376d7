// The screen of a VMI, in noVNC.

import { after, stream } from "./api.js";
import { button, element, write } from "./dom.js";
import RFB from "./vendor/novnc/core/rfb.js";
import keysyms from "./vendor/novnc/core/input/keysymdef.js";

const SHIFT = 0xffe1, RETURN = 0xff0d, TAB = 0xff09;
/** Characters that are typed with Shift on the keyboard of the United States, which QEMU takes the guest's for. */
const SHIFTED = /[A-Z~!@#$%^&*()_+{}|:"<>?]/;
const PACE = 12;

export class Screen {
  #place;
  #row;
  #rfb = null;
  #leave = () => {};
  #mode = "write";
  #tries = 0;
  #timer = null;
  #typing = Promise.resolve();
  #copied = "";
  #state = element("p", { class: "state", role: "status" });
  #take = button("Take the keyboard", () => this.#open("take"), { hidden: true });
  #again = button("Connect again", () => this.#open(this.#mode), { hidden: true });
  #copy = button("Copy the guest's text", () => this.#copyText(), { hidden: true });
  #host = element("div", { class: "screen" });
  #text = element("input", {
    type: "text", "aria-label": "Text to type", placeholder: "Text to type", autocomplete: "off", spellcheck: "false",
  });

  constructor(host, place, row) {
    this.#place = place;
    this.#row = row;
    const send = () => {
      this.#type(this.#text.value);
      this.#text.value = "";
    };
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Enter") send();
    });
    const fit = button("Fit", () => {
      const on = fit.getAttribute("aria-pressed") !== "true";
      fit.setAttribute("aria-pressed", String(on));
      if (this.#rfb) this.#scale(on);
    }, { "aria-pressed": "true" });
    this.fit = () => fit.getAttribute("aria-pressed") === "true";
    host.append(
      element("div", { class: "tools" }, this.#state, this.#take, this.#again,
        button("Ctrl-Alt-Del", () => this.#rfb?.sendCtrlAltDel()), fit,
        button("Full screen", () => this.#host.requestFullscreen?.())),
      this.#host,
      element("div", { class: "tools" }, this.#text, button("Type", send), button("Enter", () => this.#type("\n")),
        button("Paste", () => this.#paste()), this.#copy),
      element("p", { class: "faint" }, "Ctrl-Shift-L leaves the screen. Text is typed key by key, as on a US keyboard"));
    // Before noVNC sees it, which has all keys while the screen has the focus.
    this.#host.addEventListener("keydown", (event) => {
      if (event.ctrlKey && event.shiftKey && event.code === "KeyL") {
        event.preventDefault();
        event.stopPropagation();
        this.#host.dispatchEvent(new CustomEvent("leave", { bubbles: true }));
      }
    }, true);
    this.#open(this.#mode);
  }

  update(row) {
    const runs = row.runs && !this.#row.runs;
    this.#row = row;
    if (runs && !this.#rfb) this.#open("write");
  }

  close() {
    clearTimeout(this.#timer);
    this.#end();
  }

  focus() {
    this.#rfb?.focus();
  }

  #end() {
    this.#leave();
    const rfb = this.#rfb;
    this.#rfb = null;
    rfb?.disconnect();
  }

  #open(mode) {
    clearTimeout(this.#timer);
    this.#end();
    this.#mode = mode;
    this.#again.hidden = this.#take.hidden = this.#copy.hidden = true;
    write(this.#state, "Connecting");
    const { namespace, name } = this.#place;
    this.#leave = stream(`/ws/vnc/${namespace}/${name}?mode=${mode}`, {
      opened: (socket) => this.#show(socket),
      ended: (end) => this.#ended(end),
    });
  }

  #show(socket) {
    this.#host.replaceChildren();
    const rfb = new RFB(this.#host, socket, { shared: true });
    this.#rfb = rfb;
    rfb.background = "transparent";
    const reads = this.#mode === "read";
    rfb.viewOnly = reads;
    this.#take.hidden = !reads;
    this.#scale(this.fit());
    this.#host.querySelector("canvas")?.setAttribute("aria-label", `Screen of ${this.#place.name}`);
    rfb.addEventListener("connect", () => {
      this.#tries = 0;
      write(this.#state, reads ? "Connected; another client types" : "Connected");
    });
    rfb.addEventListener("securityfailure", ({ detail }) => write(this.#state, `The screen refuses: ${detail.reason ?? detail.status}`));
    rfb.addEventListener("credentialsrequired", () => {
      write(this.#state, "The screen wants a password, which VMIs do not have; it is not opened");
      this.close();
    });
    // What the guest copies is kept: what stands in the clipboard of this computer is the person's to say.
    rfb.addEventListener("clipboard", ({ detail }) => {
      this.#copied = detail.text;
      this.#copy.hidden = detail.text === "";
    });
  }

  #scale(on) {
    this.#rfb.scaleViewport = on;
    this.#rfb.clipViewport = !on;
    this.#rfb.dragViewport = false;
  }

  #ended(end) {
    const { error, reason } = end;
    this.#rfb = null;
    const next = after(end, { mode: this.#mode, runs: this.#row.runs, tries: this.#tries });
    if (next?.wait === 0) return this.#open(next.mode);
    if (next) {
      this.#tries++;
      write(this.#state, `${reason ?? error}; connecting again`);
      this.#timer = setTimeout(() => this.#open(next.mode), next.wait);
    } else {
      write(this.#state, error ?? `The screen ended: ${reason}`);
    }
    this.#again.hidden = false;
  }

  async #copyText() {
    try {
      await navigator.clipboard.writeText(this.#copied);
      write(this.#state, "Copied");
    } catch {
      write(this.#state, "The browser does not permit to copy");
    }
  }

  async #paste() {
    try {
      const text = await navigator.clipboard.readText();
      // A guest with a clipboard of its own gets it as that, too.
      this.#rfb?.clipboardPasteFrom(text);
      this.#type(text);
    } catch {
      write(this.#state, "The browser does not permit to paste by a button; paste into the field, and press Type");
    }
  }

  /** Types a text, a key at a time: a guest without programs of ours has no other clipboard. */
  #type(text) {
    this.#typing = this.#typing.then(async () => {
      for (const letter of text.replace(/\r\n?/g, "\n")) {
        if (!this.#rfb) return;
        const keysym = letter === "\n" ? RETURN : letter === "\t" ? TAB : keysyms.lookup(letter.codePointAt(0));
        if (!keysym) continue;
        const shifted = SHIFTED.test(letter);
        if (shifted) this.#rfb.sendKey(SHIFT, "ShiftLeft", true);
        this.#rfb.sendKey(keysym, null);
        if (shifted) this.#rfb.sendKey(SHIFT, "ShiftLeft", false);
        await new Promise((next) => setTimeout(next, PACE));
      }
    });
  }
}
