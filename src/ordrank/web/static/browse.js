/** Browsing the collection by grade, without a query. */

import { getPictures } from "./api.js";
import { byId, count, counted, dot, el, isolated } from "./dom.js";
import { card } from "./grid.js";
import { announce } from "./notices.js";
import { MANY_GRADES } from "./palette.js";
import { START, format, link, moreLike } from "./state.js";

/**
 * @param {import("./grid.js").Grid} grid
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Palette} palette
 * @param {import("./api.js").Collection} collection
 */
export async function browse(grid, state, palette, collection) {
  const { grade, given } = state;
  const source = { true: ", grade given", false: ", grade estimated", null: "" }[given];
  const title = `${grade === null ? "All pictures" : `Grade ${grade}`}${source}`;
  const refill = () => fillChips(state, palette, collection);
  const colour = ({ value }) => palette.css(palette.index(value));
  refill();
  byId("list-title").textContent = title;
  byId("list-count").textContent = "";
  document.title = collection.name;
  await grid.show({
    limit: null,
    empty: "No pictures match.",
    page: (offset, limit, signal) => getPictures({ grade, given, offset, limit }, signal),
    onPage: ({ total }, isFirst) => {
      if (!isFirst) return;
      byId("list-count").textContent = count(total);
      announce(`${title}: ${counted(total, "picture")}.`);
    },
    card: (picture) => pictureCard(picture, colour(picture)),
    colour,
    refill,
  });
}

function fillChips({ grade, given }, palette, collection) {
  const chip = (content, changes, active) => {
    const href = format({ ...START, grade, given, ...changes });
    return el("li", {}, el("a", { class: "chip", href, "aria-current": active && "true" }, ...content));
  };
  const grades = palette.grades.map((known, i) => {
    const number = el("span", { class: "muted" }, count(known.pictures));
    const content = [dot(palette.css(i)), isolated(known.grade), number];
    return chip(content, { grade: known.grade }, grade === known.grade);
  });
  byId("grades").replaceChildren(chip(["All grades"], { grade: null }, grade === null), ...grades);
  byId("grades").classList.toggle("many", grades.length >= MANY_GRADES);
  byId("grade-sources").hidden = collection.graded === collection.pictures;
  byId("grade-sources").replaceChildren(
    chip(["Given or estimated"], { given: null }, given === null),
    chip(["Given"], { given: true }, given === true),
    chip(["Estimated"], { given: false }, given === false),
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
