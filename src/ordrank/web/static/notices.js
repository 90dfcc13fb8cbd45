/** Messages to the user: errors, announcements for screen readers, and the request for the token. */

import { ApiError } from "./api.js";
import { byId, el } from "./dom.js";

/** Announce to screen readers. @param {string} text */
export function announce(text) {
  byId("status").textContent = text;
}

/** Show the message of an error, or ask for the token; leave the rest of the page alone. @param {unknown} error */
export function showError(error) {
  if (error instanceof Error && error.name === "AbortError") return;
  if (error instanceof ApiError && error.status === 401) {
    promptForToken();
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

function promptForToken() {
  const dialog = byId("token");
  if (dialog.open) return;
  byId("token-error").hidden = !new URLSearchParams(location.search).has("token-rejected"); // by the server
  dialog.querySelector("form").onsubmit = (event) => {
    event.preventDefault();
    const token = encodeURIComponent(byId("token-value").value);
    location.replace(`?token=${token}${location.hash}`); // the server sets a cookie
  };
  dialog.showModal();
}
