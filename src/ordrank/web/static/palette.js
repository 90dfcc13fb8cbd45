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

// Paths through OKLCH from dark magenta over blue and green to yellow, sampled at even differences (CIEDE2000). Lightness
// rises all the way, so the order is kept for colour-blind people and in print; lightness ends where the background does.
const ON_LIGHT = [
  [78, 6, 75],
  [82, 16, 132],
  [58, 56, 173],
  [17, 85, 174],
  [19, 109, 155],
  [24, 128, 151],
  [29, 148, 148],
  [34, 167, 138],
  [42, 186, 111],
  [112, 195, 69],
  [172, 197, 39],
  [221, 197, 43],
];
const ON_DARK = [
  [145, 40, 140],
  [131, 74, 193],
  [104, 105, 227],
  [62, 132, 241],
  [33, 157, 225],
  [38, 179, 211],
  [43, 199, 200],
  [47, 218, 183],
  [88, 235, 147],
  [169, 241, 108],
  [229, 241, 84],
  [254, 241, 161],
];
const GREY = [140, 135, 128];

/** @param {number} t 0 (low) to 1 (high) */
function colourAt(t) {
  const samples = matches("(prefers-color-scheme: dark)") ? ON_DARK : ON_LIGHT;
  const at = t * (samples.length - 1);
  const low = Math.min(Math.floor(at), samples.length - 2);
  return samples[low].map((value, i) => value + (at - low) * (samples[low + 1][i] - value));
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
