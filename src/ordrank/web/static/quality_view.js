/** The quality of the estimates: error, confusions, calibration, past trainings. */

import { byId, count, counted, dot, el, isolated, percent } from "./dom.js";
import { getQuality } from "./library_api.js";
import { announce } from "./notices.js";
import { foldedTable, linePlot, roundTicks, scrollable, table } from "./plots.js";

/** @typedef {import("./library_api.js").QualityReport} QualityReport */

const MAX_STRENGTH = 90; // per cent of the colour of a cell

/** @param {number} error in grades */
const decimal = (error) => error.toFixed(Math.abs(error) < 9.995 ? 2 : 1);

/** A time without its seconds. @param {string} time such as "2026-01-30 12:34:56.789 UTC" */
const minute = (time) => time.replace(/(\d\d:\d\d):[\d.]+/, "$1");

/** @param {number} value */
const signed = (value) => `${value < -0.005 ? "−" : value > 0.005 ? "+" : ""}${decimal(Math.abs(value))}`;

/** Shows the report in the place of the list of pictures. */
export class QualityView {
  /**
   * @param {object} options
   * @param {import("./palette.js").Palette} options.palette
   * @param {import("./api.js").Collection} options.collection
   * @param {() => void} options.onFailure
   */
  constructor(options) {
    Object.assign(this, options);
    this.box = byId("quality");
    this.abort = new AbortController();
  }

  /** Load the report and show it. */
  async show() {
    this.stop();
    const { signal } = this.abort;
    document.title = `Quality: ${this.collection.name}`;
    byId("list-title").textContent = "Quality";
    byId("list-count").textContent = "";
    byId("list-note").textContent = "Measuring the estimates…";
    await this.refresh(signal);
  }

  /** Show the report again, after grades have changed. */
  async refresh(signal = this.abort.signal) {
    try {
      const report = await getQuality(signal);
      if (!signal.aborted) this.fill(report);
    } catch (error) {
      if (!signal.aborted) {
        byId("list-note").textContent = "";
        this.onFailure();
      }
      throw error;
    }
  }

  /** Show nothing, and drop a report that is under way. */
  stop() {
    this.abort.abort();
    this.abort = new AbortController();
    this.box.hidden = true;
    this.box.replaceChildren();
  }

  /** @param {QualityReport} report */
  fill(report) {
    byId("list-note").textContent = "";
    this.box.hidden = false;
    if (report.error === null) {
      this.box.replaceChildren(empty(report), ...trainings(report));
      return announce("There are no estimates of graded pictures yet.");
    }
    this.box.replaceChildren(
      overview(report),
      el(
        "div",
        { class: "panels" },
        ...this.confusions(report),
        calibration(report),
        this.byGrade(report),
        ...running(report),
        ...trainings(report),
      ),
    );
    announce(`The mean error is ${decimal(report.error)} grades. ${report.verdict ?? ""}`);
  }

  /** How often each grade is estimated as each other one. @param {QualityReport} report */
  confusions({ confusions, grades }) {
    if (!confusions?.length) return [];
    const names = this.palette.grades.map(({ grade }) => grade);
    const totals = new Map(grades.map(({ grade, pictures }) => [grade, pictures]));
    const counts = new Map(
      confusions.map(({ grade, estimate, pictures }) => [JSON.stringify([grade, estimate]), pictures]),
    );
    const row = (given) => {
      const total = totals.get(given) ?? 0;
      const cells = names.map((estimate) => {
        const number = counts.get(JSON.stringify([given, estimate])) ?? 0;
        const share = total ? number / total : 0;
        const title = `given ${given}, estimated ${estimate}: ${counted(number, "picture")}, ${percent(share)}`;
        const cell = el(
          "td",
          { class: given === estimate ? "heat same" : "heat", title },
          number ? count(number) : el("span", { class: "muted" }, "·"),
        );
        cell.style.setProperty("--strength", `${Math.round(MAX_STRENGTH * share)}%`);
        return cell;
      });
      return el("tr", {}, el("th", { scope: "row" }, this.grade(given)), ...cells);
    };
    const head = names.map((name) => el("th", { scope: "col" }, this.grade(name)));
    const body = el(
      "table",
      { class: "confusions" },
      el(
        "caption",
        { class: "visually-hidden" },
        "Number of pictures by given grade, in rows, and estimate, in columns",
      ),
      el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "corner" }, "given ↓ estimate →"), ...head)),
      el("tbody", {}, ...names.map(row)),
    );
    const text = "Rows are given grades, columns the estimates made without them. The framed cells are right.";
    return [panel("Which grades are confused", text, scrollable("Confused grades", body))];
  }

  /** @param {string} name */
  grade(name) {
    return el("span", { class: "grade" }, dot(this.palette.cssOf(name)), isolated(name));
  }

  /** Error and bias of each grade, as a table with bars. @param {QualityReport} report */
  byGrade({ grades }) {
    const highest = Math.max(...grades.map(({ error }) => error)) || 1;
    const bar = (error) => {
      const filled = el("span", { class: "error-bar" });
      filled.style.width = `${(100 * error) / highest}%`;
      return el(
        "span",
        { class: "error-cell" },
        el("span", { class: "error-track", "aria-hidden": "true" }, filled),
        decimal(error),
      );
    };
    const rows = grades.map(({ grade, pictures, error, bias, coverage }) => [
      this.grade(grade),
      count(pictures),
      bar(error),
      signed(bias),
      percent(coverage),
    ]);
    const head = ["Grade", "Pictures", "Mean error", "Bias", "In the interval"];
    const text = "Bias above zero: these pictures are estimated too high. About 90 % should lie in their interval.";
    const body = table("Error by grade", head, rows);
    return panel("Error by grade", text, scrollable("Error by grade", body), "wide-panel");
  }
}

/** @param {string} title @param {string} text @param {Node|Node[]} content @param {string} [name] */
function panel(title, text, content, name = "") {
  return el(
    "section",
    { class: `quality-panel ${name}` },
    el("h3", {}, title),
    el("p", { class: "muted" }, text),
    ...[content].flat(),
  );
}

/** The report in a few numbers. @param {QualityReport} report */
function overview({ error, error_median: median, verdict, coverage, graded, pictures, features }) {
  const fact = (name, value, remark) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value, " ", el("span", { class: "muted" }, remark)));
  const against = median === null ? "grades" : `grades; always the median grade: ${decimal(median)}`;
  return el(
    "div",
    { class: "summary" },
    el(
      "p",
      { class: "quality-verdict" },
      verdict === null ? "" : `${verdict.charAt(0).toUpperCase()}${verdict.slice(1)}.`,
    ),
    el(
      "dl",
      { class: "quality-facts" },
      fact("Mean error", decimal(error), against),
      fact("In the 90 % interval", coverage === null ? "–" : percent(coverage), "of the given grades"),
      fact("Graded", count(graded), `of ${counted(pictures, "picture")}`),
      fact("Features", el("bdi", { class: "quality-features" }, features), ""),
    ),
    el("p", { class: "muted" }, "Measured on the graded pictures, each estimated without its own grade."),
  );
}

/** @param {QualityReport} report */
function empty({ graded, pictures }) {
  const text = graded
    ? "There are no estimates of graded pictures yet: train the collection once, then come back."
    : "No picture has a grade yet. Grade some pictures and train; this page then shows how good the estimates are.";
  return el(
    "div",
    { class: "summary" },
    el("p", { class: "quality-verdict" }, "Nothing to measure yet."),
    el("p", {}, `${counted(pictures, "picture")}, ${count(graded)} with a grade. ${text}`),
    el(
      "p",
      { class: "links only-writable" },
      el("a", { class: "button primary", href: "#view=grade" }, "Grade pictures"),
    ),
  );
}

/** Whether intervals hold as many grades as they are meant to. @param {QualityReport} report */
function calibration({ calibration: levels }) {
  const title = "Are the intervals right";
  if (!levels.length) return panel(title, "There are too few graded pictures to tell.", []);
  const shown = levels.map(({ intended, share }) => ({
    x: intended,
    y: share,
    title: `${percent(intended)} meant, ${percent(share)} found`,
  }));
  const low = Math.min(0.5, Math.floor(10 * Math.min(...levels.map(({ share }) => share))) / 10);
  const description = `Share of grades in intervals, ${shown.map((point) => point.title).join("; ")}.`;
  const plot = linePlot({
    points: shown,
    xTicks: [0.5, 0.6, 0.7, 0.8, 0.9, 1],
    yTicks: roundTicks(low, 1),
    xLabel: "meant",
    yLabel: "found",
    xText: percent,
    yText: percent,
    description,
    diagonal: true,
  });
  const rows = levels.map(({ intended, share }) => [percent(intended), percent(share)]);
  const text =
    "Intervals meant to hold a share of the grades, and the share they hold. Above the dashed line they are wider than needed, below it too narrow.";
  return panel(title, text, [plot, foldedTable("Calibration of the intervals", ["Meant", "Found"], rows)]);
}

/** The error of estimates just before the grade was given. @param {QualityReport} report */
function running({ running_errors: points }) {
  if (points.length < 2) return [];
  const [first, last] = [points[0], points.at(-1)];
  const plot = linePlot({
    points: points.map(({ grades, error }) => ({
      x: grades,
      y: error,
      title: `${counted(grades, "grade")}: ${decimal(error)}`,
    })),
    xTicks: roundTicks(first.grades, last.grades, { whole: true }),
    yTicks: roundTicks(0, Math.max(...points.map(({ error }) => error)) || 1),
    xLabel: "grades given",
    yLabel: "error",
    xText: count,
    yText: decimal,
    description: `Error of the estimates before the grade was given: ${decimal(first.error)} after ${counted(first.grades, "grade")}, ${decimal(last.error)} after ${count(last.grades)}.`,
    dots: false,
  });
  const step = Math.ceil(points.length / 20);
  const rows = points
    .filter((_, i) => (points.length - 1 - i) % step === 0)
    .map(({ grades, error }) => [count(grades), decimal(error)]);
  const text = "The mean error of the last 25 estimates, just before a person gave the grade.";
  return [
    panel("Error as grades are given", text, [
      plot,
      foldedTable("Error as grades are given", ["Grades", "Error"], rows),
    ]),
  ];
}

/** Past trainings, the newest first. @param {QualityReport} report */
function trainings({ trainings: past }) {
  if (!past.length) return [];
  const errors = past.map(({ error }) => error).filter((error) => error !== null);
  const rows = past.map(({ time, pictures, graded, error, features }, i) => {
    const before = i ? past[i - 1].error : null;
    const change = error === null ? "–" : before === null ? decimal(error) : `${decimal(before)} → ${decimal(error)}`;
    return [minute(time), change, count(graded), count(pictures), isolated(features)];
  });
  const head = ["Time", "Error", "Graded", "Pictures", "Features"];
  const body = scrollable("Past trainings", table("Past trainings", head, rows.reverse()));
  const text =
    errors.length > 1
      ? `Leave-one-out error of each training: ${errors.slice(-8).map(decimal).join(" → ")}.`
      : "Leave-one-out error of each training.";
  return [panel("Trainings", text, body, "wide-panel")];
}
