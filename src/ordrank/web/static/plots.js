/** Plots as inline SVG; each comes with a table of the same numbers. Colours are set by the style sheet. */

import { el } from "./dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [440, 260];
const MARGIN = { left: 64, right: 22, top: 12, bottom: 40 };
const TICKS = 5;

/** @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children */
function svg(tag, attributes, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Round numbers from 0, or from near the lowest value, to the highest.
 * @param {number} low
 * @param {number} high
 * @param {{whole?: boolean}} [options]
 */
export function roundTicks(low, high, { whole = false } = {}) {
  const rough = (high - low || Math.abs(high) || 1) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/**
 * A plot of points, joined by a line.
 * @param {object} options
 * @param {{x: number, y: number, title: string}[]} options.points
 * @param {number[]} options.xTicks ascending
 * @param {number[]} options.yTicks ascending
 * @param {string} options.xLabel
 * @param {string} options.yLabel
 * @param {(value: number) => string} options.xText
 * @param {(value: number) => string} options.yText
 * @param {string} options.description for screen readers
 * @param {boolean} [options.diagonal] draw the line of equal values
 * @param {boolean} [options.dots] draw the points
 */
export function linePlot({ points, xTicks, yTicks, xLabel, yLabel, xText, yText, description, diagonal, dots = true }) {
  const scale = (ticks, from, to) => (value) =>
    from + ((value - ticks[0]) / (ticks.at(-1) - ticks[0] || 1)) * (to - from);
  const x = scale(xTicks, MARGIN.left, WIDTH - MARGIN.right);
  const y = scale(yTicks, HEIGHT - MARGIN.bottom, MARGIN.top);
  const base = HEIGHT - MARGIN.bottom;
  const text = (content, attributes) => svg("text", { class: "plot-text", ...attributes }, content);
  const grid = yTicks.flatMap((tick) => [
    svg("line", { class: "plot-grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(tick), y2: y(tick) }),
    text(yText(tick), { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }),
  ]);
  const marks = xTicks.map((tick) => text(xText(tick), { x: x(tick), y: base + 18, "text-anchor": "middle" }));
  const [low, high] = [Math.max(xTicks[0], yTicks[0]), Math.min(xTicks.at(-1), yTicks.at(-1))];
  const path = points.map((point, i) => `${i ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`).join("");
  const circles = points.map((point) =>
    svg("circle", { class: "plot-dot", cx: x(point.x), cy: y(point.y), r: 4 }, svg("title", {}, point.title)),
  );
  return svg(
    "svg",
    { class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description },
    ...grid,
    ...marks,
    text(xLabel, { x: (MARGIN.left + WIDTH - MARGIN.right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }),
    text(yLabel, { transform: `translate(13 ${(MARGIN.top + base) / 2}) rotate(-90)`, "text-anchor": "middle" }),
    ...(diagonal ? [svg("line", { class: "plot-diagonal", x1: x(low), y1: y(low), x2: x(high), y2: y(high) })] : []),
    svg("path", { class: "plot-line", d: path }),
    ...(dots ? circles : circles.slice(-1)),
  );
}

/**
 * A table of the numbers of a plot, folded away.
 * @param {string} caption
 * @param {string[]} head
 * @param {(string|number)[][]} rows
 */
export function foldedTable(caption, head, rows) {
  const name = el("summary", {}, "Numbers");
  return el("details", { class: "numbers" }, name, scrollable(caption, table(caption, head, rows)));
}

/** @param {string} caption @param {string[]} head @param {(Node|string|number)[][]} rows */
export function table(caption, head, rows) {
  return el(
    "table",
    {},
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map(cell)))),
  );
}

const cell = (content, i) => (i ? el("td", {}, content) : el("th", { scope: "row" }, content));

/** A box in which a wide table can be scrolled, also by keyboard. @param {string} label @param {HTMLElement} content */
export const scrollable = (label, content) =>
  el("div", { class: "scrollable", tabindex: "0", role: "region", "aria-label": label }, content);
