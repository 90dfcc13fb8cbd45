/** Grades and comparisons on their way to the server: kept in this browser until it has acknowledged them. */

import { ApiError, getPicture, putGrade } from "./api.js";
import { getGivenGrades, postComparison, postUndo } from "./labeling_api.js";
import { remember, remembered } from "./settings.js";

/**
 * @typedef {object} Change
 * @property {string} key
 * @property {"grade"|"undo"|"comparison"} kind
 * @property {number} picture
 * @property {string} name of the picture
 * @property {string|null} grader
 * @property {string|null} [grade] the new grade, or the one that is undone
 * @property {boolean} [acceptNew] also if it is not on the scale
 * @property {number} [second] the picture that `picture` is compared with
 * @property {1|-1|0|null} [outcome]
 * @property {boolean} [retried] the server may have it already
 */

const FIRST_DELAY = 400; // ms until a change is sent again
const LONGEST_DELAY = 4000;
const SLOW = 2000; // ms after which a change is said to wait

/** Sends one change after another, in their order, and again until the server is back. */
export class Outbox {
  /**
   * @param {object} options
   * @param {(change: Change, result: any) => void} options.onSent
   * @param {(change: Change, reason: string) => Promise<boolean>} options.onNewGrade whether to keep the grade
   * @param {(change: Change, error: Error) => void} options.onRejected the change is lost, as it cannot be stored
   * @param {() => void} options.onState called when `waiting`, `problem` or `slow` change
   */
  constructor(options) {
    Object.assign(this, options);
    /** Why nothing is sent now. @type {Error|null} */
    this.problem = null;
    this.slow = false;
    /** Used alone without a storage. @type {Change[]} */
    this.changes = [];
    window.addEventListener("storage", (event) => event.key?.startsWith("ordrank unsent") && this.onState());
    window.addEventListener("online", () => this.wake?.());
  }

  /** Send what an earlier page of this collection has left. @param {string} name of the collection */
  open(name) {
    if (this.storage) return;
    this.storage = `unsent ${name}`;
    const { changes } = this;
    this.isStored = true;
    this.store([...this.read().map((change) => ({ ...change, retried: true })), ...changes]);
    this.run();
  }

  get waiting() {
    return this.read().length;
  }

  /** Whether a change of a picture is not sent yet. @param {number} id */
  concerns(id) {
    return this.read().some(({ picture }) => picture === id);
  }

  /** @param {Omit<Change, "key">} change @returns {string} its key */
  put(change) {
    const key = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    this.store([...this.read(), { ...change, key }]);
    this.run();
    return key;
  }

  /** Forget a change that was not sent yet. @param {string} key @returns {boolean} whether it was not */
  withdraw(key) {
    const left = this.read().filter((change) => change.key !== key || change.retried || key === this.sending);
    if (left.length === this.read().length) return false;
    this.store(left);
    return true;
  }

  /** Send everything, unless that is under way. */
  async run() {
    if (this.running) return;
    this.running = true;
    let delay = FIRST_DELAY;
    while (this.waiting) {
      const sent = await inTurn(() => this.sendFirst());
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
    const [change] = this.read();
    if (!change) return true; // another tab has sent it
    this.sending = change.key;
    const timer = setTimeout(() => {
      this.slow = true;
      this.onState();
    }, SLOW);
    /** @type {() => void|Promise<void>} */
    let finish;
    try {
      const result = await send(change);
      this.forget(change);
      this.problem = null;
      finish = () => this.onSent(change, result);
    } catch (error) {
      finish = () => this.handle(change, error);
    }
    clearTimeout(timer);
    this.slow = false;
    this.sending = undefined;
    await finish();
    return this.problem === null;
  }

  /** @param {Change} change @param {Error} error */
  async handle(change, error) {
    const { status, code } = error instanceof ApiError ? error : { status: 0, code: undefined };
    this.problem = null;
    if (code === "new_grade") {
      if (await this.onNewGrade(change, error.message)) this.replace({ ...change, acceptNew: true });
      else this.forget(change);
    } else if (status === 400 || status === 404) {
      this.forget(change);
      this.onRejected(change, error);
    } else {
      this.problem = error;
      this.replace({ ...change, retried: true });
    }
  }

  /** @param {Change} change */
  forget(change) {
    this.store(this.read().filter(({ key }) => key !== change.key));
  }

  /** @param {Change} change */
  replace(change) {
    this.store(this.read().map((other) => (other.key === change.key ? change : other)));
  }

  /** @returns {Change[]} */
  read() {
    return this.isStored ? remembered(this.storage, []) : this.changes;
  }

  /** @param {Change[]} changes */
  store(changes) {
    this.changes = changes;
    this.isStored = Boolean(this.storage) && remember(this.storage, changes.length ? changes : null);
    this.onState();
  }
}

/** Do one thing at a time in all tabs of the page, where the browser allows to wait for the others. */
const inTurn = (action) => (navigator.locks ? navigator.locks.request("ordrank outbox", action) : action());

/** @param {Change} change @returns {Promise<any>} */
async function send(change) {
  const { kind, picture, grade = null, second, outcome = null, grader, acceptNew } = change;
  if (change.retried && !(await isOutstanding(change))) return null;
  if (kind === "grade") return putGrade(picture, grade, { grader, acceptNew });
  if (kind === "undo") return postUndo(grader);
  return postComparison(picture, second, outcome, grader);
}

/** Whether a change that failed, or is from an earlier page, must be sent. @param {Change} change */
async function isOutstanding({ kind, picture, name, grade, grader }) {
  const found = await getPicture(picture);
  if (found.name !== name) throw new ApiError(404, "the collection has another picture in its place");
  if (kind !== "undo") return true; // to say it twice does no harm
  const given = (await getGivenGrades(picture)).find((one) => one.grader === (grader ?? ""))?.grade ?? null;
  return given === grade || (given !== null && grade !== null && Number(given) === Number(grade));
}
