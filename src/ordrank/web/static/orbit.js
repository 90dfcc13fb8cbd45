/** Turning and zooming by mouse, fingers and keys: two angles and a distance. */

const TURN = 0.008; // radians a pixel
const STEP = 0.12; // radians a key
const NEAR = 0.6;
const FAR = 9;
const HOME = { yaw: 0.3, pitch: 0.3, distance: 3.1 };
const HALF = Math.tan((20 * Math.PI) / 180); // half the angle of the camera

/** The place of a camera that looks at the middle. */
export class Orbit {
  /**
   * @param {HTMLElement} element
   * @param {{changed: () => void, clicked: (event: PointerEvent) => void}} hear
   */
  constructor(element, hear) {
    Object.assign(this, HOME);
    this.homely = HOME.distance;
    this.hear = hear;
    /** @type {Map<number, {x: number, y: number}>} */
    this.fingers = new Map();
    this.moved = 0;
    element.addEventListener("pointerdown", (event) => this.down(event, element));
    element.addEventListener("pointermove", (event) => this.move(event));
    element.addEventListener("pointerup", (event) => this.up(event));
    element.addEventListener("pointercancel", (event) => this.fingers.delete(event.pointerId));
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.003));
      },
      { passive: false },
    );
  }

  /** Where the camera stands. */
  place() {
    const flat = this.distance * Math.cos(this.pitch);
    return [flat * Math.sin(this.yaw), this.distance * Math.sin(this.pitch), flat * Math.cos(this.yaw)];
  }

  /**
   * Let the view begin where nearly all points are seen.
   * @param {Float32Array} positions three numbers a point
   * @param {number} aspect width over height
   */
  fit(positions, aspect) {
    const [sin, cos] = [Math.sin, Math.cos];
    const { yaw, pitch } = HOME;
    const needs = new Float32Array(positions.length / 3);
    for (let i = 0; i < needs.length; i += 1) {
      const [x, y, z] = positions.subarray(3 * i, 3 * i + 3);
      const ahead = x * sin(yaw) + z * cos(yaw);
      const across = Math.abs(x * cos(yaw) - z * sin(yaw)) / aspect;
      const upward = Math.abs(y * cos(pitch) - ahead * sin(pitch));
      needs[i] = Math.max(across, upward) / HALF + ahead * cos(pitch) + y * sin(pitch);
    }
    needs.sort();
    const distance = 1.1 * (needs[Math.floor(0.985 * (needs.length - 1))] || 3);
    if (this.distance === this.homely) this.distance = distance; // nobody has zoomed
    this.homely = distance;
    this.hear.changed();
  }

  get dragging() {
    return this.fingers.size > 0 && this.moved > 4;
  }

  home() {
    Object.assign(this, HOME, { distance: this.homely });
    this.hear.changed();
  }

  /** @param {number} yaw @param {number} pitch */
  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.max(-1.5, Math.min(1.5, this.pitch + pitch));
    this.hear.changed();
  }

  /** @param {number} factor */
  zoom(factor) {
    this.distance = Math.max(NEAR, Math.min(FAR, this.distance * factor));
    this.hear.changed();
  }

  /** @param {PointerEvent} event @param {HTMLElement} element */
  down(event, element) {
    if (!this.fingers.size) this.moved = 0;
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    element.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const [x, y] = [event.clientX - before.x, event.clientY - before.y];
    this.moved += Math.abs(x) + Math.abs(y);
    const apart = this.apart();
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.fingers.size === 1) this.turn(-x * TURN, y * TURN);
    else if (apart) this.zoom(apart / (this.apart() || apart));
  }

  /** @param {PointerEvent} event */
  up(event) {
    const alone = this.fingers.size === 1;
    this.fingers.delete(event.pointerId);
    if (alone && this.moved <= 4) this.hear.clicked(event);
  }

  /** How far two fingers are apart, 0 without two. */
  apart() {
    const [a, b] = [...this.fingers.values()];
    return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const does = {
      ArrowLeft: () => this.turn(-STEP, 0),
      ArrowRight: () => this.turn(STEP, 0),
      ArrowUp: () => this.turn(0, STEP),
      ArrowDown: () => this.turn(0, -STEP),
      "+": () => this.zoom(0.85),
      "=": () => this.zoom(0.85),
      "-": () => this.zoom(1 / 0.85),
      Home: () => this.home(),
    }[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does();
  }
}
