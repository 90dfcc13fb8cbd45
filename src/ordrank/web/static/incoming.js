/** Pictures that the user brings: one is a query, several are to be added to the collection. */

import { ApiError, postQuery } from "./api.js";
import { counted } from "./dom.js";
import { isPicture } from "./dropped_files.js";
import { lazy, loadModule } from "./lazy.js";
import { announce, attempt, clearError } from "./notices.js";
import { START, current, go } from "./state.js";
import { listenForUploads } from "./upload.js";

/** Sends them, and remembers the queries. */
export class IncomingPictures {
  /**
   * @param {object} options
   * @param {import("./api.js").Collection} options.collection
   * @param {() => Promise<void>} options.onAdded pictures are new in the collection
   * @param {() => Promise<void>} options.onListed the list on the screen has new pictures
   */
  constructor({ collection, onAdded, onListed }) {
    Object.assign(this, { collection, onAdded });
    /** Uploaded files by query id, to send again when the server has dropped one. @type {Map<string, File>} */
    this.files = new Map();
    /** Of the upload that is under way. */
    this.uploading = new AbortController();
    this.dialog = lazy(async () => {
      const { AddDialog } = await loadModule(() => import("./add_pictures.js"));
      return new AddDialog(async () => {
        await onAdded();
        if (current().view === "browse") await onListed();
      });
    });
    listenForUploads({
      onFile: (file) => attempt(() => this.search(file)),
      onFiles: (files) => attempt(() => this.receive(files)),
    });
  }

  /** The file of a query, if it was uploaded here. @param {import("./state.js").State} state */
  fileOf({ view, id }) {
    return view === "query" ? this.files.get(id) : undefined;
  }

  /** The user has gone elsewhere. */
  abort() {
    this.uploading.abort();
  }

  /** Upload a query and go to its result. @param {File} file @param {{replace?: boolean}} [options] an expired query */
  async search(file, { replace = false } = {}) {
    clearError();
    announce(`Estimating the grade of ${file.name || "your picture"}.`);
    this.uploading.abort(); // only the result of the last upload is shown
    this.uploading = new AbortController();
    const { kind, id } = await postQuery(file, this.uploading.signal);
    if (kind === "query") this.files.set(String(id), file);
    const before = current();
    const { lowest, highest, show, within, chosen } = before.id === null ? START : before;
    const filters = { lowest, highest, show, within, chosen: replace ? chosen : null };
    go({ ...START, ...filters, view: kind, id: String(id) }, { replace });
  }

  /** Add a query to the collection, and show it there. @param {File} file */
  async addQuery(file) {
    const { postPicture } = await loadModule(() => import("./library_api.js"));
    const { picture } = await postPicture(file);
    await this.onAdded();
    go({ view: "picture", id: String(picture.id), chosen: null }, { replace: true });
    announce(`${picture.name} is in the collection now.`);
  }

  /** Ask whether to add files, or which. @param {File[]} [files] */
  async add(files) {
    const dialog = await this.dialog.get();
    if (files) dialog.ask(files);
    else dialog.choose();
  }

  /** @param {File[]} files several, or those of a folder */
  async receive(files) {
    if (!this.collection.read_only) return this.add(files);
    const pictures = files.filter(isPicture);
    if (!pictures.length) throw new ApiError(0, "There is no picture among these files.");
    await this.search(pictures[0]);
    if (pictures.length === 1) return;
    await new Promise((resolve) => setTimeout(resolve)); // the new address clears earlier messages
    const several = counted(pictures.length, "picture");
    throw new ApiError(0, `This is the first of ${several}: this server cannot add any.`);
  }
}
