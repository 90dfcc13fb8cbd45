/** The bar that counts changed grades and starts a training. */

import { ApiError, getTraining, startTraining } from "./api.js";
import { byId, counted } from "./dom.js";
import { announce, clearError, showError } from "./notices.js";

const POLL_INTERVAL = 700; // ms
const PATIENCE = 10_000; // ms until a server that is silent counts as one that does not respond
const INTERRUPTED = "The training was interrupted, the server may have been restarted. Start it again.";

/** Visible while grades have changed since the last training, and while a training runs. */
export class TrainingBar {
  /** @param {() => Promise<void>} onTrained everything on the page is out of date */
  constructor(onTrained) {
    this.onTrained = onTrained;
    this.bar = byId("training");
    this.text = byId("training-text");
    this.button = byId("train");
    this.progress = byId("training-progress");
    this.button.addEventListener("click", () => this.start());
  }

  /** @param {import("./api.js").Collection} collection */
  show(collection) {
    if (this.running) return;
    const visible = collection.changed > 0 && !collection.read_only;
    this.bar.hidden = !visible;
    this.button.hidden = !visible;
    this.progress.hidden = true;
    if (!visible) return;
    const isTrained = collection.fitted !== null;
    const since = isTrained ? "changed since the last training" : "given; the model has learned from none";
    this.text.textContent = `${counted(collection.changed, "grade")} ${since}`;
    this.button.textContent = isTrained ? "Train again" : "Train";
  }

  async start() {
    clearError();
    try {
      await startTraining();
    } catch (error) {
      if (error.code !== "busy") return showError(error); // busy: a training is running already
    }
    return this.follow();
  }

  /** Show the progress of the running training until it ends. */
  async follow() {
    if (this.running) return;
    this.running = true;
    this.bar.hidden = false;
    this.button.hidden = true;
    this.progress.hidden = false;
    let failure = null;
    try {
      let training = await poll();
      while (training.state === "running") {
        this.text.textContent = training.message || "Training";
        if (training.total) this.progress.setAttribute("value", String(training.done / training.total));
        else this.progress.removeAttribute("value");
        await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL));
        training = await poll(training);
      }
      if (training.state !== "done") throw new ApiError(0, training.message || INTERRUPTED);
      announce("Training finished.");
    } catch (error) {
      failure = error;
    } finally {
      this.running = false;
    }
    await this.onTrained(); // clears earlier errors
    if (failure !== null) showError(failure);
  }

  /** Follow a training that another client started. */
  async resume() {
    if ((await getTraining()).state === "running") await this.follow();
  }
}

/**
 * The state of the training; without a server the last one, with a message: the server may be back soon.
 * @param {import("./api.js").Training} [last]
 */
async function poll(last) {
  try {
    return await getTraining(AbortSignal.timeout(PATIENCE));
  } catch (error) {
    if (!(error instanceof ApiError) || ![0, 503].includes(error.status)) throw error;
    return { ...last, state: "running", message: "The server does not respond. Asking it again…" };
  }
}
