/** A small line plot of the error against the number of grades. */

import { count, digits, el } from "./dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [320, 96];
const FIRST = 5; // the mean of fewer grades says little
const MARGIN = { left: 34, right: 8, top: 8, bottom: 20 };

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * @param {{grades: number, error: number}[]} points at least two
 * @returns {HTMLElement}
 */
export function errorPlot(points) {
  points = points.slice(Math.min(FIRST - 1, points.length - 2));
  const errors = points.map(({ error }) => error);
  const [first, last] = [points[0].grades, points.at(-1).grades];
  const highest = Math.max(...errors) || 1;
  const x = (grades) => MARGIN.left + ((grades - first) / (last - first || 1)) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (error) => HEIGHT - MARGIN.bottom - (error / highest) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const path = points.map(({ grades, error }, i) => `${i ? "L" : "M"}${x(grades).toFixed(1)} ${y(error).toFixed(1)}`);
  const [before, now] = [errors[0], errors.at(-1)].map(digits);
  const text = `Mean error of the last grades: ${before} after ${count(first)}, ${now} after ${count(last)}`;
  const label = (value, attributes) => svg("text", { class: "tick-label", ...attributes }, value);
  const base = HEIGHT - MARGIN.bottom;
  return el(
    "figure",
    { class: "error-plot" },
    el("figcaption", {}, "Error of the estimates against the number of grades"),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": text },
      svg("path", { class: "axis", d: `M${MARGIN.left} ${MARGIN.top}V${base}H${WIDTH - MARGIN.right}` }),
      svg("path", { class: "curve", d: path.join("") }),
      svg("circle", { class: "end", cx: x(last), cy: y(errors.at(-1)), r: 3 }),
      label(String(Number(highest.toPrecision(2))), { x: MARGIN.left - 5, y: MARGIN.top + 8, "text-anchor": "end" }),
      label("0", { x: MARGIN.left - 5, y: base, "text-anchor": "end" }),
      label(count(first), { x: MARGIN.left, y: HEIGHT - 5 }),
      label(count(last), { x: WIDTH - MARGIN.right, y: HEIGHT - 5, "text-anchor": "end" }),
    ),
  );
}
