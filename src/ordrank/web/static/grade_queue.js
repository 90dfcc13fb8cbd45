/** The pictures to grade, one after another. */

import { getPictures } from "./api.js";
import { capitalized } from "./dom.js";
import { getSuggestions } from "./labeling_api.js";
import { grader } from "./settings.js";

/** @typedef {{picture: import("./api.js").Picture, explanation: string, reason?: string}} Item */

const PAGE_SIZE = 60;
const SUGGESTIONS = 30;
const MOST_SUGGESTIONS = 200; // that the server makes
// Pictures that are known in advance, also when the server is gone.
const AHEAD = 30;
const SUGGESTED_AHEAD = 12;

/** What can be graded, and in which order. */
export const ORDERS = {
  suggested: { label: "Suggested by the model" },
  uncertain: { label: "Least certain first", list: { given: false, sort: "certainty" } },
  ungraded: { label: "Without a grade, by name", list: { given: false, sort: "name" } },
  all: { label: "All, by name", list: { given: null, sort: "name" } },
};

/** Pictures in an order; those that were shown stay, to go back to them. */
export class GradeQueue {
  /** @param {keyof typeof ORDERS} order */
  constructor(order) {
    this.order = order;
    /** @type {Item[]} */
    this.items = [];
    this.at = -1;
    /** Whether the user is behind the last picture. */
    this.isDone = false;
    this.renewals = 0;
    /** Whether the last fetch found nothing new. */
    this.atEnd = false;
    /** How many more the list had than are known when it was read in vain, for grades that are not stored yet. */
    this.surplus = 0;
  }

  /** The picture on the screen. @returns {Item|null} */
  get current() {
    return this.isDone ? null : (this.items[this.at] ?? null);
  }

  /** The pictures after it that are known. @param {number} n */
  upcoming(n) {
    return this.items.slice(this.at + 1, this.at + 1 + n).map(({ picture }) => picture);
  }

  /** Fetch more pictures if the next one is not known. */
  async load() {
    if (this.at + 1 >= this.items.length) await this.fetch();
  }

  /** Go to the next picture, or behind the last one. */
  step() {
    this.isDone = this.at + 1 >= this.items.length;
    if (!this.isDone) this.at += 1;
    const ahead = ORDERS[this.order].list ? AHEAD : SUGGESTED_AHEAD;
    if (this.items.length - this.at > ahead || this.atEnd) return;
    this.fetch().catch(() => {}); // tried again when it is needed
  }

  /** Go to the picture before; return whether there is one. */
  back() {
    if (this.isDone ? this.at < 0 : this.at <= 0) return false;
    if (!this.isDone) this.at -= 1;
    this.isDone = false;
    return true;
  }

  /** Show a picture that was shown before, or another one, in the place of the present one. @param {Item} item */
  visit(item) {
    const known = this.items.findIndex(({ picture }) => picture.id === item.picture.id);
    if (known >= 0) this.at = known;
    else {
      this.at = Math.max(0, this.isDone ? this.at + 1 : this.at);
      this.items.splice(this.at, 0, item);
    }
    this.isDone = false;
  }

  /** @param {import("./api.js").Picture} picture that has changed */
  replace(picture) {
    for (const item of this.items) if (item.picture.id === picture.id) item.picture = picture;
  }

  /** Forget a picture that is gone. @param {number} id */
  remove(id) {
    const found = this.items.findIndex(({ picture }) => picture.id === id);
    if (found < 0) return;
    this.items.splice(found, 1);
    if (found <= this.at) this.at -= 1; // the next one is the one after it
  }

  /** Forget what comes next, which has another order now. */
  renew() {
    this.items.length = Math.min(this.items.length, this.at + 1);
    this.renewals += 1;
    this.fetching = null;
    this.atEnd = false;
    this.surplus = 0;
  }

  /** Fetch pictures that were not shown yet, if there are any; once at a time. */
  fetch() {
    const fetching = (this.fetching ??= this.fetchNew().finally(() => {
      if (this.fetching === fetching) this.fetching = null;
    }));
    return fetching;
  }

  async fetchNew() {
    const { list } = ORDERS[this.order];
    const { renewals } = this;
    const isOutdated = () => renewals !== this.renewals;
    const items = await (list ? this.listed(list, isOutdated) : this.suggested(isOutdated));
    if (isOutdated()) return;
    this.atEnd = !items.length;
    this.items.push(...items);
  }

  /** The next suggestions; after the last ones, all other pictures without a grade. @param {() => boolean} isOutdated */
  async suggested(isOutdated) {
    const limit = Math.min(SUGGESTIONS + this.skipped, MOST_SUGGESTIONS);
    const items = this.unknown((await getSuggestions(limit, grader())).items);
    return items.length || limit < MOST_SUGGESTIONS ? items : this.listed(ORDERS.ungraded.list, isOutdated);
  }

  /**
   * The next pictures of a list; none at its end.
   * @param {Record<string, unknown>} list
   * @param {() => boolean} isOutdated whether nobody waits for them any more
   * @returns {Promise<Item[]>}
   */
  async listed(list, isOutdated) {
    const known = list.given === false ? this.skipped : this.items.length; // graded pictures leave the list
    let surplus = 0;
    const search = async (begin) => {
      for (let offset = begin, total = Infinity; offset < total && !isOutdated(); offset += PAGE_SIZE) {
        const page = await getPictures({ ...list, offset, limit: PAGE_SIZE });
        total = page.total;
        surplus = total - known;
        const found = this.unknown(page.items.map((picture) => ({ picture, explanation: "" })));
        if (found.length) return found;
      }
      return [];
    };
    const next = await search(known);
    if (next.length) return next;
    // Pictures that were added, or lost their grades, may be before the known ones; a long list is not read in vain.
    const missed = known > 0 && surplus > this.surplus ? await search(0) : [];
    this.surplus = missed.length ? 0 : surplus;
    return missed;
  }

  /** Those that are not in the queue. @param {Item[]} items */
  unknown(items) {
    const known = new Set(this.items.map(({ picture }) => picture.id));
    return items.filter(({ picture }) => !known.has(picture.id));
  }

  /** How many of the pictures have no grade. */
  get skipped() {
    return this.items.filter(({ picture }) => picture.grade === null).length;
  }
}

/**
 * Why a picture is suggested, as a sentence; that of an uncertain one names its estimate, which may be hidden.
 * @param {Item} item
 * @param {boolean} estimateShown
 */
export function reasonOf({ explanation, reason }, estimateShown) {
  if (!explanation) return "";
  const [first, ...others] = explanation.split("; ");
  const isHidden = reason === "uncertain" && !estimateShown;
  return `${capitalized([isHidden ? "the model is uncertain about its grade" : first, ...others].join("; "))}.`;
}
