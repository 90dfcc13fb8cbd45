/** Level of detail: how many points a moving map draws, so that it stays smooth without a graphics card. */

const SLOW_FRAME = 33; // ms: 30 frames per second
const TARGET_FRAME = 26;
const FAST_FRAME = 20;
const MAX_GAP = 400; // ms between frames; more is a pause, except between frames of one drag
const FRAMES = 3; // the median counts: one may be late for other reasons
const MIN_POINTS = 2000;

/** Adapts the number of points to the measured frame rate. */
export class LevelOfDetail {
  /** @param {number} total number of points */
  constructor(total) {
    this.total = total;
    /** Number of points to draw while the map moves. */
    this.visible = total;
    /** @type {number[]} ms between frames */
    this.times = [];
    this.last = -Infinity;
    this.dragging = false;
  }

  /** @param {number} now time of a frame of the moving map, in ms @param {boolean} dragging by a pressed pointer */
  tick(now, dragging) {
    const time = now - this.last;
    if (time > MAX_GAP && !(dragging && this.dragging)) this.times = [];
    else this.times.push(time);
    Object.assign(this, { last: now, dragging });
    if (this.times.length === FRAMES) this.adapt();
  }

  adapt() {
    const median = this.times.sort((a, b) => a - b)[(FRAMES - 1) / 2];
    const least = Math.min(MIN_POINTS, this.total);
    if (median > SLOW_FRAME) this.visible = Math.max(least, Math.round((this.visible * TARGET_FRAME) / median));
    else if (median < FAST_FRAME) this.visible = Math.min(this.total, Math.round(1.3 * this.visible));
    this.times = [];
  }
}
