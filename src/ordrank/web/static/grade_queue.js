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
    /** Pictures in the order that match now. */
    this.total = 0;
    this.renewals = 0;
  }

  /** The picture on the screen. @returns {Item|null} */
  get current() {
    return this.items[this.at] ?? null;
  }

  /** The pictures after it that are known. @param {number} n */
  upcoming(n) {
    return this.items.slice(this.at + 1, this.at + 1 + n).map(({ picture }) => picture);
  }

  /** Go to the next picture, fetching more if none is known; return whether there is one. */
  async forward() {
    if (this.at + 1 >= this.items.length) await this.fetch();
    if (this.at < this.items.length) this.at += 1;
    const ahead = ORDERS[this.order].list ? AHEAD : SUGGESTED_AHEAD;
    if (this.items.length - this.at <= ahead) this.fetch().catch(() => {}); // tried again when it is needed
    return this.current !== null;
  }

  /** Go to the picture before; return whether there is one. */
  back() {
    if (this.at <= 0) return false;
    this.at -= 1;
    return true;
  }

  /** Show a picture that was shown before, or another one, in the place of the present one. @param {Item} item */
  visit(item) {
    const known = this.items.findIndex(({ picture }) => picture.id === item.picture.id);
    if (known >= 0) this.at = known;
    else this.items.splice(Math.max(this.at, 0), 0, item);
    if (this.at < 0) this.at = 0;
  }

  /** @param {import("./api.js").Picture} picture that has changed */
  replace(picture) {
    for (const item of this.items) if (item.picture.id === picture.id) item.picture = picture;
  }

  /** Forget what comes next, which has another order now. */
  renew() {
    this.items.length = Math.min(this.items.length, this.at + 1);
    this.renewals += 1;
    this.fetching = null;
  }

  /** Begin again with all pictures that match now. */
  restart() {
    this.items = [];
    this.at = -1;
    this.renew();
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
    const add = (items) => {
      if (renewals !== this.renewals) return true;
      const known = new Set(this.items.map(({ picture }) => picture.id));
      const found = items.filter(({ picture }) => !known.has(picture.id));
      this.items.push(...found);
      return found.length > 0;
    };
    if (!list) {
      const limit = Math.min(SUGGESTIONS + this.skipped, MOST_SUGGESTIONS);
      const { items, total } = await getSuggestions(limit, grader());
      this.total = total;
      add(items);
      return;
    }
    // Graded pictures leave the list, so that others move up; a second turn finds what was missed for that.
    for (const begin of new Set([list.given === false ? this.skipped : this.items.length, 0])) {
      for (let offset = begin, total = Infinity; offset < total; offset += PAGE_SIZE) {
        const page = await getPictures({ ...list, offset, limit: PAGE_SIZE });
        total = this.total = page.total;
        if (add(page.items.map((picture) => ({ picture, explanation: "" })))) return;
      }
    }
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
