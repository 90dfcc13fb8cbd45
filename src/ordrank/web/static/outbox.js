/** Grades and comparisons on their way to the server: kept in this browser until it has acknowledged them. */

import { ApiError, getPicture, newKey, putGrade } from "./api.js";
import { postComparison, postUndo } from "./labeling_api.js";
import { remember, remembered, rememberedKeys, unsentOf } from "./settings.js";

/**
 * @typedef {object} Change
 * @property {string} key
 * @property {"grade"|"undo"|"comparison"} kind
 * @property {number} picture
 * @property {string} name of the picture
 * @property {string|null} grader
 * @property {string|null} [grade] the new grade
 * @property {boolean} [acceptNew] also if it is not on the scale
 * @property {number} [second] the picture that `picture` is compared with
 * @property {1|-1|0|null} [outcome]
 * @property {string} [undoes] key of the change that this one undoes
 * @property {boolean} [begun] the server may have it already
 */

const FIRST_DELAY = 400; // ms until a change is sent again
const LONGEST_DELAY = 4000;
const SLOW = 2000; // ms after which a change is said to wait
const POLL_INTERVAL = 50; // ms

/** Sends one change after another, in their order, and again until the server is back. */
export class Outbox {
  /**
   * @param {object} options
   * @param {(change: Change, result: any) => void} options.onSent
   * @param {(change: Change, reason: string) => Promise<boolean>} options.onNewGrade whether to keep the grade
   * @param {(change: Change, error: Error) => void} options.onRejected the change is lost, as it cannot be stored
   * @param {() => void} options.onState called when `waiting`, `problem`, `slow` or `isKept` change
   */
  constructor(options) {
    Object.assign(this, options);
    /** Why nothing is sent now. @type {Error|null} */
    this.problem = null;
    this.slow = false;
    /** Those that the storage of the browser does not take, by key. @type {Map<string, Change>} */
    this.unkept = new Map();
    /** Keys of changes that are certainly about the collection that the server has. @type {Set<string>} */
    this.certain = new Set();
    /** Pictures with a grade that the user is asked about: their changes wait for the answer. @type {Set<number>} */
    this.asked = new Set();
    window.addEventListener("storage", (event) => {
      if (!event.key?.startsWith("ordrank unsent")) return;
      this.onState();
      setTimeout(() => this.run(), SLOW); // the other tab may be gone
    });
    window.addEventListener("online", () => this.wake?.());
    window.addEventListener("beforeunload", (event) => !this.isKept && event.preventDefault());
  }

  /** Send what an earlier page of this collection has left. @param {string} name of the collection */
  open(name) {
    this.storage = unsentOf(name);
    this.run();
  }

  get waiting() {
    return outstanding(this.read()).length;
  }

  /** Whether the changes survive the end of the page. */
  get isKept() {
    return this.unkept.size === 0;
  }

  /** Whether a change of one of some pictures is not sent yet. @param {...number} ids */
  concerns(...ids) {
    return outstanding(this.read()).some(({ picture }) => ids.includes(picture));
  }

  /** Wait until no change of some pictures is on its way; throw why nothing is sent. @param {number[]} ids */
  async settled(ids) {
    while (this.concerns(...ids)) {
      if (this.problem) throw this.problem;
      await pause(POLL_INTERVAL);
    }
  }

  /** @param {Omit<Change, "key">} change @returns {string} its key */
  put(change) {
    const key = newKey();
    if (!this.problem) this.certain.add(key);
    this.store({ ...change, key });
    this.run();
    return key;
  }

  /** Send everything, unless that is under way. */
  async run() {
    if (this.running) return;
    this.running = true;
    let delay = FIRST_DELAY;
    while (this.ready(this.read()).length) {
      const sent = await this.sendFirst().catch((error) => {
        this.problem = error;
        return false;
      });
      this.onState();
      if (sent) {
        delay = FIRST_DELAY;
        continue;
      }
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, delay);
      });
      delay = Math.min(2 * delay, LONGEST_DELAY);
    }
    this.running = false;
  }

  /** Send the first change; return whether it is done with. */
  async sendFirst() {
    const finish = await inTurn("ordrank outbox", async () => {
      const change = this.takeFirst();
      return change && this.exchange(change); // else undone, or sent by another tab
    });
    await finish?.();
    return this.problem === null;
  }

  /** Send a change; return what is to be done then, which other tabs need not wait for. @param {Change} change */
  async exchange(change) {
    const timer = setTimeout(() => {
      this.slow = true;
      this.onState();
    }, SLOW);
    try {
      if (!this.certain.has(change.key)) await checkPicture(change);
      const result = await send(change);
      this.forget(change);
      this.problem = null;
      return () => this.onSent(change, result);
    } catch (error) {
      return () => this.handle(change, error);
    } finally {
      clearTimeout(timer);
      this.slow = false;
    }
  }

  /** The first change to send, marked for all tabs; those that need not be sent are forgotten. */
  takeFirst() {
    const changes = this.read();
    const left = outstanding(changes);
    for (const change of changes) if (!left.includes(change)) this.forget(change);
    const [next] = this.ready(left);
    if (!next) return undefined;
    const first = { ...next, begun: true };
    this.store(first);
    return first;
  }

  /** Those that need not wait for an answer of the user. @param {Change[]} changes */
  ready(changes) {
    return changes.filter(({ picture }) => !this.asked.has(picture));
  }

  /** @param {Change} change @param {Error} error */
  handle(change, error) {
    const code = error instanceof ApiError ? error.code : undefined;
    this.problem = null;
    if (code === "new_grade") {
      this.askAbout(change, error.message); // the others are sent meanwhile
    } else if (isRejected(change, error)) {
      this.forget(change);
      this.onRejected(change, error);
    } else {
      this.problem = error;
      this.certain.clear(); // another server may be there the next time
    }
  }

  /** Ask whether to keep a grade, once in all tabs. @param {Change} change @param {string} reason */
  async askAbout(change, reason) {
    this.asked.add(change.picture);
    await inTurn("ordrank question", async () => {
      await pause(FIRST_DELAY); // what another tab has stored before it let this one go on arrives a moment later
      const known = this.read().find(({ key }) => key === change.key);
      if (!known || known.acceptNew) return; // answered in another tab
      if (await this.onNewGrade(change, reason)) this.store({ ...change, acceptNew: true });
      else this.forget(change);
    });
    this.asked.delete(change.picture);
    this.run();
  }

  /** All changes, also of other tabs, in the order in which they were made. @returns {Change[]} */
  read() {
    const changes = new Map(this.unkept);
    // Each is stored by itself: of two tabs that write one list at the same time, one would lose a change.
    for (const key of this.storage ? rememberedKeys(this.storage) : []) {
      const change = remembered(key);
      if (change && !changes.has(change.key)) changes.set(change.key, change);
    }
    return [...changes.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** @param {Change} change */
  store(change) {
    const isKept = this.storage !== undefined && remember(this.storage + change.key, change);
    if (isKept) this.unkept.delete(change.key);
    else this.unkept.set(change.key, change);
    this.onState();
  }

  /** @param {Change} change */
  forget({ key }) {
    this.unkept.delete(key);
    this.certain.delete(key);
    if (this.storage) remember(this.storage + key, null);
    this.onState();
  }
}

/**
 * Do one thing of a name at a time in all tabs of the page, where the browser allows to wait for the others.
 * @template T
 * @param {string} name
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 */
async function inTurn(name, action) {
  let hasBegun = false;
  const begin = () => {
    hasBegun = true;
    return action();
  };
  try {
    return await navigator.locks.request(name, begin);
  } catch (error) {
    if (hasBegun) throw error;
    return action(); // there are no locks here
  }
}

/** @param {number} time ms */
const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** The changes without those that were undone before they were sent. @param {Change[]} changes */
function outstanding(changes) {
  const undone = new Set(changes.map(({ undoes }) => undoes));
  const unsent = new Set(changes.filter(({ key, begun }) => !begun && undone.has(key)).map(({ key }) => key));
  return changes.filter(({ key, undoes }) => !unsent.has(key) && !unsent.has(undoes));
}

/** Whether the server will never store a change. @param {Change} change @param {Error} error */
function isRejected({ kind }, error) {
  if (!(error instanceof ApiError)) return false;
  return [400, 404].includes(error.status) || (kind === "undo" && error.code === "conflict");
}

/** @param {Change} change @returns {Promise<any>} */
function send({ key, kind, picture, grade = null, second, outcome = null, undoes, grader, acceptNew }) {
  if (kind === "grade") return putGrade(picture, grade, { grader, key, acceptNew });
  if (kind === "undo") return postUndo(grader, undoes);
  return postComparison(picture, second, outcome, grader);
}

/** Throw if the server has another collection of the same name by now. @param {Change} change */
async function checkPicture({ picture, name }) {
  const found = await getPicture(picture);
  if (found.name !== name) throw new ApiError(404, "the collection has another picture in its place");
}
