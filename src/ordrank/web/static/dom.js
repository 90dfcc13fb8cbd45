/** Elements and numbers as text. Data reaches the page as text nodes and attributes only. */

/**
 * Make an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} [given] attributes; `class`, `on…` listeners, `hidden` and the like as properties
 * @param {...(Node|string|null)} children strings become text
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/**
 * The element with an id; the page is broken without it.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element #${id}`);
  return element;
}

/** Text that keeps its own direction of writing. @param {string} text @param {string} [kind] */
export const isolated = (text, kind) => el("bdi", { class: kind }, text);

/** Text for those who listen. @param {string} text */
export const heard = (text) => el("span", { class: "heard" }, text);

const counts = new Intl.NumberFormat("en");

/** @param {number} number */
export const count = (number) => counts.format(number);

/** @param {number} number @param {string} one @param {string} several */
export const counted = (number, one, several) => `${number ? count(number) : "no"} ${number === 1 ? one : several}`;

/** Whole per cents; a share that is there is never shown as none. @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1\u00a0%";
  return `${Math.round(100 * share)}\u00a0%`;
}

/** Three digits that count, and no exponent for large numbers. @param {number} value */
export function digits(value) {
  return Math.abs(value) < 99.95 ? value.toPrecision(3) : value.toFixed(0);
}

/**
 * The share of the order in the squared distance.
 * @param {{order_distance: number, appearance_distance: number}} ranked
 */
export function orderShare(ranked) {
  const order = ranked.order_distance ** 2;
  return order / (order + ranked.appearance_distance ** 2 || 1);
}

/** A grade in a sentence: words speak for themselves. @param {string} grade */
export const gradeInWords = (grade) => (Number.isFinite(Number(grade)) ? `grade ${grade}` : grade);

/** From so many grades on, only some are named where all are shown. */
export const MANY_GRADES = 13;

/** @param {string} query a media query */
export const matches = (query) => window.matchMedia(query).matches;
