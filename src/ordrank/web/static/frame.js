/** Positions brought into the middle of the view, low grades on the left. */

/** A shift and a scale that both points and queries go through. */
export class Frame {
  /** @param {Float32Array} positions three numbers a point @param {Float32Array} values grades as numbers */
  constructor(positions, values) {
    const n = values.length || 1;
    this.middle = [0, 1, 2].map((axis) => {
      let sum = 0;
      for (let i = axis; i < positions.length; i += 3) sum += positions[i];
      return sum / n;
    });
    const radii = Float32Array.from(values, (_, i) =>
      Math.hypot(...[0, 1, 2].map((axis) => positions[3 * i + axis] - this.middle[axis])),
    ).sort();
    this.scale = 1 / (radii[Math.floor(0.97 * (radii.length - 1))] || 1);
    let rising = 0;
    const mean = values.reduce((sum, value) => sum + (value || 0), 0) / n;
    for (let i = 0; i < values.length; i += 1) {
      rising += (positions[3 * i] - this.middle[0]) * ((Number.isNaN(values[i]) ? mean : values[i]) - mean);
    }
    this.flip = rising < 0 ? -1 : 1;
  }

  /** @param {ArrayLike<number>} place @param {number} [at] */
  bring(place, at = 0) {
    const [x, y, z] = [0, 1, 2].map((axis) => (place[at + axis] - this.middle[axis]) * this.scale);
    return [this.flip * x, y, this.flip * z]; // both: a turn by half, not a mirror
  }
}

/**
 * The middle of every grade, in the order of the grades.
 * @param {Float32Array} positions
 * @param {Int32Array} kinds index of the grade of every point
 * @param {number} grades how many there are
 * @returns {(number[]|null)[]} null for a grade without points
 */
export function middles(positions, kinds, grades) {
  const sums = Array.from({ length: grades }, () => [0, 0, 0, 0]);
  kinds.forEach((kind, i) => {
    if (kind < 0) return;
    for (let axis = 0; axis < 3; axis += 1) sums[kind][axis] += positions[3 * i + axis];
    sums[kind][3] += 1;
  });
  return sums.map(([x, y, z, n]) => (n ? [x / n, y / n, z / n] : null));
}
