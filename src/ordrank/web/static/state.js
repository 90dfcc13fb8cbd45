/** The state of the page, kept in the URL fragment: back, forward and links work. */

/** @typedef {object} State
 * @property {"browse"|"grade"|"compare"|"check"|"graders"|"quality"|"picture"|"query"} view
 * @property {string|null} id of the picture or the query
 * @property {string|null} grade browsing: only this grade
 * @property {boolean|null} given browsing: only given (true) or only estimated (false) grades
 * @property {string|null} search browsing: words that the name must have in it
 * @property {string|null} sort browsing: by what, null for grades
 * @property {boolean} descending browsing: the highest first
 * @property {number|null} at browsing: position in the list, from 1, where it begins
 * @property {boolean} within ranking: only the estimated grade
 * @property {string|null} lowest ranking: lowest grade
 * @property {string|null} highest ranking: highest grade
 * @property {number|null} show ranking: maximum number of pictures
 * @property {number|null} chosen picture in the side panel
 */

/** The views that are neither a ranking nor the whole collection. */
const MODES = ["grade", "compare", "check", "graders", "quality"];

/** Views without the side panel. */
const WITHOUT_PANEL = ["grade", "compare", "quality"];

/** What pictures can be sorted by, instead of grades. */
const SORTS = ["spectrum", "estimate", "certainty", "name", "date"];

/** Browse the whole collection. @type {State} */
export const START = {
  view: "browse",
  id: null,
  grade: null,
  given: null,
  search: null,
  sort: null,
  descending: false,
  at: null,
  within: false,
  lowest: null,
  highest: null,
  show: null,
  chosen: null,
};

/** @param {string|null} text @returns {number|null} null: not a positive integer */
const positiveInteger = (text) => (/^0*[1-9]\d*$/.test(text ?? "") ? Number(text) : null);

/** @param {string} hash @returns {State} */
function parse(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const query = ["picture", "query"].find((name) => parameters.has(name));
  const view = query ?? MODES.find((mode) => mode === parameters.get("view")) ?? "browse";
  const given = parameters.get("given");
  return {
    view,
    id: query ? parameters.get(query) : null,
    grade: parameters.get("grade"),
    given: given === null ? null : given === "true",
    search: parameters.get("search") || null,
    sort: SORTS.find((sort) => sort === parameters.get("sort")) ?? null,
    descending: parameters.get("descending") === "true",
    at: positiveInteger(parameters.get("at")),
    within: parameters.get("within") === "true",
    lowest: parameters.get("lowest"),
    highest: parameters.get("highest"),
    show: positiveInteger(parameters.get("show")),
    chosen: WITHOUT_PANEL.includes(view) ? null : positiveInteger(parameters.get("chosen")),
  };
}

/** @param {State} state */
export function format(state) {
  const { view, id, ...rest } = state;
  const parameters = new URLSearchParams(id !== null ? { [view]: id } : MODES.includes(view) ? { view } : {});
  for (const [name, value] of Object.entries(rest)) {
    if (value !== null && value !== false) parameters.set(name, String(value));
  }
  if (state.given === false) parameters.set("given", "false");
  return `#${parameters}`;
}

/** The address of the newest pictures. */
export const NEWEST = format({ ...START, sort: "date", descending: true });

export const current = () => parse(location.hash);

/** Whether a state shows pictures ranked for a query. @param {State} state */
export const isRanking = ({ id }) => id !== null;

/** The URL of the current state with changes. @param {Partial<State>} changes */
export const link = (changes) => format({ ...current(), ...changes });

/** The URL of the ranking for a picture; keeps the filters. @param {number} id */
export const moreLike = (id) => {
  const { lowest, highest, show, within } = current();
  return format({ ...START, view: "picture", id: String(id), lowest, highest, show, within });
};

/** Change the state. @param {Partial<State>} changes @param {{replace?: boolean}} [options] of the history entry */
export function go(changes, { replace = false } = {}) {
  const hash = link(changes);
  if (hash === location.hash || (hash === "#" && !location.hash)) return;
  if (replace) {
    history.replaceState(history.state, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}

/** Whether two states differ at most in the side panel. @param {State} a @param {State} b */
export const sameList = (a, b) => format({ ...a, chosen: null }) === format({ ...b, chosen: null });

/** The parameters of /pictures for a state. @param {State} state */
export const listParameters = ({ grade, given, search, sort, descending }) => ({
  grade,
  given,
  search,
  sort,
  descending,
});

const BEFORE = 6; // pictures listed before the chosen place of the spectrum

/** The place where the list of a state begins, from 0. @param {State} state */
export const startOf = ({ at }) => Math.max(0, (at ?? 1) - 1 - BEFORE);

/** The parameters of /rank for a state. @param {State} state */
export const rankParameters = (state) => ({
  [state.view]: state.id,
  within_grade: state.within,
  lowest: state.within ? null : state.lowest,
  highest: state.within ? null : state.highest,
});
