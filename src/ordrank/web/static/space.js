/** The map: all pictures where the model places them. Linked with the list, and skippable. */

import { getPicture, getPoints, thumbnail } from "./api.js";
import { MANY_GRADES, byId, count, el, isolated } from "./dom.js";
import { Frame, middles } from "./frame.js";
import { fail } from "./notices.js";
import { Orbit } from "./orbit.js";
import { Pace } from "./pace.js";

const REACH = 14; // pixels around the pointer
const MOST_LABELS = 7;
const REST = 250; // ms after which a map that moved is drawn with all its points

/** The view with its legend, labels and the card at the pointer. */
export class Space {
  /** @param {{picked: (id: number) => void, over: (id: number|null) => void}} hear */
  constructor(hear) {
    this.hear = hear;
    this.box = byId("map");
    this.canvas = byId("map-canvas");
    this.tip = byId("map-tip");
    this.labels = byId("map-labels");
    this.note = byId("map-note");
    /** @type {Set<number>} */
    this.results = new Set();
    /** @type {Map<number, number>} index by id */
    this.index = new Map();
    /** @type {Map<number, Promise<import("./api.js").Picture>>} */
    this.known = new Map();
  }

  /** Whether three.js and the points are to be fetched: once the view is open. */
  get wanted() {
    return byId("space").open;
  }

  /** @param {import("./palette.js").Palette} palette */
  async load(palette) {
    this.palette = palette;
    if (!this.wanted) return;
    if (!document.createElement("canvas").getContext("webgl2")) {
      this.box.hidden = true;
      this.note.textContent = "This browser cannot draw the map (it has no WebGL 2). Everything else works.";
      return;
    }
    const [{ CloudScene }, cloud] = await Promise.all([import("./cloud.js"), getPoints()]);
    if (!this.scene) this.start(new CloudScene(this.canvas, cloud.ids.length));
    this.known.clear();
    this.ids = cloud.ids;
    this.frame = new Frame(cloud.positions, cloud.values);
    this.positions = new Float32Array(cloud.positions.length);
    for (let at = 0; at < this.positions.length; at += 3) this.positions.set(this.frame.bring(cloud.positions, at), at);
    this.orbit.fit(this.positions, this.scene.width / this.scene.height);
    this.values = cloud.values;
    this.index = new Map([...cloud.ids].map((id, i) => [id, i]));
    this.total = cloud.total;
    this.pace = new Pace(cloud.ids.length);
    this.tellSample();
    this.colour();
  }

  /** @param {import("./cloud.js").CloudScene} scene */
  start(scene) {
    this.scene = scene;
    this.orbit = new Orbit(this.canvas, {
      changed: () => {
        this.moving = true;
        this.later();
      },
      clicked: (event) => this.click(event),
    });
    byId("map-nearer").addEventListener("click", () => this.orbit.zoom(0.8));
    byId("map-farther").addEventListener("click", () => this.orbit.zoom(1.25));
    byId("map-home").addEventListener("click", () => this.orbit.home());
    this.canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (event.pointerType === "mouse") this.pointer = { x: event.offsetX, y: event.offsetY };
      this.later(false);
    });
    this.canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.point(-1);
    });
    this.canvas.addEventListener("webglcontextrestored", () => this.later());
    new ResizeObserver(() => {
      if (!this.box.clientWidth) return;
      scene.resize(this.box.clientWidth, this.box.clientHeight);
      if (this.positions) this.orbit.fit(this.positions, scene.width / scene.height);
    }).observe(this.box);
    scene.resize(this.box.clientWidth || 1, this.box.clientHeight || 1);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.colour());
  }

  /** Colours, legend and path, from grades and colour scheme. */
  colour() {
    if (!this.scene || !this.positions) return;
    const { palette, scene } = this;
    const n = this.values.length;
    const inks = palette.grades.map((_, i) => palette.rgb(i));
    const kinds = Int32Array.from(this.values, (value) => palette.index(value));
    const colours = new Float32Array(3 * n);
    for (let i = 0; i < n; i += 1) colours.set(inks[kinds[i]] ?? palette.rgb(-1), 3 * i);
    const style = getComputedStyle(this.box);
    for (const name of ["paper", "ink"]) {
      scene.uniforms[name].value = style
        .getPropertyValue(`--${name}-rgb`)
        .split(",")
        .map((part) => Number(part) / 255);
    }
    this.middles = middles(this.positions, kinds, palette.grades.length);
    scene.fill(this.positions, colours, this.middles.filter(Boolean).flat());
    this.write();
    this.mark(this.results);
    this.ask(this.asked);
  }

  /** Names of the grades at their middles, and the legend. */
  write() {
    const { grades } = this.palette;
    const step = Math.max(1, Math.ceil(grades.length / MOST_LABELS));
    this.labelled = this.middles.map((place, i) => ({ place, i })).filter(({ place, i }) => place && i % step === 0);
    this.labels.replaceChildren(...this.labelled.map(({ i }) => el("span", {}, isolated(grades[i].grade))));
    const legend = grades.map(({ grade }, i) => {
      const dot = el("span", { class: "dot", "aria-hidden": "true" });
      dot.style.background = this.palette.css(i);
      return el(
        "li",
        {},
        dot,
        grades.length < MANY_GRADES || i === 0 || i === grades.length - 1 ? isolated(grade) : "",
      );
    });
    byId("legend").replaceChildren(...legend);
    byId("legend").classList.toggle("many", grades.length >= MANY_GRADES);
  }

  /** The answer whose place is to be ringed. @param {import("./api.js").Answer|null} [answer] */
  ask(answer) {
    this.asked = answer ?? null;
    byId("legend-asked").hidden = !answer;
    if (!this.scene || !this.frame) return;
    this.scene.ring(0, answer ? this.frame.bring(answer.position) : null);
    this.later();
  }

  /** The pictures in the list. @param {Iterable<number>} ids */
  mark(ids) {
    this.results = new Set(ids);
    if (!this.positions) return;
    const places = [...this.results].map((id) => this.index.get(id)).filter((i) => i !== undefined);
    this.scene.mark(/** @type {number[]} */ (places));
    this.later();
  }

  /** The picture pointed at in the list. @param {number|null} id */
  highlight(id) {
    if (!this.positions) return;
    const i = id === null ? undefined : this.index.get(id);
    this.scene.ring(1, i === undefined ? null : this.positions.subarray(3 * i, 3 * i + 3));
    this.later();
  }

  /**
   * A picture has another grade, perhaps one that no picture had.
   * @param {import("./api.js").Picture} picture
   * @param {import("./palette.js").Palette} palette
   */
  regrade(picture, palette) {
    this.palette = palette;
    this.known.delete(picture.id);
    const i = this.index.get(picture.id);
    if (i === undefined || !this.values) return;
    this.values[i] = picture.value ?? NaN;
    this.colour();
  }

  /** Look with the next frame what is pointed at, and draw before, once. @param {boolean} [draw] */
  later(draw = true) {
    if (!this.scene || !this.positions) return;
    this.stale ||= draw;
    this.frameAsked ??= requestAnimationFrame(() => {
      this.frameAsked = undefined;
      if (this.stale) this.draw();
      if (this.pointer && !this.orbit.dragging) this.point(this.nearest(this.pointer));
    });
  }

  draw() {
    this.stale = false;
    if (this.moving) this.pace.tick(performance.now());
    const most = this.moving ? this.pace.most : this.pace.all;
    this.moving = false;
    this.scene.draw(this.orbit.place(), this.orbit.homely, most);
    this.box.dataset.points = String(most);
    clearTimeout(this.rest);
    if (most < this.pace.all) {
      this.tellSample();
      this.rest = setTimeout(() => this.later(), REST);
    }
    this.box.dataset.draws = String(this.scene.draws);
    this.placeLabels();
  }

  /** Say what is left out. */
  tellSample() {
    const { all, most } = this.pace;
    const sample = this.total > all ? [`A sample: ${count(all)} of ${count(this.total)} pictures.`] : [];
    const about = count(Number(most.toPrecision(1)));
    if (most < all) sample.push(`While it moves, about ${about} of ${count(all)} points are drawn, so that it keeps up.`);
    this.note.textContent = sample.join(" ");
  }

  placeLabels() {
    this.labelled.forEach(({ place }, k) => {
      const { x, y } = this.scene.seen(/** @type {number[]} */ (place));
      const label = /** @type {HTMLElement} */ (this.labels.children[k]);
      label.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) translate(-50%, -185%)`;
    });
  }

  /** The point under the pointer, results first, then the nearer to the eye. @param {{x: number, y: number}} at */
  nearest({ x, y }) {
    let [best, least] = [-1, Infinity];
    for (let i = 0; i < this.ids.length; i += 1) {
      const seen = this.scene.seen(this.positions, 3 * i);
      if (Math.abs(seen.x - x) > REACH || Math.abs(seen.y - y) > REACH || Math.abs(seen.depth) > 1) continue;
      const gap = Math.hypot(seen.x - x, seen.y - y);
      if (gap > REACH) continue;
      const cost = gap + 4 * seen.depth - (this.results.has(this.ids[i]) ? 5 : 0);
      if (cost < least) [best, least] = [i, cost];
    }
    return best;
  }

  /** Point at a picture on the map. @param {number} i index, -1 for none */
  point(i) {
    if (i === this.pointed) return;
    this.pointed = i;
    const id = i < 0 ? null : this.ids[i];
    this.canvas.style.cursor = i < 0 ? "" : "pointer";
    this.hear.over(id);
    this.highlight(id);
    this.tip.hidden = i < 0;
    if (id !== null) this.tell(i, id);
  }

  /** @param {number} i @param {number} id */
  tell(i, id) {
    const seen = this.scene.seen(this.positions, 3 * i);
    const grade = this.palette.grades[this.palette.index(this.values[i])]?.grade ?? "none";
    const text = el("p", {}, isolated(`Grade ${grade}`));
    this.tip.replaceChildren(el("img", { src: thumbnail("picture", id), alt: "" }), text);
    const side = seen.x > this.scene.width / 2 ? "calc(-100% - 16px)" : "16px";
    const lowest = this.scene.height - this.tip.offsetHeight - 20; // the name is still to come
    const top = Math.max(4, Math.min(lowest, seen.y - this.tip.offsetHeight / 2));
    this.tip.style.transform = `translate(${seen.x}px, ${top}px) translateX(${side})`;
    if (!this.known.has(id)) this.known.set(id, getPicture(id));
    this.known.get(id)?.then((picture) => {
      if (this.pointed !== i) return;
      const shown = picture.grade === null ? `Grade ≈ ${picture.estimate ?? "none"}` : `Grade ${picture.grade}`;
      text.replaceChildren(isolated(shown), el("span", { class: "quiet" }, isolated(picture.name)));
    }, fail);
  }

  /** A click asks; a finger points first. @param {PointerEvent} event */
  click(event) {
    const i = this.nearest({ x: event.offsetX, y: event.offsetY });
    if (i >= 0 && (event.pointerType === "mouse" || i === this.pointed)) this.hear.picked(this.ids[i]);
    else this.point(i);
  }
}
