/** Orbit controls: rotate and zoom with mouse, touch and keys; two angles and a distance. */

import { TAN_HALF_FOV } from "./camera.js";

const RADIANS_PER_PIXEL = 0.008;
const RADIANS_PER_KEY = 0.12;
const MIN_DISTANCE = 0.6;
const MAX_DISTANCE = 9;
const MAX_PITCH = 1.5;
const DRAG_THRESHOLD = 4; // pixels: less is a click
const HOME = { yaw: 0.3, pitch: 0.3, distance: 3.1 };

const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

/** A camera on a sphere, directed at its centre, the origin. */
export class OrbitControls {
  /**
   * @param {HTMLElement} element
   * @param {{onChange: () => void, onClick: (event: PointerEvent) => void}} callbacks
   */
  constructor(element, callbacks) {
    Object.assign(this, HOME, callbacks);
    this.homeDistance = HOME.distance;
    /** @type {Map<number, {x: number, y: number}>} pressed pointers by id */
    this.pointers = new Map();
    this.moved = 0;
    element.addEventListener("pointerdown", (event) => this.down(event, element));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerup", (event) => this.up(event));
    element.addEventListener("lostpointercapture", (event) => this.pointers.delete(event.pointerId));
    element.addEventListener("keydown", (event) => this.key(event));
    const wheel = (event) => {
      event.preventDefault();
      this.zoom(Math.exp(0.003 * clamp(event.deltaY, -60, 60)));
    };
    element.addEventListener("wheel", wheel, { passive: false });
  }

  get cameraPosition() {
    const horizontal = this.distance * Math.cos(this.pitch);
    return [horizontal * Math.sin(this.yaw), this.distance * Math.sin(this.pitch), horizontal * Math.cos(this.yaw)];
  }

  get dragging() {
    return this.pointers.size > 0 && this.moved > DRAG_THRESHOLD;
  }

  /**
   * Set the home distance so that all points are in view, except a few of many that are far from all others.
   * @param {Float32Array} positions x, y, z per point
   * @param {number} aspect width / height
   */
  fit(positions, aspect) {
    const [sin, cos] = [Math.sin, Math.cos];
    const { yaw, pitch } = HOME;
    const distances = new Float32Array(positions.length / 3);
    for (let i = 0; i < distances.length; i += 1) {
      const [x, y, z] = positions.subarray(3 * i, 3 * i + 3);
      const forward = x * sin(yaw) + z * cos(yaw);
      const right = Math.abs(x * cos(yaw) - z * sin(yaw)) / aspect;
      const up = Math.abs(y * cos(pitch) - forward * sin(pitch));
      distances[i] = Math.max(right, up) / TAN_HALF_FOV + forward * cos(pitch) + y * sin(pitch);
    }
    distances.sort();
    const last = distances.length - 1;
    const needed = 1.15 * (distances[last - Math.floor(0.015 * last)] || 3);
    const distance = clamp(needed, MIN_DISTANCE, MAX_DISTANCE);
    if (this.distance === this.homeDistance) this.distance = distance; // the user has not zoomed
    this.homeDistance = distance;
    this.onChange();
  }

  reset() {
    Object.assign(this, HOME, { distance: this.homeDistance });
    this.onChange();
  }

  rotate(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = clamp(this.pitch + pitch, -MAX_PITCH, MAX_PITCH);
    this.onChange();
  }

  zoom(factor) {
    this.distance = clamp(this.distance * factor, MIN_DISTANCE, MAX_DISTANCE);
    this.onChange();
  }

  down(event, element) {
    if (event.button !== 0) return;
    if (!this.pointers.size) this.moved = 0;
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    element.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (event.buttons === 0) this.pointers.delete(event.pointerId); // released elsewhere, for example in a menu
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
    this.moved += Math.abs(dx) + Math.abs(dy);
    const spread = this.spread();
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.pointers.size === 1) this.rotate(-dx * RADIANS_PER_PIXEL, dy * RADIANS_PER_PIXEL);
    else if (spread) this.zoom(spread / (this.spread() || spread));
  }

  up(event) {
    const isClick = this.pointers.size === 1 && this.moved <= DRAG_THRESHOLD;
    if (this.pointers.delete(event.pointerId) && isClick) this.onClick(event);
  }

  /** Distance between the first two pointers in pixels, 0 with fewer. */
  spread() {
    const [a, b] = [...this.pointers.values()];
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  key(event) {
    const action = {
      ArrowLeft: () => this.rotate(-RADIANS_PER_KEY, 0),
      ArrowRight: () => this.rotate(RADIANS_PER_KEY, 0),
      ArrowUp: () => this.rotate(0, RADIANS_PER_KEY),
      ArrowDown: () => this.rotate(0, -RADIANS_PER_KEY),
      "+": () => this.zoom(0.85),
      "=": () => this.zoom(0.85),
      "-": () => this.zoom(1 / 0.85),
      Home: () => this.reset(),
    }[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }
}
