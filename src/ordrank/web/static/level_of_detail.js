/** Level of detail: how many points a moving map draws, so that it stays smooth without a graphics card. */

const SLOW_FRAME = 42; // ms: 24 frames per second
const TARGET_FRAME = 33;
const FAST_FRAME = 20;
const MAX_GAP = 400; // ms between frames; a longer gap starts a new measurement
const FRAMES = 4; // average over several: the times of single frames vary
const MIN_POINTS = 2000;

/** Adapts the number of points to the measured frame rate. */
export class LevelOfDetail {
  /** @param {number} total number of points */
  constructor(total) {
    this.total = total;
    /** Number of points to draw while the map moves. */
    this.visible = total;
    this.start = this.last = -Infinity;
    this.frames = 0;
  }

  /** @param {number} now time of a frame of the moving map, in ms */
  tick(now) {
    if (now - this.last > MAX_GAP) [this.start, this.frames] = [now, 0];
    else this.frames += 1;
    this.last = now;
    if (this.frames < FRAMES) return;
    const mean = (now - this.start) / this.frames;
    const least = Math.min(MIN_POINTS, this.total);
    if (mean > SLOW_FRAME) this.visible = Math.max(least, Math.round((this.visible * TARGET_FRAME) / mean));
    else if (mean < FAST_FRAME) this.visible = Math.min(this.total, Math.round(1.3 * this.visible));
    [this.start, this.frames] = [now, 0];
  }
}
