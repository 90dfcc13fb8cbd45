/** How far the grading is: counts, rate, and the error of the estimates along the way. */

import { byId, count } from "./dom.js";
import { errorPlot } from "./error_plot.js";
import { getProgress } from "./labeling_api.js";

const RATED = 20; // last grades that make up the rate
const PAUSE = 60_000; // ms after which grading counts as interrupted
const GRADES_PER_PLOT = 10;

/** Counts what is graded on this page. */
export class GradeProgress {
  /** @param {import("./api.js").Collection} collection */
  constructor(collection) {
    this.collection = collection;
    /** @type {Set<number>} */
    this.graded = new Set();
    /** Times of the last grades. @type {number[]} */
    this.times = [];
    this.sincePlot = 0;
    this.abort = new AbortController();
  }

  /**
   * Count a change of a grade at once; the server confirms it later.
   * @param {import("./api.js").Picture} picture before
   * @param {string|null} grade
   * @param {{undone?: boolean}} [options]
   */
  count(picture, grade, { undone = false } = {}) {
    this.collection.graded += Number(grade !== null) - Number(picture.grade !== null);
    if (undone || grade === null) {
      this.graded.delete(picture.id);
      this.times.pop();
    } else {
      this.graded.add(picture.id);
      this.times = [...this.times, performance.now()].slice(-RATED);
    }
    this.sincePlot += 1;
    this.refresh();
  }

  refresh() {
    const { graded, pictures } = this.collection;
    byId("grade-progress").value = pictures ? graded / pictures : 0;
    const parts = [`${count(graded)} of ${count(pictures)} have a grade`];
    if (this.graded.size) parts.unshift(`${count(this.graded.size)} graded in this session`);
    const { rate } = this;
    if (rate) parts.push(`${count(rate)} a minute`);
    byId("grade-counts").textContent = parts.join(" · ");
  }

  /** Grades a minute, without pauses; 0 if there are too few. */
  get rate() {
    const steps = this.times.slice(1).map((time, i) => time - this.times[i]);
    const active = steps.filter((step) => step < PAUSE);
    const total = active.reduce((sum, step) => sum + step, 0);
    return active.length >= 4 && total ? Math.round((60_000 * active.length) / total) : 0;
  }

  /** Plot again after some more grades, once all of them are stored. */
  plotIfMore() {
    if (this.sincePlot >= GRADES_PER_PLOT) this.plot();
  }

  async plot() {
    this.sincePlot = 0;
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    const nothing = { running_errors: [] }; // the plot is an extra: grading goes on without it
    const { running_errors: points } = await getProgress(signal).catch(() => nothing);
    if (signal.aborted) return;
    byId("grade-plot").replaceChildren(...(points.length > 1 ? [errorPlot(points)] : []));
  }

  stop() {
    this.abort.abort();
  }
}
