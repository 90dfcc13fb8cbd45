/** The bar at the bottom with what can be done with the selected pictures. */

import { ApiError, Decision } from "./api.js";
import { ask, askToKeep } from "./dialog.js";
import { byId, count, counted, el } from "./dom.js";
import { loadModule } from "./lazy.js";
import { postUndo } from "./labeling_api.js";
import { MAX_PICTURES, postExport, postGrades, postRemoval } from "./library_api.js";
import { announce, attempt, clearError } from "./notices.js";
import { grader } from "./settings.js";

const MAX_COMPARED = 4;

/** Shown while pictures are selected. */
export class SelectionBar {
  /**
   * @param {object} options
   * @param {import("./selection.js").Selection} options.selection
   * @param {import("./palette.js").Palette} options.palette
   * @param {() => number} options.total number of pictures that the list has, also those that are not loaded
   * @param {() => Promise<number[]>} options.all their ids
   * @param {(ids: number[]) => Promise<void>} options.settled wait until earlier changes of pictures are stored
   * @param {(pictures: import("./api.js").Picture[]) => Promise<void>} options.onGraded
   * @param {(ids: number[]) => Promise<void>} options.onRemoved
   */
  constructor(options) {
    Object.assign(this, options);
    this.decision = new Decision();
    const button = (label, action, name = "") =>
      el("button", { type: "button", class: name, onclick: () => attempt(action) }, label);
    this.text = el("span", { class: "selected-count" });
    this.every = button("", () => this.selectAll(), "link-button");
    this.field = el("div", { class: "grade-choice" });
    this.status = el("p", { class: "selection-status", role: "status" });
    this.compare = button("Side by side", () => this.showSideBySide());
    this.exports = [button("CSV", () => this.download("table")), button("Files", () => this.download("files"))];
    this.removal = button("Remove…", () => this.remove());
    this.form = el("form", { class: "grade-choice-form only-writable" }, this.field, el("button", {}, "Set grade"));
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const grade = this.field.querySelector("input, select").value.trim();
      if (grade) attempt(() => this.grade(grade));
    });
    this.removal.classList.add("only-writable");
    this.actions = el(
      "div",
      { class: "selection-actions" },
      this.form,
      this.compare,
      el("span", { class: "downloads" }, el("span", { class: "muted" }, "Download"), ...this.exports),
      this.removal,
    );
    this.clear = el("button", { type: "button", class: "selection-clear", "aria-label": "Clear the selection" }, "✕");
    this.clear.addEventListener("click", () => this.selection.clear());
    this.head = el("p", { class: "selection-head" }, this.text, this.every);
    this.box = el(
      "section",
      { id: "selection", "aria-label": "Selected pictures" },
      this.head,
      this.actions,
      this.status,
      this.clear,
    );
    this.box.hidden = true;
    document.body.append(this.box);
  }

  /** Show the bar, or hide it if nothing is selected and there is nothing to undo. */
  refresh() {
    const { size } = this.selection.ids;
    const visible = this.selection.isActive || this.status.childNodes.length > 0;
    const total = this.total();
    if (size > 0 && !this.isWorking) this.status.replaceChildren(); // about other pictures
    this.box.hidden = !visible;
    for (const part of [this.head, this.actions, this.clear]) part.hidden = !this.selection.isActive;
    document.documentElement.toggleAttribute("data-selection-bar", visible);
    byId("select-mode").setAttribute("aria-pressed", String(this.selection.isActive));
    this.text.textContent = size ? `${count(size)} selected` : "Nothing selected";
    this.every.hidden = size >= total || total > MAX_PICTURES;
    this.every.textContent = `Select all ${count(total)}`;
    this.compare.disabled = size < 2 || size > MAX_COMPARED;
    this.compare.title = this.compare.disabled ? `Select two to ${MAX_COMPARED} pictures` : "";
    const tooMany = size > MAX_PICTURES;
    for (const button of [...this.exports, this.removal, this.form.lastChild]) button.disabled = !size || tooMany;
    if (tooMany) this.status.textContent = `At most ${count(MAX_PICTURES)} pictures at a time.`;
    if (visible) this.fillGrades();
  }

  /** Offer the grades of the collection, unless they are offered already: somebody may be typing. */
  fillGrades() {
    const grades = this.palette.grades.map(({ grade }) => grade);
    const key = JSON.stringify(grades);
    if (this.offered === key) return;
    this.offered = key;
    const numeric = grades.every((grade) => Number.isFinite(Number(grade)));
    const options = grades.map((grade) => el("option", { value: grade }, numeric ? "" : grade));
    const label = { "aria-label": "Grade for the selected pictures" };
    const input = { list: "selection-grades", inputmode: "decimal", placeholder: "Grade", autocomplete: "off" };
    const [first, last] = numeric
      ? [el("input", { ...label, ...input }), el("datalist", { id: "selection-grades" }, ...options)]
      : [el("select", label, el("option", { value: "" }, "Grade"), ...options), ""];
    this.field.replaceChildren(first, last);
  }

  async selectAll() {
    this.selection.add(await this.all());
  }

  /** Give all selected pictures a grade. @param {string} grade @param {boolean} [acceptNew] it is not on the scale */
  async grade(grade, acceptNew = false) {
    clearError();
    const ids = [...this.selection.ids];
    const change = { grader: grader(), key: this.decision.keyOf([ids, grade, grader()]) };
    let pictures;
    try {
      await this.settled(ids);
      pictures = await postGrades(ids, grade, { ...change, acceptNew });
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "new_grade" || acceptNew) throw error;
      if (await askToKeep(error.message)) await this.grade(grade, true);
      return;
    }
    this.decision.close();
    await this.finish(
      `${counted(pictures.length, "picture")} graded ${grade}.`,
      () => this.onGraded(pictures),
      () => this.undo(change, pictures.length),
    );
    this.field.querySelector("input, select").value = "";
  }

  /**
   * Undo the grades of several pictures, and say of how many.
   * @param {{grader: string|null, key: string}} change
   * @param {number} size number of pictures that got a grade
   */
  async undo({ grader, key }, size) {
    clearError();
    const pictures = await postUndo(grader, key);
    await this.onGraded(pictures);
    const of = pictures.length === size ? "" : `${count(pictures.length)} of `;
    this.say(`Undone for ${of}${counted(size, "picture")}.`);
  }

  async remove() {
    const ids = [...this.selection.ids];
    const question =
      `Remove ${counted(ids.length, "picture")} from the collection, with what is known about them? ` +
      "Your own files stay where they are.";
    if (!(await ask(question, { accept: "Remove", decline: "Keep them" }))) return;
    const { removed } = await postRemoval(ids);
    await this.finish(`${counted(removed, "picture")} removed.`, () => this.onRemoved(ids));
  }

  /** Clear the selection, say what was done, and offer to undo it. */
  async finish(text, update, undo) {
    this.isWorking = true;
    try {
      await update();
      this.selection.clear();
      this.say(text, undo);
    } finally {
      this.isWorking = false;
    }
  }

  /** @param {string} text @param {() => Promise<void>} [undo] */
  say(text, undo) {
    const button = (label, onclick) => el("button", { type: "button", class: "link-button", onclick }, label);
    this.status.replaceChildren(text, " ", undo ? button("Undo", () => attempt(undo)) : "");
    this.status.append(button("Close", () => this.close()));
    this.refresh();
    this.status.querySelector("button").focus({ preventScroll: true });
  }

  close() {
    this.status.replaceChildren();
    this.refresh();
    byId("list-title").focus({ preventScroll: true });
  }

  /** @param {"table"|"files"} kind */
  async download(kind) {
    const { size } = this.selection.ids;
    announce(`Preparing ${counted(size, "picture")} to download.`);
    const href = URL.createObjectURL(await postExport(kind, [...this.selection.ids]));
    el("a", { href, download: kind === "table" ? "pictures.csv" : "pictures.zip" }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  }

  async showSideBySide() {
    const { showSideBySide } = await loadModule(() => import("./side_by_side.js"));
    await showSideBySide([...this.selection.ids], this.palette);
  }
}
