/** What the page says: errors, news for those who listen, and the question for the token. */

import { ApiError } from "./api.js";
import { byId, el } from "./dom.js";

/** Say something to those who listen. @param {string} text */
export function announce(text) {
  byId("news").textContent = text;
}

/** Show the sentence of an error; nothing else on the page changes. @param {unknown} error */
export function fail(error) {
  if (error instanceof Error && error.name === "AbortError") return;
  if (error instanceof ApiError && error.status === 401) {
    askToken();
    return;
  }
  const text = error instanceof Error ? error.message : String(error);
  const close = el("button", { type: "button", class: "plain", onclick: settle }, "Dismiss");
  byId("alert").replaceChildren(el("p", {}, text), close);
  if (!(error instanceof ApiError)) console.error(error);
}

/** Take the last error away. */
export function settle() {
  byId("alert").replaceChildren();
}

/** Run something; say so if it fails. @param {() => Promise<unknown>} work */
export async function attempt(work) {
  const busy = byId("busy");
  busy.dataset.jobs = String(Number(busy.dataset.jobs ?? 0) + 1);
  try {
    await work();
  } catch (error) {
    fail(error);
  } finally {
    busy.dataset.jobs = String(Number(busy.dataset.jobs) - 1);
  }
}

function askToken() {
  const dialog = byId("token");
  if (dialog.open) return;
  dialog.querySelector("form").onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const url = new URL(location.href);
    url.searchParams.set("token", byId("token-value").value);
    location.replace(url); // the server answers with a cookie
  };
  dialog.showModal();
}
