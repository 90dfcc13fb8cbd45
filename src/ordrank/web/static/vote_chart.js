/** A bar chart of the votes for every grade, in order, with the estimate marked. */

import { el, isolated, percent } from "./dom.js";
import { MANY_GRADES } from "./palette.js";

/** @param {import("./api.js").Result} result @param {import("./palette.js").Palette} palette */
export function voteChart(result, palette) {
  const shares = new Map(result.votes.map((vote) => [vote.grade, vote.share]));
  const highest = Math.max(...shares.values(), 0) || 1;
  const { grades } = palette;
  const many = grades.length >= MANY_GRADES;
  const columns = grades.map(({ grade }, i) => {
    const share = shares.get(grade) ?? 0;
    const estimated = grade === result.grade;
    const named = !many || estimated;
    const bar = el("span", { class: "bar" });
    bar.style.height = share ? `max(2px, ${(100 * share) / highest}%)` : "0";
    const tick = el("span", { class: "tick" });
    tick.style.background = palette.css(i);
    const classes = ["column", estimated && "chosen", grade === result.known_grade && "known"].filter(Boolean);
    const atEnd = i === 0 || i === grades.length - 1;
    return el(
      "div",
      { class: classes.join(" "), title: `${grade}: ${percent(share)}` },
      el("span", { class: "share" }, named ? percent(share) : ""),
      el("span", { class: "track" }, bar),
      tick,
      el("span", { class: "label" }, named || atEnd ? isolated(grade) : ""),
    );
  });
  const votes = result.votes.map((vote) => `${vote.grade}: ${percent(vote.share)}`).join(", ");
  const known = result.known_grade === null ? "" : ` Known grade ${result.known_grade}.`;
  const label = `Grades in order with their votes: ${votes}. Estimated grade ${result.grade}.${known}`;
  const chart = el("div", { class: many ? "scale many" : "scale", role: "img", "aria-label": label }, ...columns);
  return el("figure", {}, el("figcaption", {}, "Votes for each grade, in order"), chart);
}
