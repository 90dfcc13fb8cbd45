/** The HTTP API of the server, and its types. */

/** @typedef {{id: number, name: string, grade: string|null, estimate: string|null, lowest: string|null,
 *             highest: string|null, value: number|null, width: number, height: number, date: string}} Picture */
/** @typedef {{grade: string, probability: number}} GradeProbability */
/** @typedef {{kind: "picture"|"query", id: string|number, name: string, grade: string, value: number,
 *             lowest: string, highest: string, shown_grade: string, explanation: string,
 *             known_grade: string|null, probabilities: GradeProbability[], novelty: number|null,
 *             is_novel: boolean, position: number[]}} Result */
/** @typedef {{id: number, name: string, grade: string, estimated: boolean, distance: number,
 *             order_distance: number, appearance_distance: number}} Ranked */
/** @typedef {{grade: string, value: number, pictures: number, estimated: number}} Grade */
/** @typedef {{name: string, pictures: number, graded: number, grades: Grade[], changed: number, read_only: boolean,
 *             max_table_rows: number, fitted: string|null, error: number|null}} Collection */
/** @typedef {{state: "idle"|"running"|"done"|"failed", message: string, done: number, total: number}} Training */
/** @typedef {{id: number, name: string, grade: string|null}} PictureGrade */
/** @typedef {{id: number, name: string, grade: string, estimate: string, lowest: string, highest: string,
 *             probability: number, score: number, neighbors: PictureGrade[]}} SuspectGrade */
/** @typedef {{first: PictureGrade, second: PictureGrade, relative_distance: number, leaks: boolean}} NearCopy */
/** @typedef {PictureGrade & {relative_distance: number}} NovelPicture */
/** @typedef {{pictures: number, graded: number, suspects: SuspectGrade[], near_copies: NearCopy[],
 *             novel: NovelPicture[], verdict: string, advice: string[]}} DoctorReport */
/** @typedef {{ids: Int32Array, positions: Float32Array, values: Float64Array, total: number}} PointData */

const BASE = new URL("api/v1/", document.baseURI);

/** An error of the server or the connection, with a message for the user. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status, 0 without a response
   * @param {string} message
   * @param {string} [code] of the server, for programs
   */
  constructor(status, message, code) {
    super(message);
    Object.assign(this, { status, code });
  }
}

/** @param {string} path @param {Record<string, unknown>} [parameters] null, undefined and false are left out */
export function apiUrl(path, parameters = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== false) url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** @param {string} url @param {RequestInit} [options] */
export async function request(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not respond. Is it still running?");
  }
  if (response.ok) return response;
  const { status } = response;
  const { code, message } = (await response.json().catch(() => null))?.error ?? {};
  throw new ApiError(status, message ?? `The server responded with status ${status}.`, code);
}

/** Responses that were requested before they are needed. @type {Map<string, Promise<Response>>} */
const early = new Map();

/** Request what the page will need soon; each is used once. @param {string} url */
export function prefetch(url) {
  const response = request(url);
  response.catch(() => {}); // reported when it is needed
  early.set(url, response);
}

/** Forget responses that nobody needed: they grow old. */
export const forgetPrefetched = () => early.clear();

/** @param {string} url @param {RequestInit} [options] @returns {Promise<any>} */
export async function json(url, options) {
  const response = early.get(url) ?? request(url, options);
  early.delete(url);
  return (await response).json();
}

/** @returns {Promise<Collection>} */
export const getCollection = () => json(apiUrl("collection"));

/** @param {Record<string, unknown>} parameters of /pictures; `given: false` counts */
export const picturesUrl = ({ given = null, ...rest }) =>
  apiUrl("pictures", { ...rest, given: given === null ? null : String(given) });

/**
 * @param {Record<string, unknown>} parameters of /pictures
 * @param {AbortSignal} [signal]
 * @returns {Promise<{total: number, items: Picture[]}>}
 */
export const getPictures = (parameters, signal) => json(picturesUrl(parameters), { signal });

/** @param {number} id @returns {Promise<Picture>} */
export const getPicture = (id) => json(apiUrl(`pictures/${id}`));

/** @param {"picture"|"query"} kind @param {string|number} id */
export const thumbnail = (kind, id) =>
  apiUrl(`${kind === "query" ? "queries" : "pictures"}/${encodeURIComponent(id)}/thumbnail`);

/** Send JSON, receive JSON. @param {string} method @param {string} path @param {object} body @returns {Promise<any>} */
export const sendJson = (method, path, body) =>
  json(apiUrl(path), { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

let lastKeyTime = 0;

/** A name for a change, by which the server knows it again and undoes it; those of a page sort by time. */
export function newKey() {
  lastKeyTime = Math.max(Date.now(), lastKeyTime + 1);
  return `${lastKeyTime.toString(36)}-${Math.random().toString(36).slice(2)}`;
}

/** Gives a decision that is sent again, as its response was lost, the key that it had: the server makes it once. */
export class Decision {
  /** @param {any} content @returns {string} */
  keyOf(content) {
    const text = JSON.stringify(content);
    if (this.text !== text) Object.assign(this, { text, key: newKey() });
    return this.key;
  }

  /** The response is there: from now on, the same content is another decision. */
  close() {
    this.text = undefined;
  }
}

/**
 * @param {number} id
 * @param {string|null} grade null withdraws it
 * @param {{grader: string|null, key: string, acceptNew?: boolean}} options acceptNew: also a grade that is not on the
 *   scale
 * @returns {Promise<Picture>}
 */
export const putGrade = (id, grade, { grader, key, acceptNew = false }) =>
  sendJson("PUT", `pictures/${id}/grade`, { grade, grader, accept_new: acceptNew, key });

/** Send a picture, receive JSON. @param {string} path @param {File} file @param {AbortSignal} [signal] @returns {Promise<any>} */
export const sendFile = (path, file, signal) =>
  json(apiUrl(path), {
    method: "POST",
    signal,
    headers: {
      "Content-Type": file.type.startsWith("image/") ? file.type : "application/octet-stream",
      "X-Name": encodeURIComponent(file.name || "pasted picture"),
    },
    body: file,
  });

/** @param {File} file @param {AbortSignal} signal @returns {Promise<Result>} */
export const postQuery = (file, signal) => sendFile("queries", file, signal);

/**
 * @param {Record<string, unknown>} parameters of /rank
 * @param {AbortSignal} [signal]
 * @returns {Promise<{query: Result, total: number, items: Ranked[]}>}
 */
export const getRanking = (parameters, signal) => json(apiUrl("rank", parameters), { signal });

/** @param {number} [limit] @returns {Promise<PointData>} */
export async function getPoints(limit = 100_000) {
  const response = await request(apiUrl("points", { limit }));
  const n = Number(response.headers.get("X-Count"));
  const data = await response.arrayBuffer();
  return {
    ids: new Int32Array(data, 0, n),
    positions: new Float32Array(data, 4 * n, 3 * n),
    values: new Float64Array(data, 16 * n, n),
    total: Number(response.headers.get("X-Total")),
  };
}

/** @param {AbortSignal} signal @returns {Promise<DoctorReport>} */
export const getDoctorReport = (signal) => json(apiUrl("doctor"), { signal });

/** @param {AbortSignal} [signal] @returns {Promise<Training>} */
export const getTraining = (signal) => json(apiUrl("training"), { signal });

/** @returns {Promise<Training>} */
export const startTraining = () => json(apiUrl("training"), { method: "POST" });
