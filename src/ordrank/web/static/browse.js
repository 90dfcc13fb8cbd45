/** The collection by grade, as long as nothing is asked. */

import { getPictures, thumbnail } from "./api.js";
import { MANY_GRADES, byId, count, counted, el, isolated } from "./dom.js";
import { card } from "./grid.js";
import { announce } from "./notices.js";
import { START, format, link, moreLike } from "./state.js";

/**
 * @param {import("./grid.js").Grid} grid
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Palette} palette
 * @param {import("./api.js").Collection} collection
 */
export async function browse(grid, state, palette, collection) {
  const { grade, given } = state;
  fillChips(state, palette, collection);
  byId("list-title").textContent = title(state);
  byId("list-count").textContent = "";
  document.title = collection.name;
  let first = true;
  await grid.show({
    none: "No picture is like that.",
    page: async (offset, limit, signal) => {
      const found = await getPictures({ grade, given, offset, limit }, signal);
      if (first && !signal.aborted) {
        byId("list-count").textContent = count(found.total);
        announce(`${title(state)}: ${counted(found.total, "picture", "pictures")}.`);
      }
      first = false;
      return found;
    },
    card: (picture) => pictureCard(picture, palette),
  });
}

/** @param {import("./state.js").State} state */
function title({ grade, given }) {
  const which = given === null ? "" : given ? ", grade given" : ", grade estimated";
  return `${grade === null ? "All pictures" : `Grade ${grade}`}${which}`;
}

/**
 * @param {import("./state.js").State} state
 * @param {import("./palette.js").Palette} palette
 * @param {import("./api.js").Collection} collection
 */
function fillChips(state, palette, collection) {
  const chip = (/** @type {(Node|string)[]} */ inside, /** @type {object} */ changes, /** @type {boolean} */ now) =>
    el(
      "li",
      {},
      el(
        "a",
        {
          class: "chip",
          href: format({ ...START, grade: state.grade, given: state.given, ...changes }),
          "aria-current": now && "true",
        },
        ...inside,
      ),
    );
  const grades = palette.grades.map(({ grade, pictures }, i) => {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = palette.css(i);
    const number = el("span", { class: "quiet" }, count(pictures));
    return chip([dot, isolated(grade), number], { grade }, state.grade === grade);
  });
  byId("grades").replaceChildren(chip(["All grades"], { grade: null }, state.grade === null), ...grades);
  byId("grades").classList.toggle("many", palette.grades.length >= MANY_GRADES);
  const kinds = [
    ["Given or estimated", null],
    ["Given", true],
    ["Estimated", false],
  ];
  const estimated = collection.pictures - collection.graded;
  byId("kinds").hidden = estimated === 0;
  byId("kinds").replaceChildren(
    ...kinds.map(([label, given]) => chip([/** @type {string} */ (label)], { given }, state.given === given)),
  );
}

/** @param {import("./api.js").Picture} picture @param {import("./palette.js").Palette} palette */
export function pictureCard(picture, palette) {
  const grade = picture.grade ?? picture.estimate;
  return card({
    href: moreLike(picture.id),
    action: "– more like this",
    picture: thumbnail("picture", picture.id),
    name: picture.name,
    grade,
    estimated: picture.grade === null && grade !== null,
    colour: palette.css(palette.index(picture.value)),
    second: { href: link({ chosen: picture.id }), label: "Details", icon: "Details" },
    line: [],
    below: [],
  });
}
