/** The point cloud of the map: points, rings around two of them, and a line. Drawn on demand, never in a loop. */

import { multiply, projectionMatrix, viewMatrix } from "./camera.js";
import { Program, VertexArray } from "./webgl.js";

const POINTS = {
  vertex: `
    uniform mat4 view, projection;
    uniform float size, least, dimming;
    uniform vec3 background;
    in vec3 position, colour;
    in float marked;
    out vec3 pointColour;
    void main() {
      vec4 viewPosition = view * vec4(position, 1.0);
      gl_Position = projection * viewPosition;
      float dimmed = dimming * (1.0 - marked);
      pointColour = mix(colour, background, 0.5 * dimmed);
      gl_PointSize = clamp(size * (1.0 - 0.3 * dimmed + 0.35 * dimming * marked) / -viewPosition.z, least, 64.0);
      gl_Position.z -= 0.02 * dimming * marked * gl_Position.w;
    }`,
  fragment: `
    in vec3 pointColour;
    out vec4 fragColour;
    void main() {
      float r = length(gl_PointCoord - 0.5);
      float coverage = 1.0 - smoothstep(0.5 - fwidth(r), 0.5, r);
      if (coverage < 0.1) discard;
      fragColour = vec4(pointColour * (1.0 - 0.18 * smoothstep(0.3, 0.5, r)), coverage);
    }`,
};
const RINGS = {
  vertex: `
    uniform mat4 view, projection;
    uniform float size;
    in vec3 position;
    in float kind;
    out float ringKind;
    void main() {
      ringKind = kind;
      gl_Position = projection * view * vec4(position, 1.0);
      gl_PointSize = kind < 0.5 ? 0.0 : size;
    }`,
  fragment: `
    uniform vec3 foreground, background;
    in float ringKind;
    out vec4 fragColour;
    void main() {
      if (ringKind < 0.5) discard;
      vec2 at = 2.0 * (gl_PointCoord - 0.5);
      float r = length(at);
      float ring = 1.0 - smoothstep(0.10, 0.16, abs(r - 0.62));
      float cross = ringKind > 1.5 ? 0.0 : step(0.62, r) * (1.0 - smoothstep(0.07, 0.12, min(abs(at.x), abs(at.y))));
      float halo = 1.0 - smoothstep(0.20, 0.34, abs(r - 0.62));
      float line = max(ring, cross);
      fragColour = vec4(mix(background, foreground, line), max(line, 0.85 * halo));
      if (fragColour.a < 0.02) discard;
    }`,
};
const LINE = {
  vertex: `
    uniform mat4 view, projection;
    in vec3 position;
    void main() { gl_Position = projection * view * vec4(position, 1.0); }`,
  fragment: `
    uniform vec3 foreground;
    out vec4 fragColour;
    void main() { fragColour = vec4(foreground, 0.7); }`,
};

const MAX_ANTIALIASED = 20_000; // points; with more, smooth edges are not visible but slow without a graphics card
const RING_NAMES = ["query", "hover"];

/** A permutation of 0 to n - 1 whose every prefix is an even sample. @param {number} n */
function evenPermutation(n) {
  const gcd = (a, b) => (b ? gcd(b, a % b) : a);
  let step = Math.max(1, Math.round(0.618 * n));
  while (gcd(n, step) > 1) step += 1;
  return Uint32Array.from({ length: n }, (_, k) => (k * step) % n);
}

/** @param {ArrayLike<number>} positions x, y, z per point */
function farthest(positions) {
  let squared = 0;
  for (let at = 0; at < positions.length; at += 3) {
    squared = Math.max(squared, positions[at] ** 2 + positions[at + 1] ** 2 + positions[at + 2] ** 2);
  }
  return Math.sqrt(squared);
}

/** Draws points, line and rings on a canvas, as seen by a camera that looks at the origin. */
export class PointCloud {
  /** @param {HTMLCanvasElement} canvas @param {number} n expected number of points */
  constructor(canvas, n) {
    this.canvas = canvas;
    this.gl = canvas.getContext("webgl2", { antialias: n < MAX_ANTIALIASED });
    this.pixelRatio = Math.min(window.devicePixelRatio, 2);
    this.draws = 0;
    this.background = this.foreground = [0, 0, 0];
    this.ringPositions = new Float32Array(3 * RING_NAMES.length);
    this.ringKinds = new Float32Array(RING_NAMES.length); // 0 for no ring, else 1 + the index of its name
    this.createResources();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault()); // lets the browser restore it
    canvas.addEventListener("webglcontextrestored", () => {
      this.createResources();
      if (this.positions) this.uploadPoints();
    });
  }

  /** Create what the graphics card holds: programs, empty buffers, settings. */
  createResources() {
    const { gl } = this;
    this.programs = { points: new Program(gl, POINTS), line: new Program(gl, LINE), rings: new Program(gl, RINGS) };
    const { points, line, rings } = this.programs;
    this.points = new VertexArray(points, { position: 3, colour: 3, marked: 1 });
    this.line = new VertexArray(line, { position: 3 });
    this.rings = new VertexArray(rings, { position: 3, kind: 1 });
    gl.enable(gl.BLEND); // the canvas holds premultiplied colours
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthFunc(gl.LEQUAL);
  }

  /** @param {number[]} background @param {number[]} foreground red, green, blue from 0 to 1 */
  setColours(background, foreground) {
    Object.assign(this, { background, foreground });
  }

  /**
   * @param {Float32Array} positions x, y, z per point
   * @param {Float32Array} colours red, green, blue per point
   * @param {number[]} line x, y, z per vertex
   */
  setPoints(positions, colours, line) {
    const n = positions.length / 3;
    Object.assign(this, { positions, colours, linePositions: new Float32Array(line) });
    this.marked = new Float32Array(n);
    this.order = evenPermutation(n);
    this.drawOrder = this.order;
    this.dimming = 0;
    this.radius = farthest(positions);
    this.diameter = Math.max(3.5, Math.min(16, 70 / Math.cbrt(Math.max(1, n)))); // many points are small
    this.uploadPoints();
  }

  uploadPoints() {
    this.points.setAttribute("position", this.positions);
    this.points.setAttribute("colour", this.colours);
    this.line.setAttribute("position", this.linePositions);
    this.uploadMarks();
  }

  uploadMarks() {
    this.points.setAttribute("marked", this.marked);
    this.points.setIndex(this.drawOrder);
  }

  /** Highlight points and dim the others. @param {number[]} indices empty: no point is dimmed */
  mark(indices) {
    this.marked.fill(0);
    for (const i of indices) this.marked[i] = 1;
    // Marked points first: every level of detail contains them.
    this.drawOrder = new Uint32Array(this.order.length);
    this.drawOrder.set(indices);
    this.drawOrder.set(
      this.order.filter((i) => !this.marked[i]),
      indices.length,
    );
    this.dimming = indices.length ? 1 : 0;
    this.uploadMarks();
  }

  /** @param {"query"|"hover"} name @param {ArrayLike<number>|null} position null removes the ring */
  setRing(name, position) {
    const i = RING_NAMES.indexOf(name);
    this.ringKinds[i] = position ? i + 1 : 0;
    if (position) this.ringPositions.set(position, 3 * i);
  }

  /** @param {number} width @param {number} height in CSS pixels */
  resize(width, height) {
    Object.assign(this, { width, height });
    this.canvas.width = Math.floor(width * this.pixelRatio);
    this.canvas.height = Math.floor(height * this.pixelRatio);
  }

  /**
   * @param {number[]} cameraPosition
   * @param {number} homeDistance camera distance at which points have their nominal size
   * @param {number} count number of points to draw
   */
  draw(cameraPosition, homeDistance, count) {
    const { gl, programs, background, foreground, dimming } = this;
    const view = viewMatrix(cameraPosition);
    const radius = Math.max(this.radius, farthest(this.ringPositions));
    const far = 1.01 * (Math.hypot(...cameraPosition) + radius); // behind everything, in spite of rounding
    const projection = projectionMatrix(this.width / this.height, far);
    this.viewProjection = multiply(projection, view);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.DEPTH_TEST);
    this.pointSize = this.diameter * homeDistance; // in CSS pixels at distance 1
    const size = this.pointSize * this.pixelRatio;
    programs.points.use({ view, projection, size, least: 2.5 * this.pixelRatio, dimming, background });
    this.points.draw(gl.POINTS, count, { indexed: true });
    programs.line.use({ view, projection, foreground });
    this.line.draw(gl.LINE_STRIP, this.linePositions.length / 3);
    gl.disable(gl.DEPTH_TEST); // rings are never hidden
    programs.rings.use({ view, projection, size: 30 * this.pixelRatio, foreground, background });
    this.rings.setAttribute("position", this.ringPositions);
    this.rings.setAttribute("kind", this.ringKinds);
    this.rings.draw(gl.POINTS, RING_NAMES.length);
    this.draws += 1;
  }

  /**
   * Project to CSS pixels; `distance` is the depth in view coordinates, not positive behind the camera.
   * @param {ArrayLike<number>} positions
   * @param {number} [offset] index of the first coordinate
   */
  project(positions, offset = 0) {
    const m = this.viewProjection; // column-major
    const [x, y, z] = [positions[offset], positions[offset + 1], positions[offset + 2]];
    const distance = m[3] * x + m[7] * y + m[11] * z + m[15];
    const right = (m[0] * x + m[4] * y + m[8] * z + m[12]) / distance;
    const up = (m[1] * x + m[5] * y + m[9] * z + m[13]) / distance;
    return { x: ((right + 1) / 2) * this.width, y: ((1 - up) / 2) * this.height, distance };
  }
}
