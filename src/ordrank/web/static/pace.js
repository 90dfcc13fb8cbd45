/** How many points are drawn while the map moves, so that it keeps up also where no graphics card helps. */

const SLOW = 42; // ms a frame: 24 a second
const GOAL = 33;
const FAST = 20;
const PAUSE = 400; // ms without a frame: what came before says nothing
const FRAMES = 4; // one alone says little: frames wait for each other
const LEAST = 2000;

/** Watches the frames of a moving map. */
export class Pace {
  /** @param {number} all points there are */
  constructor(all) {
    this.all = all;
    /** Points to draw while the map moves. */
    this.most = all;
    this.begin = this.last = -Infinity;
    this.frames = 0;
  }

  /** @param {number} now when a frame of a moving map is drawn */
  tick(now) {
    if (now - this.last > PAUSE) [this.begin, this.frames] = [now, 0];
    else this.frames += 1;
    this.last = now;
    if (this.frames < FRAMES) return;
    const span = (now - this.begin) / this.frames;
    if (span > SLOW) this.most = Math.max(Math.min(LEAST, this.all), Math.round((this.most * GOAL) / span));
    else if (span < FAST) this.most = Math.min(this.all, Math.round(1.3 * this.most));
    [this.begin, this.frames] = [now, 0];
  }
}
