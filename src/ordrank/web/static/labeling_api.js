/** The part of the HTTP API about what people say of pictures: grades, comparisons, confirmations, agreement. */

import { apiUrl, json, sendJson } from "./api.js";

/** @typedef {import("./api.js").Picture} Picture */
/** @typedef {{picture: Picture, reason: "uncertain"|"representative"|"novel", explanation: string}} Suggestion */
/** @typedef {{grader: string, grade: string, time: string}} GivenGrade */
/** @typedef {{name: string, graded: number, compared: number, error: number|null, bias: number|null,
 *             weight: number}} GraderSummary */
/** @typedef {{first: string, second: string, pictures: number, kappa: number|null}} GraderPair */
/** @typedef {{id: number, name: string, grades: GivenGrade[], consensus: string|null}} Disagreement */
/** @typedef {{graders: GraderSummary[], pairs: GraderPair[], disagreements: Disagreement[],
 *             total_disagreements: number}} GradersReport */
/** @typedef {{first: Picture, second: Picture, explanation: string}} SuggestedPair */
/** @typedef {{picture: Picture, value: number, deviation: number, grade: string|null,
 *             comparisons: number}} ComparedPicture */
/** @typedef {{running_errors: {grades: number, error: number}[],
 *             trainings: {time: string, graded: number, error: number|null}[]}} Progress */

/** A large version of a picture. @param {number} id @param {number} side largest width and height in pixels */
export const largePicture = (id, side) => apiUrl(`pictures/${id}/large`, { side });

/**
 * Undo a change of grades; twice does no harm.
 * @param {string|null} grader who made it
 * @param {string|null} key of the change; null: the last one of the grader
 * @returns {Promise<Picture[]>} the pictures as they are now; none if nothing was undone
 */
export const postUndo = (grader, key) => sendJson("POST", "grades/undo", { grader, key });

/**
 * @param {number} id
 * @param {boolean} confirmed
 * @param {string} grade that was seen
 * @returns {Promise<Picture>}
 */
export const putConfirmation = (id, confirmed, grade) =>
  sendJson("PUT", `pictures/${id}/confirmation`, { confirmed, grade });

/**
 * @param {number} limit
 * @param {string|null} grader who will grade
 * @returns {Promise<{total: number, items: Suggestion[]}>}
 */
export const getSuggestions = (limit, grader) => json(apiUrl("suggestions", { limit, grader }));

/**
 * Errors along the grades given so far, and past trainings.
 * @param {AbortSignal} signal
 * @returns {Promise<Progress>}
 */
export const getProgress = (signal) => json(apiUrl("quality"), { signal });

/** @returns {Promise<GradersReport>} */
export const getGraders = () => json(apiUrl("graders"));

/**
 * @param {{grader: string|null, skip: string[]}} options pairs "3-7" that are not asked about now
 * @returns {Promise<{pair: SuggestedPair|null, comparisons: number}>}
 */
export function getNextPair({ grader, skip }) {
  const url = new URL(apiUrl("comparisons/next", { grader }));
  for (const pair of skip) url.searchParams.append("skip", pair);
  return json(url.href);
}

/**
 * @param {number} first
 * @param {number} second
 * @param {1|-1|0|null} outcome first higher, second higher, equal; null withdraws the comparison
 * @param {string|null} grader
 */
export const postComparison = (first, second, outcome, grader) =>
  sendJson("POST", "comparisons", { first, second, outcome, grader });

/**
 * The compared pictures, lowest first.
 * @param {number} offset
 * @param {number} limit
 * @returns {Promise<{total: number, items: ComparedPicture[]}>}
 */
export const getComparisons = (offset, limit) => json(apiUrl("comparisons", { offset, limit }));
