// All VMs and every change of them, for as long as the page is open.

import { GONE, get } from "./api.js";

const AGAIN = 3000;

/** Follows; `told` has list, changes, trouble and lost. */
export function follow(told) {
  const source = new EventSource("/api/changes");
  const on = (name) => source.addEventListener(name, ({ data }) => told[name](JSON.parse(data)));
  on("list");
  on("changes");
  on("trouble");
  source.addEventListener("error", async () => {
    let words = GONE;
    if (source.readyState === EventSource.CLOSED) {
      // It was answered otherwise: what with?
      try {
        await get("/api/vms");
        words = "the list is read again";
      } catch (e) {
        words = e.message;
      }
      setTimeout(() => follow(told), AGAIN);
    }
    told.lost(words);
  });
}
