/** The navigation between the modes of the page. */

import { byId, matches } from "./dom.js";
import { isRanking } from "./state.js";

/**
 * Mark the mode of a state as the current one; rankings belong to browsing.
 * @param {import("./state.js").State} state
 */
export function markMode(state) {
  const mode = isRanking(state) ? "browse" : state.view;
  for (const link of byId("modes").querySelectorAll("a")) {
    const isCurrent = link.dataset.mode === mode;
    if (isCurrent) link.setAttribute("aria-current", isRanking(state) ? "true" : "page");
    else link.removeAttribute("aria-current");
    if (isCurrent) scrollTo(link);
  }
}

/** Scroll the bar of tabs, and not the page, to one of them. @param {HTMLElement} link */
function scrollTo(link) {
  const bar = byId("modes");
  const behavior = matches("(prefers-reduced-motion: reduce)") ? "auto" : "smooth";
  bar.scrollTo({ left: link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2, behavior });
}
