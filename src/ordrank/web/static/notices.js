/** Messages to the user: errors and announcements for screen readers. */

import { ApiError } from "./api.js";
import { byId, el } from "./dom.js";

/** Announce to screen readers. @param {string} text */
export function announce(text) {
  byId("status").textContent = text;
}

/** Show the message of an error; leave the rest of the page alone. @param {unknown} error */
export function showError(error) {
  if (error instanceof Error && error.name === "AbortError") return;
  if (error instanceof ApiError && error.status === 401) {
    location.reload(); // the server has another token by now and asks for it
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  const close = el("button", { type: "button", class: "link-button", onclick: clearError }, "Dismiss");
  byId("alert").replaceChildren(el("p", {}, text), close);
  if (!(error instanceof ApiError)) console.error(error);
}

export function clearError() {
  byId("alert").replaceChildren();
}

/** Run a task with the progress indicator; show its error. @param {() => Promise<unknown>} task */
export async function attempt(task) {
  const { dataset } = byId("busy");
  dataset.tasks = String(Number(dataset.tasks ?? 0) + 1);
  try {
    await task();
  } catch (error) {
    showError(error);
  } finally {
    dataset.tasks = String(Number(dataset.tasks) - 1);
  }
}
