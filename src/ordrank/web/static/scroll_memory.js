/** Where the page was scrolled to, and how many pictures it listed, by entry of the history. */

const STORED = "ordrank scroll";

/** @typedef {{top: number, listed: number}} Place */

/** Remembers the places of this tab, also after a reload. */
export class ScrollMemory {
  /** @param {() => number} listed number of listed pictures */
  constructor(listed) {
    this.listed = listed;
    /** @type {Record<string, Place>} */
    this.places = {};
    try {
      this.places = JSON.parse(sessionStorage.getItem(STORED) ?? "{}");
    } catch {
      // no storage: reloading begins at the top
    }
    history.scrollRestoration = "manual"; // the list is not there yet when the browser would scroll
    window.addEventListener("scroll", () => this.save(), { passive: true });
    window.addEventListener("pagehide", () => this.store());
  }

  /** Return the place in the entry of the history that the page has just come to; null if it is new. */
  arrive() {
    const { key } = history.state ?? {};
    if (key !== undefined) {
      this.key = key;
      return this.places[key] ?? null;
    }
    this.key = String(performance.timeOrigin + performance.now());
    history.replaceState({ key: this.key }, "");
    return null;
  }

  /** Remember the place, unless the page has left this entry and its list is about to go. */
  save() {
    if (this.key === undefined || history.state?.key !== this.key || this.paused) return;
    this.places[this.key] = { top: Math.round(scrollY), listed: this.listed() };
  }

  store() {
    try {
      sessionStorage.setItem(STORED, JSON.stringify(Object.fromEntries(Object.entries(this.places).slice(-100))));
    } catch {
      // no storage
    }
  }
}
