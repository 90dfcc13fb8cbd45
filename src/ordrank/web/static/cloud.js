/** The points of a collection as three.js draws them: once whenever something changes, never in a loop. */

import {
  BufferAttribute,
  BufferGeometry,
  Line,
  PerspectiveCamera,
  Points,
  RawShaderMaterial,
  Scene,
  WebGLRenderer,
} from "./three.module.min.js";

const PLACE = `
  precision highp float;
  uniform mat4 modelViewMatrix, projectionMatrix;
  uniform float unit;
  in vec3 position;
`;
const POINTS = {
  vertexShader: `${PLACE}
    uniform float dimmed;
    uniform vec3 paper;
    in vec3 colour;
    in float mark;
    out vec3 ink;
    void main() {
      vec4 seen = modelViewMatrix * vec4(position, 1.0);
      gl_Position = projectionMatrix * seen;
      float away = dimmed * (1.0 - mark);
      ink = mix(colour, paper, 0.5 * away);
      gl_PointSize = clamp(unit * (1.0 - 0.3 * away + 0.35 * dimmed * mark) / -seen.z, 2.0, 64.0);
      gl_Position.z -= 0.02 * dimmed * mark * gl_Position.w;
    }`,
  fragmentShader: `
    precision highp float;
    in vec3 ink;
    out vec4 drawn;
    void main() {
      float r = length(gl_PointCoord - 0.5);
      float soft = fwidth(r);
      float inside = 1.0 - smoothstep(0.5 - soft, 0.5, r);
      if (inside < 0.1) discard;
      drawn = vec4(ink * (1.0 - 0.18 * smoothstep(0.3, 0.5, r)), inside);
    }`,
};
const RINGS = {
  vertexShader: `${PLACE}
    in float kind;
    out float shown;
    void main() {
      shown = kind;
      gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
      gl_PointSize = kind < 0.5 ? 0.0 : unit;
    }`,
  fragmentShader: `
    precision highp float;
    uniform vec3 ink, paper;
    in float shown;
    out vec4 drawn;
    void main() {
      if (shown < 0.5) discard;
      vec2 at = 2.0 * (gl_PointCoord - 0.5);
      float r = length(at);
      float ring = 1.0 - smoothstep(0.10, 0.16, abs(r - 0.62));
      float cross = shown > 1.5 ? 0.0 : step(0.62, r) * (1.0 - smoothstep(0.07, 0.12, min(abs(at.x), abs(at.y))));
      float halo = 1.0 - smoothstep(0.20, 0.34, abs(r - 0.62));
      float line = max(ring, cross);
      drawn = vec4(mix(paper, ink, line), max(line, 0.85 * halo));
      if (drawn.a < 0.02) discard;
    }`,
};
const PATH = {
  vertexShader: `${PLACE} void main() { gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0); }`,
  fragmentShader: `precision highp float; uniform vec3 ink; out vec4 drawn; void main() { drawn = vec4(ink, 0.7); }`,
};

// Beyond so many points nobody sees whether their line is smooth, but what draws without a graphics card feels it.
const MANY = 20_000;

/** Numbers below n, evenly mixed: any first part of them is a fair sample. @param {number} n */
function mixed(n) {
  let step = Math.max(1, Math.round(0.618 * n));
  const common = (/** @type {number} */ a, /** @type {number} */ b) => (b ? common(b, a % b) : a);
  while (common(n, step) > 1) step += 1;
  return Uint32Array.from({ length: n }, (_, k) => (k * step) % n);
}

/** A scene of points, rings around two of them, and a path. */
export class CloudScene {
  /** @param {HTMLCanvasElement} canvas @param {number} n about how many points there will be */
  constructor(canvas, n) {
    this.renderer = new WebGLRenderer({ canvas, antialias: n < MANY, alpha: true });
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.camera = new PerspectiveCamera(40, 1, 0.05, 40);
    this.scene = new Scene();
    const vec3 = () => ({ value: [0, 0, 0] });
    this.uniforms = { paper: vec3(), ink: vec3(), dimmed: { value: 0 }, unit: { value: 10 }, ring: { value: 30 } };
    const { paper, ink, dimmed, unit, ring } = this.uniforms;
    const material = (/** @type {object} */ shaders, /** @type {object} */ uniforms, /** @type {boolean} */ depth) =>
      new RawShaderMaterial({
        ...shaders,
        uniforms,
        glslVersion: "300 es",
        transparent: true,
        depthTest: depth,
        depthWrite: depth,
      });
    this.points = new Points(new BufferGeometry(), material(POINTS, { paper, dimmed, unit }, true));
    this.rings = new Points(new BufferGeometry(), material(RINGS, { paper, ink, unit: ring }, false));
    this.path = new Line(new BufferGeometry(), material(PATH, { ink }, true));
    this.rings.renderOrder = 2;
    this.ringAt = new BufferAttribute(new Float32Array(6), 3);
    this.ringKind = new BufferAttribute(new Float32Array(2), 1);
    this.rings.geometry.setAttribute("position", this.ringAt);
    this.rings.geometry.setAttribute("kind", this.ringKind);
    for (const one of [this.points, this.path, this.rings]) {
      one.frustumCulled = false;
      this.scene.add(one);
    }
  }

  /** @param {Float32Array} positions @param {Float32Array} colours @param {number[]} path three numbers a station */
  fill(positions, colours, path) {
    const n = positions.length / 3;
    this.points.geometry.dispose();
    this.points.geometry = new BufferGeometry();
    this.marks = new BufferAttribute(new Float32Array(n), 1);
    this.points.geometry.setAttribute("position", new BufferAttribute(positions, 3));
    this.points.geometry.setAttribute("colour", new BufferAttribute(colours, 3));
    this.points.geometry.setAttribute("mark", this.marks);
    this.order = mixed(n);
    this.points.geometry.setIndex(new BufferAttribute(this.order.slice(), 1));
    this.path.geometry.dispose();
    this.path.geometry = new BufferGeometry();
    this.path.geometry.setAttribute("position", new BufferAttribute(new Float32Array(path), 3));
    this.crowd = Math.max(0.35, Math.min(1.6, Math.sqrt(400 / Math.max(1, n)))); // many points are small
  }

  /** @param {number[]} indices of the points that stand out; none: all are alike */
  mark(indices) {
    this.marks.array.fill(0);
    for (const i of indices) this.marks.array[i] = 1;
    this.marks.needsUpdate = true;
    const { index } = this.points.geometry; // they come first: they are in every sample
    index.array.set(indices);
    index.array.set(
      this.order.filter((i) => !this.marks.array[i]),
      indices.length,
    );
    index.needsUpdate = true;
    this.uniforms.dimmed.value = indices.length ? 1 : 0;
  }

  /** @param {0|1} which 0: what was asked, 1: what is pointed at @param {ArrayLike<number>|null} place */
  ring(which, place) {
    this.ringKind.array[which] = place ? which + 1 : 0;
    if (place) this.ringAt.array.set([place[0], place[1], place[2]], 3 * which);
    this.ringAt.needsUpdate = true;
    this.ringKind.needsUpdate = true;
  }

  /** @param {number} width @param {number} height in CSS pixels */
  resize(width, height) {
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.height = height;
    this.width = width;
  }

  /**
   * @param {number[]} eye
   * @param {number} usual distance, at which a point has its usual size
   * @param {number} most points to draw
   */
  draw(eye, usual, most) {
    this.points.geometry.setDrawRange(0, most);
    const ratio = this.renderer.getPixelRatio();
    this.uniforms.unit.value = 8 * usual * ratio * (this.crowd ?? 1);
    this.uniforms.ring.value = 30 * ratio;
    this.camera.position.set(eye[0], eye[1], eye[2]);
    this.camera.lookAt(0, 0, 0);
    this.renderer.render(this.scene, this.camera);
    this.projection = this.camera.projectionMatrix.clone().multiply(this.camera.matrixWorldInverse).elements;
    this.draws = (this.draws ?? 0) + 1;
  }

  /**
   * Where a place is seen, in CSS pixels, and how deep.
   * @param {ArrayLike<number>} place
   * @param {number} [at] index of its first number
   */
  seen(place, at = 0) {
    const m = this.projection; // by columns; one product for all points
    const [x, y, z] = [place[at], place[at + 1], place[at + 2]];
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    const across = (m[0] * x + m[4] * y + m[8] * z + m[12]) / w;
    const upward = (m[1] * x + m[5] * y + m[9] * z + m[13]) / w;
    const depth = (m[2] * x + m[6] * y + m[10] * z + m[14]) / w;
    return { x: ((across + 1) / 2) * this.width, y: ((1 - upward) / 2) * this.height, depth: w > 0 ? depth : 2 };
  }
}
