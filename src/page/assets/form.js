// The form of a new upload: what the DataVolume is called, and how large its volume is.

import { get, send } from "./api.js";
import { element, one, write } from "./dom.js";

/** So much of a file tells what it is. */
const FRONT = 64 << 10;

/** A name that an object can have, of that of a file. */
export function nameOf(file) {
  const bare = file.toLowerCase().replace(/(\.(qcow2|img|raw|iso|gz|xz|zst|bin|disk))+$/, "");
  return bare.replace(/[^a-z0-9.-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 63).replace(/[^a-z0-9]+$/, "") || "disk";
}

export class Form {
  /** All uploads go there; null: a person says where. */
  namespace = null;
  #dialog = one("#new");
  #begin;
  #file = null;
  #handle = null;

  constructor(begin) {
    this.#begin = begin;
    one("form", this.#dialog).addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    one("#new-cancel").addEventListener("click", () => this.#dialog.close());
  }

  /** Asks about a file. */
  async open(file, handle) {
    this.#file = file;
    this.#handle = handle;
    write(one("#new-title"), `Upload ${file.name}`);
    one("#new-name").value = nameOf(file.name);
    one("#new-namespace").value = this.namespace ?? "";
    one("#new-namespace").readOnly = this.namespace !== null;
    one("#new-size").value = "";
    this.#says("Looking at the file …");
    if (!this.#dialog.open) this.#dialog.showModal();
    one("#new-name").select();
    this.#classes();
    await this.#look(file);
  }

  async #look(file) {
    let seen;
    try {
      const front = await file.slice(0, FRONT).arrayBuffer();
      seen = await send("POST", "/api/disk", front, { "content-type": "application/octet-stream", "upload-length": `${file.size}` });
    } catch (e) {
      return this.#says(e.name === "NotReadableError" ? `${file.name} cannot be read` : e.message, true);
    }
    // Another file was chosen meanwhile.
    if (this.#file !== file) return;
    const size = one("#new-size");
    if (seen.size && !size.value) size.value = seen.size;
    const kind = [seen.format, ...seen.layers.toReversed()].join(" in ");
    if (seen.refused) this.#says(`${kind}: ${seen.refused}`, true);
    else if (seen.size) this.#says(`${kind}, a disk of ${seen.size}`);
    else this.#says(`${kind}: its size is known when it is unpacked; say one that is large enough`);
  }

  async #classes() {
    const select = one("#new-class");
    const option = (value, label) => element("option", { value }, label);
    select.replaceChildren(option("", "That of the cluster"));
    try {
      select.append(...(await get("/api/storageclasses")).map((name) => option(name, name)));
    } catch {
      // The cluster's own is there in any case.
    }
  }

  async #submit() {
    const value = (id) => one(id).value.trim();
    const go = one("#new-go");
    go.disabled = true;
    try {
      const place = { namespace: value("#new-namespace"), name: value("#new-name") };
      const form = { size: value("#new-size"), storageClass: value("#new-class") };
      await this.#begin(this.#file, place, form, this.#handle);
      this.#dialog.close();
    } catch (e) {
      this.#says(e.message, true);
    } finally {
      go.disabled = false;
    }
  }

  #says(text, bad = false) {
    const said = one("#new-says");
    write(said, text);
    said.classList.toggle("bad", bad);
  }
}
