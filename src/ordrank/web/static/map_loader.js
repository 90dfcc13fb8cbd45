/** Stands for the map until its modules are loaded, after the first pictures; then hands on what it was told. */

import { byId } from "./dom.js";
import { loadModule } from "./lazy.js";

const PATIENCE = 4000; // ms

/** Wait until the images that can be seen are there: they come before the map. */
export async function firstImages() {
  const visible = [...byId("pictures").querySelectorAll("img")].filter(
    (image) => image.getBoundingClientRect().top < innerHeight,
  );
  const loaded = visible.map(
    (image) =>
      image.complete ||
      new Promise((resolve) => ["load", "error"].forEach((type) => image.addEventListener(type, resolve))),
  );
  await Promise.race([Promise.all(loaded), new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
}

/** What the rest of the page knows of the map. */
export class MapLoader {
  /** @param {object} options of `PictureMap` */
  constructor(options) {
    this.options = options;
    /** @type {import("./map.js").PictureMap|undefined} */
    this.map = undefined;
    /** @type {Set<number>} */
    this.marked = new Set();
    this.query = null;
  }

  /** Load the modules and the points, if the map is unfolded. */
  async load() {
    if (this.map) return this.map.load();
    if (!byId("map-section").open) return;
    const { PictureMap } = await loadModule(() => import("./map.js"));
    this.map ??= new PictureMap(this.options);
    this.map.mark(this.marked);
    this.map.showQuery(this.query);
    await this.map.load();
  }

  /** Whether the points are to be loaded when the map is unfolded. */
  get stale() {
    return this.map?.stale ?? true;
  }

  /** @param {Iterable<number>} ids */
  mark(ids) {
    this.marked = new Set(ids);
    this.map?.mark(this.marked);
  }

  /** @param {import("./api.js").Result|null} query */
  showQuery(query) {
    this.query = query;
    this.map?.showQuery(query);
  }

  /** @param {number|null} id */
  highlight(id) {
    this.map?.highlight(id);
  }

  /** @param {import("./api.js").Picture[]} pictures */
  setGrades(pictures) {
    this.map?.setGrades(pictures);
  }
}
