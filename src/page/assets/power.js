// The buttons that start and stop a VM. What makes sense now is said by the list; what may be done, by the API server.

import { path, post } from "./api.js";
import { alarm, announce, button, one } from "./dom.js";

const LABELS = {
  start: "Start", stop: "Stop", restart: "Restart", pause: "Pause", unpause: "Unpause", "soft-reboot": "Soft reboot",
};
/** What a guest may lose by, with the question. */
const ASKS = {
  stop: (name) => `Stop VM ${name}? Its guest is shut down.`,
  restart: (name) => `Restart VM ${name}? Its guest is shut down and started again.`,
  "soft-reboot": (name) => `Reboot the guest of VM ${name}?`,
};

export class Power {
  #group = one("#power");
  #buttons = new Map();
  #row = null;

  constructor() {
    for (const [verb, label] of Object.entries(LABELS)) {
      const made = button(label, () => this.#press(verb), { "data-verb": verb, hidden: true });
      this.#buttons.set(verb, made);
      this.#group.append(made);
    }
  }

  show(row) {
    const focused = this.#group.contains(document.activeElement);
    this.#row = row;
    for (const [verb, made] of this.#buttons) made.hidden = !row?.verbs.includes(verb);
    // The button that was pressed has gone: who uses the keyboard stays where it was.
    if (focused && document.activeElement.hidden) {
      [...this.#buttons.values()].find((made) => !made.hidden)?.focus();
    }
  }

  async #press(verb) {
    const { namespace, name } = this.#row;
    if (ASKS[verb] && !(await ask(ASKS[verb](name), LABELS[verb]))) return;
    const pressed = this.#buttons.get(verb);
    pressed.disabled = true;
    try {
      await post(`${path("vms", { namespace, name })}/${verb}`);
      alarm("");
      announce(`VM ${name}: ${verb} was asked for`);
    } catch (e) {
      alarm(e.message);
    } finally {
      pressed.disabled = false;
    }
  }
}

/** Whether a person wants that. */
export function ask(question, yes, no = "Cancel") {
  const dialog = one("#ask");
  one("#question").textContent = question;
  return new Promise((answer) => {
    const settle = (value) => () => {
      dialog.removeEventListener("close", escaped);
      dialog.close();
      answer(value);
    };
    // The end of an earlier question may be told late.
    const escaped = () => dialog.open || settle(false)();
    one(".answers", dialog).replaceChildren(
      button(no, settle(false)), button(yes, settle(true), { class: "strong", autofocus: true }));
    dialog.addEventListener("close", escaped);
    dialog.showModal();
  });
}
