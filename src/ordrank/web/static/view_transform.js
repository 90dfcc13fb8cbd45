/** Embedding coordinates to coordinates of the view: centred, scaled, low grades on the left. */

const AXES = [0, 1, 2];

/** Translation, scale and half turn, fitted to the collection and applied to collection and query. */
export class ViewTransform {
  /** @param {Float32Array} positions x, y, z per point @param {Float64Array} values grades as numbers, NaN for none */
  constructor(positions, values) {
    const n = values.length || 1;
    this.mean = AXES.map((axis) => {
      let sum = 0;
      for (let i = axis; i < positions.length; i += 3) sum += positions[i];
      return sum / n;
    });
    const radii = Float32Array.from(values, (_, i) =>
      Math.hypot(...AXES.map((axis) => positions[3 * i + axis] - this.mean[axis])),
    ).sort();
    const last = radii.length - 1;
    this.scale = 1 / (radii[last - Math.floor(0.03 * last)] || 1); // of few points, the farthest counts
    const graded = values.filter((value) => !Number.isNaN(value));
    const meanValue = graded.reduce((sum, value) => sum + value, 0) / graded.length;
    let covariance = 0; // of the first axis and the grade
    values.forEach((value, i) => {
      if (!Number.isNaN(value)) covariance += (positions[3 * i] - this.mean[0]) * (value - meanValue);
    });
    this.sign = covariance < 0 ? -1 : 1;
  }

  /** @param {ArrayLike<number>} positions @param {number} [offset] index of the first coordinate */
  apply(positions, offset = 0) {
    const [x, y, z] = AXES.map((axis) => (positions[offset + axis] - this.mean[axis]) * this.scale);
    return [this.sign * x, y, this.sign * z]; // both signs: a rotation, not a reflection
  }
}

/**
 * @param {Float32Array} positions
 * @param {Int32Array} gradeIndices grade index of every point, -1 for none
 * @param {number} nGrades
 * @returns {(number[]|null)[]} mean position of every grade, null for a grade without points
 */
export function gradeCentroids(positions, gradeIndices, nGrades) {
  const sums = Array.from({ length: nGrades }, () => [0, 0, 0, 0]);
  gradeIndices.forEach((grade, i) => {
    if (grade < 0) return;
    for (const axis of AXES) sums[grade][axis] += positions[3 * i + axis];
    sums[grade][3] += 1;
  });
  return sums.map(([x, y, z, n]) => (n ? [x / n, y / n, z / n] : null));
}
