/** Query pictures from the user: dropped anywhere, pasted, or chosen as a file. */

import { byId } from "./dom.js";

const firstImage = (files) => files.find((file) => file.type.startsWith("image/"));

/** @param {(file: File) => void} onFile */
export function listenForUploads(onFile) {
  listenForDrops(onFile);
  document.addEventListener("paste", (event) => {
    const file = firstImage([...(event.clipboardData?.files ?? [])]);
    if (!file) return; // leave pasted text to the focused input
    event.preventDefault();
    onFile(file);
  });
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files[0]) onFile(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
}

function listenForDrops(onFile) {
  const hint = byId("drop-hint");
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // every element on the way fires dragenter and dragleave
  const setDepth = (value) => {
    depth = Math.max(0, value);
    hint.hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => hasFiles(event) && setDepth(depth + 1));
  document.addEventListener("dragleave", (event) => hasFiles(event) && setDepth(depth - 1));
  document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDepth(0);
    const files = [...event.dataTransfer.files];
    const file = firstImage(files) ?? files[0];
    if (file) onFile(file);
  });
}
