/** A grid of pictures that grows on scrolling or by a button. */

import { thumbnail } from "./api.js";
import { byId, count, dot, el, isolated, visuallyHidden } from "./dom.js";
import { attempt } from "./notices.js";

export const PAGE_SIZE = 48;
const MAX_PAGE_SIZE = 200; // of the server
const PREFETCH_MARGIN = "800px";
const AT_ONCE = 6; // images of the first row, loaded before all others

/**
 * @template {{id: number}} T
 * @typedef {object} Source
 * @property {(offset: number, limit: number, signal: AbortSignal) => Promise<{total: number, items: T[]}>} page
 * @property {(page: {total: number, items: T[]}, isFirst: boolean) => void} onPage called before a page is shown
 * @property {(item: T, index: number) => HTMLElement} card
 * @property {(item: T) => string} colour of the grade
 * @property {() => void} refill fill what else shows grades, after these have changed
 * @property {() => void} [onFailure] called when the first page cannot be loaded
 * @property {number|null} limit maximum number of cards
 * @property {number} [start] place of the first card in the list, from 0
 * @property {string} empty text for an empty list
 */

/** The list of cards; a new source replaces the old one. */
export class Grid {
  /**
   * @param {object} options
   * @param {import("./selection.js").Selection} options.selection
   * @param {(id: number|null) => void} options.onHover
   * @param {() => void} options.onGrow
   * @param {() => void} options.onRetry
   */
  constructor({ selection, onHover, onGrow, onRetry }) {
    Object.assign(this, { selection, onGrow });
    this.list = byId("pictures");
    this.more = byId("more");
    /** @type {Map<number, {item: any, element: HTMLElement}>} */
    this.shown = new Map();
    this.total = this.fetched = this.start = 0;
    /** How many cards the next source shows at once, if there are so many. */
    this.least = 0;
    this.loading = false;
    this.abort = new AbortController();
    this.more.addEventListener("click", () => (this.stale ? onRetry() : attempt(() => this.grow({ focus: true }))));
    const onIntersect = (entries) =>
      !this.stale && entries.some((entry) => entry.isIntersecting) && attempt(() => this.grow());
    new IntersectionObserver(onIntersect, { rootMargin: PREFETCH_MARGIN }).observe(this.more);
    listenToHover(this.list, onHover);
  }

  /** Show a source from its beginning. @param {Source<any>} source */
  async show(source) {
    this.abort.abort();
    this.abort = new AbortController();
    this.source = source;
    this.start = source.start ?? 0;
    this.loading = false;
    this.stale = true; // the old cards stay until the first page arrives
    this.more.hidden = true;
    this.list.setAttribute("aria-busy", "true");
    const { least, abort } = this;
    this.least = 0;
    await this.grow({ least });
    while (!abort.signal.aborted && this.listed < least && this.fetched < this.end) {
      const before = this.fetched;
      await this.grow({ least: least - this.listed });
      if (this.fetched === before) break; // it failed, or another page is under way
    }
  }

  /** Ids of the shown pictures, in their order. */
  get ids() {
    return [...this.shown.keys()];
  }

  /** Fetch the ids of all pictures of the list, also of those that are not shown. */
  async fetchIds() {
    const { source, abort, end } = this;
    const found = [];
    while (found.length < end) {
      const page = await source.page(found.length, Math.min(MAX_PAGE_SIZE, end - found.length), abort.signal);
      if (!page.items.length) break;
      found.push(...page.items.map(({ id }) => id));
    }
    return found;
  }

  /** Number of listed pictures. */
  get listed() {
    return this.fetched - this.start;
  }

  /**
   * Fetch and show the next page, if there is one.
   * @param {{focus?: boolean, least?: number}} [options] focus: move it to the first new card; least: number of cards
   */
  async grow({ focus = false, least = 0 } = {}) {
    const { source, abort } = this;
    const isFirst = this.stale;
    const offset = isFirst ? this.start : this.fetched;
    if (!source || this.loading || (!isFirst && offset >= this.end)) return;
    this.loading = true;
    try {
      const size = Math.max(PAGE_SIZE, Math.min(MAX_PAGE_SIZE, least));
      const limit = Math.min(size, (source.limit ?? Infinity) - offset);
      const page = await source.page(offset, limit, abort.signal);
      if (abort.signal.aborted) return;
      source.onPage(page, isFirst);
      if (isFirst) this.clear();
      this.fetched = offset + page.items.length;
      this.total = page.items.length ? page.total : this.fetched; // fewer than announced
      const [first] = this.append(page.items, offset);
      if (focus) first?.querySelector("a").focus();
      this.finish();
    } catch (error) {
      if (isFirst && this.abort === abort) this.fail();
      throw error;
    } finally {
      if (this.abort === abort) this.loading = false;
    }
    this.growIfVisible();
  }

  /** Return the new cards. */
  append(items, offset) {
    const elements = [];
    items.forEach((item, i) => {
      if (this.shown.has(item.id)) return;
      const element = this.source.card(item, offset + i);
      this.selection.decorate(element, item);
      if (offset + i - this.start < AT_ONCE) {
        Object.assign(element.querySelector("img"), { loading: "eager", fetchPriority: "high" });
      }
      this.shown.set(item.id, { item, element });
      elements.push(element);
    });
    this.list.append(...elements);
    return elements;
  }

  /** Replace the card of an item with a changed grade. @param {number} id @param {object} changes */
  update(id, changes) {
    const old = this.shown.get(id);
    if (!old) return;
    // If it has moved to a later page, the next page begins one picture earlier.
    this.fetched = Math.max(this.start, this.fetched - 1);
    const item = { ...old.item, ...changes };
    const element = this.source.card(item, [...this.shown.keys()].indexOf(id));
    element.classList.toggle("chosen", old.element.classList.contains("chosen"));
    this.selection.decorate(element, item);
    old.element.replaceWith(element);
    this.shown.set(id, { item, element });
  }

  /** Show changed grades in the colours of all cards, and wherever else the source shows grades. */
  refresh() {
    if (this.stale) return;
    for (const { item, element } of this.shown.values()) {
      element.querySelector(".dot").style.background = this.source.colour(item);
    }
    this.source.refill();
  }

  /** @param {number|null} id picture in the side panel */
  choose(id) {
    for (const [shown, { element }] of this.shown) element.classList.toggle("chosen", shown === id);
  }

  /** Show no list, and fetch no more of it. */
  stop() {
    this.abort.abort();
    this.clear();
    this.stale = true;
    this.loading = false;
    this.list.removeAttribute("aria-busy");
    this.more.hidden = true;
    byId("list-note").textContent = "";
  }

  offerRetry() {
    this.more.hidden = false;
    this.more.textContent = "Try again";
    byId("list-note").textContent = "";
  }

  clear() {
    this.stale = false;
    this.shown.clear();
    this.list.replaceChildren();
  }

  get end() {
    return Math.min(this.total, this.source.limit ?? Infinity);
  }

  finish() {
    this.list.removeAttribute("aria-busy");
    this.more.hidden = this.fetched >= this.end;
    this.more.textContent = `Show more of ${count(this.end)}`;
    byId("list-note").textContent = this.shown.size ? "" : this.source.empty;
    this.onGrow();
  }

  /** Show no list rather than that of another source, and offer to try again. */
  fail() {
    this.stop();
    this.offerRetry();
    this.source.onFailure?.();
    this.onGrow();
  }

  /** Fill a tall screen: the observer reports changes only. */
  growIfVisible() {
    const { top } = this.more.getBoundingClientRect();
    if (!this.more.hidden && top < innerHeight) requestAnimationFrame(() => attempt(() => this.grow()));
  }
}

/**
 * Report the picture whose card has the pointer or the focus.
 * @param {HTMLElement} list
 * @param {(id: number|null) => void} onHover
 */
export function listenToHover(list, onHover) {
  const enter = ({ target }) => onHover(Number(target.closest("[data-id]")?.dataset.id) || null);
  for (const type of ["pointerover", "focusin"]) list.addEventListener(type, enter);
  for (const type of ["pointerleave", "focusout"]) list.addEventListener(type, () => onHover(null));
}

/**
 * A card with a picture, its grade, and two links.
 * @param {object} options
 * @param {number} options.id
 * @param {string} options.name
 * @param {string|null} options.grade
 * @param {boolean} options.estimated
 * @param {string} options.colour of the grade
 * @param {string} options.href of the picture
 * @param {string} options.action what this link does, for screen readers
 * @param {{href: string, label: string}} options.second the other link
 * @param {HTMLElement[]} [options.line] elements after the grade
 * @param {HTMLElement[]} [options.below] elements below the grade
 * @param {string} [options.tag]
 */
export function card({ id, name, grade, estimated, colour, href, action, second, line = [], below = [], tag = "li" }) {
  const spoken = grade === null ? "no grade" : `${estimated ? "estimated " : ""}grade ${grade}`;
  const written = grade === null ? "–" : estimated ? `≈ ${grade}` : grade;
  const image = { src: thumbnail("picture", id), alt: `${spoken}, ${name}`, loading: "lazy", decoding: "async" };
  Object.assign(image, { width: 256, height: 256 });
  const { label: title, href: target } = second;
  const link = { class: "card-action", href: target, title, "aria-label": `${title}: ${name}` };
  const label = { class: "grade", title: estimated ? "estimated, not given" : null, "aria-hidden": "true" };
  return el(
    tag,
    { class: "card", "data-id": id },
    el("a", { class: "card-link", href }, el("img", image), visuallyHidden(` ${action}`)),
    el("a", link, title),
    el("div", { class: "line" }, el("span", label, dot(colour), isolated(written)), ...line),
    ...below,
    el("div", { class: "name", title: name }, isolated(name)),
  );
}
