/** A large picture: its thumbnail until it is loaded, and its full size after a click. */

import { getPicture, thumbnail } from "./api.js";
import { el } from "./dom.js";
import { largePicture } from "./labeling_api.js";

const SIDE = 1024; // pixels
const FULL_SIDE = 4096;
const KEPT = 24; // loaded pictures
const RETRY = 800; // ms until a picture that could not be loaded is loaded again
const DRAG = 4; // pixels from which a movement is no click

/** Shows one picture at a time and loads the next ones. */
export class Stage {
  /**
   * @param {HTMLElement} box
   * @param {object} options
   * @param {(picture: import("./api.js").Picture) => void} options.onGone the collection does not have it any more
   * @param {(zoomed: boolean) => void} [options.onZoom]
   */
  constructor(box, { onGone, onZoom = () => {} }) {
    Object.assign(this, { box, onGone, onZoom });
    this.zoomed = false;
    /** Large versions by id, the last used ones last. @type {Map<number, HTMLImageElement>} */
    this.loaded = new Map();
    this.listen();
  }

  /** @param {import("./api.js").Picture} picture @param {string} [alt] */
  show(picture, alt = picture.name) {
    this.picture = picture;
    this.unzoom();
    const large = this.load(picture);
    large.alt = alt;
    if (isComplete(large)) this.box.replaceChildren(large);
    else {
      const retry = () => setTimeout(() => this.isAwaiting(placeholder) && this.retry(picture, alt), RETRY);
      const placeholder = el("img", { src: thumbnail("picture", picture.id), alt, onerror: retry });
      this.box.replaceChildren(placeholder);
      large.decode().then(
        () => this.isAwaiting(placeholder) && this.box.replaceChildren(large),
        () => this.loaded.delete(picture.id), // if only the file is gone, the thumbnail stays
      );
    }
  }

  /** Load a picture again, unless it is gone. @param {import("./api.js").Picture} picture @param {string} alt */
  async retry(picture, alt) {
    const error = await getPicture(picture.id).catch((reason) => reason);
    if (this.picture !== picture) return;
    if (error.status === 404) this.onGone(picture);
    else this.show(picture, alt);
  }

  /** Whether the picture on the screen is not loaded yet. @param {HTMLImageElement} placeholder */
  isAwaiting(placeholder) {
    return placeholder.isConnected && !this.zoomed;
  }

  /** Load pictures that are shown next. @param {import("./api.js").Picture[]} pictures */
  preload(pictures) {
    for (const picture of pictures) this.load(picture);
  }

  clear() {
    this.picture = undefined;
    this.unzoom();
    this.box.replaceChildren();
  }

  /** @param {import("./api.js").Picture} picture */
  load({ id }) {
    const known = this.loaded.get(id);
    const isBroken = known?.complete && !known.naturalWidth;
    const options = { decoding: "async", draggable: "false" };
    const image = known && !isBroken ? known : el("img", { src: largePicture(id, SIDE), ...options });
    this.loaded.delete(id);
    this.loaded.set(id, image);
    if (this.loaded.size > KEPT) {
      const [oldest] = this.loaded.keys();
      this.loaded.delete(oldest);
    }
    return image;
  }

  /** Show the full size, around a point of the picture from 0 to 1, or all of the picture again. */
  zoom(x = 0.5, y = 0.5) {
    const { box, picture } = this;
    if (!picture) return;
    if (this.zoomed) {
      this.show(picture, box.querySelector("img").alt);
      box.focus({ preventScroll: true });
      return;
    }
    const shrink = Math.min(1, FULL_SIDE / Math.max(picture.width, picture.height));
    const fit = Math.min(box.clientWidth / picture.width, box.clientHeight / picture.height);
    const scale = Math.max(shrink, 2 * fit); // small pictures are enlarged
    const shown = box.querySelector("img");
    const isLarger = Math.max(picture.width, picture.height) > SIDE;
    const src = isLarger ? largePicture(picture.id, FULL_SIDE) : shown.src;
    const full = el("img", { src, alt: shown.alt, draggable: "false" });
    if (isLarger) full.style.backgroundImage = `url("${shown.src}")`; // until it is loaded
    full.style.width = `${Math.round(scale * picture.width)}px`;
    full.style.height = `${Math.round(scale * picture.height)}px`;
    this.zoomed = true;
    box.classList.add("zoomed");
    box.tabIndex = 0;
    box.replaceChildren(full);
    box.scrollLeft = x * box.scrollWidth - box.clientWidth / 2;
    box.scrollTop = y * box.scrollHeight - box.clientHeight / 2;
    box.focus({ preventScroll: true }); // arrow keys move the picture
    this.onZoom(true);
  }

  unzoom() {
    if (!this.zoomed) return;
    this.zoomed = false;
    this.box.classList.remove("zoomed");
    this.box.tabIndex = -1;
    this.onZoom(false);
  }

  listen() {
    const { box } = this;
    let start = null;
    box.addEventListener("pointerdown", (event) => {
      const { clientX: x, clientY: y } = event;
      start = event.button === 0 ? { x, y, left: box.scrollLeft, top: box.scrollTop } : null;
    });
    box.addEventListener("pointermove", (event) => {
      if (!start || !this.zoomed || event.pointerType !== "mouse" || event.buttons !== 1) return;
      box.scrollLeft = start.left + start.x - event.clientX;
      box.scrollTop = start.top + start.y - event.clientY;
    });
    box.addEventListener("click", (event) => {
      const moved = start && Math.hypot(event.clientX - start.x, event.clientY - start.y) > DRAG;
      if (moved || !(event.target instanceof HTMLImageElement)) return;
      const [x, y] = this.pointOf(event);
      this.zoom(x, y);
    });
  }

  /** The point of the picture that was clicked, from 0 to 1. @param {MouseEvent} event */
  pointOf({ clientX, clientY }) {
    const { left, top, width, height } = this.box.getBoundingClientRect();
    const { width: w, height: h } = this.picture;
    const fit = Math.min(width / w, height / h);
    return [(clientX - left - width / 2) / (fit * w) + 0.5, (clientY - top - height / 2) / (fit * h) + 0.5];
  }
}

/** @param {HTMLImageElement} image */
const isComplete = (image) => image.complete && image.naturalWidth > 0;
