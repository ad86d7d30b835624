// What the modules of the page share while it is open, and how lanes and items are told in words.

import { Clock } from "./clock.js";
import { byId } from "./dom.js";
import { Store, fullness } from "./store.js";
import { afterItems, labelName, labelText, percent } from "./verdict.js";

export const page = {
  store: new Store(),
  clock: new Clock(),
  connection: null,
  card: null,
  palette: null,
  scales: [], // of each field: how high each of its values stands
  field: 0, // the one that gives colours
  span: Number(byId("span").value), // milliseconds of the river
  density: "auto",
  heldAt: null, // the moment that is held, or null
  selected: null,
  hovered: null,
  looks: null, // of the chosen item of the selected lane
  view: null,
};

/** The moment at the right edge of the river. */
export const shownNow = () => page.heldAt ?? page.clock.now;

/** A lane in words. */
export function laneWords(lane) {
  const { labels } = page.store;
  if (lane.decision) return `${lane.key}: ${labelText(labels, lane.decision)}, ${afterItems(lane.decision)}`;
  const items = `${lane.count} item${lane.count === 1 ? "" : "s"}`;
  return `${lane.key}: ${items}, still being read, ${labelName(labels, lane.top)} so far`;
}

/** An item in words, by its place in the ring. */
export function itemWords(slot) {
  const { ring, labels, fields } = page.store;
  const values = fields.map((field, f) => [field.name, field.values[ring.codes[f][slot]]]);
  const told = values.filter(([, value]) => value !== undefined).map(([name, value]) => `${name} ${value}`);
  const score = percent(fullness(ring.lane[slot], ring.halt[slot]));
  return `item ${ring.index[slot] + 1}: ${told.join(", ")}\nhalting score ${score} full, ${labels[ring.top[slot]]} ${percent(ring.chance[slot])}`;
}
