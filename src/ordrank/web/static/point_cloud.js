/** The three.js scene of the map: points, rings around two of them, and a line. Rendered on demand, never in a loop. */

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

const COMMON = `
  precision highp float;
  uniform mat4 modelViewMatrix, projectionMatrix;
  uniform float size;
  in vec3 position;
`;
const POINT_SHADERS = {
  vertexShader: `${COMMON}
    uniform float dimming;
    uniform vec3 background;
    in vec3 colour;
    in float marked;
    out vec3 pointColour;
    void main() {
      vec4 view = modelViewMatrix * vec4(position, 1.0);
      gl_Position = projectionMatrix * view;
      float dimmed = dimming * (1.0 - marked);
      pointColour = mix(colour, background, 0.5 * dimmed);
      gl_PointSize = clamp(size * (1.0 - 0.3 * dimmed + 0.35 * dimming * marked) / -view.z, 2.0, 64.0);
      gl_Position.z -= 0.02 * dimming * marked * gl_Position.w;
    }`,
  fragmentShader: `
    precision highp float;
    in vec3 pointColour;
    out vec4 fragColour;
    void main() {
      float r = length(gl_PointCoord - 0.5);
      float coverage = 1.0 - smoothstep(0.5 - fwidth(r), 0.5, r);
      if (coverage < 0.1) discard;
      fragColour = vec4(pointColour * (1.0 - 0.18 * smoothstep(0.3, 0.5, r)), coverage);
    }`,
};
const RING_SHADERS = {
  vertexShader: `${COMMON}
    in float kind;
    out float ringKind;
    void main() {
      ringKind = kind;
      gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
      gl_PointSize = kind < 0.5 ? 0.0 : size;
    }`,
  fragmentShader: `
    precision highp float;
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
const LINE_SHADERS = {
  vertexShader: `${COMMON} void main() { gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0); }`,
  fragmentShader: `precision highp float; uniform vec3 foreground; out vec4 fragColour;
    void main() { fragColour = vec4(foreground, 0.7); }`,
};

const MAX_ANTIALIASED = 20_000; // points; with more, smooth edges are not visible but slow without a graphics card
const RINGS = ["query", "hover"];

/** A permutation of 0 to n - 1 whose every prefix is an even sample. @param {number} n */
function evenPermutation(n) {
  const gcd = (a, b) => (b ? gcd(b, a % b) : a);
  let step = Math.max(1, Math.round(0.618 * n));
  while (gcd(n, step) > 1) step += 1;
  return Uint32Array.from({ length: n }, (_, k) => (k * step) % n);
}

/** Renderer, camera and objects of the map. */
export class PointCloud {
  /** @param {HTMLCanvasElement} canvas @param {number} n expected number of points */
  constructor(canvas, n) {
    this.renderer = new WebGLRenderer({ canvas, antialias: n < MAX_ANTIALIASED, alpha: true });
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
    this.camera = new PerspectiveCamera(40, 1, 0.05, 40);
    this.scene = new Scene();
    this.draws = 0;
    const [background, foreground] = [{ value: [0, 0, 0] }, { value: [0, 0, 0] }];
    this.uniforms = { background, foreground, dimming: { value: 0 }, size: { value: 10 }, ringSize: { value: 30 } };
    const { dimming, size, ringSize } = this.uniforms;
    const options = { glslVersion: "300 es", transparent: true };
    const material = (shaders, uniforms, depth) =>
      new RawShaderMaterial({ ...shaders, uniforms, ...options, depthTest: depth, depthWrite: depth });
    const pointMaterial = material(POINT_SHADERS, { background, dimming, size }, true);
    const ringMaterial = material(RING_SHADERS, { background, foreground, size: ringSize }, false);
    this.points = new Points(new BufferGeometry(), pointMaterial);
    this.line = new Line(new BufferGeometry(), material(LINE_SHADERS, { foreground }, true));
    this.rings = new Points(new BufferGeometry(), ringMaterial);
    this.rings.renderOrder = 2;
    this.ringPositions = new BufferAttribute(new Float32Array(6), 3);
    this.ringKinds = new BufferAttribute(new Float32Array(2), 1);
    this.rings.geometry.setAttribute("position", this.ringPositions);
    this.rings.geometry.setAttribute("kind", this.ringKinds);
    for (const object of [this.points, this.line, this.rings]) {
      object.frustumCulled = false;
      this.scene.add(object);
    }
  }

  /**
   * @param {Float32Array} positions x, y, z per point
   * @param {Float32Array} colours red, green, blue per point
   * @param {number[]} line x, y, z per vertex
   */
  setPoints(positions, colours, line) {
    const n = positions.length / 3;
    this.points.geometry.dispose();
    this.points.geometry = new BufferGeometry();
    this.marked = new BufferAttribute(new Float32Array(n), 1);
    this.points.geometry.setAttribute("position", new BufferAttribute(positions, 3));
    this.points.geometry.setAttribute("colour", new BufferAttribute(colours, 3));
    this.points.geometry.setAttribute("marked", this.marked);
    this.order = evenPermutation(n);
    this.points.geometry.setIndex(new BufferAttribute(this.order.slice(), 1));
    this.line.geometry.dispose();
    this.line.geometry = new BufferGeometry();
    this.line.geometry.setAttribute("position", new BufferAttribute(new Float32Array(line), 3));
    this.pointScale = Math.max(0.35, Math.min(1.6, Math.sqrt(400 / Math.max(1, n)))); // many points are small
  }

  /** Highlight points and dim the others. @param {number[]} indices empty: no point is dimmed */
  mark(indices) {
    this.marked.array.fill(0);
    for (const i of indices) this.marked.array[i] = 1;
    this.marked.needsUpdate = true;
    const { index } = this.points.geometry; // marked points first: every level of detail contains them
    index.array.set(indices);
    index.array.set(
      this.order.filter((i) => !this.marked.array[i]),
      indices.length,
    );
    index.needsUpdate = true;
    this.uniforms.dimming.value = indices.length ? 1 : 0;
  }

  /** @param {"query"|"hover"} name @param {ArrayLike<number>|null} position null removes the ring */
  setRing(name, position) {
    const i = RINGS.indexOf(name);
    this.ringKinds.array[i] = position ? i + 1 : 0;
    if (position) this.ringPositions.array.set(position, 3 * i);
    this.ringPositions.needsUpdate = true;
    this.ringKinds.needsUpdate = true;
  }

  /** @param {number} width @param {number} height in CSS pixels */
  resize(width, height) {
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    Object.assign(this, { width, height });
  }

  /**
   * @param {number[]} cameraPosition
   * @param {number} homeDistance camera distance at which points have their nominal size
   * @param {number} count number of points to draw
   */
  draw(cameraPosition, homeDistance, count) {
    this.points.geometry.setDrawRange(0, count);
    const ratio = this.renderer.getPixelRatio();
    this.uniforms.size.value = 8 * homeDistance * ratio * this.pointScale;
    this.uniforms.ringSize.value = 30 * ratio;
    this.camera.position.set(...cameraPosition);
    this.camera.lookAt(0, 0, 0);
    this.renderer.render(this.scene, this.camera);
    this.viewProjection = this.camera.projectionMatrix.clone().multiply(this.camera.matrixWorldInverse).elements;
    this.draws += 1;
  }

  /**
   * Project to CSS pixels and normalised depth.
   * @param {ArrayLike<number>} positions
   * @param {number} [offset] index of the first coordinate
   */
  project(positions, offset = 0) {
    const m = this.viewProjection; // column-major
    const [x, y, z] = [positions[offset], positions[offset + 1], positions[offset + 2]];
    const w = m[3] * x + m[7] * y + m[11] * z + m[15];
    const right = (m[0] * x + m[4] * y + m[8] * z + m[12]) / w;
    const up = (m[1] * x + m[5] * y + m[9] * z + m[13]) / w;
    const depth = (m[2] * x + m[6] * y + m[10] * z + m[14]) / w;
    return { x: ((right + 1) / 2) * this.width, y: ((1 - up) / 2) * this.height, depth: w > 0 ? depth : 2 };
  }
}
