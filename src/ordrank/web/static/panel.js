/** The side panel with the chosen picture: next to the list on wide screens, a modal dialog on narrow ones. */

import { getPicture, thumbnail } from "./api.js";
import { distanceSection } from "./distance.js";
import { byId, el, isolated, matches } from "./dom.js";
import { gradeForm } from "./grading.js";
import { current, go, moreLike } from "./state.js";

const WIDE = "(min-width: 70rem)";
const close = () => go({ chosen: null });

/** Shows one picture at a time. */
export class Panel {
  /** @param {(picture: import("./api.js").Picture) => void} onGraded */
  constructor(onGraded) {
    this.onGraded = onGraded;
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
    this.id = id;
    byId("panel-title").replaceChildren(isolated(picture.name));
    this.body.replaceChildren(
      el("img", { src: thumbnail("picture", id), alt: alternativeText(picture) }),
      el("div", { class: "panel-facts" }, facts(picture), actions(id)),
      ranked ? distanceSection(ranked) : "",
      collection.read_only ? "" : gradeForm(picture, collection.grades, (changed) => this.update(changed)),
    );
    this.open();
    if (focus) byId("panel-title").focus();
  }

  /** Let the next `show` fetch the picture again. */
  invalidate() {
    this.id = undefined;
  }

  /** @param {import("./api.js").Picture} picture with a changed grade */
  update(picture) {
    if (picture.id === this.id) this.body.querySelector(".facts").replaceWith(facts(picture)); // may show another now
    this.onGraded(picture);
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
    const card = document.querySelector(`#pictures [data-id="${this.id}"] a`);
    const target = card ?? (this.opener?.isConnected ? this.opener : byId("list-title"));
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

/** @param {import("./api.js").Picture} picture */
function facts({ grade, estimate, width, height }) {
  const shown = grade ?? (estimate === null ? "none" : `≈ ${estimate}`);
  const source = grade !== null ? "given" : estimate === null ? "" : "estimated, not given";
  const size = shown.length > 6 ? "estimate named" : "estimate";
  return el(
    "dl",
    { class: "facts" },
    el("dt", {}, "Grade"),
    el("dd", { class: size }, isolated(shown), el("span", { class: "muted" }, source)),
    el("dt", {}, "Size"),
    el("dd", {}, `${width} × ${height}`),
  );
}
