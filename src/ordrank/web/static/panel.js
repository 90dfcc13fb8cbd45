/** The side panel with the chosen picture: next to the list on wide screens, a modal dialog on narrow ones. */

import { getPicture, thumbnail } from "./api.js";
import { distanceSection } from "./distance.js";
import { byId, el, isolated, matches } from "./dom.js";
import { gradeForm } from "./grading.js";
import { isOutside } from "./palette.js";
import { current, go, moreLike } from "./state.js";

const WIDE = "(min-width: 70rem)";
const close = () => go({ chosen: null });

/** Shows one picture at a time. */
export class Panel {
  /**
   * @param {object} options
   * @param {(picture: import("./api.js").Picture) => void} options.onGraded
   * @param {(ids: number[]) => Promise<void>} options.settled wait until earlier changes of pictures are stored
   */
  constructor({ onGraded, settled }) {
    Object.assign(this, { onGraded, settled });
    this.dialog = byId("panel");
    this.body = byId("panel-body");
    byId("panel-close").addEventListener("click", close);
    this.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close();
    });
    this.dialog.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.modal) close();
    });
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog && this.modal) close(); // a click on the backdrop
    });
    window.matchMedia(WIDE).addEventListener("change", () => this.dialog.open && this.open());
  }

  /**
   * @param {number} id
   * @param {import("./api.js").Ranked|null} ranked its entry in the ranking, if it has one
   * @param {{collection: import("./api.js").Collection, focus: boolean}} options
   */
  async show(id, ranked, { collection, focus }) {
    if (this.id === id && this.dialog.open) return;
    const picture = await getPicture(id).catch((error) => {
      if (current().chosen === id) go({ chosen: null }, { replace: true }); // it can be chosen again
      throw error;
    });
    if (current().chosen !== id) return;
    this.opener ??= document.activeElement;
    Object.assign(this, { id, ranked, collection });
    this.fill(picture);
    this.open();
    if (focus) byId("panel-title").focus();
  }

  /** @param {import("./api.js").Picture} picture */
  fill(picture) {
    const { ranked, settled } = this;
    const { grades, read_only } = this.collection;
    byId("panel-title").replaceChildren(isolated(picture.name));
    this.body.replaceChildren(
      el("img", { src: thumbnail("picture", picture.id), alt: alternativeText(picture) }),
      el("div", { class: "panel-facts" }, facts(picture, grades), actions(picture.id)),
      ranked ? distanceSection(ranked) : "",
      read_only ? "" : gradeForm(picture, grades, (changed) => this.update(changed), { settled }),
    );
  }

  /** Let the next `show` fetch the picture again. */
  invalidate() {
    this.id = undefined;
  }

  /** @param {import("./api.js").Picture} picture with a grade that was changed here */
  update(picture) {
    const { grades } = this.collection;
    const isShown = picture.id === this.id; // another may be shown now
    if (isShown) this.body.querySelector(".facts").replaceWith(facts(picture, grades));
    this.onGraded(picture);
  }

  /** @param {import("./api.js").Picture} picture with a grade that was changed elsewhere */
  replace(picture) {
    if (picture.id === this.id && this.dialog.open) this.fill(picture);
  }

  open() {
    if (this.dialog.open) this.dialog.close();
    this.modal = !matches(WIDE);
    if (this.modal) this.dialog.showModal();
    else this.dialog.show();
    document.documentElement.dataset.panel = "open";
  }

  close() {
    if (!this.dialog.open) return;
    const hadFocus = this.dialog.contains(document.activeElement);
    this.dialog.close();
    delete document.documentElement.dataset.panel;
    const card = `#list [data-id="${this.id}"]`;
    const opener = this.opener?.isConnected ? this.opener : null;
    const before = opener?.closest(card) ? opener : (document.querySelector(`${card} a`) ?? opener);
    const target = before ?? byId("list-title");
    if (hadFocus || this.modal) target.focus({ preventScroll: true });
    this.opener = this.id = undefined;
  }
}

/** @param {number} id */
function actions(id) {
  const { view, id: query } = current();
  if (view === "picture" && query === String(id)) return el("p", { class: "muted" }, "This is the query picture.");
  return el("p", { class: "links" }, el("a", { class: "button primary", href: moreLike(id) }, "More like this"));
}

/** @param {import("./api.js").Picture} picture */
function alternativeText({ name, grade, estimate }) {
  if (grade !== null) return `grade ${grade}, ${name}`;
  return estimate !== null ? `estimated grade ${estimate}, ${name}` : name;
}

/** @param {import("./api.js").Picture} picture @param {import("./api.js").Grade[]} grades */
function facts(picture, grades) {
  const { grade, estimate, width, height } = picture;
  const shown = grade ?? (estimate === null ? "none" : `≈ ${estimate}`);
  const interval = grade === null && estimate !== null ? withInterval(picture).slice(estimate.length) : "";
  const source = grade !== null ? "given" : estimate === null ? "" : "estimated, not given";
  const length = (grade ?? estimate ?? "none").length;
  const size = length > 4 ? "estimate named" : "estimate";
  return el(
    "dl",
    { class: "facts" },
    el("dt", {}, "Grade"),
    el("dd", { class: size }, el("bdi", {}, shown, el("span", { class: "interval" }, interval)), muted(source)),
    ...(grade === null || estimate === null ? [] : [estimateWithout(picture, grades)]),
    el("dt", {}, "Size"),
    el("dd", {}, `${width} × ${height}`),
  );
}

/** @param {string} text */
const muted = (text) => el("span", { class: "muted" }, text);

/** The estimate of a graded picture, highlighted if the given grade contradicts it. */
function estimateWithout(picture, grades) {
  const outside = isOutside(picture.grade, picture, grades);
  const text = ["estimate without this grade: ", el("bdi", { class: "nowrap" }, withInterval(picture))];
  const note = outside ? [el("span", {}, "The given grade lies outside this interval.")] : [];
  return el("dd", { class: outside ? "without conflict" : "without" }, ...text, ...note);
}

/** An estimate with its interval, for example "2 (1–3)". @param {import("./api.js").Picture} picture */
function withInterval({ estimate, lowest, highest }) {
  return lowest === null || lowest === highest ? estimate : `${estimate} (${lowest}–${highest})`;
}
