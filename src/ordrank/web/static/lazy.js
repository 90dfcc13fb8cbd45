/** Parts of the page whose modules are loaded when they are needed: the first pictures do not wait for them. */

import { ApiError } from "./api.js";
import { current } from "./state.js";

/**
 * Load a module.
 * @template T
 * @param {() => Promise<T>} start such as `() => import("./map.js")`
 * @returns {Promise<T>}
 */
export async function loadModule(start) {
  try {
    return await start();
  } catch (error) {
    if (!(error instanceof TypeError) || !/import/i.test(error.message)) throw error;
    throw new ApiError(0, "The server does not respond. Is it still running?");
  }
}

/**
 * A part that is created at its first use.
 * @template T
 * @param {() => Promise<T>} load
 * @returns {{value: T|undefined, get: () => Promise<T>}}
 */
export function lazy(load) {
  let loading;
  const part = {
    value: undefined,
    get: () => {
      loading ??= load().then(
        (value) => (part.value = value),
        (error) => {
          loading = undefined; // the connection was lost: the next use tries again
          throw error;
        },
      );
      return loading;
    },
  };
  return part;
}

/**
 * A view that is created when it is first shown.
 * @param {string} name
 * @param {string} title id of the heading that gets the focus
 * @param {{get: () => Promise<any>, value: any}} part
 * @param {(value: any) => any} [viewOf] the view of a part that has several
 */
export function lazyView(name, title, part, viewOf = (value) => value) {
  const loaded = () => (part.value === undefined ? undefined : viewOf(part.value));
  return {
    title,
    show: async (state) => {
      const view = viewOf(await part.get());
      if (current().view === name) await view.show(state);
    },
    stop: () => loaded()?.stop?.(),
    refresh: () => loaded()?.refresh?.(),
  };
}
