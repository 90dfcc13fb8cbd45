/** A perspective camera that looks at the origin. Matrices are 4 × 4, column-major, as WebGL expects them. */

/** Distance of the nearest point that is drawn. */
export const NEAR = 0.05;
/** Tangent of half the vertical field of view, 40 degrees. */
export const TAN_HALF_FOV = Math.tan((20 * Math.PI) / 180);

const normalized = (vector) => {
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
};
const cross = ([ax, ay, az], [bx, by, bz]) => [ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx];

/**
 * Matrix from view coordinates to clip coordinates.
 * @param {number} aspect width / height
 * @param {number} far distance of the farthest point that is drawn
 */
export function projectionMatrix(aspect, far) {
  const depth = NEAR - far;
  // prettier-ignore
  return [
    1 / (aspect * TAN_HALF_FOV), 0, 0, 0,
    0, 1 / TAN_HALF_FOV, 0, 0,
    0, 0, (NEAR + far) / depth, -1,
    0, 0, (2 * NEAR * far) / depth, 0,
  ];
}

/** Matrix from world to view coordinates, y up. @param {number[]} position of the camera, not on the y axis */
export function viewMatrix(position) {
  const backward = normalized(position);
  const right = normalized(cross([0, 1, 0], backward));
  const up = cross(backward, right);
  // The camera looks at the origin, which therefore lies straight ahead.
  // prettier-ignore
  return [
    right[0], up[0], backward[0], 0,
    right[1], up[1], backward[1], 0,
    right[2], up[2], backward[2], 0,
    0, 0, -Math.hypot(...position), 1,
  ];
}

/** The product a b. @param {number[]} a @param {number[]} b */
export function multiply(a, b) {
  return Array.from({ length: 16 }, (_, at) => {
    const [column, row] = [4 * Math.floor(at / 4), at % 4];
    return a[row] * b[column] + a[row + 4] * b[column + 1] + a[row + 8] * b[column + 2] + a[row + 12] * b[column + 3];
  });
}
