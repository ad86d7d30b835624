// The river in words: a table of the lanes, and decisions told politely to those who listen.

import { byId, make } from "./dom.js";
import { afterItems, percent } from "./river.js";

const ROWS = 200; // lanes in the table
const PAUSE = 2500; // milliseconds between two announcements

/** Fill the table of lanes: the same as the picture, for eyes and ears that want words. */
export function fillTable(store, threshold, selected) {
  const lanes = store.rows.filter((lane) => lane !== null).slice(0, ROWS);
  const body = byId("lanes");
  while (body.rows.length > lanes.length) body.deleteRow(-1);
  lanes.forEach((lane, place) => {
    const row = body.rows[place] ?? body.insertRow();
    const cells = cellsOf(store, lane, threshold);
    while (row.cells.length < cells.length) {
      row.append(row.cells.length ? make("td") : make("th", { scope: "row" }, make("button", { type: "button" })));
    }
    row.firstChild.firstChild.dataset.identity = lane.identity;
    row.classList.toggle("chosen", lane === selected);
    cells.forEach((text, i) => {
      const cell = i ? row.cells[i] : row.firstChild.firstChild;
      if (cell.textContent !== text) cell.textContent = text;
    });
  });
}

function cellsOf(store, lane, threshold) {
  const { decision } = lane;
  const guess = lane.top >= 0 ? `${store.labels[lane.top]}? ${percent(lane.chance)}` : "–";
  const label = decision ? `${store.labels[decision.label]} ${percent(decision.probability)}` : guess;
  const score = decision ? "full" : percent(Math.min(1, lane.halt / Math.max(threshold, 1e-6)));
  return [String(lane.key), String(lane.count), score, label, decision ? afterItems(decision) : "still reading"];
}

/** Tells decisions one after the other, and how many others there were meanwhile. */
class Announcer {
  #waiting = [];
  #timer = null;

  /** Take decisions to be told. */
  add(decisions, labels) {
    this.#waiting.push(...decisions);
    if (this.#timer === null && this.#waiting.length) this.#tell(labels);
  }

  /** Say something else now. */
  say(text) {
    byId("live").textContent = text;
  }

  #tell(labels) {
    const last = this.#waiting.at(-1);
    const others = this.#waiting.length - 1;
    const more = others ? `, and ${others} other key${others === 1 ? " was" : "s were"} named` : "";
    this.say(`${last.lane.key} is ${labels[last.label]}, ${percent(last.probability)}, ${afterItems(last)}${more}.`);
    this.#waiting = [];
    this.#timer = setTimeout(() => {
      this.#timer = null;
      if (this.#waiting.length) this.#tell(labels);
    }, PAUSE);
  }
}

export const announcer = new Announcer();
