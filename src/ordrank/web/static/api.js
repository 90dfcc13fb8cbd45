/** What the server is asked, and its answers. */

/** @typedef {{id: number, name: string, grade: string|null, estimate: string|null, value: number|null,
 *             width: number, height: number}} Picture */
/** @typedef {{grade: string, share: number}} Vote */
/** @typedef {{kind: "picture"|"query", id: string|number, name: string, grade: string, value: number,
 *             known_grade: string|null, votes: Vote[], position: number[]}} Answer */
/** @typedef {{id: number, name: string, grade: string, estimated: boolean, distance: number,
 *             order_distance: number, appearance_distance: number}} Ranked */
/** @typedef {{grade: string, value: number, pictures: number}} Grade */
/** @typedef {{name: string, pictures: number, graded: number, grades: Grade[], changed: number, read_only: boolean,
 *             fitted: string|null, error: number|null}} Collection */
/** @typedef {{state: "idle"|"running"|"done"|"failed", message: string, done: number, total: number}} Training */
/** @typedef {{ids: Int32Array, positions: Float32Array, values: Float32Array, total: number}} Cloud */

const BASE = new URL("api/v1/", document.baseURI);

/** A refusal of the server, or no server; its message is a sentence for people. */
export class ApiError extends Error {
  /** @param {number} status 0 when there was no answer @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} [parameters] those that are null, undefined or false are left out
 */
export function address(path, parameters = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== false) url.searchParams.set(name, String(value));
  }
  return url.href;
}

/** @param {string} url @param {RequestInit} [options] */
async function request(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is it still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body?.error?.message ?? `The server answered with status ${response.status}.`);
}

/** @param {string} url @param {RequestInit} [options] */
const json = async (url, options) => (await request(url, options)).json();

/** @returns {Promise<Collection>} */
export const getCollection = () => json(address("collection"));

/**
 * @param {{grade?: string|null, given?: boolean|null, offset: number, limit: number}} which
 * @param {AbortSignal} [signal]
 * @returns {Promise<{total: number, items: Picture[]}>}
 */
export const getPictures = ({ given = null, ...rest }, signal) =>
  json(address("pictures", { ...rest, given: given === null ? null : String(given) }), { signal });

/** @param {number} id @returns {Promise<Picture>} */
export const getPicture = (id) => json(address(`pictures/${id}`));

/** @param {"picture"|"query"} kind @param {string|number} id */
export const thumbnail = (kind, id) =>
  address(`${kind === "query" ? "queries" : "pictures"}/${encodeURIComponent(id)}/thumbnail`);

/** @param {number} id @param {string|null} grade @returns {Promise<Picture>} */
export const putGrade = (id, grade) =>
  json(address(`pictures/${id}/grade`), {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ grade }),
  });

/** @param {File} file @returns {Promise<Answer>} */
export const postQuery = (file) =>
  json(address("queries"), {
    method: "POST",
    headers: {
      "Content-Type": file.type.startsWith("image/") ? file.type : "application/octet-stream",
      "X-Name": encodeURIComponent(file.name || "pasted picture"),
    },
    body: file,
  });

/**
 * @param {Record<string, unknown>} parameters of /rank
 * @param {AbortSignal} [signal]
 * @returns {Promise<{answer: Answer, total: number, items: Ranked[]}>}
 */
export const getRanking = (parameters, signal) => json(address("rank", parameters), { signal });

/** @param {number} [limit] @returns {Promise<Cloud>} */
export async function getPoints(limit = 100_000) {
  const response = await request(address("points", { limit }));
  const n = Number(response.headers.get("X-Count"));
  const data = await response.arrayBuffer();
  return {
    ids: new Int32Array(data, 0, n),
    positions: new Float32Array(data, 4 * n, 3 * n),
    values: new Float32Array(data, 16 * n, n),
    total: Number(response.headers.get("X-Total")),
  };
}

/** @returns {Promise<Training>} */
export const getTraining = () => json(address("training"));

/** @returns {Promise<Training>} */
export const startTraining = () => json(address("training"), { method: "POST" });
