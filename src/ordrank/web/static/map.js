/** The map: all pictures at their embedding, linked with the list. */

import { getPicture, getPoints, thumbnail } from "./api.js";
import { NEAR } from "./camera.js";
import { byId, count, dot, el, isolated } from "./dom.js";
import { Lasso, idsInside } from "./lasso.js";
import { LevelOfDetail } from "./level_of_detail.js";
import { showError } from "./notices.js";
import { OrbitControls } from "./orbit_controls.js";
import { MANY_GRADES } from "./palette.js";
import { ViewTransform, gradeCentroids } from "./view_transform.js";

const HIT_RADIUS = 14; // pixels around the pointer
const MAX_LABELS = 7;
const SETTLE_TIME = 250; // ms after the last movement until all points are drawn

/** The point cloud with its labels, legend and tooltip. */
export class PictureMap {
  /**
   * @param {object} options
   * @param {import("./palette.js").Palette} options.palette
   * @param {(id: number) => void} options.onPick
   * @param {(id: number|null) => void} options.onHover
   * @param {(ids: number[]) => void} options.onSelect with the pictures inside a line drawn on the map
   */
  constructor(options) {
    Object.assign(this, options);
    this.box = byId("map");
    this.canvas = byId("map-canvas");
    this.tooltip = byId("map-tip");
    this.labels = byId("map-labels");
    this.note = byId("map-note");
    /** @type {Set<number>} ids of the marked pictures */
    this.marked = new Set();
    /** @type {Map<number, number>} index of a point by picture id */
    this.indexOf = new Map();
    /** @type {Map<number, Promise<import("./api.js").Picture>>} pictures fetched for the tooltip */
    this.pictures = new Map();
    /** Whether the points are to be loaded when the map is unfolded. */
    this.stale = true;
  }

  /** Fetch the renderer and the points, if the map is unfolded. */
  async load() {
    this.stale = true;
    if (!byId("map-section").open) return;
    if (!this.cloud && !document.createElement("canvas").getContext("webgl2")) {
      this.box.hidden = true;
      this.note.textContent = "This browser cannot draw the map (it has no WebGL 2). Everything else works.";
      return;
    }
    const [{ PointCloud }, points] = await Promise.all([import("./point_cloud.js"), getPoints()]);
    if (!this.cloud) this.start(new PointCloud(this.canvas, points.ids.length));
    this.stale = false;
    this.hover(-1);
    this.pictures.clear();
    const { ids, values, total } = points;
    this.box.hidden = !ids.length;
    Object.assign(this, { ids, values, total });
    this.transform = new ViewTransform(points.positions, values);
    this.positions = new Float32Array(points.positions.length);
    for (let at = 0; at < this.positions.length; at += 3) {
      this.positions.set(this.transform.apply(points.positions, at), at);
    }
    this.controls.fit(this.positions, this.cloud.width / this.cloud.height);
    this.indexOf = new Map([...ids].map((id, i) => [id, i]));
    this.detail = new LevelOfDetail(ids.length);
    this.showNote();
    this.update();
  }

  /** @param {import("./point_cloud.js").PointCloud} cloud */
  start(cloud) {
    this.cloud = cloud;
    this.controls = new OrbitControls(this.canvas, {
      onChange: () => {
        this.moving = true;
        if (this.controls.dragging) this.hover(-1);
        this.requestFrame();
      },
      onClick: (event) => this.click(event),
    });
    const onDrawn = (corners) => this.onSelect(idsInside(corners, this));
    const onStart = () => {
      this.pointer = null;
      this.hover(-1);
    };
    this.lasso = new Lasso({ box: this.box, canvas: this.canvas, button: byId("map-lasso"), onStart, onDrawn });
    byId("map-nearer").addEventListener("click", () => this.controls.zoom(0.8));
    byId("map-farther").addEventListener("click", () => this.controls.zoom(1.25));
    byId("map-home").addEventListener("click", () => this.controls.reset());
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse" && event.target === this.canvas) {
        this.pointer = { x: event.offsetX, y: event.offsetY };
      }
      this.requestFrame({ redraw: false });
    });
    this.canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "mouse") return; // a lifted finger leaves too, and its next tap may pick the point
      this.pointer = null;
      this.hover(-1);
    });
    document.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" && event.target !== this.canvas) this.hover(-1);
    });
    this.canvas.addEventListener("webglcontextrestored", () => this.requestFrame());
    new ResizeObserver(() => {
      if (!this.canvas.clientWidth) return;
      cloud.resize(this.canvas.clientWidth, this.canvas.clientHeight);
      if (this.positions) this.controls.fit(this.positions, cloud.width / cloud.height);
    }).observe(this.canvas);
    cloud.resize(this.canvas.clientWidth || 1, this.canvas.clientHeight || 1);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.update());
  }

  /** Apply grades and colour scheme to points, line, labels and legend. */
  update() {
    if (!this.cloud || !this.positions) return;
    const { palette, cloud } = this;
    const gradeColours = palette.grades.map((_, i) => palette.rgb(i));
    const gradeIndices = Int32Array.from(this.values, (value) => palette.index(value));
    const colours = new Float32Array(this.positions.length);
    gradeIndices.forEach((grade, i) => colours.set(gradeColours[grade] ?? palette.rgb(-1), 3 * i));
    const style = getComputedStyle(this.box);
    const colour = (name) =>
      style
        .getPropertyValue(name)
        .split(",")
        .map((channel) => Number(channel) / 255);
    cloud.setColours(colour("--map-background"), colour("--map-foreground"));
    const centroids = gradeCentroids(this.positions, gradeIndices, palette.grades.length);
    cloud.setPoints(this.positions, colours, centroids.filter(Boolean).flat());
    this.fillLabels(centroids);
    this.fillLegend();
    this.mark(this.marked);
    this.showQuery(this.query);
  }

  /** Label the centroids of at most MAX_LABELS grades. @param {(number[]|null)[]} centroids */
  fillLabels(centroids) {
    const { grades } = this.palette;
    const step = Math.max(1, Math.ceil(grades.length / MAX_LABELS));
    const labelled = centroids.map((position, i) => ({ position, grade: grades[i].grade }));
    const shown = labelled.filter(({ position }, i) => position && i % step === 0);
    this.labelPositions = shown.map(({ position }) => position);
    this.labels.replaceChildren(...shown.map(({ grade }) => el("span", {}, isolated(grade))));
  }

  fillLegend() {
    const { grades } = this.palette;
    const many = grades.length >= MANY_GRADES;
    const entries = grades.map(({ grade }, i) => {
      const named = !many || i === 0 || i === grades.length - 1;
      return el("li", {}, dot(this.palette.css(i)), named ? isolated(grade) : "");
    });
    byId("legend").replaceChildren(...entries);
    byId("legend").classList.toggle("many", many);
    byId("legend").classList.toggle("scale-legend", !many && grades.every(({ grade }) => grade.length <= 3));
  }

  /** Draw a ring at the embedding of the query. @param {import("./api.js").Result|null} [query] */
  showQuery(query) {
    this.query = query ?? null;
    byId("legend-query").hidden = !query;
    if (!this.cloud || !this.transform) return;
    this.cloud.setRing("query", query ? this.transform.apply(query.position) : null);
    this.requestFrame();
  }

  /** Mark the pictures of the list. @param {Iterable<number>} ids */
  mark(ids) {
    this.marked = new Set(ids);
    if (!this.positions) return;
    this.cloud.mark([...this.marked].map((id) => this.indexOf.get(id)).filter((i) => i !== undefined));
    this.requestFrame();
  }

  /** Draw a ring around one picture. @param {number|null} id */
  highlight(id) {
    if (!this.positions) return;
    const i = id === null ? undefined : this.indexOf.get(id);
    this.cloud.setRing("hover", i === undefined ? null : this.positions.subarray(3 * i, 3 * i + 3));
    this.requestFrame();
  }

  /** Show changed grades, possibly new ones. @param {import("./api.js").Picture[]} pictures */
  setGrades(pictures) {
    for (const { id, value } of pictures) {
      this.pictures.delete(id);
      const i = this.indexOf.get(id);
      if (i !== undefined && this.values) this.values[i] = value ?? NaN;
    }
    this.update();
  }

  /** Redraw if needed and find the point under the pointer, once per frame. */
  requestFrame({ redraw = true } = {}) {
    if (!this.cloud || !this.positions) return;
    this.dirty ||= redraw;
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      if (this.dirty) this.draw();
      if (this.pointer && !this.controls.dragging) this.hover(this.pointAt(this.pointer));
    });
  }

  draw() {
    const { controls, detail } = this;
    if (this.moving) detail.tick(performance.now(), controls.dragging);
    const visible = this.moving ? detail.visible : detail.total;
    this.dirty = this.moving = false;
    this.cloud.draw(controls.cameraPosition, controls.homeDistance, visible);
    clearTimeout(this.settling);
    if (visible < detail.total) this.settling = setTimeout(() => this.requestFrame(), SETTLE_TIME);
    this.showNote();
    this.box.dataset.points = String(visible);
    this.box.dataset.draws = String(this.cloud.draws);
    this.moveLabels();
  }

  /** Show how many points are drawn. */
  showNote() {
    const { total, visible } = this.detail;
    const sentences = [];
    if (!total) sentences.push("The map appears after the first training.");
    if (this.total > total) sentences.push(`A sample: ${count(total)} of ${count(this.total)} pictures.`);
    if (visible < total) {
      const about = count(Number(visible.toPrecision(1)));
      sentences.push(`While the map moves, about ${about} of ${count(total)} points are drawn to keep it smooth.`);
    }
    const text = sentences.join(" ");
    if (this.note.textContent !== text) this.note.textContent = text; // called in every frame
  }

  moveLabels() {
    this.labelPositions.forEach((position, k) => {
      const { x, y, distance } = this.cloud.project(position);
      const label = this.labels.children[k];
      label.hidden = distance < NEAR;
      label.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px) translate(-50%, -185%)`;
    });
  }

  /** Index of the point at a pixel, or -1; prefers marked points, then the one in front of others. */
  pointAt({ x, y }) {
    const { cloud, controls } = this;
    let [best, lowest] = [-1, Infinity];
    for (let i = 0; i < this.ids.length; i += 1) {
      const point = cloud.project(this.positions, 3 * i);
      const gap = Math.sqrt((point.x - x) ** 2 + (point.y - y) ** 2); // hypot is slow for many points
      if (gap > HIT_RADIUS || point.distance < NEAR) continue;
      const outside = Math.max(0, gap - cloud.pointSize / (2 * point.distance)); // 0: the point covers the pixel
      const cost = outside + point.distance / controls.distance - (this.marked.has(this.ids[i]) ? 5 : 0);
      if (cost < lowest) [best, lowest] = [i, cost];
    }
    return best;
  }

  /** @param {number} i index of the point under the pointer, -1 for none */
  hover(i) {
    if (i === this.hovered) return;
    this.hovered = i;
    const id = i < 0 ? null : this.ids[i];
    this.canvas.style.cursor = i < 0 ? "" : "pointer";
    this.onHover(id);
    this.highlight(id);
    this.tooltip.hidden = i < 0;
    if (id !== null) this.showTooltip(i, id);
  }

  showTooltip(i, id) {
    const { x, y } = this.cloud.project(this.positions, 3 * i);
    const grade = this.palette.grades[this.palette.index(this.values[i])]?.grade ?? "none";
    const text = el("p", {}, isolated(`Grade ${grade}`));
    this.tooltip.replaceChildren(el("img", { src: thumbnail("picture", id), alt: "" }), text);
    const side = x > this.cloud.width / 2 ? "calc(-100% - 16px)" : "16px";
    const lowest = this.cloud.height - this.tooltip.offsetHeight - 20; // the name follows
    const top = Math.max(4, Math.min(lowest, y - this.tooltip.offsetHeight / 2));
    this.tooltip.style.transform = `translate(${x}px, ${top}px) translateX(${side})`;
    if (!this.pictures.has(id)) this.pictures.set(id, getPicture(id));
    const showPicture = (picture) => {
      if (this.hovered !== i) return;
      const shown = picture.grade === null ? `Grade ≈ ${picture.estimate ?? "none"}` : `Grade ${picture.grade}`;
      text.replaceChildren(isolated(shown), el("span", { class: "muted" }, isolated(picture.name)));
    };
    const fail = (error) => {
      this.pictures.delete(id); // the next hover tries again
      showError(error);
    };
    this.pictures.get(id).then(showPicture, fail);
  }

  /** A mouse click picks a point; the first tap only shows its tooltip. */
  click(event) {
    const i = this.pointAt({ x: event.offsetX, y: event.offsetY });
    if (i >= 0 && (event.pointerType === "mouse" || i === this.hovered)) this.onPick(this.ids[i]);
    else this.hover(i);
  }
}
