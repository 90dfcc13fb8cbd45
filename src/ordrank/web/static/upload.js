/** Pictures from the user: dropped anywhere, pasted, or chosen as a file. One is a query, several are to be added. */

import { byId } from "./dom.js";
import { droppedFiles, isPicture } from "./dropped_files.js";

/** @param {{onFile: (file: File) => void, onFiles: (files: File[]) => void}} callbacks */
export function listenForUploads({ onFile, onFiles }) {
  const receive = (files) => {
    const pictures = files.filter(isPicture);
    if (pictures.length > 1) onFiles(files);
    else if (files.length) onFile(pictures[0] ?? files[0]);
  };
  listenForDrops((files, hasFolder) => (hasFolder ? onFiles(files) : receive(files)));
  document.addEventListener("paste", (event) => {
    if (document.querySelector("dialog:modal")) return; // the page behind it would change unseen
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (!files.length) return; // leave pasted text to the focused input
    event.preventDefault();
    receive(files);
  });
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files[0]) onFile(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
}

/** @param {(files: File[], hasFolder: boolean) => void} onDrop */
function listenForDrops(onDrop) {
  const hint = byId("drop-hint");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") && !document.querySelector("dialog:modal");
  let depth = 0; // every element on the way fires dragenter and dragleave
  const setDepth = (value) => {
    depth = Math.max(0, value);
    hint.hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => hasFiles(event) && setDepth(depth + 1));
  document.addEventListener("dragleave", (event) => hasFiles(event) && setDepth(depth - 1));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault(); // also beside a dialog: the browser would leave the page
    if (!hasFiles(event)) return;
    setDepth(0);
    droppedFiles(event.dataTransfer).then(({ files, hasFolder }) => onDrop(files, hasFolder));
  });
}
