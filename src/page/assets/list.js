// The list: one row for each VM, of which only what changed is painted.

import { age, element, one, tone, write } from "./dom.js";

/** So many rows stand in the page; more come when they are asked for. */
const ROWS = 500;
const COLUMNS = [
  ["name", "Name"], ["namespace", "Namespace"], ["status", "Status"], ["ready", "Ready"], ["node", "Node"],
  ["address", "Address"], ["created", "Age"],
];
const order = new Intl.Collator("en", { numeric: true });

export const keyOf = ({ namespace, name }) => `${namespace}/${name}`;

const shown = {
  ready: (row) => (row.ready ? "Yes" : "No"),
  created: (row) => age(row.created),
};

export class List {
  #entries = new Map();
  #sort = { column: "namespace", down: false };
  #words = [];
  #state = "";
  #most = ROWS;
  #waits = false;
  #selected = null;
  #known = false;
  #body = one("#list tbody");

  constructor() {
    one("#list thead tr").append(...COLUMNS.map(([column, label]) => this.#head(column, label)));
    const search = one("#search");
    search.addEventListener("input", () => {
      this.#words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.#most = ROWS;
      this.#soon();
    });
    one("#state").addEventListener("change", ({ target }) => {
      this.#state = target.value;
      this.#most = ROWS;
      this.#soon();
    });
    one("#more").addEventListener("click", () => {
      this.#most += ROWS;
      this.#soon();
    });
    this.#body.addEventListener("keydown", (event) => this.#move(event));
    this.#body.addEventListener("click", ({ target }) => {
      // A row is its link, but text in it can be marked.
      const row = target.closest("tr");
      if (row && !target.closest("a") && getSelection().isCollapsed) one("a", row).click();
    });
    setInterval(() => this.#ages(), 10_000);
  }

  /** All rows, instead of those before. */
  replace(rows) {
    this.#known = true;
    const keys = new Set(rows.map(keyOf));
    for (const key of [...this.#entries.keys()]) if (!keys.has(key)) this.#drop(key);
    for (const row of rows) this.#put(row);
    this.#soon();
  }

  /** Some rows are others now, or gone. */
  apply(changes) {
    for (const { row, gone } of changes) row ? this.#put(row) : this.#drop(keyOf(gone));
    this.#soon();
  }

  row(key) {
    return this.#entries.get(key)?.row;
  }

  select(key) {
    const mark = (which, value) => {
      const link = this.#entries.get(which) && one("a", this.#entries.get(which).node);
      if (link) value ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    };
    mark(this.#selected, false);
    this.#selected = key;
    mark(key, true);
  }

  /** Puts the focus on the row of a VM, or on the search. */
  focus(key) {
    const entry = this.#entries.get(key);
    (entry?.node.isConnected ? one("a", entry.node) : one("#search")).focus({ preventScroll: false });
  }

  #head(column, label) {
    const sort = element("button", { type: "button" }, label);
    const head = element("th", { scope: "col", role: "columnheader", "data-column": column }, sort);
    if (this.#sort.column === column) head.setAttribute("aria-sort", "ascending");
    sort.addEventListener("click", () => {
      const down = this.#sort.column === column && !this.#sort.down;
      this.#sort = { column, down };
      for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.#soon();
    });
    return head;
  }

  #put(row) {
    const key = keyOf(row);
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = this.#entry(row);
      this.#entries.set(key, entry);
      if (key === this.#selected) one("a", entry.node).setAttribute("aria-current", "true");
    }
    entry.row = row;
    entry.text = [row.namespace, row.name, row.status, row.node, row.address, row.kind].join("\n").toLowerCase();
    for (const [column, cell] of entry.cells) {
      write(cell, shown[column] ? shown[column](row) : row[column]);
    }
    const status = entry.cells.get("status");
    if (status.dataset.tone !== tone(row.status)) status.dataset.tone = tone(row.status);
    const kind = row.kind === "VM" ? "" : row.kind;
    if (entry.node.dataset.kind !== kind) entry.node.dataset.kind = kind;
  }

  #entry(row) {
    const cells = new Map();
    const node = element("tr", { role: "row" });
    for (const [column, label] of COLUMNS) {
      const inner = column === "name" ? element("a", { href: `#/${keyOf(row)}` }) : element("span");
      cells.set(column, inner);
      node.append(column === "name"
        ? element("th", { scope: "row", role: "rowheader", "data-column": column }, inner)
        : element("td", { role: "cell", "data-column": column, "data-label": label }, inner));
    }
    return { node, cells, row };
  }

  #drop(key) {
    this.#entries.get(key)?.node.remove();
    this.#entries.delete(key);
  }

  /** Arranges the rows before the next painting, once for all that happens until then. */
  #soon() {
    if (this.#waits) return;
    this.#waits = true;
    const arrange = () => {
      if (!this.#waits) return;
      this.#waits = false;
      this.#arrange();
    };
    requestAnimationFrame(arrange);
    // A page that nobody looks at paints nothing.
    setTimeout(arrange, 250);
  }

  #arrange() {
    const all = [...this.#entries.values()];
    const fits = all.filter(({ row, text }) =>
      (this.#state === "" || row.status === this.#state) && this.#words.every((word) => text.includes(word)));
    const { column, down } = this.#sort;
    const compare = (a, b) => {
      const [one, other] = down ? [b.row, a.row] : [a.row, b.row];
      // The youngest is made last.
      const first = column === "created" ? other.created.localeCompare(one.created)
        : order.compare(String(one[column]), String(other[column]));
      return first || order.compare(keyOf(a.row), keyOf(b.row));
    };
    fits.sort(compare);
    this.#place(fits.slice(0, this.#most).map(({ node }) => node));
    this.#tell(all, fits.length);
  }

  /** Brings rows into the page in this order, and moves only those that stand elsewhere. */
  #place(nodes) {
    const focused = this.#body.contains(document.activeElement) ? document.activeElement : null;
    const wanted = new Set(nodes);
    for (const node of [...this.#body.children]) if (!wanted.has(node)) node.remove();
    let next = this.#body.firstChild;
    for (const node of nodes) {
      if (node === next) next = next.nextSibling;
      else this.#body.insertBefore(node, next);
    }
    if (focused?.isConnected && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  #tell(all, fits) {
    const counts = new Map();
    for (const { row } of all) counts.set(row.status, (counts.get(row.status) ?? 0) + 1);
    if (this.#state && !counts.has(this.#state)) counts.set(this.#state, 0);
    const options = [["", `All (${all.length})`],
      ...[...counts].sort(([a], [b]) => order.compare(a, b)).map(([status, count]) => [status, `${status} (${count})`])];
    const select = one("#state");
    while (select.options.length > options.length) select.lastChild.remove();
    options.forEach(([value, label], at) => {
      const option = select.options[at] ?? select.appendChild(element("option"));
      if (option.value !== value) option.value = value;
      write(option, label);
    });
    if (select.value !== this.#state) select.value = this.#state;
    write(one("#count"), fits === all.length ? `${fits} VMs` : `${fits} of ${all.length} VMs`);
    const hidden = fits - Math.min(fits, this.#most);
    const more = one("#more");
    more.hidden = hidden === 0;
    write(more, `Show ${Math.min(hidden, ROWS)} more`);
    const empty = one("#empty");
    empty.hidden = fits > 0 || !this.#known;
    write(empty, all.length > 0 ? "No VM fits the search."
      : "There are no VMs here. 'coracle ui -A' shows those of all namespaces.");
  }

  #ages() {
    for (const { row, cells, node } of this.#entries.values()) {
      if (node.isConnected) write(cells.get("created"), age(row.created));
    }
  }

  #move(event) {
    const steps = { ArrowDown: (row) => row.nextSibling, ArrowUp: (row) => row.previousSibling,
      Home: () => this.#body.firstChild, End: () => this.#body.lastChild };
    const row = event.target.closest("tr");
    const to = row && !event.ctrlKey && !event.metaKey && !event.altKey ? steps[event.key]?.(row) : null;
    if (to) {
      event.preventDefault();
      one("a", to).focus();
    }
  }
}
