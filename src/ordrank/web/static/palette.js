/** Colours of the grades: one sequence from low to high that also holds for the colour-blind. */

import { matches } from "./dom.js";

// Samples of the viridis map, evenly spaced; public domain (CC0).
const STOPS = [
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

/** Colour in the middle of what can be seen on this background. @param {number} place 0 (low) to 1 (high) */
function colourAt(place) {
  const dark = matches("(prefers-color-scheme: dark)");
  const [from, to] = dark ? [0.32, 1] : [0.02, 0.87];
  const at = (from + (to - from) * place) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, i) => value + (at - low) * (STOPS[low + 1][i] - value));
}

/** Places of the grades on the sequence. */
export class Palette {
  /** @param {import("./api.js").Grade[]} grades in order */
  constructor(grades) {
    this.grades = grades;
  }

  /** The index of the grade nearest to a number, -1 for none. @param {number|null} value */
  index(value) {
    if (value === null || Number.isNaN(value)) return -1;
    let best = -1;
    for (let i = 0; i < this.grades.length; i += 1) {
      const gap = Math.abs(this.grades[i].value - value);
      if (best < 0 || gap < Math.abs(this.grades[best].value - value)) best = i;
    }
    return best;
  }

  /** Red, green and blue from 0 to 1; grey for none. @param {number} index */
  rgb(index) {
    if (index < 0) return [0.55, 0.53, 0.5];
    const last = this.grades.length - 1;
    return colourAt(last > 0 ? index / last : 0.5).map((value) => value / 255);
  }

  /** For style sheets. @param {number} index */
  css(index) {
    return `rgb(${this.rgb(index)
      .map((value) => Math.round(255 * value))
      .join(" ")})`;
  }

  /** @param {string|null} grade */
  cssOf(grade) {
    return this.css(this.grades.findIndex((known) => known.grade === grade));
  }
}
