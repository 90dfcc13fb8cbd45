/** The selected pictures: by checkboxes, by ranges, all of the list, or inside a line drawn on the map. */

import { el } from "./dom.js";

const FIELDS = "input:not([type=checkbox]), select, textarea";

/** A set of pictures, shown by the checkboxes of the list. */
export class Selection {
  /**
   * @param {object} options
   * @param {HTMLElement} options.list whose cards are selected
   * @param {() => number[]} options.order ids of the listed pictures
   * @param {() => void} options.onChange
   */
  constructor(options) {
    Object.assign(this, options);
    /** @type {Set<number>} */
    this.ids = new Set();
    /** Whether a click on a picture selects it, even if none is selected yet. */
    this.mode = false;
    /** The picture at which a range begins. @type {number|null} */
    this.anchor = null;
    this.list.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Add a checkbox to the card of a picture. @param {HTMLElement} element @param {{id: number, name: string}} item */
  decorate(element, { id, name }) {
    const box = el("input", { type: "checkbox", "aria-label": `Select ${name}` });
    box.checked = this.ids.has(id);
    element.append(el("label", { class: "pick" }, box));
    element.classList.toggle("selected", box.checked);
  }

  /** A click on a checkbox; while some are selected, a click on a picture counts as one. @param {MouseEvent} event */
  click(event) {
    const card = event.target.closest(".card[data-id]");
    const isBox = event.target.matches(".pick input");
    const isPicture = event.target.closest(".card-link") && this.isActive && !event.ctrlKey && !event.metaKey;
    if (!card || !(isBox || isPicture)) return;
    if (!isBox) event.preventDefault();
    this.toggle(Number(card.dataset.id), { range: event.shiftKey });
  }

  /** Whether pictures are being selected. */
  get isActive() {
    return this.mode || this.ids.size > 0;
  }

  /** @param {number} id @param {{range: boolean}} options range: also all pictures since the last one */
  toggle(id, { range }) {
    const selects = !this.ids.has(id);
    for (const other of range ? this.range(id) : [id]) {
      if (selects) this.ids.add(other);
      else this.ids.delete(other);
    }
    this.anchor = id;
    this.refresh();
  }

  /** The pictures of the list from the last one that was clicked to another. @param {number} id */
  range(id) {
    const order = this.order();
    const ends = [order.indexOf(this.anchor ?? id), order.indexOf(id)].sort((a, b) => a - b);
    return ends[0] < 0 ? [id] : order.slice(ends[0], ends[1] + 1);
  }

  /** @param {Iterable<number>} ids */
  add(ids) {
    for (const id of ids) this.ids.add(id);
    this.refresh();
  }

  /** @param {Iterable<number>} ids of pictures that are gone */
  remove(ids) {
    for (const id of ids) this.ids.delete(id);
    this.refresh();
  }

  clear() {
    this.ids.clear();
    this.anchor = null;
    this.mode = false;
    this.refresh();
  }

  /** @param {boolean} mode whether a click on a picture selects it */
  setMode(mode) {
    if (mode) this.mode = true;
    else this.clear();
    this.refresh();
  }

  /** Show what is selected. */
  refresh() {
    document.documentElement.toggleAttribute("data-selecting", this.isActive);
    for (const card of this.list.querySelectorAll(".card[data-id]")) {
      const selected = this.ids.has(Number(card.dataset.id));
      card.classList.toggle("selected", selected);
      card.querySelector(".pick input").checked = selected;
    }
    this.onChange();
  }

  /** Control and A selects what is listed, Escape nothing. @param {KeyboardEvent} event */
  key(event) {
    if (event.defaultPrevented || event.target.closest(FIELDS) || document.querySelector("dialog:modal")) return;
    const isShown = document.getElementById("selection")?.checkVisibility(); // there are views without it
    if (event.key === "Escape" && this.isActive && isShown && !event.target.closest("dialog")) this.clear();
    else if (event.key === "a" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
      const order = this.order();
      if (!order.length) return;
      event.preventDefault();
      this.add(order);
    }
  }
}
