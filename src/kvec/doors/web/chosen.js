// The lane that is open: asks the service for its trace and looks again while items come, and keeps the panel up to date.

import { findLooks } from "./arcs.js";
import { byId } from "./dom.js";
import { KeyPanel } from "./key.js";
import { laneWords, page, threshold } from "./page.js";
import { reveal } from "./stage.js";
import { announcer } from "./words.js";

const AGAIN = 1000; // milliseconds between two questions at the least
const panel = new KeyPanel(updateLooks);
let answer = null; // what the service said: {key, looks, last}
let turn = 0;

const pathOf = (lane) => `v1/keys/${encodeURIComponent(lane.tangle)}/${encodeURIComponent(lane.key)}`;

/** Open a lane, or close what is open with null. */
export function select(lane) {
  page.selected = lane;
  page.looks = null;
  answer = null;
  turn++;
  byId("key").hidden = lane === null;
  if (lane === null) return;
  showKey();
  reveal(lane);
  announcer.say(laneWords(lane));
  ask(lane, turn);
}

/** Show the open lane as it stands. */
export function showKey() {
  if (page.selected) panel.show(page.selected, answer?.key ?? null, page.store, page.palette, threshold());
}

async function ask(lane, mine) {
  if (mine !== turn) return;
  if (answer?.last !== lane.last) {
    const last = lane.last;
    const [key, looks] = await Promise.all([askFor(pathOf(lane)), askFor(`${pathOf(lane)}/looks`)]);
    if (mine !== turn) return;
    answer = { key, looks, last };
    showKey();
    updateLooks();
  }
  setTimeout(ask, AGAIN, lane, mine);
}

const askFor = (path) => page.connection.get(path).catch(() => null); // meanwhile the page's own trace stands

function updateLooks() {
  const { step, fromEnd } = panel.chosen;
  page.looks = answer?.looks ? findLooks(page.store, page.selected, answer.looks, step, fromEnd) : null;
  panel.tellLooks(page.looks);
}

/** Lanes that were decided before the page came: it asks for those that it shows, a few at a time, for ever. */
export async function learnLate() {
  for (const lane of page.store.rows.filter((one) => one?.isLate && !one.isAsked && !one.decision).slice(0, 4)) {
    lane.isAsked = true;
    const said = await askFor(pathOf(lane));
    if (!said?.is_final || said.sequence !== lane.sequence) continue;
    page.store.learn(
      lane,
      page.store.labels.indexOf(String(said.label)),
      said.probability,
      said.n_observed,
      said.reason,
    );
  }
  setTimeout(learnLate, 500);
}
