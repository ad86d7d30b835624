// The lane that is open: asks the service for its trace again while items come, and for looks where they are not known yet.

import { findLooks } from "./arcs.js";
import { byId } from "./dom.js";
import { KeyPanel } from "./key.js";
import { laneWords, page } from "./page.js";
import { reveal } from "./stage.js";
import { announcer } from "./words.js";

const AGAIN = 1000; // milliseconds between two questions at the least
const LATE_AGAIN = 5000; // the same for a late lane of which a question failed
const LOOKS_AGAIN = 5000; // the same for looks, which cost the service half a second
const NOTHING = { key: null, last: null, looks: null, looksLast: null, looksAt: -Infinity };
const panel = new KeyPanel(() => announcer.say(updateLooks()));
let answer = NOTHING; // what the service said, behind which item of the lane, and when looks were asked
let turn = 0;

const pathOf = (lane) => `v1/keys/${encodeURIComponent(lane.tangle)}/${encodeURIComponent(lane.key)}`;

/** Open a lane, or close what is open with null. */
export function select(lane) {
  page.selected = lane;
  answer = { ...NOTHING };
  turn++;
  byId("key").hidden = lane === null;
  page.looks = null;
  if (lane === null) return;
  showKey();
  updateLooks();
  reveal(lane);
  announcer.say(laneWords(lane));
  ask(lane, turn);
}

/** What was open or pointed at may have begun anew, or be gone. */
export function follow() {
  const now = (lane) => lane && (page.store.lanes.get(lane.identity) ?? null);
  page.hovered = now(page.hovered);
  if (now(page.selected) !== page.selected) select(now(page.selected));
}

/** Show the open lane as it stands. */
export function showKey() {
  if (page.selected) panel.show(page.selected, answer.key, page.store, page.palette);
}

async function ask(lane, mine) {
  if (mine !== turn) return;
  const { last } = lane;
  const isNewer = answer.last !== last;
  const isUnseen = page.looks === null && answer.looksLast !== last;
  const isLooking = isUnseen && performance.now() - answer.looksAt >= LOOKS_AGAIN;
  if (isLooking) answer.looksAt = performance.now();
  const [key, looks] = await Promise.all([
    isNewer ? askFor(pathOf(lane)) : answer.key,
    isLooking ? askFor(`${pathOf(lane)}/looks`) : answer.looks,
  ]);
  if (mine !== turn) return;
  if (key !== undefined) Object.assign(answer, { key, last });
  if (looks !== undefined) Object.assign(answer, { looks, looksLast: isLooking ? last : answer.looksLast });
  if (isNewer) showKey();
  updateLooks();
  setTimeout(ask, AGAIN, lane, mine);
}

const askFor = (path) => page.connection.get(path).catch(() => undefined); // it is asked again; meanwhile the page's own trace stands

/** Find where the chosen item looked, and tell it; the words. */
function updateLooks() {
  const { selected, store } = page;
  page.looks = answer.looks ? findLooks(store, selected, answer.looks, panel.index) : null;
  return panel.tellLooks(page.looks, answer.looksLast !== selected.last);
}

/** Lanes that may have been decided before the page came, or in a break: it asks for those that it shows, a few at a time, for ever. */
export async function learnLate() {
  for (const lane of page.store.rows.filter((one) => one?.isLate && !one.isAsked && !one.decision).slice(0, 4)) {
    lane.isAsked = true;
    const said = await page.connection.get(pathOf(lane)).catch(() => {
      setTimeout(() => (lane.isAsked = false), LATE_AGAIN);
      return null;
    });
    if (!said?.is_final || said.sequence !== lane.sequence) continue;
    const label = page.store.labels.indexOf(said.label);
    page.store.learn(lane, label, said.probability, said.n_observed, said.reason, said.is_known);
  }
  setTimeout(learnLate, 500);
}
