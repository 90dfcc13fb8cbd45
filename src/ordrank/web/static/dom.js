/** Elements and numbers as text. Data reach the page as text nodes and attributes only, never as HTML. */

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [attributes] null, undefined and false are left out; `on…` adds a listener
 * @param {...(Node|string)} children strings become text nodes
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** Return the element with an id; throw if there is none. @param {string} id @returns {any} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element #${id}`);
  return element;
}

/** Text with a writing direction of its own. @param {string} text */
export const isolated = (text) => el("bdi", {}, text);

/** Text for screen readers only. @param {string} text */
export const visuallyHidden = (text) => el("span", { class: "visually-hidden" }, text);

/** @param {string} colour */
export function dot(colour) {
  const element = el("span", { class: "dot", "aria-hidden": "true" });
  element.style.background = colour;
  return element;
}

const numberFormat = new Intl.NumberFormat("en");

/** @param {number} number */
export const count = (number) => numberFormat.format(number);

/** "no pictures", "1 picture", "2 pictures". @param {number} number @param {string} noun */
export const counted = (number, noun) => `${number ? count(number) : "no"} ${noun}${number === 1 ? "" : "s"}`;

/** @param {string} text */
export const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Whole per cent; a small share is not shown as 0. @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.005) return "<1\u00a0%";
  return `${Math.round(100 * share)}\u00a0%`;
}

/** Three significant digits, no exponent for large numbers. @param {number} value */
export function digits(value) {
  return Math.abs(value) < 99.95 ? value.toPrecision(3) : value.toFixed(0);
}

/** @param {string} query a media query */
export const matches = (query) => window.matchMedia(query).matches;
