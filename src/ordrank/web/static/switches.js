/** The switches of a ranking: which grades, and how many pictures. */

import { byId, el, gradeInWords } from "./dom.js";
import { go } from "./state.js";

/** Once: what is switched goes into the address. */
export function listenToSwitches() {
  byId("all-grades").addEventListener("change", () => go({ within: false, chosen: null }));
  byId("one-grade").addEventListener("change", () => go({ within: true, chosen: null }));
  for (const name of ["lowest", "highest"]) {
    const select = byId(name);
    select.addEventListener("change", () => go({ [name]: select.value || null, chosen: null }));
  }
  byId("show").addEventListener("change", () => go({ show: Number(byId("show").value) || null, chosen: null }));
}

/**
 * @param {import("./state.js").State} state
 * @param {import("./api.js").Answer} answer
 * @param {import("./api.js").Grade[]} grades in order
 */
export function fillSwitches(state, answer, grades) {
  byId("all-grades").checked = !state.within;
  byId("one-grade").checked = state.within;
  byId("one-grade-label").textContent = `Only ${gradeInWords(answer.grade)}`;
  const place = (/** @type {string|null} */ grade) => grades.findIndex((known) => known.grade === grade);
  const highest = place(state.highest);
  fillGrades("lowest", "lowest", highest < 0 ? grades : grades.slice(0, highest + 1), state);
  fillGrades("highest", "highest", grades.slice(Math.max(0, place(state.lowest))), state);
  const shows = byId("show");
  if (state.show && ![...shows.options].some((option) => Number(option.value) === state.show)) {
    shows.add(new Option(String(state.show), String(state.show)));
  }
  shows.value = String(state.show ?? "");
}

/**
 * @param {"lowest"|"highest"} name
 * @param {string} any
 * @param {import("./api.js").Grade[]} grades
 * @param {import("./state.js").State} state
 */
function fillGrades(name, any, grades, state) {
  const select = byId(name);
  const options = grades.map(({ grade }) => el("option", { value: grade }, grade));
  select.replaceChildren(el("option", { value: "" }, any), ...options);
  select.value = state[name] ?? "";
  select.disabled = state.within;
}
