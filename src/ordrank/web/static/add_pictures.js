/** The dialog that adds pictures to the collection: which, how far it is, and what could not be added. */

import { ApiError } from "./api.js";
import { byId, count, counted, el, isolated } from "./dom.js";
import { isPicture } from "./dropped_files.js";
import { postPicture } from "./library_api.js";
import { announce } from "./notices.js";
import { NEWEST } from "./state.js";

const PAUSE = 1000; // ms until a picture is sent again to a collection that is busy

/** Asks, adds the pictures one by one, and reports. */
export class AddDialog {
  /** @param {(pictures: import("./api.js").Picture[]) => Promise<void>} onAdded with the new pictures */
  constructor(onAdded) {
    this.onAdded = onAdded;
    this.dialog = byId("adding");
    this.abort = new AbortController();
    this.dialog.addEventListener("close", () => this.abort.abort());
  }

  /** Ask which files to add. */
  choose() {
    this.fill(
      "Add pictures",
      el("p", {}, "They get an estimated grade at once, and take part in the next training when they have a grade."),
      el(
        "div",
        { class: "links" },
        this.input("Choose pictures", { accept: "image/*,.heic,.heif" }),
        this.input("Choose a folder", { webkitdirectory: true }),
      ),
      this.closeButton("Cancel"),
    );
    this.open();
  }

  /** @param {string} label @param {Record<string, unknown>} attributes */
  input(label, attributes) {
    const input = el("input", { type: "file", multiple: true, ...attributes });
    input.addEventListener("change", () => this.ask([...input.files]));
    return el("label", { class: "button file-button" }, input, label);
  }

  /** Ask whether to add files. @param {File[]} files */
  ask(files) {
    const pictures = files.filter((file) => isPicture(file) && !file.name.startsWith("."));
    const others = files.length - pictures.length;
    const size = pictures.reduce((sum, file) => sum + file.size, 0);
    const parts = [`${counted(pictures.length, "picture")}, ${inUnits(size)}.`];
    if (others) parts.push(`${counted(others, "other file")} ${others === 1 ? "is" : "are"} left out.`);
    const add = el("button", { type: "button", class: "primary", onclick: () => this.add(pictures) }, "Add");
    this.fill(
      pictures.length
        ? `Add ${counted(pictures.length, "picture")} to the collection?`
        : "There is no picture among these files",
      el("p", { class: "muted" }, parts.join(" ")),
      el("div", { class: "links" }, pictures.length ? add : "", this.closeButton("Cancel")),
    );
    this.open();
    (pictures.length ? add : this.dialog.querySelector("button")).focus();
  }

  /** @param {File[]} files */
  async add(files) {
    this.abort = new AbortController();
    const { signal } = this.abort;
    const text = el("p", { id: "adding-text" });
    const progress = el("progress", { max: files.length, value: 0, "aria-labelledby": "adding-text" });
    const stop = el("button", { type: "button", onclick: () => this.abort.abort() }, "Stop");
    this.fill(`Adding ${counted(files.length, "picture")}`, text, progress, el("div", { class: "links" }, stop));
    stop.focus();
    const added = [];
    const errors = [];
    let known = 0;
    let lost = null;
    for (const [i, file] of files.entries()) {
      const place = [`${count(i + 1)} of ${count(files.length)}: `, isolated(file.name)];
      text.replaceChildren(...place);
      progress.value = i;
      const onBusy = () => text.replaceChildren(...place, " – waiting, the collection is busy");
      try {
        const { picture, is_new } = await send(file, signal, onBusy);
        text.replaceChildren(...place);
        if (is_new) added.push(picture);
        else known += 1;
      } catch (error) {
        if (signal.aborted) break;
        if (!(error instanceof ApiError) || [0, 401, 403, 503, 507].includes(error.status)) {
          lost = error; // the next ones would fail too
          break;
        }
        errors.push({ name: file.name, message: error.message });
      }
    }
    if (added.length) await this.onAdded(added).catch((error) => (lost ??= error));
    this.report({ added, known, errors, left: files.slice(added.length + known + errors.length), lost });
  }

  /** Say what was added, and what was not; offer to send what is left. */
  report({ added, known, errors, left, lost }) {
    const title = `${added.length ? count(added.length) : "No"} ${added.length === 1 ? "picture" : "pictures"} added`;
    const sentences = [];
    if (known)
      sentences.push(`${counted(known, "picture")} ${known === 1 ? "was" : "were"} in the collection already.`);
    if (left.length)
      sentences.push(`${counted(left.length, "picture")} ${left.length === 1 ? "was" : "were"} not sent.`);
    if (lost) sentences.push(lost.message);
    const list = errors.map(({ name, message }) =>
      el("li", {}, isolated(name), el("span", { class: "muted" }, message)),
    );
    const goOn = el("button", { type: "button", onclick: () => this.add(left) }, "Send the rest");
    const show = el("a", { class: "button primary", href: NEWEST, onclick: () => this.dialog.close() }, "Show them");
    this.fill(
      title,
      sentences.length ? el("p", {}, sentences.join(" ")) : "",
      list.length ? el("h3", {}, "Not added") : "",
      list.length ? el("ul", { class: "adding-errors", tabindex: "0", "aria-label": "Not added" }, ...list) : "",
      el("div", { class: "links" }, added.length ? show : "", left.length ? goOn : "", this.closeButton("Close")),
    );
    announce(
      [`${title}.`, ...sentences, list.length ? `${counted(list.length, "picture")} could not be added.` : ""].join(
        " ",
      ),
    );
    this.dialog.querySelector(".links > *").focus();
  }

  /** @param {string} title @param {...(Node|string)} children */
  fill(title, ...children) {
    this.dialog.replaceChildren(el("h2", { id: "adding-title" }, title), ...children);
  }

  /** @param {string} label */
  closeButton(label) {
    return el("button", { type: "button", onclick: () => this.dialog.close() }, label);
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
  }
}

/**
 * Send a picture, again while the collection is busy.
 * @param {File} file
 * @param {AbortSignal} signal
 * @param {() => void} onBusy
 */
async function send(file, signal, onBusy) {
  for (;;) {
    try {
      return await postPicture(file, signal);
    } catch (error) {
      if (error.code !== "busy") throw error;
    }
    onBusy();
    await new Promise((resolve) => {
      signal.addEventListener("abort", resolve);
      setTimeout(resolve, PAUSE);
    });
  }
}

/** @param {number} bytes */
function inUnits(bytes) {
  if (bytes < 1e6) return `${Math.ceil(bytes / 1e3)}\u00a0kB`;
  return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)}\u00a0MB`;
}
