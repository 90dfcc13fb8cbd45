/** Questions to the user. */

import { capitalized, el } from "./dom.js";

/**
 * Ask for a decision; Escape declines.
 * @param {string} question
 * @param {{accept: string, decline: string}} labels of the buttons
 * @returns {Promise<boolean>}
 */
export function ask(question, { accept, decline }) {
  const yes = el("button", { value: "yes", class: "primary" }, accept);
  const no = el("button", { value: "no" }, decline);
  const text = el("p", { id: "question-text" }, question);
  const form = el("form", { method: "dialog" }, text, el("p", { class: "links" }, yes, no));
  const dialog = el("dialog", { class: "question", role: "alertdialog", "aria-labelledby": "question-text" }, form);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

/**
 * Ask whether to keep a grade that is not on the scale.
 * @param {string} reason why it may be a mistake, by the server
 * @param {string} [name] of the picture, if it is not on the screen
 */
export function askToKeep(reason, name) {
  const sentence = name ? `${name}: ${reason}` : capitalized(reason);
  return ask(`${sentence}. Keep it?`, { accept: "Keep it", decline: "Discard it" });
}
