// Mouse, touch and keys on the river.

import { select } from "./chosen.js";
import { byId } from "./dom.js";
import { itemWords, laneWords, page } from "./page.js";
import { reveal } from "./stage.js";
import { MASK } from "./store.js";
import { momentAt, rowAt } from "./view.js";
import { announcer } from "./words.js";

const canvas = byId("river");
const NEAR = 12; // pixels

/** Listen; `pause` and `step` are what the space bar and the full stop do. */
export function listen(pause, step) {
  canvas.addEventListener("click", (event) => {
    const { lane } = under(event);
    if (lane) open(lane === page.selected ? null : lane);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { lane, x, y } = under(event);
    page.hovered = lane;
    tell(lane, x, y);
  });
  canvas.addEventListener("pointerleave", () => {
    page.hovered = null;
    byId("tip").hidden = true;
  });
  canvas.addEventListener("keydown", (event) => {
    if (walk(event.key)) event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const isTaken =
      event.defaultPrevented || event.target.closest?.("input, select, textarea, button, dialog, summary, tbody");
    if (event.key === "Escape" && page.selected) close();
    else if (event.key === " " && !isTaken) {
      event.preventDefault();
      pause();
    } else if (event.key === "." && !isTaken) step();
  });
  byId("key-close").addEventListener("click", close);
  byId("lanes").addEventListener("click", (event) => {
    const lane = page.store.lanes.get(event.target.dataset?.identity);
    if (lane) open(lane);
  });
}

function close() {
  select(null);
  canvas.focus();
}

/** Open a lane where a person wants it, and show what is told of it: on narrow screens that lies below the river. */
function open(lane) {
  select(lane);
  if (lane) byId("key").scrollIntoView({ block: "nearest" });
}

function under(event) {
  const place = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - place.left, event.clientY - place.top];
  return { lane: page.store.rows[rowAt(page.view, y)] ?? null, x, y };
}

/** Go from lane to lane, or open one; whether the key meant that. */
function walk(key) {
  const { rows } = page.store;
  const from = page.hovered ?? page.selected;
  if (key === "Enter" && from) return open(from) ?? true;
  const move = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (!move) return false;
  let row = from && from.row >= 0 ? from.row + move : move > 0 ? 0 : rows.length - 1;
  while (row >= 0 && row < rows.length && !rows[row]) row += move;
  const lane = rows[row];
  if (!lane) return true;
  page.hovered = lane;
  if (page.selected) select(lane);
  else announcer.say(laneWords(lane));
  reveal(lane);
  return true;
}

function tell(lane, x, y) {
  const tip = byId("tip");
  tip.hidden = lane === null;
  if (lane === null) return;
  const slot = itemNear(lane, x);
  tip.textContent = slot === null ? laneWords(lane) : `${laneWords(lane)}\n${itemWords(slot)}`;
  const box = byId("river-box");
  const isLow = y + 20 + tip.offsetHeight > box.clientHeight;
  tip.style.left = `${Math.max(4, Math.min(x + 14, box.clientWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${isLow ? y - tip.offsetHeight - 12 : y + 20}px`;
}

function itemNear(lane, x) {
  const { store, view } = page;
  if (x < view.left || x > view.edge) return null;
  const at = momentAt(view, x);
  let best = null;
  let least = (NEAR / view.river) * view.span;
  for (const n of store.itemsOf(lane)) {
    const away = Math.abs(store.ring.at[n & MASK] - at);
    if (away < least) [best, least] = [n & MASK, away];
  }
  return best;
}
