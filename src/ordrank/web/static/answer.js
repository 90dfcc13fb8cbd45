/** The answer to a question: the picture, its estimated grade on the scale, and the ranking with its switches. */

import { address, getRanking, thumbnail } from "./api.js";
import { byId, count, counted, digits, el, heard, isolated, orderShare } from "./dom.js";
import { card } from "./grid.js";
import { announce } from "./notices.js";
import { scale } from "./scale.js";
import { START, current, format, link, moreLike, rankParameters } from "./state.js";
import { fillSwitches } from "./switches.js";

/** Shows answers in the place they have on the page. */
export class AnswerView {
  /**
   * @param {import("./grid.js").Grid} grid
   * @param {(answer: import("./api.js").Answer, state: import("./state.js").State) => void} answered
   */
  constructor(grid, answered) {
    this.grid = grid;
    this.answered = answered;
    this.list = byId("pictures");
  }

  /** @param {import("./state.js").State} state @param {import("./palette.js").Palette} palette */
  async show(state, palette) {
    const parameters = rankParameters(state);
    let first = true;
    this.furthest = 0;
    await this.grid.show({
      most: state.show,
      none: "No picture qualifies. Try all grades or a wider range.",
      page: async (offset, limit, signal) => {
        const found = await getRanking({ ...parameters, offset, limit }, signal);
        if (first && !signal.aborted) this.head(found, state, palette);
        first = false;
        const last = found.items.at(-1);
        this.furthest = Math.max(this.furthest, last?.distance ?? 0) || 1;
        this.list.style.setProperty("--furthest", String(this.furthest));
        return found;
      },
      card: (ranked, place) => rankedCard(ranked, place, palette),
    });
  }

  /**
   * @param {{answer: import("./api.js").Answer, total: number}} found
   * @param {import("./state.js").State} state
   * @param {import("./palette.js").Palette} palette
   */
  head({ answer, total }, state, palette) {
    byId("answer").replaceChildren(
      el("img", {
        class: "asked",
        src: thumbnail(answer.kind, answer.id),
        alt: `The picture asked about: ${answer.name}`,
      }),
      facts(answer),
      scale(answer, palette),
    );
    fillSwitches(state, answer, palette.grades);
    byId("csv").href = address("rank.csv", { ...rankParameters(state), limit: state.show ?? 10000 });
    const shown = Math.min(total, state.show ?? Infinity);
    byId("list-title").textContent = state.within ? `Nearest pictures of grade ${answer.grade}` : "Nearest pictures";
    byId("list-count").textContent = shown < total ? `${count(shown)} of ${count(total)}` : count(total);
    announce(`Estimated grade ${answer.grade}; ${counted(shown, "picture", "pictures")} ranked.`);
    document.title = `Grade ${answer.grade}: ${answer.name}`;
    this.answered(answer, state);
  }
}

/** @param {import("./api.js").Answer} answer */
function facts(answer) {
  const size = answer.grade.length > 4 ? "estimate named" : "estimate"; // words need more room than numbers
  const list = el("dl", {}, el("dt", {}, "Estimated grade"), el("dd", { class: size }, isolated(answer.grade)));
  if (answer.known_grade !== null) {
    list.append(el("dt", {}, "Known grade"), el("dd", { class: "known" }, isolated(answer.known_grade)));
  }
  const links = el("p", { class: "links" });
  if (answer.kind === "picture") {
    links.append(el("a", { class: "button", href: link({ chosen: Number(answer.id) }) }, "Details"));
  }
  links.append(el("a", { class: "button", href: format(START) }, "All pictures"));
  const title = el("h2", { id: "answer-title", tabindex: "-1" }, heard("Answer for "), isolated(answer.name));
  return el("div", { class: "facts" }, title, list, links);
}

/**
 * @param {import("./api.js").Ranked} ranked
 * @param {number} place
 * @param {import("./palette.js").Palette} palette
 */
function rankedCard(ranked, place, palette) {
  const made = card({
    href: format({ ...current(), chosen: ranked.id }),
    action: `rank ${place + 1}: show details`,
    picture: thumbnail("picture", ranked.id),
    name: ranked.name,
    grade: ranked.grade,
    estimated: ranked.estimated,
    colour: palette.cssOf(ranked.grade),
    second: { href: moreLike(ranked.id), label: "More like this", icon: "More like this" },
    line: [el("span", { class: "distance" }, heard("distance "), digits(ranked.distance))],
    below: [bar(ranked)],
  });
  made.append(el("span", { class: "rank", "aria-hidden": "true" }, count(place + 1)));
  return made;
}

/** As long as the distance, divided as the squares of its parts. @param {import("./api.js").Ranked} ranked */
function bar(ranked) {
  const told = `order ${digits(ranked.order_distance)}, appearance ${digits(ranked.appearance_distance)}`;
  const order = el("span", { class: "order" });
  order.style.width = `${100 * orderShare(ranked)}%`;
  const length = el("span", { class: "length" }, order, el("span", { class: "appearance" }));
  length.style.setProperty("--distance", String(ranked.distance));
  return el("div", { class: "parts", role: "img", "aria-label": told, title: told }, length);
}
