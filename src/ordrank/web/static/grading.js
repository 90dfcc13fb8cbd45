/** The form that sets, corrects or removes the grade of a picture, with undo. */

import { ApiError, Decision, getPicture, putGrade } from "./api.js";
import { askToKeep } from "./dialog.js";
import { el, visuallyHidden } from "./dom.js";
import { postUndo } from "./labeling_api.js";
import { clearError, showError } from "./notices.js";
import { grader } from "./settings.js";

const NUMBER = "\\s*[\\-+]?[0-9]*\\.?[0-9]+([eE][\\-+]?[0-9]+)?\\s*";

/**
 * @param {import("./api.js").Picture} picture
 * @param {import("./api.js").Grade[]} grades ascending
 * @param {(picture: import("./api.js").Picture) => void} onSaved
 * @param {object} options
 * @param {string} [options.fieldId]
 * @param {(picture: import("./api.js").Picture) => string|null} [options.proposed] grade in the field
 * @param {(ids: number[]) => Promise<void>} options.settled wait until earlier changes of pictures are stored
 */
export function gradeForm(
  picture,
  grades,
  onSaved,
  { settled, fieldId = "grade-field", proposed = ({ grade, estimate }) => grade ?? estimate },
) {
  const numeric = grades.every(({ grade }) => Number.isFinite(Number(grade)));
  const [field, ...suggestions] = numeric ? numberField(fieldId, grades) : wordField(fieldId, grades);
  const label = el("label", { for: fieldId });
  const save = el("button", { type: "submit" }, "Save");
  const remove = el("button", { type: "button", class: "link-button" }, "Remove the grade");
  const status = el("p", { class: "form-status", role: "status" });
  const row = el("div", { class: "row" }, field, save);
  const form = el("form", { class: "grade-form" }, label, row, ...suggestions, remove, status);

  const refresh = () => {
    const task = picture.grade === null ? "Give a grade" : "Correct the grade";
    label.replaceChildren(task, visuallyHidden(` of ${picture.name}`));
    field.value = proposed(picture) ?? "";
    remove.hidden = picture.grade === null;
  };
  /** Change the picture and show it; `send` returns null if it is to stay as it is. Return whether it was changed. */
  const change = async (send) => {
    if (save.ariaDisabled) return false;
    save.ariaDisabled = "true"; // disabled, it would lose the focus
    try {
      const changed = await send();
      if (changed === null) return false; // the input stays
      picture = changed;
    } catch (error) {
      showError(error);
      return false;
    } finally {
      save.ariaDisabled = null;
    }
    clearError();
    refresh();
    onSaved(picture);
    if (status.contains(document.activeElement)) field.focus(); // the button Undo goes
    return true;
  };
  const say = (done, ...children) =>
    status.replaceChildren(`${done}: ${picture.grade === null ? "no grade" : `grade ${picture.grade}`}.`, ...children);
  const undo = async (saved) => {
    if (await change(() => undoGrade(picture.id, saved))) say("Undone");
  };
  const decision = new Decision();
  const put = async (grade) => {
    const saved = { grader: grader(), key: decision.keyOf([grade, grader()]) };
    const send = () => settled([picture.id]).then(() => putOrAsk(picture.id, grade, saved));
    if (!(await change(send))) return;
    decision.close();
    const onclick = () => undo(saved);
    say("Saved", " ", el("button", { type: "button", class: "link-button", onclick }, "Undo"));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) put(field.value.trim());
  });
  remove.addEventListener("click", () => {
    put(null);
    field.focus();
  });
  refresh();
  return form;
}

/**
 * Set a grade; ask before keeping one that is not on the scale.
 * @param {number} id
 * @param {string|null} grade
 * @param {{grader: string|null, key: string}} options
 * @returns {Promise<import("./api.js").Picture|null>} null: not to be kept
 */
async function putOrAsk(id, grade, options) {
  try {
    return await putGrade(id, grade, options);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "new_grade") throw error;
    if (!(await askToKeep(error.message))) return null;
    return putGrade(id, grade, { ...options, acceptNew: true });
  }
}

/**
 * Undo a change, and nothing that was changed since.
 * @param {number} id
 * @param {{grader: string|null, key: string}} change
 */
async function undoGrade(id, { grader, key }) {
  const [undone] = await postUndo(grader, key);
  return undone ?? getPicture(id); // was undone already
}

/** Any number, with the known grades as suggestions. @param {string} id @param {import("./api.js").Grade[]} grades */
function numberField(id, grades) {
  const text = { inputmode: "decimal", pattern: NUMBER, title: "a number", autocomplete: "off" };
  const options = grades.map(({ grade }) => el("option", { value: grade }));
  return [
    el("input", { id, list: `${id}-known`, required: true, ...text }),
    el("datalist", { id: `${id}-known` }, ...options),
  ];
}

/** One of the known grades. @param {string} id @param {import("./api.js").Grade[]} grades */
function wordField(id, grades) {
  const options = grades.map(({ grade }) => el("option", { value: grade }, grade));
  return [el("select", { id, required: true }, el("option", { value: "" }, "choose"), ...options)];
}
