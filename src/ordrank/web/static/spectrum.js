/** The spectrum: an even sample of the listed pictures from the lowest to the highest, and a slider to go to a place. */

import { getPictures, thumbnail } from "./api.js";
import { byId, count, dot, el, isolated, matches } from "./dom.js";
import { attempt } from "./notices.js";
import { format, go, listParameters, startOf } from "./state.js";

const SAMPLE = 200; // pictures on a wide screen
const NARROW_SAMPLE = 88;
const LISTED = 48; // pictures that are marked as those of the list

/**
 * What is shown: the state without its place, and what is known of the collection, so that the same sample is not
 * loaded again. @type {string|null}
 */
let shown = null;

/** Show no spectrum. */
export function hideSpectrum() {
  shown = null;
  byId("spectrum").hidden = true;
  byId("spectrum").replaceChildren();
}

/**
 * @param {import("./state.js").State} state
 * @param {number} total number of listed pictures
 * @param {import("./palette.js").Palette} palette
 * @param {import("./api.js").Collection} collection
 */
export function showSpectrum(state, total, palette, collection) {
  const box = byId("spectrum");
  const key = JSON.stringify([total, format({ ...state, at: null, chosen: null }), collection]);
  box.hidden = !total;
  if (key === shown) return markPlace(state, total);
  shown = key;
  attempt(async () => {
    const step = Math.max(1, Math.ceil(total / (matches("(min-width: 40rem)") ? SAMPLE : NARROW_SAMPLE)));
    const parameters = { ...listParameters(state), offset: 0, limit: SAMPLE, step };
    const { items } = await getPictures(parameters).catch((error) => {
      if (shown === key) hideSpectrum(); // the next time, it is loaded again
      throw error;
    });
    if (shown !== key) return;
    box.replaceChildren(slider(items, step, total, palette), tiles(items, step, palette));
    markPlace(state, total);
  });
}

/** The sample as small pictures; for the pointer, the slider does the same for the keyboard. */
function tiles(items, step, palette) {
  let before = null;
  const children = items.map((picture, i) => {
    const { id, grade, estimate, value } = picture;
    const shownGrade = palette.grades[palette.index(value)]?.grade ?? null;
    const begins = shownGrade !== before;
    before = shownGrade;
    const mark = el("span", { class: "tile-grade" }, isolated(shownGrade ?? "none"));
    const title = `${grade === null ? `≈ ${estimate ?? "none"}` : grade} · ${picture.name}`;
    const tile = el(
      "button",
      { type: "button", class: begins ? "tile first" : "tile", tabindex: "-1", title, "data-at": i * step + 1 },
      el("img", { src: thumbnail("picture", id), alt: "", loading: "lazy", decoding: "async", width: 40, height: 40 }),
      begins ? mark : "",
    );
    tile.style.setProperty("--grade", palette.css(palette.index(value)));
    return tile;
  });
  const box = el("div", { class: "tiles", "aria-hidden": "true" }, ...children);
  box.addEventListener("click", ({ target }) => {
    const at = target.closest(".tile")?.dataset.at;
    if (at) go({ at: Number(at), chosen: null });
  });
  return box;
}

/** The slider with buttons at both ends, and what it points at. */
function slider(items, step, total, palette) {
  const input = el("input", {
    type: "range",
    id: "spectrum-at",
    min: 1,
    max: total,
    "aria-label": "Place in the spectrum",
  });
  const output = el("output", { for: "spectrum-at", id: "spectrum-place", class: "muted" });
  const show = () => {
    const at = Number(input.value);
    const { value } = items[Math.min(items.length - 1, Math.floor((at - 1) / step))];
    const grade = palette.grades[palette.index(value)]?.grade ?? "none";
    const text = `grade ${grade}, picture ${count(at)} of ${count(total)}`;
    input.setAttribute("aria-valuetext", text);
    output.replaceChildren(dot(palette.css(palette.index(value))), isolated(text));
  };
  const move = (at) => go({ at: Math.max(1, Math.min(total, at)), chosen: null }, { replace: true });
  const button = (label, text, distance) =>
    el("button", { type: "button", "aria-label": label, onclick: () => move(Number(input.value) + distance) }, text);
  input.addEventListener("input", show);
  input.addEventListener("change", () => move(Number(input.value)));
  input.addEventListener("place", show);
  const back = button("Earlier pictures", "‹", -LISTED);
  return el("div", { class: "spectrum-place" }, back, input, button("Later pictures", "›", LISTED), output);
}

/** Mark the tiles of the pictures that are listed. @param {import("./state.js").State} state @param {number} total */
function markPlace(state, total) {
  const input = byId("spectrum").querySelector("input");
  if (!input) return; // the sample is still loading
  const at = Math.min(state.at ?? 1, total);
  input.value = String(at);
  input.dispatchEvent(new Event("place"));
  const start = startOf(state) + 1;
  const all = [...byId("spectrum").querySelectorAll(".tile")];
  const last = all.findLastIndex((tile) => Number(tile.dataset.at) <= at);
  all.forEach((tile, i) => {
    const place = Number(tile.dataset.at);
    tile.classList.toggle("listed", i === last || (place >= start && place < start + LISTED));
  });
}
