/** The filters of a ranking: which grades, and how many pictures. */

import { byId, el } from "./dom.js";
import { go } from "./state.js";

/** Write every change of a filter to the address; call once. */
export function listenToFilters() {
  byId("all-grades").addEventListener("change", () => go({ within: false, chosen: null }));
  byId("one-grade").addEventListener("change", () => go({ within: true, chosen: null }));
  for (const name of ["lowest", "highest"]) {
    byId(name).addEventListener("change", (event) => go({ [name]: event.target.value || null, chosen: null }));
  }
  byId("show").addEventListener("change", (event) => go({ show: Number(event.target.value) || null, chosen: null }));
}

/**
 * @param {import("./state.js").State} state
 * @param {string} estimate grade of the query
 * @param {import("./api.js").Grade[]} grades ascending
 */
export function fillFilters(state, estimate, grades) {
  byId("all-grades").checked = !state.within;
  byId("one-grade").checked = state.within;
  const isNumber = Number.isFinite(Number(estimate));
  byId("one-grade-label").textContent = isNumber ? `Only grade ${estimate}` : `Only ${estimate}`;
  const index = (name) => grades.findIndex(({ grade }) => grade === state[name]);
  const highest = index("highest");
  fillGrades("lowest", highest < 0 ? grades : grades.slice(0, highest + 1), state);
  fillGrades("highest", grades.slice(Math.max(0, index("lowest"))), state);
  const show = byId("show");
  if (state.show && ![...show.options].some((option) => Number(option.value) === state.show)) {
    show.add(new Option(String(state.show), String(state.show)));
  }
  show.value = String(state.show ?? "");
}

function fillGrades(name, grades, state) {
  const select = byId(name);
  const options = grades.map(({ grade }) => el("option", { value: grade }, grade));
  select.replaceChildren(el("option", { value: "" }, name), ...options);
  select.value = state[name] ?? "";
  select.disabled = state.within;
}
