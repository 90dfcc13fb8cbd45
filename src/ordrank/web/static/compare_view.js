/** The mode in which two pictures are compared: which one is higher? */

import { thumbnail } from "./api.js";
import { byId, capitalized, count, dot, el, isolated } from "./dom.js";
import { areNumbers, listenToKeys, releaseButtons, showKeys } from "./keys.js";
import { getComparisons, getNextPair } from "./labeling_api.js";
import { announce, attempt } from "./notices.js";
import { grader, remember } from "./settings.js";
import { Stage } from "./stage.js";
import { link } from "./state.js";

const KEYS = [
  [["←"], "the left picture is higher"],
  [["→"], "the right picture is higher"],
  [["↓", "="], "they are equal"],
  [["S", "Space"], "skip this pair"],
  [["U", "Ctrl+Z"], "undo the last comparison"],
  [["Z"], "full size of both; arrow keys then move one, Tab goes to the other, Z returns"],
  [["?"], "these keys"],
];
const SIDES = ["first", "second"];
const AHEAD = 2; // pairs that are known in advance
const END = 100; // pictures shown of each end of a long ranking

/** @typedef {import("./labeling_api.js").SuggestedPair} SuggestedPair */

/** Shows pairs of pictures and takes the comparisons. */
export class CompareView {
  /**
   * @param {object} options
   * @param {import("./palette.js").Palette} options.palette
   * @param {import("./api.js").Collection} options.collection
   * @param {import("./outbox.js").Outbox} options.outbox
   * @param {(picture: import("./api.js").Picture) => void} options.onMissing called when the collection does not have a
   *   picture any more
   */
  constructor({ palette, collection, outbox, onMissing }) {
    Object.assign(this, { palette, collection, outbox });
    this.title = "compare-title";
    this.stages = SIDES.map((side) => new Stage(byId(`compare-${side}`), { onGone: onMissing }));
    /** @type {SuggestedPair|null} */
    this.pair = null;
    /** The next pairs. @type {SuggestedPair[]} */
    this.ready = [];
    /** Pairs not to be asked about now: skipped, on the screen or on their way. @type {string[]} */
    this.skipped = [];
    /** Comparisons of this page. @type {{key: string, pair: SuggestedPair, change: any}[]} */
    this.history = [];
    this.listen();
  }

  /** Show the next pair and the ranking so far. */
  async show() {
    document.title = `Compare: ${this.collection.name}`;
    if (this.collection.read_only) return;
    this.active = true;
    byId("compare-grader").value = grader() ?? "";
    byId("compare-title").replaceChildren(...this.question());
    this.ready = []; // chosen by an earlier model, perhaps
    if (!this.pair) byId("compare-count").textContent = "Choosing two pictures; the first time takes some seconds.";
    await Promise.all([this.pair ? this.render() : this.forward(), this.rank()]);
  }

  stop() {
    this.active = false;
    for (const stage of this.stages) stage.clear();
  }

  /** The question, in the words of the scale. */
  question() {
    const grades = this.collection.grades.map(({ grade }) => grade);
    if (grades.length < 2) return ["Which is higher?"];
    if (areNumbers(grades)) return ["Which has the higher grade?"];
    const [lowest, highest] = [grades[0], grades.at(-1)].map((grade) => el("em", {}, isolated(grade)));
    return ["Which is further from ", lowest, " to ", highest, "?"];
  }

  /** Show the next pair. */
  async forward() {
    if (!this.ready.length) await this.fetch();
    this.pair = this.ready.shift() ?? null;
    if (!this.active) return;
    this.render();
    if (this.pair) this.fetch().catch(() => {}); // tried again when it is needed
  }

  /** Fetch other pairs than those that were shown, some in advance; once at a time. */
  fetch() {
    this.fetching ??= this.fetchNew().finally(() => (this.fetching = null));
    return this.fetching;
  }

  async fetchNew() {
    while (this.ready.length < AHEAD) {
      const { pair, comparisons } = await getNextPair({ grader: grader(), skip: this.skipped });
      this.total = comparisons;
      if (!pair) return;
      this.skip(pair);
      this.ready.push(pair);
      SIDES.forEach((side, i) => this.stages[i].preload([pair[side]]));
    }
  }

  /** @param {SuggestedPair} pair not to be asked about now */
  skip({ first, second }) {
    this.skipped = [...this.skipped, `${first.id}-${second.id}`].slice(-100);
  }

  render() {
    const { pair } = this;
    byId("compare-pair").hidden = byId("compare-answers").hidden = !pair;
    byId("compare-done").hidden = Boolean(pair);
    byId("compare-why").hidden = !pair;
    byId("compare-reason").textContent = pair ? `${capitalized(pair.explanation)}.` : "";
    SIDES.forEach((side, i) => {
      if (!pair) return this.stages[i].clear();
      this.stages[i].show(pair[side]);
      byId(`compare-${side}-name`).replaceChildren(isolated(pair[side].name));
    });
    this.countComparisons();
  }

  countComparisons() {
    const own = this.history.length ? `${count(this.history.length)} compared in this session · ` : "";
    const total = (this.total ?? 0) + this.outbox.waiting;
    byId("compare-count").textContent = `${own}${count(total)} ${total === 1 ? "comparison" : "comparisons"} in all`;
  }

  /** @param {1|-1|0} outcome first higher, second higher, equal */
  async answer(outcome) {
    const { pair } = this;
    if (!pair || this.moving) return;
    const { first, second } = pair;
    const pictures = { picture: first.id, name: first.name, second: second.id };
    const change = { kind: "comparison", ...pictures, outcome, grader: grader() };
    this.history.push({ key: this.outbox.put(change), pair, change });
    announce(outcome === 0 ? "Equal." : `${(outcome > 0 ? first : second).name} is higher.`);
    await this.advance();
  }

  async advance() {
    if (this.moving) return;
    this.moving = true;
    byId("compare-pair").classList.add("waiting");
    try {
      await this.forward();
    } finally {
      this.moving = false;
      byId("compare-pair").classList.remove("waiting");
    }
  }

  /** Withdraw the last comparison and ask again. */
  undo() {
    if (this.moving) return announce("The next pair is loading. Undo when it is there.");
    const last = this.history.pop();
    if (!last) return announce("There is nothing to undo on this page.");
    const { key, pair, change } = last;
    this.outbox.put({ ...change, outcome: null, undoes: key });
    if (this.pair && this.pair !== pair) this.ready.unshift(this.pair);
    this.pair = pair;
    this.render();
    announce(`Undone: ${pair.first.name} and ${pair.second.name}.`);
  }

  /**
   * Forget a comparison that was not stored.
   * @param {import("./outbox.js").Change} change
   * @returns {SuggestedPair|undefined} what was compared, if it was on this page
   */
  discard({ key: discarded }) {
    const found = this.history.find(({ key }) => key === discarded);
    this.history = this.history.filter((entry) => entry !== found);
    if (this.active) this.countComparisons();
    return found?.pair;
  }

  /** Go on without a picture that the collection does not have any more. @param {number} id */
  leave(id) {
    const isWithout = ({ first, second }) => first.id !== id && second.id !== id;
    this.history = this.history.filter(({ pair }) => isWithout(pair));
    this.ready = this.ready.filter(isWithout);
    if (!this.pair || isWithout(this.pair)) return;
    this.pair = null;
    if (this.active) attempt(() => this.advance());
  }

  /** Show the full size of both pictures, or all of them again; the left one gets the focus. */
  zoom() {
    const zoomed = this.stages.filter((stage) => stage.zoomed);
    for (const stage of zoomed.length ? zoomed : this.stages.toReversed()) stage.zoom();
  }

  /** Show the ranking again, soon after a comparison was stored. @param {{comparisons: number}|null} result */
  settle(result) {
    this.total = result?.comparisons ?? this.total;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.active && attempt(() => this.rank()), 400);
  }

  /** Show the ranking so far, of a long one both ends. */
  async rank() {
    const { items, total } = await getComparisons(0, 2 * END);
    const between = total - 2 * END;
    const highest = between > 0 ? (await getComparisons(total - END, END)).items : [];
    const lowest = highest.length ? items.slice(0, END) : items;
    const gap = highest.length ? [el("li", { class: "gap muted" }, `${count(between)} more`)] : [];
    const [low, high] = [lowest, highest].map((end) => end.map((item) => this.ranked(item)));
    byId("compare-ranking").hidden = !total;
    byId("ranking").replaceChildren(...low, ...gap, ...high);
    byId("ranking-count").textContent = total ? count(total) : "";
    byId("ranking-about").textContent = highest.length
      ? `The ${END} lowest and the ${END} highest of the compared pictures.`
      : "The compared pictures from the lowest to the highest.";
    this.countComparisons();
  }

  /** @param {import("./labeling_api.js").ComparedPicture} item */
  ranked({ picture, value, deviation, grade }) {
    const { id, name } = picture;
    const uncertainty = `${value.toFixed(1)} ± ${deviation.toFixed(1)}`;
    const label = grade === null ? uncertainty : `${grade} (${uncertainty})`;
    const options = { alt: `${label}, ${name}`, loading: "lazy", decoding: "async" };
    const image = el("img", { src: thumbnail("picture", id), ...options });
    const shown = grade === null ? [uncertainty] : [dot(this.palette.cssOf(grade)), isolated(grade)];
    const text = el("span", { "aria-hidden": "true" }, ...shown);
    const href = link({ view: "browse", chosen: id }); // there is no panel here
    return el("li", { "data-id": id }, el("a", { href, title: `${name}: ${uncertainty}` }, image, text));
  }

  listen() {
    const answer = (outcome) => () => attempt(() => this.answer(outcome));
    // The second click of a double click would be about the next pair.
    const click = (outcome) => (event) => event.detail <= 1 && answer(outcome)();
    const next = () => attempt(() => this.advance());
    const undo = () => this.undo();
    const buttons = {
      "compare-choose-first": click(1),
      "compare-choose-second": click(-1),
      "compare-equal": click(0),
      "compare-skip": next,
      "compare-undo": undo,
      "compare-keys": () => showKeys(KEYS),
      "compare-again": () => {
        this.skipped = [];
        this.ready = [];
        next();
      },
    };
    for (const [id, action] of Object.entries(buttons)) byId(id).addEventListener("click", action);
    releaseButtons(byId("compare-work"), byId("compare-title"));
    byId("compare-grader").addEventListener("input", ({ target }) => remember("grader", target.value));
    const keys = {
      ArrowLeft: answer(1),
      ArrowRight: answer(-1),
      ArrowDown: answer(0),
      "=": answer(0),
      s: next,
      " ": next,
      u: undo,
      "Control+z": undo,
      z: () => this.zoom(),
      "?": () => showKeys(KEYS),
    };
    listenToKeys("compare", (key, { repeat, target }) => {
      if (!this.active || !keys[key]) return false;
      const scrolls = target.closest("#ranking") || this.stages.some(({ zoomed }) => zoomed);
      if (key.startsWith("Arrow") && scrolls) return false; // moves the ranking or the picture
      if (!repeat) keys[key]();
    });
  }
}
