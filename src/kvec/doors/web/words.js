// The river in words: a table of the lanes, and decisions told politely to those who listen.

import { byId, make } from "./dom.js";
import { fullness } from "./store.js";
import { afterItems, labelName, labelText, percent } from "./verdict.js";

const ROWS = 200; // lanes in the table
const PAUSE = 2500; // milliseconds between two announcements

/** Fill the table of lanes: the same as the picture, for eyes and ears that want words. */
export function fillTable(store, selected) {
  const lanes = store.rows.filter((lane) => lane !== null).slice(0, ROWS);
  const body = byId("lanes");
  while (body.rows.length > lanes.length) body.deleteRow(-1);
  lanes.forEach((lane, place) => {
    const row = body.rows[place] ?? body.insertRow();
    const cells = cellsOf(store, lane);
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

function cellsOf(store, lane) {
  const { decision } = lane;
  const guess = `${labelName(store.labels, lane.top)}? ${percent(lane.chance)}`;
  const label = decision ? labelText(store.labels, decision) : guess;
  const score = decision?.reason === "halted" ? "full" : percent(fullness(lane, lane.halt));
  return [String(lane.key), String(lane.count), score, label, decision ? afterItems(decision) : "still reading"];
}

/** Tells decisions one after the other, and how many others there were meanwhile; or none of them. What a person asked for is told at once, and decisions wait until it was heard. */
class Announcer {
  isMuted = false;
  #waiting = [];
  #labels = [];
  #timer = null;

  /** Take decisions to be told. */
  add(decisions, labels) {
    if (this.isMuted) return;
    this.#waiting.push(...decisions);
    this.#labels = labels;
    if (this.#timer === null) this.#tell();
  }

  /** Tell no decisions from now on, or tell them again. */
  mute(isMuted) {
    this.isMuted = isMuted;
    this.#waiting = [];
  }

  /** Say something else now. */
  say(text) {
    byId("live").textContent = text;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#tell();
    }, PAUSE);
  }

  #tell() {
    const last = this.#waiting.at(-1);
    if (!last) return;
    const others = this.#waiting.length - 1;
    const more = others ? `, and ${others} other key${others === 1 ? " was" : "s were"} decided` : "";
    this.#waiting = [];
    this.say(`${last.lane.key} is ${labelText(this.#labels, last)}, ${afterItems(last)}${more}.`);
  }
}

export const announcer = new Announcer();
