/** Pictures in a grid that grows while one scrolls, or by a button. */

import { count, el, heard } from "./dom.js";
import { attempt } from "./notices.js";

const PAGE = 48;
const AHEAD = "800px"; // the next page is fetched this far before its place is seen

/**
 * @template {{id: number}} T
 * @typedef {object} Source
 * @property {(offset: number, limit: number, signal: AbortSignal) => Promise<{total: number, items: T[]}>} page
 * @property {(item: T, place: number) => HTMLElement} card
 * @property {number|null} [most] at most so many
 * @property {string} none said when there is nothing
 */

/** One list of cards; a new source takes the place of the old one. */
export class Grid {
  /**
   * @param {HTMLElement} list
   * @param {HTMLButtonElement} more
   * @param {HTMLElement} note where "nothing" and "that is all" are said
   * @param {{over: (id: number|null) => void, grown: () => void}} hear
   */
  constructor(list, more, note, hear) {
    Object.assign(this, { list, more, note, hear });
    /** @type {Map<number, {item: any, element: HTMLElement}>} */
    this.shown = new Map();
    this.total = 0;
    this.loading = false;
    this.stop = new AbortController();
    more.addEventListener("click", () => attempt(() => this.grow(true)));
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && attempt(() => this.grow()), {
      rootMargin: AHEAD,
    }).observe(more);
    for (const [kind, leaves] of [
      ["pointerover", false],
      ["focusin", false],
      ["pointerleave", true],
      ["focusout", true],
    ]) {
      list.addEventListener(/** @type {string} */ (kind), (event) => {
        const card = /** @type {HTMLElement} */ (event.target).closest?.("[data-id]");
        hear.over(leaves || !card ? null : Number(/** @type {HTMLElement} */ (card).dataset.id));
      });
    }
  }

  /** Show another source from its beginning. @param {Source<any>} source */
  async show(source) {
    this.stop.abort();
    this.stop = new AbortController();
    this.source = source;
    this.loading = false;
    this.fresh = true;
    this.list.setAttribute("aria-busy", "true");
    await this.grow();
  }

  /** Fetch the next page, if there is one. @param {boolean} [asked] by the button: the focus goes to what is new */
  async grow(asked = false) {
    const { source, stop } = this;
    const offset = this.fresh ? 0 : this.shown.size;
    if (!source || this.loading || (!this.fresh && offset >= this.end())) return;
    this.loading = true;
    try {
      const limit = Math.min(PAGE, (source.most ?? Infinity) - offset);
      const { total, items } = await source.page(offset, limit, stop.signal);
      if (stop.signal.aborted) return;
      if (this.fresh) this.clear();
      this.total = total;
      this.append(items, offset);
      if (asked) this.shown.get(items[0]?.id)?.element.querySelector("a")?.focus();
      if (!items.length) this.total = this.shown.size; // fewer than were promised
      this.finish();
    } finally {
      if (this.stop === stop) this.loading = false;
    }
    this.growIfSeen();
  }

  /** @param {{id: number}[]} items @param {number} offset */
  append(items, offset) {
    const cards = document.createDocumentFragment();
    items.forEach((item, i) => {
      if (this.shown.has(item.id)) return;
      const element = this.source.card(item, offset + i);
      element.dataset.id = String(item.id);
      this.shown.set(item.id, { item, element });
      cards.append(element);
    });
    this.list.append(cards);
  }

  /** Draw one card again with what is known now. @param {number} id @param {object} changes */
  renew(id, changes) {
    const known = this.shown.get(id);
    if (!known) return;
    const item = { ...known.item, ...changes };
    const element = this.source.card(item, [...this.shown.keys()].indexOf(id));
    element.dataset.id = String(id);
    element.classList.toggle("chosen", known.element.classList.contains("chosen"));
    known.element.replaceWith(element);
    this.shown.set(id, { item, element });
  }

  /** @param {number|null} id the picture in the side panel */
  choose(id) {
    for (const [one, { element }] of this.shown) element.classList.toggle("chosen", one === id);
  }

  clear() {
    this.fresh = false;
    this.shown.clear();
    this.list.replaceChildren();
  }

  end() {
    return Math.min(this.total, this.source?.most ?? Infinity);
  }

  finish() {
    this.list.removeAttribute("aria-busy");
    const left = this.end() - this.shown.size;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show more of ${count(this.end())}`;
    this.note.textContent = this.shown.size ? "" : this.source.none;
    this.hear.grown();
  }

  /** A tall screen may still have room, and the observer only tells changes. */
  growIfSeen() {
    const place = this.more.getBoundingClientRect();
    if (!this.more.hidden && place.top < innerHeight) requestAnimationFrame(() => attempt(() => this.grow()));
  }
}

/**
 * A card: a picture that leads somewhere, its grade, and more.
 * @param {object} what
 * @param {string} what.href where the picture leads
 * @param {string} what.action what a click does, for those who listen
 * @param {string} what.picture address of the thumbnail
 * @param {string} what.name
 * @param {string|null} what.grade
 * @param {boolean} what.estimated
 * @param {string} what.colour of the grade
 * @param {{href: string, label: string, icon: string}} what.second the other thing to do
 * @param {(HTMLElement|null)[]} what.line beside the grade
 * @param {(HTMLElement|null)[]} what.below
 */
export function card(what) {
  const grade = what.grade === null ? "no grade" : `${what.estimated ? "estimated " : ""}grade ${what.grade}`;
  const image = el("img", { src: what.picture, alt: `${grade}, ${what.name}`, loading: "lazy", decoding: "async" });
  const swatch = el("span", { class: "dot", "aria-hidden": "true" });
  swatch.style.background = what.colour;
  const text = what.grade === null ? "–" : what.estimated ? `≈ ${what.grade}` : what.grade;
  return el(
    "li",
    { class: "card" },
    el("a", { class: "pick", href: what.href }, image, heard(` ${what.action}`)),
    el(
      "a",
      {
        class: "second",
        href: what.second.href,
        title: what.second.label,
        "aria-label": `${what.second.label}: ${what.name}`,
      },
      what.second.icon,
    ),
    el(
      "div",
      { class: "line" },
      el(
        "span",
        { class: "grade", title: what.estimated ? "estimated, not given" : null, "aria-hidden": "true" },
        swatch,
        el("bdi", {}, text),
      ),
      ...what.line,
    ),
    ...what.below,
    el("div", { class: "name", title: what.name }, el("bdi", {}, what.name)),
  );
}
