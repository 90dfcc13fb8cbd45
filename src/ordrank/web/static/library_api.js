/** The part of the HTTP API about several pictures at once, new pictures, and the quality of the estimates. */

import { apiUrl, json, request, sendFile, sendJson } from "./api.js";

/** @typedef {import("./api.js").Picture} Picture */
/** @typedef {{grade: string, pictures: number, error: number, bias: number, coverage: number}} GradeQuality */
/** @typedef {{grade: string, estimate: string, pictures: number}} Confusion */
/** @typedef {{time: string, pictures: number, graded: number, error: number|null, features: string}} PastTraining */
/** @typedef {{pictures: number, graded: number, features: string, error: number|null, error_median: number|null,
 *             verdict: string|null, coverage: number|null, grades: GradeQuality[], confusions: Confusion[]|null,
 *             calibration: {intended: number, share: number}[], trainings: PastTraining[],
 *             running_errors: {grades: number, error: number}[]}} QualityReport */

/** The largest number of pictures in one request. */
export const MAX_PICTURES = 10_000;

/**
 * Give all pictures the same grade; all or none.
 * @param {number[]} pictures
 * @param {string|null} grade null withdraws theirs
 * @param {{grader: string|null, key: string, acceptNew?: boolean}} options acceptNew: also a grade that is not on the
 *   scale
 * @returns {Promise<Picture[]>}
 */
export const postGrades = (pictures, grade, { grader, key, acceptNew = false }) =>
  sendJson("POST", "grades", { pictures, grade, grader, accept_new: acceptNew, key });

/** @param {number[]} pictures @returns {Promise<{removed: number, left: number}>} */
export const postRemoval = (pictures) => sendJson("POST", "removals", { pictures });

/** @param {"table"|"files"} kind @param {number[]} pictures @returns {Promise<Blob>} */
export async function postExport(kind, pictures) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify({ pictures }) };
  return (await request(apiUrl(`exports/${kind}`), options)).blob();
}

/** @param {File} file @param {AbortSignal} [signal] @returns {Promise<{picture: Picture, is_new: boolean}>} */
export const postPicture = (file, signal) => sendFile("pictures", file, signal);

/** @param {AbortSignal} signal @returns {Promise<QualityReport>} */
export const getQuality = (signal) => json(apiUrl("quality"), { signal });
