/** What the page remembers in this browser: the name of the grader, and choices by collection. */

/** What the storage does not take, until the page ends. @type {Map<string, any>} */
const unkept = new Map();

/** @param {string} key @param {any} [otherwise] @returns {any} */
export function remembered(key, otherwise = null) {
  if (unkept.has(key)) return unkept.get(key) ?? otherwise;
  try {
    return JSON.parse(localStorage.getItem(`ordrank ${key}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise; // no storage, or not ours
  }
}

/** Return whether it is kept when the page ends. @param {string} key @param {any} value null forgets it */
export function remember(key, value) {
  unkept.delete(key);
  try {
    if (value === null) localStorage.removeItem(`ordrank ${key}`);
    else localStorage.setItem(`ordrank ${key}`, JSON.stringify(value));
    return true;
  } catch {
    unkept.set(key, value); // there is no storage, or it is full
    return false;
  }
}

/** The keys that begin with a text. @param {string} beginning @returns {string[]} */
export function rememberedKeys(beginning) {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(`ordrank ${beginning}`));
    return keys.map((key) => key.slice("ordrank ".length));
  } catch {
    return []; // no storage
  }
}

/** The beginning of the keys of changes that are not sent yet. @param {string} name of the collection */
export const unsentOf = (name) => `unsent ${name}/`;

/** The name of the person who grades; null: without a name. @returns {string|null} */
export const grader = () => remembered("grader", "").trim() || null;
