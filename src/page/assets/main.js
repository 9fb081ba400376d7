// The page: the list, the selected VM, and the way between them, which stands in the address.

import { alarm, announce, one, write } from "./dom.js";
import { List, keyOf } from "./list.js";
import { follow } from "./live.js";
import { Panels } from "./panels.js";
import { Uploads } from "./uploads.js";

const list = new List();
const panels = new Panels();
const uploads = new Uploads();
let selected = null;

/** The VM that the address names: #/namespace/name, with the panel that is shown first, where that is said. */
function named() {
  const found = /^#\/([a-z0-9.-]+)\/([a-z0-9.-]+)(?:\/(details|console|screen))?$/.exec(location.hash);
  return found && { namespace: found[1], name: found[2], panel: found[3] };
}

function go() {
  const place = named();
  const before = selected;
  selected = place && keyOf(place);
  list.select(selected);
  document.body.dataset.view = place ? "vm" : "list";
  if (place) {
    panels.show(place, list.row(selected));
  } else {
    panels.hide();
    if (before) list.focus(before);
  }
  document.title = place ? `${place.name} · Coracle` : "VMs · Coracle";
}

function link(tone, words) {
  const shown = one("#link");
  shown.dataset.tone = tone;
  write(one("span", shown), words);
}

follow({
  list({ rows, server, namespace, uploads: serves }) {
    write(one("#where"), `${namespace ? `namespace ${namespace}` : "all namespaces"} · ${server}`);
    if (serves) uploads.serves(namespace);
    list.replace(rows);
    link("good", "Live");
    if (selected) panels.update(list.row(selected));
  },
  changes(changes) {
    list.apply(changes);
    link("good", "Live");
    if (changes.some(({ row, gone }) => keyOf(row ?? gone) === selected)) panels.update(list.row(selected));
  },
  trouble({ error }) {
    link("bad", error);
  },
  lost(words) {
    link("bad", words);
  },
});

addEventListener("hashchange", go);
one("#alarm button").addEventListener("click", () => alarm(""));
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, canvas, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    location.hash = matchMedia("(max-width: 46rem)").matches ? "#/" : location.hash;
    one("#search").focus();
  } else if (event.key === "Escape" && event.target.id === "search" && event.target.value) {
    event.target.value = "";
    event.target.dispatchEvent(new Event("input"));
  } else if (event.key === "Escape" && !typing && selected) {
    location.hash = "#/";
  }
});
go();
announce("");
