/** The quiet bar that tells of changed grades, and trains again. */

import { getTraining, startTraining } from "./api.js";
import { byId, counted } from "./dom.js";
import { announce, fail, settle } from "./notices.js";

const ASK_EVERY = 700; // ms

/** Shown while grades differ from those of the last training, and while one runs. */
export class TrainingBar {
  /** @param {() => Promise<void>} trained everything on the page is to be fetched again */
  constructor(trained) {
    this.trained = trained;
    this.bar = byId("training");
    this.text = byId("training-text");
    this.button = byId("train");
    this.progress = byId("training-progress");
    this.button.addEventListener("click", () => this.start());
  }

  /** @param {import("./api.js").Collection} collection */
  show(collection) {
    if (this.running) return;
    const wanted = collection.changed > 0 && !collection.read_only;
    this.bar.hidden = !wanted;
    this.button.hidden = !wanted;
    this.progress.hidden = true;
    if (wanted)
      this.text.textContent = `${counted(collection.changed, "grade", "grades")} changed since the last training`;
  }

  async start() {
    settle();
    try {
      await startTraining();
    } catch (error) {
      if (/** @type {{status?: number}} */ (error).status !== 409) return fail(error); // 409: one runs already
    }
    return this.follow();
  }

  /** Follow a training that runs, until it ends. */
  async follow() {
    if (this.running) return;
    this.running = true;
    this.bar.hidden = false;
    this.button.hidden = true;
    this.progress.hidden = false;
    try {
      let found = await getTraining();
      while (found.state === "running") {
        this.text.textContent = found.message || "Training";
        if (found.total) this.progress.setAttribute("value", String(found.done / found.total));
        else this.progress.removeAttribute("value");
        await new Promise((resolve) => setTimeout(resolve, ASK_EVERY));
        found = await getTraining();
      }
      if (found.state === "failed") throw new Error(found.message);
      announce("Trained again.");
    } catch (error) {
      fail(error);
    } finally {
      this.running = false;
    }
    await this.trained();
  }

  /** Join a training that someone else started. */
  async join() {
    if ((await getTraining()).state === "running") await this.follow();
  }
}
