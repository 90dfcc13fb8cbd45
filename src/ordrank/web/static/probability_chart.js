/** A bar chart of the probability of every grade, in order, with the median and the interval marked. */

import { el, isolated, percent } from "./dom.js";
import { MANY_GRADES } from "./palette.js";

/** @param {import("./api.js").Result} result @param {import("./palette.js").Palette} palette */
export function probabilityChart(result, palette) {
  const probabilities = new Map(result.probabilities.map(({ grade, probability }) => [grade, probability]));
  const highest = Math.max(...probabilities.values(), 0) || 1;
  const { grades } = palette;
  const many = grades.length >= MANY_GRADES;
  const crowded = grades.length > 7; // adjacent marks need a line each
  const columns = grades.map(({ grade }, i) => {
    const probability = probabilities.get(grade) ?? 0;
    const isMiddle = grade === result.grade;
    const isKnown = grade === result.known_grade;
    const named = !many || isMiddle;
    const known = !isKnown ? "" : named ? "known" : `known: ${grade}`;
    const bar = el("span", { class: "bar" });
    bar.style.height = probability ? `max(2px, ${(100 * probability) / highest}%)` : "0";
    const tick = el("span", { class: "tick" });
    tick.style.background = palette.css(i);
    const atEnd = i === 0 || i === grades.length - 1;
    const column = el(
      "div",
      { class: isMiddle ? "column middle" : "column", title: `${grade}: ${percent(probability)}` },
      el("span", { class: "probability" }, named ? percent(probability) : ""),
      el("span", { class: "track" }, bar),
      tick,
      el("span", { class: "label" }, named || atEnd ? isolated(grade) : ""),
      el("span", { class: "mark" }, isMiddle ? "middle" : crowded ? "" : known),
      el("span", { class: "mark" }, isMiddle || crowded ? known : ""),
    );
    column.style.gridColumn = String(i + 1);
    return column;
  });
  const size = many ? " many" : crowded ? " crowded" : "";
  const attributes = { class: `scale${size}`, role: "img", "aria-label": inWords(result) };
  const chart = el("div", attributes, ...band(result, grades), ...columns);
  const caption = result.is_novel
    ? "Probability of each grade, unreliable"
    : "Probability of each grade; the middle estimate is marked, the 90\u00a0% interval shaded";
  return el("figure", { class: result.is_novel && "doubtful" }, el("figcaption", {}, caption), chart);
}

/** The shaded interval behind the columns; none if its grades are not on the scale. */
function band({ lowest, highest }, grades) {
  const [first, last] = [lowest, highest].map((end) => grades.findIndex(({ grade }) => grade === end));
  if (first < 0 || last < 0) return [];
  const element = el("div", { class: "band" });
  element.style.gridColumn = `${first + 1} / ${last + 2}`;
  return [element];
}

/** @param {import("./api.js").Result} result */
function inWords({ probabilities, grade, lowest, highest, known_grade }) {
  const list = probabilities.map((each) => `${each.grade}: ${percent(each.probability)}`).join(", ");
  const interval = lowest === highest ? `holds ${lowest} alone` : `goes from ${lowest} to ${highest}`;
  const known = known_grade === null ? "" : ` Known grade ${known_grade}.`;
  return `Probability of each grade, in order: ${list}. Middle estimate ${grade}; the 90 % interval ${interval}.${known}`;
}
