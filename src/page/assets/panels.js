// The selected VM: its name and state, its buttons, and beside each other its details, its console and its screen.

import { alarm, announce, button, element, narrow, one, tone, write } from "./dom.js";
import { Power } from "./power.js";

const PANELS = {
  details: ["Details", async () => (await import("./details.js")).Details],
  console: ["Console", async () => (await import("./console.js")).Console],
  screen: ["Screen", async () => (await import("./screen.js")).Screen],
};

export class Panels {
  #place = null;
  #row = null;
  #power = new Power();
  #switches = new Map();
  /** What is open: its place in the page, and what is in it, once that has come. */
  #open = new Map();

  constructor() {
    for (const [name, [label]] of Object.entries(PANELS)) {
      const made = button(label, () => this.#toggle(name), { "aria-pressed": "false", "data-panel": name });
      this.#switches.set(name, made);
      one("#switches").append(made);
    }
    one("#panels").addEventListener("leave", ({ target }) => {
      const name = target.closest("[data-panel]").dataset.panel;
      this.#switches.get(name).focus();
    });
    narrow.addEventListener("change", () => this.#fit());
  }

  /** Shows a VM, whose row may not be known yet. */
  show(place, row) {
    const kept = place.panel ? [place.panel] : this.#open.size > 0 ? [...this.#open.keys()] : ["details"];
    this.hide();
    this.#place = place;
    one("#vm").hidden = false;
    write(one("#vm h2"), place.name);
    one("#vm").setAttribute("aria-label", `VM ${place.name}`);
    this.update(row);
    for (const name of kept) this.#toggle(name, true);
    if (narrow.matches) one("#vm h2").focus();
  }

  hide() {
    alarm("");
    for (const name of [...this.#open.keys()]) this.#close(name);
    this.#place = this.#row = null;
    one("#vm").hidden = true;
  }

  /** The row of the VM is this now; none when the VM is gone. */
  update(row) {
    const before = this.#row;
    this.#row = row ?? null;
    const standing = one("#standing");
    const status = row?.status ?? "Not there";
    standing.dataset.tone = tone(status);
    write(standing, `${status} · namespace ${this.#place.namespace}${row?.node ? ` · node ${row.node}` : ""}`);
    this.#power.show(row);
    if (before && before.status !== status) announce(`VM ${this.#place.name}: ${status}`);
    const seen = row ?? { ...before, runs: false, status };
    for (const { panel } of this.#open.values()) panel?.update(seen);
  }

  async #toggle(name, keep = false) {
    if (this.#open.has(name)) {
      // On a small page one panel is always shown.
      if (!keep && (this.#open.size > 1 || !narrow.matches)) this.#close(name);
      return;
    }
    if (narrow.matches) for (const other of [...this.#open.keys()]) this.#close(other);
    const [label, load] = PANELS[name];
    const body = element("div", { class: "body" });
    const host = element("section", { "aria-label": label, "data-panel": name }, body);
    const after = Object.keys(PANELS).slice(Object.keys(PANELS).indexOf(name) + 1);
    const next = after.map((other) => this.#open.get(other)?.host).find(Boolean);
    one("#panels").insertBefore(host, next ?? null);
    const opened = { host, panel: null };
    this.#open.set(name, opened);
    this.#switches.get(name).setAttribute("aria-pressed", "true");
    const place = this.#place;
    let Panel;
    try {
      Panel = await load();
    } catch {
      return body.append(element("p", { class: "bad" }, `${label} cannot be loaded; load the page again`));
    }
    // Who was quick has closed it, or is at another VM.
    if (this.#open.get(name) !== opened) return;
    opened.panel = new Panel(body, place, this.#row ?? { runs: false, status: "", verbs: [] });
    if (!keep) opened.panel.focus?.();
  }

  #close(name) {
    const { host, panel } = this.#open.get(name);
    this.#open.delete(name);
    panel?.close();
    host.remove();
    this.#switches.get(name).setAttribute("aria-pressed", "false");
  }

  #fit() {
    if (narrow.matches) for (const name of [...this.#open.keys()].slice(0, -1)) this.#close(name);
  }
}
