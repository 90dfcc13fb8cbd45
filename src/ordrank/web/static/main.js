/** The page: its state is the URL fragment; this module connects the parts that show it. */

import { ApiError, forgetPrefetched, getCollection, prefetch } from "./api.js";
import { browse, firstPage } from "./browse.js";
import { byId, counted, matches } from "./dom.js";
import { listenToFilters } from "./filters.js";
import { Grid } from "./grid.js";
import { IncomingPictures } from "./incoming.js";
import { lazy, lazyView, loadModule } from "./lazy.js";
import { MapLoader, firstImages } from "./map_loader.js";
import { markMode } from "./modes.js";
import { announce, attempt, clearError } from "./notices.js";
import { Palette } from "./palette.js";
import { ScrollMemory } from "./scroll_memory.js";
import { listenToSearchBar } from "./search_bar.js";
import { Selection } from "./selection.js";
import { rememberedKeys, unsentOf } from "./settings.js";
import { START, current, go, isRanking, moreLike, sameList } from "./state.js";
import { TrainingBar } from "./training.js";

// Both are updated in place: lists on the screen see changed grades.
/** @type {import("./api.js").Collection} */
const collection = {};
const palette = new Palette([]);
/** The state on the screen; null: out of date. @type {import("./state.js").State|null} */
let shown = null;

const selection = new Selection({
  list: byId("pictures"),
  order: () => grid.ids,
  onChange: () => {
    markOnMap();
    attempt(async () => (await bar.get()).refresh());
  },
});
const bar = lazy(async () => {
  const { SelectionBar } = await loadModule(() => import("./selection_bar.js"));
  return new SelectionBar({
    selection,
    palette,
    settled,
    total: () => (grid.stale ? 0 : grid.end),
    all: () => grid.fetchIds(),
    onGraded: showStored,
    onRemoved: async (ids) => {
      labeling.value?.leave(ids);
      const { view, id, chosen } = current();
      if (view === "picture" && ids.includes(Number(id))) go(START, { replace: true });
      else if (ids.includes(chosen)) go({ chosen: null }, { replace: true });
      await showOther();
    },
  });
});
const map = new MapLoader({
  palette,
  onSelect: (ids) => {
    selection.add(ids);
    announce(`${counted(ids.length, "picture")} inside the line.`);
  },
  onPick: (id) => (location.hash = moreLike(id)),
  onHover: (id) => {
    for (const card of document.querySelectorAll("#list .hovered")) card.classList.remove("hovered");
    for (const card of document.querySelectorAll(`#list .card[data-id="${id}"]`)) card.classList.add("hovered");
  },
});
const grid = new Grid({
  selection,
  onHover: (id) => map.highlight(id),
  onGrow: () => {
    markOnMap();
    bar.value?.refresh();
    grid.choose(current().chosen);
  },
  onRetry: () => {
    byId("list-title").focus(); // the button goes
    attempt(reload);
  },
});
const panel = lazy(async () => {
  const { Panel } = await loadModule(() => import("./panel.js"));
  return new Panel({
    settled,
    onGraded: (picture) => {
      showInList(picture);
      attempt(() => showGraded(picture));
    },
  });
});
const places = new ScrollMemory(() => grid.listed);
const check = lazy(async () => {
  const { Check } = await loadModule(() => import("./check.js"));
  return new Check({
    grid,
    palette,
    collection,
    settled,
    onHover: (id) => map.highlight(id),
    onReport: (ids) => {
      map.mark(ids);
      check.value.choose(current().chosen);
    },
    onGraded: (picture) => {
      panel.value?.replace(picture);
      attempt(() => showGraded(picture));
    },
  });
});
const result = lazy(() => loadModule(() => import("./result.js")));
const quality = lazy(async () => {
  const { QualityView } = await loadModule(() => import("./quality_view.js"));
  return new QualityView({ palette, collection, onFailure: () => grid.offerRetry() });
});
const training = new TrainingBar(() => attempt(showOther));
const labeling = lazy(async () => {
  const { connectLabeling } = await loadModule(() => import("./labeling.js"));
  const isTraining = () => Boolean(training.running);
  const connected = connectLabeling({ palette, collection, isTraining, onStored: showStored });
  if (!collection.read_only) connected.outbox.open(collection.name);
  return connected;
});
const incoming = new IncomingPictures({
  collection,
  onAdded: async () => {
    await Promise.all([loadCollection(), map.load()]);
  },
  onListed: reload,
});

/**
 * What shows each view that is no ranking. `title`: heading that gets the focus; `refresh`: after a grade has changed.
 * @type {Record<string, {title?: string, show: (state: import("./state.js").State) => Promise<void>|void,
 *                        stop?: () => void, refresh?: () => Promise<void>|void}>}
 */
const views = {
  browse: { show: (state) => browse(grid, state, palette, collection) },
  check: lazyView("check", "list-title", check),
  grade: lazyView("grade", "grade-title", labeling, ({ grade }) => grade),
  compare: lazyView("compare", "compare-title", labeling, ({ compare }) => compare),
  graders: lazyView("graders", "graders-title", labeling, ({ graders }) => graders),
  quality: lazyView("quality", "list-title", quality),
};

/** Wait until grades of pictures that were given before are stored. @param {number[]} ids */
const settled = async (ids) => labeling.value?.settled(ids);

/** Mark the selected pictures on the map, else those of the list, unless it is the whole collection. */
function markOnMap() {
  const { view, grade, given, search, at } = current();
  const isPart = view !== "browse" || [grade, given, search, at].some((part) => part !== null);
  map.mark(selection.ids.size ? selection.ids : isPart ? grid.shown.keys() : []);
}

/** Show a changed grade in the list. @param {import("./api.js").Picture} picture */
function showInList(picture) {
  const grade = picture.grade ?? picture.estimate;
  grid.update(picture.id, current().view === "browse" ? picture : { grade, estimated: picture.grade === null });
}

/** Show grades that have been stored. @param {import("./api.js").Picture[]} pictures */
async function showStored(pictures) {
  for (const picture of pictures) {
    showInList(picture);
    panel.value?.replace(picture);
  }
  await showGraded(...pictures);
}

/** Show that the pictures are others, or have another model. */
async function showOther() {
  await loadCollection();
  panel.value?.invalidate();
  await Promise.all([reload(), map.load()]);
}

/** Show changed grades wherever they count. @param {...import("./api.js").Picture} pictures */
async function showGraded(...pictures) {
  await loadCollection();
  grid.refresh();
  map.setGrades(pictures);
  const { view, id } = current();
  await views[view]?.refresh?.();
  const isQuery = view === "picture" && pictures.some((picture) => id === String(picture.id));
  if (isQuery) await reload(); // shows the known grade
}

async function loadCollection() {
  const { name, pictures, grades, read_only } = Object.assign(collection, await getCollection());
  document.documentElement.toggleAttribute("data-read-only", read_only);
  palette.grades = grades;
  byId("name").textContent = name;
  byId("summary").textContent = pictures
    ? "Choose or drop a picture to see its grade, or start from any picture below."
    : "There are no pictures yet.";
  training.show(collection);
}

/**
 * Show the state of the URL.
 * @param {{navigated?: boolean, place?: import("./scroll_memory.js").Place|null}} [options] navigated: by the user, move
 *   scroll position and focus; place: where the page was here before
 */
async function show({ navigated = false, place = null } = {}) {
  const state = current();
  const isFirst = shown === null;
  const sameView = !isFirst && sameList(shown, state);
  shown = state;
  document.documentElement.dataset.view = isRanking(state) ? "result" : state.view;
  markMode(state);
  if (!sameView) {
    if (navigated) {
      incoming.abort();
      if (!place) window.scrollTo({ top: 0 });
    }
    clearError();
    grid.least = place?.listed ?? 0;
    places.paused = true; // a list that is not there yet
    await list(state, { navigated }).finally(() => (places.paused = false));
    if (shown === state && place) window.scrollTo({ top: place.top });
  }
  places.save();
  if (shown !== state) return;
  grid.choose(state.chosen);
  check.value?.choose(state.chosen);
  if (state.chosen === null) {
    panel.value?.close(); // before the focus moves: a modal panel holds it
    if (navigated && !sameView && isRanking(state)) byId("result-title").focus({ preventScroll: true });
  } else {
    const ranked = isRanking(state) ? (grid.shown.get(state.chosen)?.item ?? null) : null;
    await (await panel.get()).show(state.chosen, ranked, { collection, focus: !isFirst });
  }
}

/** Show the state again, at the same place. */
function reload() {
  shown = null;
  return show({ place: { top: scrollY, listed: grid.listed } });
}

/** Show a view, and stop the others. @param {import("./state.js").State} state @param {{navigated: boolean}} options */
async function list(state, { navigated }) {
  for (const [name, view] of Object.entries(views)) if (name !== state.view) view.stop?.();
  document.documentElement.removeAttribute("data-missing");
  if (isRanking(state)) return rank(state);
  map.showQuery(null);
  const view = views[state.view] ?? views.browse;
  if (state.view !== "browse") grid.stop();
  const loading = view.show(state);
  if (navigated && view.title) byId(view.title).focus({ preventScroll: true }); // at once: it may take seconds
  return loading;
}

/** @param {import("./state.js").State} state */
async function rank(state) {
  const { showMissing, showResult } = await result.get();
  if (shown !== state) return;
  const file = incoming.fileOf(state);
  const onAdd = file && !collection.read_only ? () => attempt(() => incoming.addQuery(file)) : undefined;
  try {
    await showResult(grid, state, { palette, collection, onAdd, onResult: (result) => map.showQuery(result) });
  } catch (error) {
    const isMissing = error.status === 404 || (error.status === 400 && !canBeId(state));
    if (!(error instanceof ApiError) || !isMissing) throw error;
    if (file) await incoming.search(file, { replace: true });
    else showMissing(state);
  }
}

/** Whether there may be a picture of the id, or the query, in a state. @param {import("./state.js").State} state */
const canBeId = ({ view, id }) => view === "query" || (/^\d+$/.test(id) && Number(id) < 2 ** 31);

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
  listenToSearchBar();
  byId("add").addEventListener("click", () => attempt(() => incoming.add()));
  byId("select-mode").addEventListener("click", () => selection.setMode(!selection.isActive));
  const section = byId("map-section");
  section.open = matches("(min-width: 40rem)");
  const place = places.arrive();
  if (current().view === "browse" && !place) prefetch(firstPage(current()));
  await loadCollection();
  const isUnsent = !collection.read_only && rememberedKeys(unsentOf(collection.name)).length > 0;
  if (isUnsent) attempt(() => labeling.get()); // sends it, whatever becomes of the rest of the page
  section.addEventListener("toggle", () => {
    if (map.stale) attempt(() => map.load());
  });
  window.addEventListener("hashchange", () => attempt(() => show({ navigated: true, place: places.arrive() })));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => attempt(reload));
  await attempt(() => show({ place })); // what fails here can be tried again, and the rest of the page works
  forgetPrefetched();
  await firstImages();
  await attempt(() => map.load());
  await Promise.all([labeling.get(), panel.get(), bar.get(), result.get()]);
  if (!collection.read_only) await training.resume();
}

attempt(start);
