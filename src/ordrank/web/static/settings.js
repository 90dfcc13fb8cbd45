/** What the page remembers in this browser: the name of the grader, and choices by collection. */

/** @param {string} key @param {any} [otherwise] @returns {any} */
export function remembered(key, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(`ordrank ${key}`) ?? "null") ?? otherwise;
  } catch {
    return otherwise; // no storage, or not ours
  }
}

/** Return whether it is kept. @param {string} key @param {any} value null forgets it */
export function remember(key, value) {
  try {
    if (value === null) localStorage.removeItem(`ordrank ${key}`);
    else localStorage.setItem(`ordrank ${key}`, JSON.stringify(value));
    return true;
  } catch {
    return false; // no storage, or no room
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
