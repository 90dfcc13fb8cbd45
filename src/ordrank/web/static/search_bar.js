/** The tools above the list of all pictures: search by name, the order, and how the pictures are shown. */

import { byId } from "./dom.js";
import { current, go } from "./state.js";

const TYPING_PAUSE = 250; // ms after the last key
const FIELDS = "input:not([type=checkbox], [type=radio], [type=range]), select, textarea";

/** Write every change of the tools to the address; call once. */
export function listenToSearchBar() {
  const field = byId("search");
  let timer;
  const search = () => {
    clearTimeout(timer);
    const text = field.value.trim() || null;
    if (text === current().search || current().view !== "browse") return;
    go({ search: text, at: null, chosen: null }, { replace: current().search !== null }); // one entry while typing
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, TYPING_PAUSE);
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  byId("sort").addEventListener("change", ({ target }) => go({ sort: target.value || null, at: null, chosen: null }));
  byId("as-list").addEventListener("change", () => go({ sort: null, at: null, chosen: null }));
  byId("as-spectrum").addEventListener("change", () => go({ sort: "spectrum", at: null, chosen: null }));
  byId("descending").addEventListener("click", () => go({ descending: !current().descending, at: null, chosen: null }));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || current().view !== "browse") return;
    if (event.target.closest(FIELDS) || document.querySelector("dialog:modal")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
}

/** @param {import("./state.js").State} state */
export function fillSearchBar({ search, sort, descending }) {
  const field = byId("search");
  if (document.activeElement !== field) field.value = search ?? ""; // somebody may be typing
  byId("sort").value = sort === "spectrum" ? "" : (sort ?? "");
  byId("sorting").hidden = sort === "spectrum";
  byId("as-spectrum").checked = sort === "spectrum";
  byId("as-list").checked = sort !== "spectrum";
  byId("descending").setAttribute("aria-pressed", String(descending));
}
