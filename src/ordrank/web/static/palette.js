/** Grades on their scale, and their colours: one sequential map from low to high that colour-blind people can read. */

import { matches } from "./dom.js";

/** From this number of grades on, labels name only some of them. */
export const MANY_GRADES = 13;

/**
 * Whether a grade lies outside an interval of grades.
 * @param {string} grade
 * @param {{lowest: string|null, highest: string|null}} interval
 * @param {import("./api.js").Grade[]} grades all grades that are words
 */
export function isOutside(grade, { lowest, highest }, grades) {
  if (lowest === null || highest === null) return false;
  const valueOf = (text) => grades.find((known) => known.grade === text)?.value ?? Number(text);
  return valueOf(grade) < valueOf(lowest) || valueOf(grade) > valueOf(highest);
}

// Evenly spaced samples of viridis; public domain (CC0).
const VIRIDIS = [
  [68, 1, 84],
  [72, 36, 117],
  [65, 68, 135],
  [53, 95, 141],
  [42, 120, 142],
  [33, 145, 140],
  [34, 168, 132],
  [68, 191, 112],
  [122, 209, 81],
  [189, 223, 38],
  [253, 231, 37],
];
const GREY = [140, 135, 128];

/** Interpolate the part of viridis with enough contrast to the background. @param {number} t 0 (low) to 1 (high) */
function colourAt(t) {
  const [from, to] = matches("(prefers-color-scheme: dark)") ? [0.32, 1] : [0.02, 0.87];
  const at = (from + (to - from) * t) * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[low].map((value, i) => value + (at - low) * (VIRIDIS[low + 1][i] - value));
}

/** Colours of the grades of a collection. */
export class Palette {
  /** @param {import("./api.js").Grade[]} grades ascending */
  constructor(grades) {
    this.grades = grades;
  }

  /** Index of the grade nearest to a value, the lower one on ties, -1 for none. @param {number|null} value */
  index(value) {
    if (value === null || Number.isNaN(value)) return -1;
    const { grades } = this;
    let [low, high] = [0, grades.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (value - grades[middle].value > grades[middle + 1].value - value) low = middle + 1;
      else high = middle;
    }
    return high;
  }

  /** Red, green and blue from 0 to 1; grey without a grade. @param {number} index */
  rgb(index) {
    const last = this.grades.length - 1;
    const colour = index < 0 ? GREY : colourAt(last > 0 ? index / last : 0.5);
    return colour.map((value) => value / 255);
  }

  /** @param {number} index */
  css(index) {
    const channels = this.rgb(index).map((value) => Math.round(255 * value));
    return `rgb(${channels.join(" ")})`;
  }

  /** @param {string|null} grade */
  cssOf(grade) {
    return this.css(this.grades.findIndex((known) => known.grade === grade));
  }
}
