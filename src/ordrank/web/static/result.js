/** The result of a query: the picture, its estimated grade with the probabilities, and the ranking with its filters. */

import { apiUrl, getRanking, thumbnail } from "./api.js";
import { distanceBar } from "./distance.js";
import { byId, count, counted, digits, el, isolated, visuallyHidden } from "./dom.js";
import { fillFilters } from "./filters.js";
import { card } from "./grid.js";
import { announce } from "./notices.js";
import { isOutside } from "./palette.js";
import { probabilityChart } from "./probability_chart.js";
import { START, format, link, moreLike, rankParameters } from "./state.js";

/** Say that the query of a state is gone, and how to go on. @param {import("./state.js").State} state */
export function showMissing({ view, id }) {
  const [title, text] =
    view === "query"
      ? [
          "This picture is no longer here",
          "The server keeps uploaded pictures only for a while. Drop, paste or choose it again.",
        ]
      : ["There is no such picture", `The collection has no picture with the number ${id}; it may have been removed.`];
  document.documentElement.toggleAttribute("data-missing", true);
  const links = el("p", { class: "links" }, el("a", { class: "button primary", href: format(START) }, "All pictures"));
  const heading = el("h2", { id: "result-title", tabindex: "-1" }, title);
  byId("result").replaceChildren(el("div", { class: "missing" }, heading, el("p", {}, text), links));
  document.title = title;
  announce(`${title}. ${text}`);
}

/**
 * Rank the collection for the query of a state.
 * @param {import("./grid.js").Grid} grid
 * @param {import("./state.js").State} state
 * @param {object} options
 * @param {import("./palette.js").Palette} options.palette
 * @param {import("./api.js").Collection} options.collection
 * @param {(result: import("./api.js").Result|null) => void} options.onResult null: there is none
 * @param {() => void} [options.onAdd] adds the query to the collection
 */
export async function showResult(grid, state, { palette, collection, onAdd, onResult }) {
  const parameters = rankParameters(state);
  const colour = ({ grade }) => palette.cssOf(grade);
  /** @type {import("./api.js").Result} */
  let result;
  let furthest = 0;
  await grid.show({
    limit: state.show,
    empty: "No pictures match. Try all grades or a wider range.",
    page: (offset, limit, signal) => getRanking({ ...parameters, offset, limit }, signal),
    onPage: ({ query, total, items }, isFirst) => {
      if (isFirst) {
        result = query;
        fillHead(result, total, state, palette, onAdd);
        fillTableLink(total, state, collection.max_table_rows);
        onResult(result);
      }
      furthest = Math.max(furthest, items.at(-1)?.distance ?? 0) || 1;
      byId("pictures").style.setProperty("--furthest", String(furthest));
    },
    onFailure: () => {
      byId("result").replaceChildren();
      byId("list-title").textContent = "Nearest pictures";
      byId("list-count").textContent = "";
      document.title = collection.name;
      onResult(null);
    },
    card: (ranked, index) => rankedCard(ranked, index, colour(ranked)),
    colour,
    refill: () => {
      byId("result").querySelector("figure").replaceWith(probabilityChart(result, palette));
      fillFilters(state, result.grade, palette.grades);
    },
  });
}

function fillHead(result, total, state, palette, onAdd) {
  const image = { class: "query-image", src: thumbnail(result.kind, result.id), alt: `Query picture: ${result.name}` };
  byId("result").replaceChildren(el("img", image), facts(result, palette, onAdd), probabilityChart(result, palette));
  fillFilters(state, result.grade, palette.grades);
  const shown = Math.min(total, state.show ?? Infinity);
  byId("list-title").textContent = state.within ? `Nearest pictures of grade ${result.grade}` : "Nearest pictures";
  byId("list-count").textContent = shown < total ? `${count(shown)} of ${count(total)}` : count(total);
  const estimated = result.is_novel ? result.explanation : `Estimated grade ${result.shown_grade};`;
  announce(`${estimated} ${counted(shown, "picture")} ranked.`);
  document.title = `${result.is_novel ? "Unreliable grade" : "Grade"} ${result.shown_grade}: ${result.name}`;
}

/** @param {number} total @param {import("./state.js").State} state @param {number} maxRows that the server sends */
function fillTableLink(total, state, maxRows) {
  const wanted = Math.min(total, state.show ?? Infinity);
  const limit = Math.min(state.show ?? maxRows, maxRows);
  byId("csv").href = apiUrl("rank.csv", { ...rankParameters(state), limit });
  byId("csv").textContent = limit < wanted ? `Download CSV (first ${count(limit)})` : "Download CSV";
}

/**
 * @param {import("./api.js").Result} result
 * @param {import("./palette.js").Palette} palette
 * @param {() => void} [onAdd] adds the query to the collection
 */
function facts(result, palette, onAdd) {
  const { grade, shown_grade, known_grade, is_novel } = result;
  const size = grade.length > 4 ? "estimate named" : "estimate"; // words are set smaller than numbers
  const interval = el("span", { class: "interval" }, shown_grade.slice(grade.length));
  const estimate = el("dd", { class: is_novel ? `${size} doubtful` : size }, el("bdi", {}, grade, interval));
  const title = known_grade === null ? "Estimated grade" : "Estimate without the known grade";
  const explanation = el("dd", { class: is_novel ? "remark" : "explanation" }, result.explanation);
  const list = el("dl", {}, el("dt", {}, is_novel ? `${title}, unreliable` : title), estimate, explanation);
  if (known_grade !== null) {
    const outside = isOutside(known_grade, result, palette.grades) && !is_novel;
    const note = outside ? [" ", el("span", { class: "conflict" }, "outside the interval")] : [];
    list.append(el("dt", {}, "Known grade"), el("dd", { class: "known" }, isolated(known_grade), ...note));
  }
  const links = el("p", { class: "links" });
  if (onAdd && result.kind === "query") {
    links.append(el("button", { type: "button", onclick: onAdd }, "Add it to the collection"));
  }
  if (result.kind === "picture") {
    links.append(el("a", { class: "button", href: link({ chosen: Number(result.id) }) }, "Details"));
  }
  links.append(el("a", { class: "button", href: format(START) }, "All pictures"));
  const name = [visuallyHidden("Result for "), isolated(result.name)];
  return el("div", { class: "facts" }, el("h2", { id: "result-title", tabindex: "-1" }, ...name), list, links);
}

/** @param {import("./api.js").Ranked} ranked @param {number} index @param {string} colour of its grade */
function rankedCard(ranked, index, colour) {
  const element = card({
    id: ranked.id,
    name: ranked.name,
    grade: ranked.grade,
    estimated: ranked.estimated,
    colour,
    href: link({ chosen: ranked.id }),
    action: `rank ${index + 1}: show details`,
    second: { href: moreLike(ranked.id), label: "More like this" },
    line: [el("span", { class: "distance" }, visuallyHidden("distance "), digits(ranked.distance))],
    below: [distanceBar(ranked)],
  });
  element.append(el("span", { class: "rank", "aria-hidden": "true" }, count(index + 1)));
  return element;
}
