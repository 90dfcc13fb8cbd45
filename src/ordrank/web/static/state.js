/** What the page shows, kept in the address: back, forward and links work. */

/** @typedef {object} State
 * @property {"browse"|"picture"|"query"} view
 * @property {string|null} id of the picture or the query
 * @property {string|null} grade browse: this grade only
 * @property {boolean|null} given browse: with (true) or without (false) a given grade
 * @property {boolean} within ranked: inside the estimated grade
 * @property {string|null} lowest ranked: from this grade
 * @property {string|null} highest ranked: to this grade
 * @property {number|null} show ranked: at most so many
 * @property {number|null} chosen picture in the side panel
 */

/** Nothing asked: the whole collection. @type {State} */
export const START = {
  view: "browse",
  id: null,
  grade: null,
  given: null,
  within: false,
  lowest: null,
  highest: null,
  show: null,
  chosen: null,
};

/** @param {string} hash @returns {State} */
export function parse(hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const view = found.has("picture") ? "picture" : found.has("query") ? "query" : "browse";
  const given = found.get("given");
  return {
    view,
    id: view === "browse" ? null : found.get(view),
    grade: found.get("grade"),
    given: given === null ? null : given === "true",
    within: found.get("within") === "true",
    lowest: found.get("lowest"),
    highest: found.get("highest"),
    show: Number(found.get("show")) || null,
    chosen: /^\d+$/.test(found.get("chosen") ?? "") ? Number(found.get("chosen")) : null,
  };
}

/** @param {State} state */
export function format(state) {
  const { view, id, ...rest } = state;
  const parts = new URLSearchParams(view === "browse" ? {} : { [view]: String(id) });
  for (const [name, value] of Object.entries(rest)) {
    if (value !== null && value !== false) parts.set(name, String(value));
  }
  if (state.given === false) parts.set("given", "false");
  return `#${parts}`;
}

export const current = () => parse(location.hash);

/** The address of this page with something changed. @param {Partial<State>} changes */
export const link = (changes) => format({ ...current(), ...changes });

/** The address of a picture as the question; range and number stay. @param {number} id */
export const moreLike = (id) => {
  const { lowest, highest, show, within } = current();
  return format({ ...START, view: "picture", id: String(id), lowest, highest, show, within });
};

/** @param {Partial<State>} changes @param {{replace?: boolean}} [how] */
export function go(changes, { replace = false } = {}) {
  const hash = link(changes);
  if (hash === location.hash || (hash === "#" && !location.hash)) return;
  if (replace) {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}

/** Whether two states ask the same; the panel may differ. @param {State} a @param {State} b */
export const sameQuestion = (a, b) => format({ ...a, chosen: null }) === format({ ...b, chosen: null });

/** The parameters of /rank for a state. @param {State} state */
export const rankParameters = (state) => ({
  [state.view]: state.id,
  within_grade: state.within,
  lowest: state.within ? null : state.lowest,
  highest: state.within ? null : state.highest,
});
