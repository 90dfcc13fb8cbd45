/** All grades in their order, the votes above them, the estimate marked. */

import { MANY_GRADES, el, isolated, percent } from "./dom.js";

/**
 * @param {import("./api.js").Answer} answer
 * @param {import("./palette.js").Palette} palette
 */
export function scale(answer, palette) {
  const shares = new Map(answer.votes.map((vote) => [vote.grade, vote.share]));
  const most = Math.max(...shares.values(), 0) || 1;
  const { grades } = palette;
  const named = grades.length < MANY_GRADES;
  const columns = grades.map(({ grade }, i) => {
    const share = shares.get(grade) ?? 0;
    const chosen = grade === answer.grade;
    const bar = el("span", { class: "bar" });
    bar.style.height = share ? `max(2px, ${(100 * share) / most}%)` : "0";
    const tick = el("span", { class: "tick" });
    tick.style.background = palette.css(i);
    const kinds = ["column", chosen && "chosen", grade === answer.known_grade && "known"].filter(Boolean);
    const ends = i === 0 || i === grades.length - 1;
    return el(
      "div",
      { class: kinds.join(" "), title: `${grade}: ${percent(share)}` },
      el("span", { class: "share" }, named || chosen ? percent(share) : ""),
      el("span", { class: "room" }, bar),
      tick,
      el("span", { class: "label" }, named || chosen || ends ? isolated(grade) : ""),
    );
  });
  const told = answer.votes.map((vote) => `${vote.grade}: ${percent(vote.share)}`).join(", ");
  const known = answer.known_grade === null ? "" : ` Known grade ${answer.known_grade}.`;
  const label = `Grades in order with their votes: ${told}. Estimated grade ${answer.grade}.${known}`;
  const chart = el("div", { class: named ? "scale" : "scale many", role: "img", "aria-label": label }, ...columns);
  return el("figure", {}, el("figcaption", {}, "Votes for each grade, in order"), chart);
}
