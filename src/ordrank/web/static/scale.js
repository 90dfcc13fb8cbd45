/** The grades that a picture can get: those of the collection, and those that the user has announced for it. */

import { byId, el } from "./dom.js";
import { areNumbers } from "./keys.js";
import { remember, remembered } from "./settings.js";

/** With more numbers than this, grades are typed. */
export const MOST_BUTTONS = 10;
/** Up to this number of grades, a new one between them may be a mistake. */
const FEW_GRADES = 12;
const PRESETS = [
  [1, 5],
  [0, 4],
  [1, 10],
  [0, 9],
];
const LARGEST_SCALE = 200;

/** @param {number} lowest @param {number} highest */
const range = (lowest, highest) => Array.from({ length: highest - lowest + 1 }, (_, i) => String(lowest + i));

/**
 * The grades of a collection; with numbers also those announced for it.
 * @param {import("./api.js").Collection} collection
 * @returns {string[]} ascending, empty if nothing is known
 */
export function gradesOf({ name, grades }) {
  const known = grades.map(({ grade }) => grade);
  if (!areNumbers(known)) return known;
  const values = new Set(known.map(Number));
  const announced = remembered(`scale ${name}`, []).filter((grade) => !values.has(Number(grade)));
  return [...known, ...announced].sort((a, b) => Number(a) - Number(b));
}

/**
 * Why a typed grade may be a mistake; empty if it is on the scale. The server judges by the same rules.
 * @param {string} text
 * @param {string[]} grades ascending
 */
export function doubtAbout(text, grades) {
  const value = Number(text);
  if (!grades.length || !areNumbers(grades)) return "";
  const isOutside = value < Number(grades[0]) || value > Number(grades.at(-1));
  const isBetween = grades.length <= FEW_GRADES && !grades.some((grade) => Number(grade) === value);
  if (!isOutside && !isBetween) return "";
  return `no picture has the grade ${text} yet: the grades go from ${grades[0]} to ${grades.at(-1)}`;
}

/**
 * Ask for the scale of a collection without grades.
 * @param {string} name of the collection
 * @param {() => void} onChosen
 */
export function askForScale(name, onChosen) {
  const choose = ([lowest, highest]) => {
    remember(`scale ${name}`, range(lowest, highest));
    onChosen();
  };
  const presets = PRESETS.map((ends) => {
    const number = el("span", { class: "muted" }, `${ends[1] - ends[0] + 1} grades`);
    return el("button", { type: "button", onclick: () => choose(ends) }, ends.join(" – "), number);
  });
  byId("scale-presets").replaceChildren(...presets);
  byId("scale-form").onsubmit = (event) => {
    event.preventDefault();
    const [lowest, highest] = ["scale-lowest", "scale-highest"].map((id) => Math.round(Number(byId(id).value)));
    const isScale = lowest < highest && highest - lowest < LARGEST_SCALE;
    byId("scale-error").hidden = isScale;
    if (isScale) choose([lowest, highest]);
  };
}
