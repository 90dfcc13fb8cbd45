/** A form that gives a picture another grade, takes it away, and takes that back. */

import { putGrade } from "./api.js";
import { el } from "./dom.js";
import { fail, settle } from "./notices.js";

/**
 * @param {import("./api.js").Picture} picture
 * @param {import("./api.js").Grade[]} grades in order
 * @param {(picture: import("./api.js").Picture) => void} saved
 */
export function gradeForm(picture, grades, saved) {
  let now = picture;
  const field = grades.every(({ grade }) => Number.isFinite(Number(grade))) ? numberField(grades) : wordField(grades);
  const label = el("label", { for: "regrade" });
  const save = el("button", { type: "submit" }, "Save");
  const remove = el("button", { type: "button", class: "plain" }, "Remove the grade");
  const said = el("p", { class: "said", role: "status" });
  const form = el(
    "form",
    { class: "regrade" },
    label,
    el("div", { class: "row" }, field.element, save),
    ...field.more,
    remove,
    said,
  );

  const refresh = () => {
    label.textContent = now.grade === null ? "Give a grade" : "Correct the grade";
    field.element.value = now.grade ?? now.estimate ?? "";
    remove.hidden = now.grade === null;
  };
  const put = async (/** @type {string|null} */ grade, /** @type {boolean} */ back = false) => {
    const before = now.grade;
    save.disabled = true;
    try {
      now = await putGrade(picture.id, grade);
    } catch (error) {
      fail(error); // what was typed stays
      return;
    } finally {
      save.disabled = false;
    }
    settle();
    refresh();
    const text = now.grade === null ? "Saved: no grade." : `Saved: grade ${now.grade}.`;
    const undo = el("button", { type: "button", class: "plain", onclick: () => put(before, true) }, "Undo");
    said.replaceChildren(text, " ", back || before === now.grade ? "" : undo);
    saved(now);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.element.value.trim()) put(field.element.value.trim());
  });
  remove.addEventListener("click", () => {
    put(null);
    field.element.focus();
  });
  refresh();
  return form;
}

/** Any number, the known ones offered. @param {import("./api.js").Grade[]} grades */
function numberField(grades) {
  const list = el("datalist", { id: "known-grades" }, ...grades.map(({ grade }) => el("option", { value: grade })));
  const given = { id: "regrade", inputmode: "decimal", list: "known-grades", autocomplete: "off", required: true };
  return {
    element: el("input", {
      ...given,
      pattern: "\\s*[\\-+]?[0-9]*\\.?[0-9]+([eE][\\-+]?[0-9]+)?\\s*",
      title: "a number",
    }),
    more: [list],
  };
}

/** One of the known words. @param {import("./api.js").Grade[]} grades */
function wordField(grades) {
  const options = grades.map(({ grade }) => el("option", { value: grade }, grade));
  return {
    element: el("select", { id: "regrade", required: true }, el("option", { value: "" }, "choose"), ...options),
    more: [],
  };
}
