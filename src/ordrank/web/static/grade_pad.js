/** The buttons of the grades, or a field for a number if there are many. */

import { byId, dot, el, isolated } from "./dom.js";
import { areNumbers, keyHint, keysOfGrades } from "./keys.js";
import { Palette } from "./palette.js";
import { MOST_BUTTONS } from "./scale.js";

const NUMBER = "\\s*[\\-+]?[0-9]*\\.?[0-9]+([eE][\\-+]?[0-9]+)?\\s*";

/** Takes a grade by mouse or key. */
export class GradePad {
  /** @param {(grade: string) => void} onGrade */
  constructor(onGrade) {
    this.onGrade = onGrade;
    this.buttons = byId("grade-buttons");
    this.form = byId("grade-other");
    this.field = byId("grade-number");
    this.field.pattern = NUMBER;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.field.value.trim();
      this.clear();
      if (text) onGrade(text);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.clear();
    });
  }

  /** @param {string[]} grades ascending */
  fill(grades) {
    const palette = new Palette(grades.map((grade, value) => ({ grade, value, pictures: 0 })));
    const numbers = areNumbers(grades);
    this.typed = numbers && grades.length > MOST_BUTTONS;
    this.grades = this.typed ? [] : grades;
    this.keys = (this.typed ? null : keysOfGrades(grades)) ?? [];
    this.form.hidden = !numbers;
    this.form.classList.toggle("only-field", this.typed);
    byId("grade-number-label").textContent = this.typed ? "Grade" : "Another grade";
    byId("grade-number-key").textContent = this.typed ? "digits, Enter" : "O";
    this.field.title = this.typed ? `a number, from ${grades[0]} to ${grades.at(-1)} so far` : "a number";
    this.buttons.hidden = this.typed;
    this.buttons.classList.toggle("words", !numbers);
    const buttons = this.grades.map((grade, i) => {
      const key = this.keys[i];
      const state = { "data-grade": grade, "aria-pressed": "false", "aria-keyshortcuts": key };
      const hint = key ? keyHint(key.toUpperCase()) : "";
      // The second click of a double click would grade the next picture.
      const onclick = ({ detail }) => detail <= 1 && this.onGrade(grade);
      return el("button", { type: "button", ...state, onclick }, dot(palette.cssOf(grade)), isolated(grade), hint);
    });
    const content = JSON.stringify([grades, buttons.map((button) => button.firstChild.style.background)]);
    if (content !== this.content) this.buttons.replaceChildren(...buttons); // else one keeps the focus
    this.content = content;
  }

  /** Mark the grade of the picture on the screen. @param {string|null} grade */
  mark(grade) {
    for (const button of this.buttons.children) {
      button.setAttribute("aria-pressed", String(grade !== null && button.dataset.grade === grade));
    }
  }

  /** @param {string} key @returns {boolean} whether it begins or gives a grade */
  press(key) {
    const i = this.keys.indexOf(key);
    if (i >= 0) {
      this.onGrade(this.grades[i]);
      return true;
    }
    if (!this.typed || !/^[0-9.+-]$/.test(key)) return false;
    this.field.value = key;
    this.field.focus();
    return true;
  }

  /** Let the user type a grade that has no button. */
  other() {
    if (!this.form.hidden) this.field.focus();
  }

  /** Leave the field, so that keys are those of the mode again. */
  clear() {
    this.field.value = "";
    if (document.activeElement === this.field) byId("grade-title").focus({ preventScroll: true });
  }
}
