/** Files that were dropped, also those in dropped folders. */

const SUFFIXES = /\.(avif|bmp|gif|hei[cf]|jpe?g|jfif|png|tiff?|webp)$/i; // a system may not know the type of some

/** Whether a file is a picture, as far as its type and name say. @param {File} file */
export const isPicture = ({ type, name }) => type.startsWith("image/") || SUFFIXES.test(name);

/**
 * The files of a drop, ordered by path.
 * @param {DataTransfer} data
 * @returns {Promise<{files: File[], hasFolder: boolean}>}
 */
export async function droppedFiles(data) {
  // Both lists are empty as soon as the handler of the event has returned.
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...data.files];
  if (!entries.some((entry) => entry.isDirectory)) return { files: plain, hasFolder: false };
  const files = (await Promise.all(entries.map(filesOf))).flat();
  return { files, hasFolder: true };
}

/** @param {FileSystemEntry} entry @returns {Promise<File[]>} */
async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((resolve, reject) => entry.file(resolve, reject))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const part = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // some at a time
    if (!part.length) break;
    found.push(...part);
  }
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  return (await Promise.all(found.map(filesOf))).flat();
}
