/** Browsing the collection: by grade, name, certainty and other orders, or as a spectrum; without a query. */

import { getPictures, picturesUrl } from "./api.js";
import { byId, count, counted, dot, el, isolated } from "./dom.js";
import { PAGE_SIZE, card } from "./grid.js";
import { loadModule } from "./lazy.js";
import { announce } from "./notices.js";
import { MANY_GRADES } from "./palette.js";
import { fillSearchBar } from "./search_bar.js";
import { current, link, listParameters, moreLike, sameList, startOf } from "./state.js";

/** The address of the first pictures of a state. @param {import("./state.js").State} state */
export const firstPage = (state) => picturesUrl({ ...listParameters(state), offset: startOf(state), limit: PAGE_SIZE });

/** Its module is loaded when it is first shown. @type {typeof import("./spectrum.js")|undefined} */
let spectrum;

/**
 * @param {import("./grid.js").Grid} grid
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Palette} palette
 * @param {import("./api.js").Collection} collection
 */
export async function browse(grid, state, palette, collection) {
  const title = titleOf(state);
  const parameters = listParameters(state);
  const refill = () => fillChips(state, palette, collection);
  const colour = ({ value }) => palette.css(palette.index(value));
  fillSearchBar(state);
  refill();
  if (state.sort !== "spectrum") spectrum?.hideSpectrum();
  else spectrum ??= await loadModule(() => import("./spectrum.js"));
  if (!sameList(state, current())) return; // the user went elsewhere
  byId("list-title").textContent = title;
  byId("list-count").textContent = "";
  document.title = collection.name;
  await grid.show({
    limit: null,
    start: startOf(state),
    empty: state.search === null ? "No pictures match." : `No picture has “${state.search}” in its name.`,
    page: (offset, limit, signal) => getPictures({ ...parameters, offset, limit }, signal),
    onPage: ({ total }, isFirst) => {
      if (!isFirst) return;
      byId("list-count").textContent = count(total);
      announce(`${title}: ${counted(total, "picture")}.`);
      if (state.sort === "spectrum") spectrum.showSpectrum(state, total, palette, collection);
    },
    onFailure: () => spectrum?.hideSpectrum(),
    card: (picture) => pictureCard(picture, colour(picture)),
    colour,
    refill,
  });
}

/** @param {import("./state.js").State} state */
function titleOf({ grade, given, search }) {
  const source = { true: ", grade given", false: ", grade estimated", null: "" }[given];
  const found = search === null ? "" : ` with “${search}”`;
  return `${grade === null ? "All pictures" : `Grade ${grade}`}${source}${found}`;
}

/** Chips with the number of pictures that the list of each has. */
function fillChips({ grade, given, search }, palette, collection) {
  const chip = (content, number, changes, active) => {
    const shown = number === null || search !== null ? "" : el("span", { class: "muted" }, count(number));
    const href = link({ at: null, chosen: null, ...changes });
    return el("li", {}, el("a", { class: "chip", href, "aria-current": active && "true" }, ...content, shown));
  };
  const numberOf = ({ pictures, estimated }) => (given === null ? pictures + estimated : given ? pictures : estimated);
  const grades = palette.grades.map((known, i) => {
    const content = [dot(palette.css(i)), isolated(known.grade)];
    return chip(content, numberOf(known), { grade: known.grade }, grade === known.grade);
  });
  const { pictures, graded } = collection;
  const chosen = palette.grades.find((known) => known.grade === grade);
  const all = given === null ? pictures : given ? graded : pictures - graded;
  const sources = chosen
    ? [chosen.pictures + chosen.estimated, chosen.pictures, chosen.estimated]
    : [pictures, graded, pictures - graded];
  byId("grades").replaceChildren(chip(["All grades"], all, { grade: null }, grade === null), ...grades);
  byId("grades").classList.toggle("many", grades.length >= MANY_GRADES);
  byId("grade-sources").hidden = graded === pictures;
  byId("grade-sources").replaceChildren(
    chip(["Given or estimated"], sources[0], { given: null }, given === null),
    chip(["Given"], sources[1], { given: true }, given === true),
    chip(["Estimated"], sources[2], { given: false }, given === false),
  );
}

/** @param {import("./api.js").Picture} picture @param {string} colour of its grade */
function pictureCard({ id, name, grade, estimate }, colour) {
  return card({
    id,
    name,
    grade: grade ?? estimate,
    estimated: grade === null && estimate !== null,
    colour,
    href: moreLike(id),
    action: "– more like this",
    second: { href: link({ chosen: id }), label: "Details" },
  });
}
