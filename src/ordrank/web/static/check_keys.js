/** Keys of the list of suspect grades: one key for each decision. */

import { byId } from "./dom.js";
import { listenToKeys } from "./keys.js";
import { announce } from "./notices.js";

const OPEN = ".suspect:not(.corrected)";

/** The row with the focus. @returns {HTMLElement|null} */
const focusedRow = () => document.activeElement?.closest("#suspects > .suspect") ?? null;

/** The next open row in a direction, the first one if none has the focus. @param {1|-1} direction */
function neighbor(direction) {
  const row = focusedRow();
  const rows = [...byId("suspects").children].filter((other) => other === row || other.matches(OPEN));
  return rows[row ? rows.indexOf(row) + direction : 0] ?? null;
}

/** @param {HTMLElement|null} row */
function focusRow(row) {
  if (!row) return announce("No more grades in this direction.");
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

/** Decide on the row with the focus by one of its buttons, and go on to the next. @param {string} selector */
export function decide(selector) {
  const row = focusedRow();
  const button = row?.matches(OPEN) && row.querySelector(selector);
  if (!button) return;
  const next = neighbor(1) ?? neighbor(-1);
  button.click();
  if (next && next !== row) focusRow(next);
}

function undo() {
  const row = document.querySelector("#suspects > .corrected");
  const button = row?.querySelector(".form-status button");
  if (!button) return announce("There is nothing to undo here.");
  row.focus();
  button.click();
}

export function listenToCheckKeys() {
  listenToKeys("check", (key, { repeat, target }) => {
    if (byId("check").hidden) return false;
    const direction = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[key];
    if (direction) {
      const row = neighbor(direction);
      if (key.startsWith("Arrow") && !(row && focusedRow())) return false; // scrolls the page
      return focusRow(row);
    }
    if (document.documentElement.hasAttribute("data-read-only") || repeat) return false;
    if (key === "a") return decide(".accept");
    if (key === "Enter") return target === focusedRow() ? decide(".keep") : false;
    if (key === "c") return focusedRow()?.querySelector(".grade-form .row > :first-child").focus();
    if (key === "u" || key === "Control+z") return undo();
    return false;
  });
}
