/** Keys of the modes, and the keys of grades. */

import { byId, el } from "./dom.js";

const FIELDS = "input, select, textarea, [contenteditable], dialog, canvas";
/** Of the modes that grade; a grade does not get them. */
const RESERVED = [..."usezr"];

/**
 * Call the action of a key, as long as a view is shown; never while someone types, or for keys of the browser.
 * @param {string} view name
 * @param {(key: string, event: KeyboardEvent) => boolean|void} onKey false: not a key of this view
 */
export function listenToKeys(view, onKey) {
  document.addEventListener("keydown", (event) => {
    if (document.documentElement.dataset.view !== view || event.defaultPrevented || event.isComposing) return;
    const isCommand = event.ctrlKey || event.metaKey; // on a Mac
    if (event.altKey || (isCommand && event.key !== "z")) return;
    const { target } = event;
    if (!(target instanceof Element) || target.closest(FIELDS) || document.querySelector("dialog:modal")) return;
    const onControl = target.closest("a, button, summary") && (event.key === "Enter" || event.key === " ");
    if (onControl) return; // which it activates
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (onKey(isCommand ? "Control+z" : key, event) !== false) event.preventDefault();
  });
}

/**
 * Let a clicked button give the focus to a heading, so that the space bar is a key of the view and not of the button.
 * @param {HTMLElement} box
 * @param {HTMLElement} heading
 */
export function releaseButtons(box, heading) {
  box.addEventListener("click", ({ detail, target }) => {
    const byPointer = detail > 0 && target instanceof Element && target.closest("button");
    if (byPointer && byPointer === document.activeElement) heading.focus({ preventScroll: true });
  });
}

/** Whether all grades are numbers. @param {string[]} grades */
export const areNumbers = (grades) => grades.every((grade) => grade.trim() !== "" && Number.isFinite(Number(grade)));

/**
 * The key of each grade, a digit for itself; null if there are too many, and for words whose letters are taken.
 * @param {string[]} grades ascending
 * @returns {(string|null)[]|null}
 */
export function keysOfGrades(grades) {
  if (areNumbers(grades)) {
    const free = [..."1234567890"].filter((digit) => !grades.includes(digit));
    return grades.length <= 10 ? grades.map((grade) => (/^[0-9]$/.test(grade) ? grade : free.shift())) : null;
  }
  const taken = new Set(RESERVED);
  const found = grades.map((grade) => {
    const key = [...grade.toLowerCase()].find((letter) => /[\p{L}\p{N}]/u.test(letter) && !taken.has(letter)) ?? null;
    if (key !== null) taken.add(key);
    return key;
  });
  for (const [i, key] of found.entries()) {
    if (key !== null) continue;
    found[i] = [..."1234567890"].find((digit) => !taken.has(digit)) ?? null;
    if (found[i] !== null) taken.add(found[i]);
  }
  return found;
}

/** A key as it is printed beside what it does. @param {string} key */
export const keyHint = (key) => el("kbd", { "aria-hidden": "true" }, key);

/**
 * Show the keys of a mode in a dialog.
 * @param {[string[], string][]} keys and what they do
 */
export function showKeys(keys) {
  const dialog = byId("keys");
  const rows = keys.flatMap(([names, meaning]) => [
    el("dt", {}, ...names.flatMap((name, i) => [i ? " " : "", el("kbd", {}, name)])),
    el("dd", {}, meaning),
  ]);
  dialog.querySelector("dl").replaceChildren(...rows);
  dialog.showModal();
}
