/** Two to four pictures side by side, large, with one zoom for all. */

import { getPicture } from "./api.js";
import { dot, el, isolated } from "./dom.js";
import { largePicture } from "./labeling_api.js";

const SIDE = 1024; // pixels
const MAX_ZOOM = 12;
const STEP = 1.3;
const KEY_STEP = 0.08; // of the picture

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** @param {number[]} ids @param {import("./palette.js").Palette} palette */
export async function showSideBySide(ids, palette) {
  const pictures = await Promise.all(ids.map(getPicture));
  if (document.getElementById("side-by-side")) return; // opened twice
  const close = el("button", { value: "close", "aria-label": "Close the comparison" }, "✕");
  const figures = pictures.map((picture) => figure(picture, palette));
  const view = el(
    "div",
    {
      class: "compared",
      tabindex: "0",
      role: "group",
      "aria-label": "Pictures; plus and minus zoom all of them, arrow keys move",
    },
    ...figures,
  );
  view.style.setProperty("--columns", String(pictures.length));
  const zoom = new SharedZoom(view);
  const button = (label, text, onclick) => el("button", { type: "button", "aria-label": label, onclick }, text);
  const buttons = el(
    "div",
    { class: "zoom-buttons" },
    button("Zoom in", "+", () => zoom.scale(STEP)),
    button("Zoom out", "−", () => zoom.scale(1 / STEP)),
    button("Reset the zoom", "Reset", () => zoom.reset()),
  );
  const title = el("h2", { id: "compared-title" }, "Side by side");
  const head = el("form", { method: "dialog", class: "panel-head" }, title, buttons, close);
  const dialog = el("dialog", { id: "side-by-side", "aria-labelledby": "compared-title" }, head, view);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {import("./api.js").Picture} picture @param {import("./palette.js").Palette} palette */
function figure({ id, name, grade, estimate, lowest, highest, value }, palette) {
  const interval = lowest === null || lowest === highest ? "" : ` (${lowest}–${highest})`;
  const estimated = estimate === null ? "no estimate yet" : `estimate ${estimate}${interval}`;
  return el(
    "figure",
    {},
    el("div", { class: "compared-picture" }, el("img", { src: largePicture(id, SIDE), alt: name, draggable: "false" })),
    el(
      "figcaption",
      {},
      el("span", { class: "grade" }, dot(palette.css(palette.index(value))), isolated(grade ?? "no grade")),
      el("span", {}, isolated(estimated)),
      el("span", { class: "muted" }, isolated(name)),
    ),
  );
}

/** Zoom and place of several pictures at once: the same part of each is shown. */
class SharedZoom {
  /** @param {HTMLElement} view whose pictures it sets */
  constructor(view) {
    this.view = view;
    /** @type {Map<number, {x: number, y: number}>} pressed pointers by id */
    this.pointers = new Map();
    view.addEventListener("pointerdown", (event) => this.down(event));
    view.addEventListener("pointermove", (event) => this.move(event));
    for (const type of ["pointerup", "pointercancel"])
      view.addEventListener(type, ({ pointerId }) => this.pointers.delete(pointerId));
    view.addEventListener("keydown", (event) => this.key(event));
    const wheel = (event) => {
      event.preventDefault();
      this.scale(Math.exp(-0.003 * clamp(event.deltaY, -60, 60)));
    };
    view.addEventListener("wheel", wheel, { passive: false });
    this.reset();
  }

  reset() {
    this.set(1, 0, 0);
  }

  /** @param {number} factor */
  scale(factor) {
    this.set(clamp(this.zoom * factor, 1, MAX_ZOOM), this.x, this.y);
  }

  /** @param {number} zoom @param {number} x @param {number} y of the centre, in widths and heights of a picture */
  set(zoom, x, y) {
    const most = (1 - 1 / zoom) / 2;
    Object.assign(this, { zoom, x: clamp(x, -most, most), y: clamp(y, -most, most) });
    this.view.style.setProperty("--zoom", String(zoom));
    this.view.style.setProperty("--x", `${-100 * this.x * zoom}%`);
    this.view.style.setProperty("--y", `${-100 * this.y * zoom}%`);
  }

  down(event) {
    if (event.button !== 0) return;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.view.setPointerCapture(event.pointerId);
  }

  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const spread = this.spread();
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.pointers.size > 1) return this.scale(spread ? this.spread() / spread : 1);
    const { width, height } = this.view.querySelector(".compared-picture").getBoundingClientRect();
    const [dx, dy] = [(event.clientX - before.x) / width, (event.clientY - before.y) / height];
    this.set(this.zoom, this.x - dx / this.zoom, this.y - dy / this.zoom);
  }

  /** Distance between two pressed pointers in pixels. */
  spread() {
    const [a, b] = [...this.pointers.values()];
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  key(event) {
    const step = KEY_STEP / this.zoom;
    const action = {
      "+": () => this.scale(STEP),
      "=": () => this.scale(STEP),
      "-": () => this.scale(1 / STEP),
      0: () => this.reset(),
      ArrowLeft: () => this.set(this.zoom, this.x - step, this.y),
      ArrowRight: () => this.set(this.zoom, this.x + step, this.y),
      ArrowUp: () => this.set(this.zoom, this.x, this.y - step),
      ArrowDown: () => this.set(this.zoom, this.x, this.y + step),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}
