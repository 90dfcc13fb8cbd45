/** The page: its state is the URL fragment; this module connects the parts that show it. */

import { ApiError, getCollection, postQuery } from "./api.js";
import { browse } from "./browse.js";
import { Check } from "./check.js";
import { byId, count, counted, matches } from "./dom.js";
import { listenToFilters } from "./filters.js";
import { Grid } from "./grid.js";
import { PictureMap } from "./map.js";
import { announce, attempt, clearError } from "./notices.js";
import { Palette } from "./palette.js";
import { Panel } from "./panel.js";
import { showResult } from "./result.js";
import { START, current, go, moreLike, sameList } from "./state.js";
import { TrainingBar } from "./training.js";
import { listenForUploads } from "./upload.js";

// Both are updated in place: lists on the screen see changed grades.
/** @type {import("./api.js").Collection} */
const collection = {};
const palette = new Palette([]);
/** The state on the screen; null: out of date. @type {import("./state.js").State|null} */
let shown = null;
/** Uploaded files by query id, to send again when the server has dropped one. @type {Map<string, File>} */
const uploads = new Map();
/** Of the upload that is under way. */
let uploading = new AbortController();

const map = new PictureMap({
  palette,
  onPick: (id) => (location.hash = moreLike(id)),
  onHover: (id) => {
    for (const card of document.querySelectorAll("#list .hovered")) card.classList.remove("hovered");
    for (const card of document.querySelectorAll(`#list .card[data-id="${id}"]`)) card.classList.add("hovered");
  },
});
const grid = new Grid({
  onHover: (id) => map.highlight(id),
  onGrow: () => {
    const { view, grade, chosen } = current();
    map.mark(view !== "browse" || grade !== null ? grid.shown.keys() : []);
    grid.choose(chosen);
  },
  onRetry: () => {
    byId("list-title").focus(); // the button goes
    attempt(reload);
  },
});
const panel = new Panel((picture) => {
  const grade = picture.grade ?? picture.estimate;
  grid.update(picture.id, current().view === "browse" ? picture : { grade, estimated: picture.grade === null });
  attempt(() => showGraded(picture));
});
const check = new Check({
  grid,
  palette,
  collection,
  onHover: (id) => map.highlight(id),
  onReport: (ids) => {
    map.mark(ids);
    check.choose(current().chosen);
  },
  onGraded: (picture) => {
    panel.replace(picture);
    attempt(() => showGraded(picture));
  },
});
const training = new TrainingBar(() =>
  attempt(async () => {
    await loadCollection();
    panel.invalidate();
    await Promise.all([reload(), map.load()]);
  }),
);

/** Show a changed grade wherever it counts. @param {import("./api.js").Picture} picture */
async function showGraded(picture) {
  await loadCollection();
  grid.refresh();
  map.setGrade(picture);
  const { view, id } = current();
  if (view === "check") await check.refresh();
  else if (view === "picture" && id === String(picture.id)) await reload(); // shows the known grade
}

async function loadCollection() {
  const { name, pictures, grades } = Object.assign(collection, await getCollection());
  palette.grades = grades;
  byId("name").textContent = name;
  const range = `, in ${count(grades.length)} grades from ${grades.at(0)?.grade} to ${grades.at(-1)?.grade}`;
  byId("summary").textContent =
    `${counted(pictures, "picture")}${grades.length > 1 ? range : ""}. ` +
    "Add one of yours to see its grade and the nearest pictures, or start from any picture below.";
  training.show(collection);
}

/** Show the state of the URL. @param {{navigated?: boolean}} [options] by the user: move scroll position and focus */
async function show({ navigated = false } = {}) {
  const state = current();
  const isFirst = shown === null;
  const sameView = !isFirst && sameList(shown, state);
  const browsing = state.view === "browse";
  shown = state;
  document.documentElement.dataset.view = ["browse", "check"].includes(state.view) ? state.view : "result";
  if (!sameView) {
    if (navigated) {
      uploading.abort(); // the user has gone elsewhere
      window.scrollTo({ top: 0 });
    }
    clearError();
    await list(state, { navigated });
  }
  if (shown !== state) return;
  grid.choose(state.chosen);
  check.choose(state.chosen);
  if (state.chosen === null) {
    panel.close(); // before the focus moves: a modal panel holds it
    const moveFocus = navigated && !sameView && !browsing && state.view !== "check";
    if (moveFocus) byId("result-title").focus({ preventScroll: true });
  } else {
    const ranked = browsing ? null : (grid.shown.get(state.chosen)?.item ?? null); // the check lists none
    await panel.show(state.chosen, ranked, { collection, focus: !isFirst });
  }
}

function reload() {
  shown = null;
  return show();
}

/** Load what a state lists. @param {import("./state.js").State} state @param {{navigated: boolean}} options */
async function list(state, { navigated }) {
  if (state.view !== "check") check.stop();
  if (state.view !== "browse" && state.view !== "check") return rank(state);
  map.showQuery(null);
  if (state.view === "browse") return browse(grid, state, palette, collection);
  const loading = check.show();
  if (navigated) byId("list-title").focus({ preventScroll: true }); // at once: it may take seconds
  return loading;
}

/** @param {import("./state.js").State} state */
async function rank(state) {
  try {
    await showResult(grid, state, { palette, collection, onResult: (result) => map.showQuery(result) });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404 || state.view !== "query") throw error;
    const file = uploads.get(state.id);
    if (!file)
      throw new ApiError(404, "The server no longer has this picture. Upload it again: drop, paste or choose it.");
    await search(file, { replace: true });
  }
}

/** Upload a query and go to its result. @param {File} file @param {{replace?: boolean}} [options] an expired query */
async function search(file, { replace = false } = {}) {
  clearError();
  announce(`Estimating the grade of ${file.name || "your picture"}.`);
  uploading.abort(); // only the result of the last upload is shown
  uploading = new AbortController();
  const { kind, id } = await postQuery(file, uploading.signal);
  if (kind === "query") uploads.set(id, file);
  const before = current().view === "browse" ? START : current();
  const chosen = replace ? before.chosen : null;
  go({ ...before, view: kind, id: String(id), grade: null, given: null, chosen }, { replace });
}

/** Skip links move the focus and leave the URL, which is the state, alone. */
function listenToSkipLinks() {
  for (const link of document.querySelectorAll("[data-skip]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      byId(link.dataset.skip).focus();
    });
  }
}

async function start() {
  listenToSkipLinks();
  listenToFilters();
  listenForUploads((file) => attempt(() => search(file)));
  const section = byId("map-section");
  section.open = matches("(min-width: 40rem)");
  await loadCollection();
  section.addEventListener("toggle", () => {
    if (map.stale) attempt(() => map.load());
  });
  window.addEventListener("hashchange", () => attempt(() => show({ navigated: true })));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => attempt(reload));
  await show();
  await new Promise((resolve) => (window.requestIdleCallback ?? setTimeout)(resolve)); // pictures before the map
  await map.load();
  if (!collection.read_only) await training.resume();
}

attempt(start);
