/** The lasso: a line drawn around points of the map. */

import { NEAR } from "./camera.js";

const MIN_STEP = 3; // pixels between two corners
const SVG = "http://www.w3.org/2000/svg";

/**
 * Whether a point is inside a closed line, by the number of its crossings to the right of the point.
 * @param {number} x
 * @param {number} y
 * @param {{x: number, y: number}[]} corners
 */
function isInside(x, y, corners) {
  let inside = false;
  let previous = corners[corners.length - 1];
  for (const corner of corners) {
    const crosses = corner.y > y !== previous.y > y;
    if (crosses && x < previous.x + ((y - previous.y) / (corner.y - previous.y)) * (corner.x - previous.x))
      inside = !inside;
    previous = corner;
  }
  return inside;
}

/**
 * The pictures whose points are inside a closed line.
 * @param {{x: number, y: number}[]} corners in CSS pixels
 * @param {object} map
 * @param {import("./point_cloud.js").PointCloud} map.cloud
 * @param {Float32Array} map.positions
 * @param {Int32Array} map.ids
 */
export function idsInside(corners, { cloud, positions, ids }) {
  const [left, right] = [Math.min, Math.max].map((end) => end(...corners.map(({ x }) => x)));
  const [top, bottom] = [Math.min, Math.max].map((end) => end(...corners.map(({ y }) => y)));
  const found = [];
  for (let i = 0; i < ids.length; i += 1) {
    const { x, y, distance } = cloud.project(positions, 3 * i);
    if (distance < NEAR || x < left || x > right || y < top || y > bottom) continue;
    if (isInside(x, y, corners)) found.push(ids[i]);
  }
  return found;
}

/** Draws the line: with the button of the lasso pressed, or while the shift key is held. */
export class Lasso {
  /**
   * @param {object} options
   * @param {HTMLElement} options.box that covers the canvas
   * @param {HTMLElement} options.canvas
   * @param {HTMLButtonElement} options.button switches it on and off
   * @param {() => void} options.onStart
   * @param {(corners: {x: number, y: number}[]) => void} options.onDrawn corners in CSS pixels of the canvas
   */
  constructor(options) {
    Object.assign(this, options);
    this.shape = document.createElementNS(SVG, "polygon");
    const drawing = document.createElementNS(SVG, "svg");
    drawing.id = "map-lasso-line";
    drawing.setAttribute("aria-hidden", "true");
    drawing.append(this.shape);
    this.canvas.after(drawing);
    this.button.addEventListener("click", () => this.setActive(!this.isActive));
    const before = { capture: true }; // before the controls of the camera
    for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) {
      this.box.addEventListener(type, (event) => this[type](event), before);
    }
    this.box.addEventListener("keydown", (event) => event.key === "Escape" && this.stop(event));
  }

  get isActive() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  /** @param {boolean} active */
  setActive(active) {
    this.button.setAttribute("aria-pressed", String(active));
    this.box.toggleAttribute("data-lasso", active);
  }

  pointerdown(event) {
    if (event.target !== this.canvas || event.button !== 0 || !(this.isActive || event.shiftKey)) return;
    event.stopPropagation();
    event.preventDefault();
    this.pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.corners = [{ x: event.offsetX, y: event.offsetY }];
    this.onStart();
  }

  pointermove(event) {
    if (event.pointerId !== this.pointer) return;
    event.stopPropagation();
    const last = this.corners.at(-1);
    if (Math.hypot(event.offsetX - last.x, event.offsetY - last.y) < MIN_STEP) return;
    this.corners.push({ x: event.offsetX, y: event.offsetY });
    this.shape.setAttribute("points", this.corners.map(({ x, y }) => `${x},${y}`).join(" "));
  }

  pointerup(event) {
    if (event.pointerId !== this.pointer) return;
    event.stopPropagation();
    const { corners } = this;
    this.end();
    if (corners.length > 2) this.onDrawn(corners);
  }

  pointercancel(event) {
    if (event.pointerId === this.pointer) this.end();
  }

  end() {
    this.pointer = this.corners = undefined;
    this.shape.removeAttribute("points");
  }

  /** Escape ends a line that is being drawn, else the lasso. @param {KeyboardEvent} event */
  stop(event) {
    if (this.pointer === undefined && !this.isActive) return;
    event.preventDefault();
    if (this.pointer !== undefined) this.end();
    else this.setActive(false);
  }
}
