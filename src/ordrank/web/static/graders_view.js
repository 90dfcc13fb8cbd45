/** The graders of a collection: who graded how much, how far they agree, and where they differ. */

import { thumbnail } from "./api.js";
import { byId, count, counted, dot, el, isolated } from "./dom.js";
import { getGraders } from "./labeling_api.js";
import { announce } from "./notices.js";
import { link } from "./state.js";

/** Shows the report of the graders. */
export class GradersView {
  /** @param {{collection: import("./api.js").Collection, palette: import("./palette.js").Palette}} options */
  constructor(options) {
    Object.assign(this, options);
    this.title = "graders-title";
    this.renewals = 0;
  }

  /** Load and show the report. */
  async show() {
    document.title = `Graders: ${this.collection.name}`;
    await this.refresh();
  }

  async refresh() {
    const renewal = (this.renewals += 1);
    const report = await getGraders();
    if (renewal === this.renewals) this.fill(report);
  }

  stop() {
    this.renewals += 1;
  }

  /** @param {import("./labeling_api.js").GradersReport} report */
  fill({ graders, pairs, disagreements, total_disagreements: total }) {
    byId("graders-empty").hidden = graders.length > 0;
    byId("graders-report").hidden = !graders.length;
    if (!graders.length) return announce("Nobody has graded a picture here yet.");
    byId("graders-table").replaceChildren(...graders.map(graderRow));
    const common = pairs.filter(({ pictures }) => pictures > 0);
    byId("pairs").hidden = !common.length;
    byId("pairs-table").replaceChildren(...common.map(pairRow));
    byId("no-pairs").hidden = common.length > 0;
    byId("disagreements-count").textContent = total ? count(total) : "";
    byId("no-disagreements").hidden = total > 0 || !common.length;
    byId("disagreements-head").hidden = !common.length;
    byId("disagreements").replaceChildren(...disagreements.map((one) => this.disagreement(one)));
    announce(`${counted(graders.length, "grader")}, ${counted(total, "picture")} with different grades.`);
  }

  /** @param {import("./labeling_api.js").Disagreement} found */
  disagreement({ id, name, grades, consensus }) {
    const given = grades.map(({ grader, grade }) => [
      el("dt", {}, nameOf(grader)),
      el("dd", {}, dot(this.palette.cssOf(grade)), " ", isolated(grade)),
    ]);
    const counts = { class: "counts" };
    const counting = [el("dt", counts, "counts"), el("dd", counts, isolated(consensus ?? "open"))];
    const image = el("img", { src: thumbnail("picture", id), alt: "", loading: "lazy", decoding: "async" });
    return el(
      "li",
      { class: "card disagreement", "data-id": id },
      el("a", { class: "card-link", href: link({ chosen: id }), "aria-label": `Details: ${name}` }, image),
      el("div", { class: "name", title: name }, isolated(name)),
      el("dl", {}, ...given.flat(), ...counting),
    );
  }
}

/** @param {string} grader */
const nameOf = (grader) => (grader ? isolated(grader) : el("span", { class: "muted" }, "without a name"));

/** @param {number} value */
const twoDigits = (value) => value.toFixed(2);

/** @param {number|null} value @param {(value: number) => string} [format] */
const number = (value, format = twoDigits) => el("td", { class: "number" }, value === null ? "–" : format(value));

/** A difference with its sign. @param {number} value */
const signed = (value) => `${Math.abs(value) < 5e-3 ? "" : value > 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;

/** @param {import("./labeling_api.js").GraderSummary} summary */
function graderRow({ name, graded, compared, error, bias, weight }) {
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, nameOf(name)),
    number(graded, count),
    number(compared, count),
    number(error),
    number(bias, signed),
    number(weight),
  );
}

/** @param {import("./labeling_api.js").GraderPair} pair */
function pairRow({ first, second, pictures, kappa }) {
  const share = el("span", { class: "kappa-share", "aria-hidden": "true" });
  const shown = kappa === null ? [] : [el("span", { class: "kappa-bar" }, share), agreement(kappa)];
  share.style.width = `${100 * Math.max(0, kappa ?? 0)}%`;
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, nameOf(first), " and ", nameOf(second)),
    number(pictures, count),
    el("td", { class: "number" }, kappa === null ? "–" : kappa.toFixed(2)),
    el("td", { class: "kappa" }, ...shown),
  );
}

/** Words for κ after Landis & Koch (1977). @param {number} kappa */
function agreement(kappa) {
  const words = ["slight", "fair", "moderate", "substantial", "almost perfect"];
  return kappa <= 0 ? "none" : words[Math.min(Math.floor(kappa * 5), 4)];
}
