/** The check of the collection: grades that may be wrong, near copies, pictures unlike the others, and advice. */

import { ApiError, getDoctorReport } from "./api.js";
import { listenToCheckKeys } from "./check_keys.js";
import { byId, count, counted, el, isolated, percent, visuallyHidden } from "./dom.js";
import { gradeForm } from "./grading.js";
import { card, listenToHover } from "./grid.js";
import { keyHint } from "./keys.js";
import { putConfirmation } from "./labeling_api.js";
import { announce, attempt } from "./notices.js";
import { link, moreLike } from "./state.js";

/** Shows a report in the place of the list of pictures. */
export class Check {
  /**
   * @param {object} options
   * @param {import("./grid.js").Grid} options.grid the list
   * @param {import("./palette.js").Palette} options.palette
   * @param {import("./api.js").Collection} options.collection
   * @param {(id: number|null) => void} options.onHover
   * @param {(ids: number[]) => void} options.onReport called with the pictures that are listed
   * @param {(picture: import("./api.js").Picture) => void} options.onGraded
   * @param {(ids: number[]) => Promise<void>} options.settled wait until earlier changes of pictures are stored
   */
  constructor(options) {
    Object.assign(this, options);
    this.box = byId("check");
    /** What an entry of a list shows, as text. @type {WeakMap<Element, string>} */
    this.contents = new WeakMap();
    this.abort = new AbortController();
    listenToHover(this.box, this.onHover);
    listenToCheckKeys();
  }

  /** Show the report from its beginning. */
  async show() {
    const { name, pictures } = this.collection;
    this.grid.stop();
    this.stop();
    document.title = `Check: ${name}`;
    byId("list-title").textContent = "Check";
    byId("list-count").textContent = "";
    byId("list-note").textContent = `Examining ${counted(pictures, "picture")}…`;
    announce(byId("list-note").textContent);
    await this.refresh();
  }

  /** Load the report again; entries of which nothing has changed stay, for somebody may be typing there. */
  async refresh() {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    try {
      const report = await getDoctorReport(signal);
      if (!signal.aborted) this.fill(report);
    } catch (error) {
      if (!signal.aborted) {
        this.stop();
        this.grid.offerRetry();
      }
      throw error;
    }
  }

  /** Show nothing, and drop a report that is under way. */
  stop() {
    this.abort.abort();
    this.box.hidden = true;
    this.corrected = undefined;
    for (const name of ["suspects", "copies", "novel"]) byId(name).replaceChildren();
  }

  /** @param {number|null} id picture in the side panel */
  choose(id) {
    for (const element of this.box.querySelectorAll(".card")) {
      element.classList.toggle("chosen", element.dataset.id === String(id));
    }
  }

  /** @param {import("./api.js").DoctorReport} report */
  fill(report) {
    const { suspects, near_copies: copies, novel, advice } = report;
    byId("list-note").textContent = "";
    byId("verdict").textContent = sentence(report.verdict);
    byId("examined").textContent =
      `${counted(report.pictures, "picture")} examined, ${count(report.graded)} with a grade. ` +
      "Each list has at most 100 entries, the worst first.";
    byId("advice").replaceChildren(...advice.map((text) => el("li", {}, sentence(text))));
    byId("no-advice").hidden = advice.length > 0;
    for (const [name, items] of Object.entries({ suspects, copies, novel })) fillHead(name, items.length);
    byId("suspects-keys").hidden = !suspects.length;
    this.fillSuspects(suspects);
    replaceChanged(byId("copies"), this.entries("copies", copies, (copy) => this.pair(copy)));
    replaceChanged(byId("novel"), this.entries("novel", novel, (picture) => this.novelCard(picture)));
    this.box.hidden = false;
    announce(
      `${counted(suspects.length, "suspect grade")}, ${counted(copies.length, "pair")} of near copies, ` +
        `${counted(novel.length, "picture")} unlike the others.`,
    );
    const copied = copies.flatMap(({ first, second }) => [first, second]);
    this.onReport([...suspects, ...copied, ...novel].map(({ id }) => id));
  }

  /**
   * The entries of a list: those on the screen that show the same, else new ones.
   * @template T
   * @param {string} name of the list
   * @param {T[]} items
   * @param {(item: T) => HTMLElement} create
   */
  entries(name, items, create) {
    const old = new Map([...byId(name).children].map((element) => [this.contents.get(element), element]));
    return items.map((item) => {
      const content = JSON.stringify([item, this.palette.grades.length]); // a new grade changes all colours
      const element = old.get(content) ?? create(item);
      this.contents.set(element, content);
      return element;
    });
  }

  /** @param {import("./api.js").SuspectGrade[]} suspects */
  fillSuspects(suspects) {
    const rows = this.entries("suspects", suspects, (suspect) => this.row(suspect));
    const { activeElement } = document;
    this.keepCorrected(rows);
    replaceChanged(byId("suspects"), rows);
    const focused = activeElement?.closest(".suspect");
    if (!focused) return;
    const row = rowLike(focused, rows);
    const same = row === focused && row !== this.corrected ? activeElement : null;
    const control = row?.querySelector(".form-status button") ?? row?.querySelector(".grade-form .row > *");
    const target = activeElement === focused ? row : control; // keys move between rows
    (same ?? target ?? byId("suspects-title")).focus();
  }

  /**
   * Keep the row that was corrected last in its place, for its button Undo; it shows nothing else.
   * @param {HTMLElement[]} rows of the grades that are suspect now; the kept one is added
   */
  keepCorrected(rows) {
    const { corrected } = this;
    if (!corrected) return;
    if (rowLike(corrected, rows)) {
      this.corrected = undefined; // it is suspect still, or again
      return;
    }
    const shown = [...byId("suspects").children];
    const before = shown.slice(0, shown.indexOf(corrected)).filter((row) => rows.includes(row));
    rows.splice(before.length, 0, corrected);
    corrected.classList.add("corrected");
  }

  /** @param {import("./api.js").SuspectGrade} suspect */
  row(suspect) {
    const { id, grade, estimate, lowest, highest, probability, neighbors } = suspect;
    const interval = el("span", { class: "interval" }, lowest === highest ? "" : ` (${lowest}–${highest})`);
    const size = estimate.length > 4 ? "estimate named" : "estimate";
    const chance = el("span", { class: "conflict" }, `probability ${percent(probability)}`);
    const facts = el(
      "dl",
      {},
      el("dt", {}, "Given grade"),
      el("dd", { class: "known" }, isolated(grade), " ", chance),
      el("dt", {}, "Estimate without it"),
      el("dd", { class: size }, el("bdi", {}, estimate, interval)),
    );
    const row = el("li", { class: "suspect", tabindex: -1 });
    const onSaved = (picture) => {
      row.classList.remove("corrected"); // after Undo
      this.corrected = row;
      this.onGraded(picture);
    };
    const options = { settled: this.settled, fieldId: `grade-field-${id}`, proposed: () => estimate };
    const nearest = el("ul", {}, ...neighbors.map((neighbor) => this.card(neighbor)));
    const form = this.collection.read_only ? null : gradeForm(suspect, this.palette.grades, onSaved, options);
    form?.querySelector(".row").append(keyHint("C"));
    row.append(
      this.card(suspect, { tag: "div" }),
      el("div", { class: "facts" }, facts, form ? this.decisions(suspect, row, form) : ""),
      form ?? "",
      el("div", { class: "neighbors" }, el("p", { class: "muted" }, "Most similar graded pictures"), nearest),
    );
    return row;
  }

  /**
   * The buttons that decide on a suspect grade without a look at its form.
   * @param {import("./api.js").SuspectGrade} suspect
   * @param {HTMLElement} row
   * @param {HTMLElement} form
   */
  decisions({ id, name, grade, estimate }, row, form) {
    const accept = () => {
      form.querySelector(".row > :first-child").value = estimate;
      form.requestSubmit();
    };
    const confirm = (isConfirmed) =>
      attempt(async () => {
        await putConfirmation(id, isConfirmed, grade).catch(async (error) => {
          if (error instanceof ApiError && error.status === 409) await this.refresh(); // it has another grade by now
          throw error;
        });
        const undo = el("button", { type: "button", class: "link-button", onclick: () => confirm(false) }, "Undo");
        form.querySelector(".form-status").replaceChildren(...(isConfirmed ? [`Kept: grade ${grade}. `, undo] : []));
        row.classList.remove("corrected"); // after Undo
        this.corrected = isConfirmed ? row : undefined;
        await this.refresh();
      });
    const of = visuallyHidden(` for ${name}`);
    const button = (name, onclick, ...content) => el("button", { type: "button", class: name, onclick }, ...content);
    return el(
      "div",
      { class: "decisions" },
      button("accept", accept, "Accept ", isolated(estimate), of, keyHint("A")),
      button("keep", () => confirm(true), "Keep ", isolated(grade), of.cloneNode(true), keyHint("⏎")),
    );
  }

  /** @param {import("./api.js").NearCopy} copy */
  pair({ first, second, relative_distance, leaks }) {
    const differ = first.grade !== null && second.grade !== null && first.grade !== second.grade;
    const remarks = [differ && "different grades", leaks && "in different groups"].filter(Boolean);
    return el(
      "li",
      { class: "pair" },
      el("ul", {}, this.card(first), this.card(second)),
      el(
        "p",
        { class: "muted" },
        times(relative_distance),
        ...remarks.flatMap((text) => [" ", el("span", { class: "conflict" }, text)]),
      ),
    );
  }

  /** @param {import("./api.js").NovelPicture} picture */
  novelCard(picture) {
    return this.card(picture, { below: [el("p", { class: "muted" }, times(picture.relative_distance))] });
  }

  /** @param {import("./api.js").PictureGrade} picture @param {object} [options] of `card` */
  card({ id, name, grade }, options = {}) {
    return card({
      id,
      name,
      grade,
      estimated: false,
      colour: this.palette.cssOf(grade),
      href: moreLike(id),
      action: "– more like this",
      second: { href: link({ chosen: id }), label: "Details" },
      ...options,
    });
  }
}

/** The row of the same picture. @param {HTMLElement} row @param {HTMLElement[]} rows */
const rowLike = (row, rows) => rows.find((other) => other.firstChild.dataset.id === row.firstChild.dataset.id);

/** Show the length of a list, and a sentence instead of the explanation if it is empty. */
function fillHead(name, length) {
  byId(`${name}-count`).textContent = length ? count(length) : "";
  byId(`${name}-about`).hidden = !length;
  byId(`no-${name}`).hidden = length > 0;
}

/** Like `replaceChildren`, but elements that stay keep focus and input. */
function replaceChanged(list, elements) {
  for (const child of [...list.children]) {
    if (!elements.includes(child)) child.remove();
  }
  elements.forEach((element, i) => {
    if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
  });
}

/** @param {string} text a message of the server */
const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

/** @param {number} distance in units of the usual one */
const times = (distance) => `${Number(distance.toPrecision(2))} × the usual distance`;
