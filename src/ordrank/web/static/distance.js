/** A distance and its two orthogonal parts, order and appearance: d² = order² + appearance². */

import { digits, el, percent } from "./dom.js";

/** @typedef {import("./api.js").Ranked} Ranked */

/** Share of the order in the squared distance. @param {Ranked} ranked */
function orderShare({ order_distance, appearance_distance }) {
  const order = order_distance ** 2;
  return order / (order + appearance_distance ** 2 || 1);
}

/** A bar split by the shares of the two parts; its length is set by the style sheet. @param {Ranked} ranked */
function splitBar(ranked) {
  const order = el("span", { class: "order" });
  order.style.width = `${100 * orderShare(ranked)}%`;
  return el("span", { class: "length" }, order, el("span", { class: "appearance" }));
}

/** A bar as long as the distance, for a card. @param {Ranked} ranked */
export function distanceBar(ranked) {
  const text = `order ${digits(ranked.order_distance)}, appearance ${digits(ranked.appearance_distance)}`;
  const bar = splitBar(ranked);
  bar.style.setProperty("--distance", String(ranked.distance));
  return el("div", { class: "parts", role: "img", "aria-label": text, title: text }, bar);
}

/** The distance with its parts in numbers and a sentence, for the side panel. @param {Ranked} ranked */
export function distanceSection(ranked) {
  const share = orderShare(ranked);
  const row = (part, label, value, partShare) =>
    el(
      "li",
      {},
      el("span", { class: `swatch ${part}`, "aria-hidden": "true" }),
      label,
      el("span", { class: "number" }, digits(value)),
      el("span", { class: "number muted" }, percent(partShare)),
    );
  return el(
    "section",
    { class: "distance-parts", "aria-labelledby": "distance-title" },
    el("h3", { id: "distance-title" }, "Distance ", el("span", { class: "number" }, digits(ranked.distance))),
    el("div", { class: "parts whole", "aria-hidden": "true" }, splitBar(ranked)),
    el(
      "ul",
      {},
      row("order", "Order", ranked.order_distance, share),
      row("appearance", "Appearance", ranked.appearance_distance, 1 - share),
    ),
    el("p", { class: "muted" }, explanation(ranked.distance, share)),
  );
}

function explanation(distance, share) {
  if (!distance) return "The model finds no difference between this picture and the query.";
  if (share > 0.65) return "It differs from the query mainly in order, its position between low and high grades.";
  if (share < 0.35) return "It differs from the query mainly in appearance; in order the two are close.";
  return "Order and appearance differ about equally here.";
}
