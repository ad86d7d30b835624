// Arcs from one item of the chosen lane to the items that it looked at: its own lane's in one colour, others' in another.

import { HEAD, xOf, yOf } from "./view.js";

/** Where each look of one item of the trace leads: {from, at, lane, share, isOwn}; `gone` counts those that have left the river. */
export function findLooks(store, lane, answer, step, fromEnd) {
  const known = countBack(answer.items);
  const isIt = (one) => Number.isFinite(step.time) && Math.abs(known.get(one.item)?.time - step.time) < 1e-9;
  const entry = answer.looks.findLast(isIt) ?? (Number.isFinite(step.time) ? null : answer.looks.at(-1 - fromEnd));
  if (!entry) return null;
  const from = placeOf(store, lane, known.get(entry.item));
  const found = [];
  let gone = 0;
  for (const look of entry.at) {
    const seen = known.get(look.i);
    const isOwn = look.kind === "own";
    const target = isOwn ? lane : store.findLane(lane.tangle, seen?.key);
    const at = seen && target && target.row >= 0 ? placeOf(store, target, seen) : null;
    if (at === null || from === null) gone++;
    else found.push({ from, at, lane: target, share: look.share, isOwn });
  }
  return { found, gone };
}

/** Items by their number, each with how many of its key came after it. */
function countBack(items) {
  const after = new Map();
  const known = new Map();
  for (const item of items.toReversed()) {
    const count = after.get(item.key) ?? 0;
    after.set(item.key, count + 1);
    known.set(item.i, { ...item, fromEnd: count });
  }
  return known;
}

function placeOf(store, lane, item) {
  return store.whereIs(lane, item.time, item.fromEnd);
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
