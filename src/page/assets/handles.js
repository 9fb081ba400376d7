// Files that the browser remembers when the page is loaded anew, where it can do that: a handle, and no byte of the file.

const STORE = "handles";

function open() {
  return new Promise((done, failed) => {
    const asked = indexedDB.open("uploads", 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => failed(asked.error);
  });
}

async function within(mode, action) {
  const base = await open();
  try {
    return await new Promise((done, failed) => {
      const asked = action(base.transaction(STORE, mode).objectStore(STORE));
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => failed(asked.error);
    });
  } finally {
    base.close();
  }
}

/** Remembers the handle of an upload, or forgets it. */
export async function remember(key, handle) {
  try {
    await within("readwrite", (store) => (handle ? store.put(handle, key) : store.delete(key)));
  } catch {
    // A browser that keeps nothing lets the file be chosen again.
  }
}

/** The handle of an upload, where there is one. */
export async function remembered(key) {
  try {
    return (await within("readonly", (store) => store.get(key))) ?? null;
  } catch {
    return null;
  }
}
