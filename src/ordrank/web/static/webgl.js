/** The part of WebGL 2 that the map needs: programs, and vertex arrays with their buffers. */

/** @param {WebGL2RenderingContext} gl @param {number} type @param {string} source */
function compile(gl, type, source) {
  const shader = gl.createShader(type);
  gl.shaderSource(shader, `#version 300 es\nprecision highp float;\n${source}`);
  gl.compileShader(shader);
  return shader;
}

/** A vertex and a fragment shader with their uniforms. */
export class Program {
  /** @param {WebGL2RenderingContext} gl @param {{vertex: string, fragment: string}} sources GLSL ES 3.00 */
  constructor(gl, { vertex, fragment }) {
    this.gl = gl;
    this.handle = gl.createProgram();
    const shaders = [compile(gl, gl.VERTEX_SHADER, vertex), compile(gl, gl.FRAGMENT_SHADER, fragment)];
    shaders.forEach((shader) => gl.attachShader(this.handle, shader));
    gl.linkProgram(this.handle);
    if (!gl.getProgramParameter(this.handle, gl.LINK_STATUS) && !gl.isContextLost()) {
      const logs = [gl.getProgramInfoLog(this.handle), ...shaders.map((shader) => gl.getShaderInfoLog(shader))];
      throw new Error(`the shaders of the map do not compile: ${logs.join("\n")}`);
    }
    shaders.forEach((shader) => gl.deleteShader(shader)); // the program keeps them
    const count = gl.getProgramParameter(this.handle, gl.ACTIVE_UNIFORMS);
    const names = Array.from({ length: count }, (_, i) => gl.getActiveUniform(this.handle, i).name);
    this.locations = Object.fromEntries(names.map((name) => [name, gl.getUniformLocation(this.handle, name)]));
  }

  /** Use this program. @param {Record<string, number|ArrayLike<number>>} uniforms numbers, 3-vectors, 4 × 4 matrices */
  use(uniforms) {
    const { gl } = this;
    gl.useProgram(this.handle);
    for (const [name, value] of Object.entries(uniforms)) {
      const location = this.locations[name];
      if (typeof value === "number") gl.uniform1f(location, value);
      else if (value.length === 3) gl.uniform3fv(location, value);
      else gl.uniformMatrix4fv(location, false, value);
    }
  }
}

/** Attributes of vertices in buffers of their own, with an optional index. */
export class VertexArray {
  /** @param {Program} program @param {Record<string, number>} sizes numbers per vertex by attribute */
  constructor(program, sizes) {
    const { gl } = program;
    this.gl = gl;
    this.handle = gl.createVertexArray();
    this.index = gl.createBuffer();
    /** @type {Record<string, WebGLBuffer>} */
    this.buffers = {};
    gl.bindVertexArray(this.handle);
    for (const [name, size] of Object.entries(sizes)) {
      this.buffers[name] = gl.createBuffer();
      const location = gl.getAttribLocation(program.handle, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, size, gl.FLOAT, false, 0, 0);
    }
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.index);
    gl.bindVertexArray(null);
  }

  /** @param {string} name @param {Float32Array} values */
  setAttribute(name, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }

  /** @param {Uint32Array} indices */
  setIndex(indices) {
    this.gl.bindVertexArray(this.handle);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, indices, this.gl.DYNAMIC_DRAW);
    this.gl.bindVertexArray(null);
  }

  /** Draw the first vertices, in the order of the index if asked. @param {number} mode such as gl.POINTS */
  draw(mode, count, { indexed = false } = {}) {
    this.gl.bindVertexArray(this.handle);
    if (indexed) this.gl.drawElements(mode, count, this.gl.UNSIGNED_INT, 0);
    else this.gl.drawArrays(mode, 0, count);
    this.gl.bindVertexArray(null);
  }
}
