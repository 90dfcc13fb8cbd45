/** Ways to bring a picture: drop it anywhere, paste it, or choose a file. */

import { byId } from "./dom.js";

/** @param {(file: File) => void} take */
export function listenForPictures(take) {
  listenForDrops(take);
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (!file) return; // text goes where it was meant to
    event.preventDefault();
    take(file);
  });
  const input = byId("file");
  input.addEventListener("change", () => {
    if (input.files[0]) take(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
}

/** @param {(file: File) => void} take */
function listenForDrops(take) {
  const hint = byId("drop-hint");
  const brings = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // enter and leave are told for every element on the way
  const over = (/** @type {number} */ change) => {
    depth = Math.max(0, depth + change);
    hint.hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => brings(event) && over(1));
  document.addEventListener("dragleave", (event) => brings(event) && over(-1));
  document.addEventListener("dragover", (event) => {
    if (brings(event)) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    over(-depth);
    const files = [...(event.dataTransfer?.files ?? [])];
    const file = files.find((one) => one.type.startsWith("image/")) ?? files[0];
    if (file) take(file);
  });
}
