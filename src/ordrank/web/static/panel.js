/** The side panel of a chosen picture: beside the ranking on wide screens, a dialog over it on narrow ones. */

import { getPicture, thumbnail } from "./api.js";
import { byId, digits, el, isolated, matches, orderShare, percent } from "./dom.js";
import { gradeForm } from "./regrade.js";
import { current, go, moreLike } from "./state.js";

const WIDE = "(min-width: 70rem)";

/** One panel; it shows one picture at a time. */
export class Panel {
  /** @param {(picture: import("./api.js").Picture) => void} regraded */
  constructor(regraded) {
    this.regraded = regraded;
    this.dialog = byId("panel");
    this.body = byId("panel-body");
    byId("panel-close").addEventListener("click", () => go({ chosen: null }));
    this.dialog.addEventListener("cancel", (/** @type {Event} */ event) => {
      event.preventDefault();
      go({ chosen: null });
    });
    this.dialog.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape" && !this.modal) go({ chosen: null });
    });
    this.dialog.addEventListener("click", (/** @type {Event} */ event) => {
      if (event.target === this.dialog && this.modal) go({ chosen: null }); // beside the dialog
    });
    window.matchMedia(WIDE).addEventListener("change", () => this.dialog.open && this.open());
  }

  /**
   * @param {number} id
   * @param {import("./api.js").Ranked|null} ranked how far it is from what was asked, if it was
   * @param {{collection: import("./api.js").Collection, focus: boolean}} context
   */
  async show(id, ranked, { collection, focus }) {
    if (this.id === id && this.dialog.open) return;
    this.from ??= document.activeElement;
    this.id = id;
    const picture = await getPicture(id);
    if (current().chosen !== id) return;
    byId("panel-title").replaceChildren(isolated(picture.name));
    this.body.replaceChildren(
      el("img", { src: thumbnail("picture", id), alt: alternative(picture) }),
      el("div", { class: "beside" }, facts(picture), this.actions(id)),
      ranked ? distance(ranked) : "",
      collection.read_only ? "" : gradeForm(picture, collection.grades, (changed) => this.renew(changed)),
    );
    this.open();
    if (focus) byId("panel-title").focus();
  }

  /** What is shown may have changed: show it again when asked to. */
  forget() {
    this.id = undefined;
  }

  /** @param {import("./api.js").Picture} picture with another grade */
  renew(picture) {
    this.body.querySelector(".facts").replaceWith(facts(picture));
    this.regraded(picture);
  }

  /** @param {number} id */
  actions(id) {
    const { view, id: asked } = current();
    if (view === "picture" && asked === String(id)) return el("p", { class: "quiet" }, "The picture you asked about.");
    return el("p", { class: "links" }, el("a", { class: "button strong", href: moreLike(id) }, "More like this"));
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
    const inside = this.dialog.contains(document.activeElement);
    this.dialog.close();
    delete document.documentElement.dataset.panel;
    const card = document.querySelector(`#pictures [data-id="${this.id}"] a`);
    const back = card ?? (this.from?.isConnected ? this.from : null);
    if (inside || this.modal) /** @type {HTMLElement|null} */ (back)?.focus({ preventScroll: true });
    this.from = undefined;
    this.id = undefined;
  }
}

/** @param {import("./api.js").Picture} picture */
function alternative({ name, grade, estimate }) {
  if (grade !== null) return `grade ${grade}, ${name}`;
  return estimate !== null ? `estimated grade ${estimate}, ${name}` : name;
}

/** @param {import("./api.js").Picture} picture */
function facts({ grade, estimate, width, height }) {
  const shown = grade ?? (estimate === null ? "none" : `≈ ${estimate}`);
  const origin = grade !== null ? "given" : estimate === null ? "" : "estimated, not given";
  return el(
    "dl",
    { class: "facts" },
    el("dt", {}, "Grade"),
    el(
      "dd",
      { class: shown.length > 6 ? "estimate named" : "estimate" },
      isolated(shown),
      el("span", { class: "quiet" }, origin),
    ),
    el("dt", {}, "Size"),
    el("dd", {}, `${width} × ${height}`),
  );
}

/** @param {import("./api.js").Ranked} ranked */
function distance(ranked) {
  const share = orderShare(ranked);
  const order = el("span", { class: "order" });
  order.style.width = `${100 * share}%`;
  const row = (
    /** @type {string} */ kind,
    /** @type {string} */ label,
    /** @type {number} */ value,
    /** @type {number} */ part,
  ) =>
    el(
      "li",
      {},
      el("span", { class: `swatch ${kind}`, "aria-hidden": "true" }),
      label,
      el("span", { class: "number" }, digits(value)),
      el("span", { class: "number quiet" }, percent(part)),
    );
  return el(
    "section",
    { class: "distance-parts", "aria-labelledby": "distance-title" },
    el("h3", { id: "distance-title" }, "Distance ", el("span", { class: "number" }, digits(ranked.distance))),
    el(
      "div",
      { class: "parts whole", "aria-hidden": "true" },
      el("span", { class: "length" }, order, el("span", { class: "appearance" })),
    ),
    el(
      "ul",
      {},
      row("order", "Order", ranked.order_distance, share),
      row("appearance", "Appearance", ranked.appearance_distance, 1 - share),
    ),
    el("p", { class: "quiet" }, sentence(ranked, share)),
  );
}

/** @param {import("./api.js").Ranked} ranked @param {number} share of the order */
function sentence(ranked, share) {
  if (!ranked.distance) return "Nothing tells this picture from yours.";
  if (share > 0.65)
    return "It differs from yours mainly in the order: it stands at another place between low and high grades.";
  if (share < 0.35) return "It differs from yours mainly in how it looks; in the order the two are close.";
  return "Its place in the order and its looks count about the same here.";
}
