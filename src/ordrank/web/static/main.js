/** The page: one state in the address, and the parts that show it. */

import { ApiError, getCollection, postQuery } from "./api.js";
import { AnswerView } from "./answer.js";
import { browse } from "./browse.js";
import { byId, count, counted, matches } from "./dom.js";
import { Grid } from "./grid.js";
import { listenForPictures } from "./intake.js";
import { announce, attempt, fail, settle } from "./notices.js";
import { Palette } from "./palette.js";
import { Panel } from "./panel.js";
import { Space } from "./space.js";
import { START, current, format, go, moreLike, sameQuestion } from "./state.js";
import { listenToSwitches } from "./switches.js";
import { TrainingBar } from "./training.js";

/** @type {import("./api.js").Collection} */
let collection;
/** @type {Palette} */
let palette;
/** @type {import("./state.js").State|null} */
let shown = null;
/** Files that were asked with, by their token: they can be sent again. @type {Map<string, File>} */
const sent = new Map();

const space = new Space({
  picked: (id) => (location.hash = moreLike(id)),
  over: (id) => {
    document.querySelector("#pictures .pointed")?.classList.remove("pointed");
    if (id !== null) grid.shown.get(id)?.element.classList.add("pointed");
  },
});
const grid = new Grid(byId("pictures"), byId("more"), byId("list-note"), {
  over: (id) => space.highlight(id),
  grown: () => {
    const asks = current().view !== "browse";
    space.mark(asks || current().grade !== null ? grid.shown.keys() : []);
    grid.choose(current().chosen);
  },
});
const answers = new AnswerView(grid, (answer) => space.ask(answer));
const panel = new Panel((picture) => {
  const grade = picture.grade ?? picture.estimate;
  grid.renew(picture.id, current().view === "browse" ? picture : { grade, estimated: picture.grade === null });
  attempt(async () => {
    await learnOfCollection();
    space.regrade(picture, palette);
    if (current().view !== "picture" || current().id !== String(picture.id)) return;
    shown = null; // the answer tells the known grade
    await show();
  });
});
const training = new TrainingBar(async () => {
  await attempt(async () => {
    await learnOfCollection();
    shown = null;
    panel.forget();
    await Promise.all([show(), space.load(palette)]);
  });
});

async function learnOfCollection() {
  collection = await getCollection();
  palette = new Palette(collection.grades);
  byId("name").textContent = collection.name;
  const [low, high] = [collection.grades.at(0)?.grade, collection.grades.at(-1)?.grade];
  const kinds =
    collection.grades.length > 1 ? `, in ${count(collection.grades.length)} grades from ${low} to ${high}` : "";
  byId("lede").textContent =
    `${counted(collection.pictures, "picture", "pictures")}${kinds}. ` +
    "Bring one of yours to see its grade and its neighbours, or start from any picture below.";
  training.show(collection);
}

/** Show what the address says. @param {{focus?: boolean}} [how] */
async function show({ focus = false } = {}) {
  const state = current();
  const asksAgain = !shown || !sameQuestion(shown, state);
  const first = shown === null;
  shown = state;
  document.documentElement.dataset.view = state.view === "browse" ? "browse" : "answer";
  if (asksAgain) {
    settle();
    if (state.view === "browse") {
      space.ask(null);
      await browse(grid, state, palette, collection);
    } else await rank(state);
    if (!first && focus && state.view !== "browse" && state.chosen === null)
      byId("answer-title").focus({ preventScroll: true });
  }
  if (shown !== state) return;
  grid.choose(state.chosen);
  if (state.chosen === null) panel.close();
  else {
    const ranked = state.view === "browse" ? null : (grid.shown.get(state.chosen)?.item ?? null);
    await panel.show(state.chosen, ranked, { collection, focus: !first });
  }
}

/** @param {import("./state.js").State} state */
async function rank(state) {
  try {
    await answers.show(state, palette);
  } catch (error) {
    const file = sent.get(String(state.id));
    if (!(error instanceof ApiError) || error.status !== 404 || state.view !== "query") throw error;
    if (!file)
      throw new ApiError(404, "The server no longer holds this picture. Bring it again: drop, paste or choose it.");
    await ask(file, true);
  }
}

/** @param {File} file @param {boolean} [again] in place of an answer the server has forgotten */
async function ask(file, again = false) {
  settle();
  announce(`Looking at ${file.name || "your picture"}.`);
  const answer = await postQuery(file);
  const id = String(answer.id);
  if (answer.kind === "query") sent.set(id, file);
  const kept = current().view === "browse" ? START : current();
  const hash = format({ ...kept, view: answer.kind, id, grade: null, given: null, chosen: null });
  if (again) go({ ...kept, view: answer.kind, id }, { replace: true });
  else location.hash = hash;
}

/** Links that lead inside the page do not change the address. */
function listenToSkips() {
  for (const skip of document.querySelectorAll("[data-skip]")) {
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      byId(/** @type {HTMLElement} */ (skip).dataset.skip ?? "").focus();
    });
  }
}

async function start() {
  listenToSkips();
  listenToSwitches();
  listenForPictures((file) => attempt(() => ask(file)));
  const view = byId("space");
  view.open = matches("(min-width: 40rem)");
  await learnOfCollection();
  view.addEventListener("toggle", () => {
    if (!space.scene) attempt(() => space.load(palette));
  });
  window.addEventListener("hashchange", () => {
    const asks = !shown || !sameQuestion(shown, current());
    if (asks) window.scrollTo({ top: 0 });
    attempt(() => show({ focus: true }));
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    shown = null;
    attempt(() => show());
  });
  await show();
  await space.load(palette);
  if (!collection.read_only) await training.join();
}

attempt(start).catch(fail);
