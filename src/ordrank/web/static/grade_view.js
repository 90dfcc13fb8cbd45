/** The mode in which pictures are graded one after another, by key or mouse. */

import { ApiError, getPicture } from "./api.js";
import { ask, askToKeep } from "./dialog.js";
import { byId, counted, el, isolated } from "./dom.js";
import { GradePad } from "./grade_pad.js";
import { GradeProgress } from "./grade_progress.js";
import { GradeQueue, ORDERS, reasonOf } from "./grade_queue.js";
import { listenToKeys, releaseButtons, showKeys } from "./keys.js";
import { postUndo } from "./labeling_api.js";
import { announce, attempt, clearError } from "./notices.js";
import { askForScale, doubtAbout, gradesOf } from "./scale.js";
import { grader, remember, remembered } from "./settings.js";
import { Stage } from "./stage.js";

const PRELOADED = 8;
const KEYS = [
  [["0", "…", "9"], "give the grade that is printed on the button; words by a letter"],
  [["O"], "another grade: a number, then Enter"],
  [["→", "S", "Space"], "skip to the next picture"],
  [["←"], "back to the picture before"],
  [["U", "Ctrl+Z"], "undo the last change"],
  [["R"], "remove the grade"],
  [["E"], "show or hide the estimate of the model"],
  [["Z"], "full size; arrow keys then move the picture, Z returns"],
  [["?"], "these keys"],
];

/** @typedef {import("./api.js").Picture} Picture */

/** Shows pictures and takes their grades. */
export class GradeView {
  /**
   * @param {object} options
   * @param {import("./palette.js").Palette} options.palette
   * @param {import("./api.js").Collection} options.collection
   * @param {import("./outbox.js").Outbox} options.outbox
   * @param {(pictures: Picture[]) => void} options.onUndone called when a change of an earlier page was undone
   * @param {(picture: Picture) => void} options.onMissing called when the collection does not have a picture any more
   */
  constructor({ palette, collection, outbox, onUndone, onMissing }) {
    Object.assign(this, { palette, collection, outbox, onUndone, onMissing });
    this.title = "grade-title";
    const showZoom = (zoomed) => byId("grade-zoom").setAttribute("aria-pressed", String(zoomed));
    this.stage = new Stage(byId("grade-stage"), { onZoom: showZoom, onGone: onMissing });
    this.pad = new GradePad((grade) => attempt(() => this.give(grade)));
    this.progress = new GradeProgress(collection);
    /** Changes of this page. @type {{key: string, item: import("./grade_queue.js").Item, change: any}[]} */
    this.history = [];
    /** The way to the next picture, while it is loaded; another object for each. @type {object|null} */
    this.moving = null;
    /** Whether the next picture could not be loaded. */
    this.stalled = false;
    this.queue = new GradeQueue(remembered("order", "suggested"));
    this.listen();
  }

  /** Show the next picture; after a training, in the order of the new model. */
  async show() {
    const { collection } = this;
    document.title = `Grade: ${collection.name}`;
    const grades = gradesOf(collection);
    if (collection.read_only) return;
    byId("grade-scale").hidden = grades.length > 0;
    byId("grade-work").hidden = !grades.length;
    if (!grades.length) return askForScale(collection.name, () => attempt(() => this.show()));
    this.active = true;
    byId("grade-grader").value = grader() ?? "";
    byId("grade-order").value = this.queue.order;
    this.refresh();
    this.progress.plot();
    this.queue.renew();
    const { isLoading } = this;
    this.stay(); // what is on its way has the former order
    if (isLoading || !this.queue.current) return this.forward();
    this.render();
    const shown = this.queue.current.picture;
    try {
      const picture = await getPicture(shown.id); // its estimate may be another
      if (!this.outbox.concerns(picture.id)) this.replace(picture);
    } catch (error) {
      if (error.status !== 404) throw error;
      this.onMissing(shown);
    }
  }

  stop() {
    this.active = false;
    this.stage.clear();
    this.progress.stop();
  }

  /** Show the grades of the collection, which may have changed. */
  refresh() {
    if (!this.active) return;
    this.pad.fill(gradesOf(this.collection));
    this.pad.mark(this.queue.current?.picture.grade ?? null);
    this.progress.refresh();
  }

  /** @param {Picture} picture as the server has it now */
  replace(picture) {
    this.queue.replace(picture);
    if (this.active && this.queue.current?.picture.id === picture.id) this.describe();
  }

  async forward() {
    if (this.moving) return;
    const { queue } = this;
    const move = (this.moving = {});
    this.stalled = false;
    if (!queue.current && this.active) this.render(); // says that it loads
    try {
      await queue.load().catch((error) => this.fallBack(error, move));
    } catch (error) {
      if (this.moving !== move) return;
      this.moving = null;
      this.stalled = true;
      if (this.active) this.describe();
      throw error;
    }
    if (this.moving !== move) return; // the user went elsewhere, or chose another order
    this.moving = null;
    queue.step();
    if (this.active) this.render();
  }

  /** Do not go to the next picture when it is loaded. */
  stay() {
    this.moving = null;
    this.stalled = false;
  }

  /** Without suggestions, pictures come by name. @param {Error} error @param {object} move that needs one of them */
  async fallBack(error, move) {
    const isMissing = error instanceof ApiError && [404, 409].includes(error.status);
    if (this.moving !== move || this.queue.order !== "suggested" || !isMissing) throw error;
    this.queue.order = byId("grade-order").value = "ungraded";
    await this.queue.load();
  }

  /** Show the present picture. */
  render() {
    const item = this.queue.current;
    byId("grade-done").hidden = item !== null || this.isLoading;
    for (const id of ["grade-zoom", "grade-skip", "grade-estimate-toggle"]) byId(id).hidden = item === null;
    byId("grade-buttons").inert = byId("grade-other").inert = item === null;
    if (item) {
      this.stage.show(item.picture);
      this.stage.preload(this.queue.upcoming(PRELOADED));
    } else this.stage.clear();
    this.estimateShown = remembered("estimates shown", false);
    this.describe();
  }

  /** Whether it is not known yet if there is another picture. */
  get isLoading() {
    return this.moving !== null || this.stalled;
  }

  /** Describe the present picture in words. */
  describe() {
    const { picture } = this.queue.current ?? { picture: null };
    const otherwise = this.stalled ? "No picture could be loaded" : this.moving ? "Loading…" : "All done";
    byId("grade-title").replaceChildren(picture ? isolated(picture.name) : otherwise);
    this.pad.mark(picture?.grade ?? null);
    const other = picture?.grade && !this.pad.grades.includes(picture.grade);
    byId("grade-number").placeholder = other ? picture.grade : "";
    byId("grade-remove").ariaDisabled = picture?.grade ? null : "true";
    this.showEstimate();
  }

  showEstimate() {
    const { picture } = this.queue.current ?? {};
    const shown = this.estimateShown && picture;
    const toggle = byId("grade-estimate-toggle");
    toggle.setAttribute("aria-pressed", String(Boolean(this.estimateShown)));
    const { estimate, lowest, highest } = picture ?? {};
    const interval = lowest === highest ? "" : ` (${lowest}–${highest})`;
    const text = estimate === null ? "No estimate yet" : `≈ ${estimate}${interval}`;
    byId("grade-estimate").replaceChildren(shown ? el("bdi", {}, text) : "");
    byId("grade-reason").textContent = this.queue.current ? reasonOf(this.queue.current, shown) : "";
  }

  /** Give the present picture a grade, and go on. @param {string|null} grade null removes it */
  async give(grade) {
    const { current } = this.queue;
    if (!current || this.asking || this.moving) return;
    let acceptNew = false;
    if (grade !== null) {
      const doubt = doubtAbout(grade, gradesOf(this.collection));
      if (doubt) {
        this.asking = true;
        acceptNew = await askToKeep(doubt);
        this.asking = false;
        if (!acceptNew) return;
      }
    }
    const { picture } = current;
    const isOnScale = this.collection.grades.some((known) => known.grade === grade);
    acceptNew ||= grade !== null && !isOnScale && gradesOf(this.collection).includes(grade); // was announced
    const change = { kind: "grade", picture: picture.id, name: picture.name, grade, grader: grader(), acceptNew };
    this.history.push({ key: this.outbox.put(change), item: { ...current }, change });
    this.queue.replace({ ...picture, grade });
    this.progress.count(picture, grade);
    if (grade === null) this.describe();
    else await this.forward();
    const { picture: next } = this.queue.current ?? {};
    announce(`${grade === null ? "Grade removed" : `Grade ${grade}`}. ${next ? next.name : "No more pictures"}.`);
  }

  /** Undo the last change, also one of an earlier page, and show its picture. */
  async undo() {
    const last = this.history.pop();
    if (!last) return attempt(() => this.undoEarlier());
    const { key, item, change } = last;
    const { picture } = item;
    this.outbox.put({ ...change, kind: "undo", undoes: key });
    this.stay();
    this.progress.count({ ...picture, grade: change.grade }, picture.grade, { undone: true });
    this.queue.visit(item);
    this.queue.replace(picture);
    this.render();
    announce(`Undone: ${picture.name} has ${picture.grade === null ? "no grade" : `the grade ${picture.grade}`}.`);
  }

  /** Undo a change that was not made on this page, if that is meant. */
  async undoEarlier() {
    const who = grader() ?? "anybody without a name";
    const question = `Nothing was graded since this page was opened. Undo the last change by ${who} all the same?`;
    const isMeant = !this.outbox.waiting && (await ask(question, { accept: "Undo it", decline: "Leave it" }));
    if (!isMeant) return announce("Nothing was undone.");
    const pictures = await postUndo(grader(), null);
    if (!pictures.length) return announce("There is nothing to undo.");
    const [picture] = pictures; // of several that were graded together
    this.stay();
    this.queue.visit({ picture, explanation: "" });
    for (const one of pictures) this.queue.replace(one);
    this.render();
    announce(`Undone: ${pictures.length === 1 ? picture.name : counted(pictures.length, "picture")}.`);
    this.onUndone(pictures);
  }

  /** Go on without a picture that the collection does not have any more. @param {number} id */
  leave(id) {
    const isShown = this.queue.current?.picture.id === id;
    this.history = this.history.filter(({ item }) => item.picture.id !== id);
    this.queue.remove(id);
    if (!isShown) return;
    this.stay();
    if (this.active) attempt(() => this.forward());
  }

  /** Show again a picture whose change was not stored. @param {import("./outbox.js").Change} change */
  discard({ key: discarded }) {
    const found = this.history.findIndex(({ key }) => key === discarded);
    if (found < 0) return; // undone, or of another page
    const [{ item, change }] = this.history.splice(found, 1);
    const { picture } = item;
    this.progress.count({ ...picture, grade: change.grade }, picture.grade, { undone: true });
    this.stay();
    this.queue.visit(item);
    this.queue.replace(picture);
    if (this.active) this.render();
  }

  /** Show what has changed with the last grades, all of which are stored. */
  settle() {
    this.refresh();
    if (!this.active) return;
    this.progress.plotIfMore();
    if (!this.stalled) return;
    clearError(); // the server is back
    attempt(() => this.forward());
  }

  back() {
    if (!this.queue.back()) return;
    this.stay();
    this.render();
  }

  toggleEstimate() {
    this.estimateShown = !this.estimateShown;
    remember("estimates shown", this.estimateShown);
    this.showEstimate();
  }

  /** Begin with the first picture of an order. @param {keyof typeof ORDERS} order */
  restart(order) {
    this.queue = new GradeQueue(order);
    this.stay();
    return this.forward();
  }

  listen() {
    const { stage, pad } = this;
    const next = () => attempt(() => this.forward());
    const undo = () => this.undo();
    const buttons = {
      "grade-previous": () => this.back(),
      "grade-skip": next,
      "grade-undo": undo,
      "grade-remove": () => this.remove(),
      "grade-estimate-toggle": () => this.toggleEstimate(),
      "grade-zoom": () => stage.zoom(),
      "grade-keys": () => showKeys(KEYS),
      "grade-restart": () => attempt(() => this.restart(this.queue.order)),
    };
    for (const [id, action] of Object.entries(buttons)) byId(id).addEventListener("click", action);
    releaseButtons(byId("grade-work"), byId("grade-title"));
    const order = byId("grade-order");
    order.replaceChildren(...Object.entries(ORDERS).map(([value, { label }]) => el("option", { value }, label)));
    order.addEventListener("change", () => {
      remember("order", order.value);
      attempt(() => this.restart(order.value));
    });
    byId("grade-grader").addEventListener("input", ({ target }) => remember("grader", target.value));
    const held = { ArrowLeft: () => this.back(), ArrowRight: next }; // repeated while the key is down
    const once = {
      s: next,
      " ": next,
      u: undo,
      "Control+z": undo,
      r: () => this.remove(),
      e: () => this.toggleEstimate(),
      z: () => stage.zoom(),
      o: () => pad.press("o") || pad.other(),
      "?": () => showKeys(KEYS),
    };
    listenToKeys("grade", (key, { repeat }) => {
      if (!this.active || byId("grade-work").hidden) return false;
      if (key.startsWith("Arrow") && stage.zoomed) return false; // moves the picture
      if (held[key]) return held[key]();
      if (repeat) return;
      if (once[key]) return once[key]();
      return pad.press(key);
    });
  }

  remove() {
    if (this.queue.current?.picture.grade) return attempt(() => this.give(null));
  }
}
