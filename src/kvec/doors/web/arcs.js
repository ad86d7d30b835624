// Arcs from one item of the chosen lane to the items that it looked at: its own lane's in one colour, others' in another.

import { identify } from "./store.js";
import { HEAD, xOf, yOf } from "./view.js";

/**
 * Where the item at a place of a lane looked, or null if that was not told: arcs that can be drawn, how many items have left
 * the river, the shares of its own and of other sequences, and how many those are.
 */
export function findLooks(store, lane, answer, index) {
  const entry = answer.looks.find((one) => answer.items[one.item].n === index);
  if (!entry || answer.sequence !== lane.sequence) return null;
  const from = store.whereIs(lane, index);
  const looks = { found: [], gone: 0, own: 0, others: 0, keys: 0 };
  const keys = new Set();
  for (const look of entry.at) {
    const { key, sequence, n } = answer.items[look.i];
    const isOwn = look.kind === "own";
    looks[isOwn ? "own" : "others"] += look.share;
    const identity = identify(lane.tangle, key, sequence);
    if (!isOwn) keys.add(identity);
    const target = store.lanes.get(identity);
    const at = n !== null && target && target.row >= 0 ? store.whereIs(target, n) : null;
    if (at === null || from === null) looks.gone++;
    else looks.found.push({ from, at, lane: target, share: look.share, isOwn });
  }
  return { ...looks, keys: keys.size };
}

/** The arcs of the chosen item, the heavier the broader. */
export function drawArcs(context, { view, palette, selected, looks }) {
  if (!selected || selected.row < 0) return;
  context.lineCap = "round";
  const most = Math.max(...looks.found.map((look) => look.share), 1e-9);
  for (const look of looks.found) {
    const [x0, y0] = [xOf(view, look.from), yOf(view, selected.row)];
    const [x1, y1] = [Math.max(view.left, xOf(view, look.at)), yOf(view, look.lane.row)];
    if (x0 < view.left) continue;
    const lift = look.isOwn ? Math.max(-0.35 * Math.abs(x0 - x1) - 10, HEAD - y0 + 8) : 0;
    context.strokeStyle = context.fillStyle = look.isOwn ? palette.inside : palette.outside;
    context.globalAlpha = 0.35 + 0.65 * (look.share / most);
    context.lineWidth = 1 + 4 * (look.share / most);
    context.beginPath();
    context.moveTo(x0, y0);
    const middle = (x0 + x1) / 2;
    if (look.isOwn) context.bezierCurveTo(x0, y0 + lift, x1, y1 + lift, x1, y1);
    else context.bezierCurveTo(middle, y0, middle, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.arc(x1, y1, 2.5 + 2.5 * (look.share / most), 0, 7);
    context.fill();
  }
  const from = looks.found[0]?.from;
  if (from !== undefined && xOf(view, from) >= view.left) {
    context.globalAlpha = 1;
    context.strokeStyle = palette.ink;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(xOf(view, from), yOf(view, selected.row), Math.min(9, view.row / 2), 0, 7);
    context.stroke();
  }
  context.globalAlpha = 1;
}
