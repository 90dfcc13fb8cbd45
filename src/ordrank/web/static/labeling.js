/** What people say about pictures, connected: the modes that take it, what is sent, and what is not sent yet. */

import { ApiError, getPicture } from "./api.js";
import { CompareView } from "./compare_view.js";
import { askToKeep } from "./dialog.js";
import { byId, capitalized, counted } from "./dom.js";
import { GradeView } from "./grade_view.js";
import { GradersView } from "./graders_view.js";
import { attempt, showError } from "./notices.js";
import { Outbox } from "./outbox.js";

const QUIET = 600; // ms without a change after which the summary of the collection is loaded again

/**
 * @param {object} options
 * @param {import("./palette.js").Palette} options.palette
 * @param {import("./api.js").Collection} options.collection
 * @param {() => boolean} options.isTraining
 * @param {(pictures: import("./api.js").Picture[]) => Promise<void>} options.onStored called some time after grades of
 *   pictures have been stored
 * @returns {{outbox: Outbox, grade: GradeView, compare: CompareView, graders: GradersView,
 *            settled: (ids: number[]) => Promise<void>, leave: (ids: number[]) => void}} settled: wait until earlier
 *   changes of pictures are stored; leave: show pictures no more that were removed
 */
export function connectLabeling({ palette, collection, isTraining, onStored }) {
  /** Stored, and not shown elsewhere yet. @type {Map<number, import("./api.js").Picture>} */
  const stored = new Map();
  let timer = 0;
  const keep = (pictures) => {
    for (const picture of pictures) {
      if (outbox.concerns(picture.id)) continue; // changed again
      stored.set(picture.id, picture);
      grade.replace(picture);
    }
    clearTimeout(timer);
    timer = setTimeout(() => !outbox.waiting && attempt(settle), QUIET);
  };
  const settle = async () => {
    const pictures = [...stored.values()];
    stored.clear();
    await onStored(pictures);
    grade.settle();
  };
  const outbox = new Outbox({
    onSent: ({ kind }, result) => {
      if (kind === "comparison") return compare.settle(result);
      keep(result === null ? [] : [result].flat());
    },
    onNewGrade: async (change, reason) => {
      const isKept = await askToKeep(reason, change.name);
      if (isKept) return true;
      grade.discard(change);
      keep([]); // what was stored before waits for the outbox to be empty
      return false;
    },
    onRejected: (change, error) => {
      const { kind, name, picture } = change;
      keep([]);
      const pair = compare.discard(change);
      if (error.status === 404 && pair) return attempt(() => findMissing(pair));
      if (error.status === 404 && kind !== "comparison") return onMissing({ id: picture, name });
      grade.discard(change);
      if (kind === "undo") attempt(async () => keep([await getPicture(picture)])); // which is shown without the change
      const lost = kind === "undo" ? `The grade of ${name} could not be undone` : `${name} could not be changed`;
      showError(new ApiError(400, `${lost}: ${error.message.replace(/\.$/, "")}.`));
    },
    onState: () => showUnsent(outbox, isTraining()),
  });
  /** Go on without pictures that the collection does not have any more. @param {number[]} ids */
  const leave = (ids) => {
    for (const id of ids) for (const view of [grade, compare]) view.leave(id);
  };
  const onMissing = ({ id, name }) => {
    leave([id]);
    showError(new ApiError(404, `${name} was removed from the collection.`));
  };
  const findMissing = async ({ first, second }) => {
    for (const picture of [first, second]) {
      const found = await getPicture(picture.id).catch((error) => error);
      if (found.status === 404 || found.name !== picture.name) onMissing(picture);
    }
  };
  const grade = new GradeView({ palette, collection, outbox, onUndone: keep, onMissing });
  const compare = new CompareView({ palette, collection, outbox, onMissing });
  const settled = async (ids) => {
    await outbox.settled(ids);
    for (const id of ids) stored.delete(id); // the change that waits for this shows the picture
  };
  return { outbox, grade, compare, graders: new GradersView({ collection, palette }), settled, leave };
}

/** Say how many changes the server has not acknowledged, and why. @param {Outbox} outbox @param {boolean} isTraining */
function showUnsent(outbox, isTraining) {
  const { waiting, problem, slow, isKept } = outbox;
  const shown = waiting > 0 && (problem !== null || slow);
  const bar = byId("unsent");
  const kept = isKept
    ? "This browser keeps them, also if you close the page, and sends them again until the server has them."
    : "This browser cannot keep them: leave the page open, it sends them again until the server has them.";
  const busy = isTraining ? "The training has to finish a step first." : "The server is busy.";
  const reason = problem ? `${capitalized(problem.message).replace(/\.$/, "")}. ${kept}` : busy;
  const text = shown ? `${counted(waiting, "change")} not stored yet. ${reason}` : "";
  bar.hidden = !shown;
  if (bar.textContent !== text) bar.textContent = text;
}
