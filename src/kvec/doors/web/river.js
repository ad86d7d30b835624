// One picture of the river: lanes, their items, scores and labels, as a function of store, view and palette.

import { decisionColour, inkOn, paleDecision } from "./palette.js";
import { drawArcs } from "./arcs.js";
import { fullness } from "./store.js";
import { afterItems, labelName, labelText, percent } from "./verdict.js";
import { AXIS, HEAD, drawnRows, seenRows, xOf, yOf } from "./view.js";

const FLASH = 1200; // milliseconds in which a new label is lit
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

/** Draw everything that a scene holds, as stage.js makes it. */
export function drawRiver(context, scene) {
  const { view, palette } = scene;
  context.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  context.save();
  context.beginPath();
  context.rect(0, HEAD, view.width, view.room);
  context.clip();
  drawRows(context, scene);
  drawThreads(context, scene);
  scene.tape.draw(context, scene.store, view, palette, scene.scales, scene.field);
  scene.gutter.draw(context, scene);
  if (scene.looks) drawArcs(context, scene);
  context.restore();
  drawFrame(context, scene);
}

function drawRows(context, { store, view, palette, selected, hovered, isCalm }) {
  const [first, end] = seenRows(view);
  for (const [lane, colour] of [
    [hovered, palette.faint],
    [selected, palette.chosen],
  ]) {
    if (!lane || lane.row < first || lane.row >= end) continue;
    context.fillStyle = colour;
    context.fillRect(0, yOf(view, lane.row) - view.row / 2, view.width, Math.max(view.row, 2));
  }
  if (isCalm || view.row < 8) return;
  for (let row = first; row < end; row++) {
    const age = view.now - (store.rows[row]?.decision?.at ?? -Infinity);
    if (age < 0 || age > FLASH) continue;
    context.globalAlpha = 0.3 * (1 - age / FLASH) ** 2;
    context.fillStyle = decisionColour(palette, store.rows[row].decision);
    context.fillRect(view.left, yOf(view, row) - view.row / 2 + 1, view.width - view.left, view.row - 2);
  }
  context.globalAlpha = 1;
}

/** From the last item of each lane on: a line to now, as long as more may come. */
function drawThreads(context, { store, view, palette }) {
  if (view.row < 6) return;
  const [first, end] = seenRows(view);
  context.fillStyle = palette.line;
  for (let row = first; row < end; row++) {
    const lane = store.rows[row];
    if (!lane || isOver(lane, view)) continue;
    const from = Math.max(view.left, Math.round(xOf(view, lane.lastAt)));
    context.fillRect(from, Math.round(yOf(view, row)), view.edge - from, 1);
  }
}

/** Whether nothing more is to be expected of a lane. */
export function isOver(lane, view) {
  if (lane.decision && lane.decision.reason !== "halted") return true;
  return view.now - lane.lastAt > Math.max(4000, view.span * 0.2);
}

function drawFrame(context, { store, view, palette }) {
  const bottom = view.height - AXIS;
  context.fillStyle = palette.line;
  context.fillRect(0, HEAD - 1, view.width, 1);
  context.fillRect(0, bottom, view.width, 1);
  context.fillStyle = palette.accent;
  context.fillRect(view.edge, HEAD, 1, view.room);
  context.font = `12px ${FONT}`;
  context.textBaseline = "middle";
  context.fillStyle = palette.muted;
  context.textAlign = "left";
  context.fillText("key", 12, HEAD / 2);
  const isWide = view.right > 200;
  context.fillText(isWide ? "halting score" : "score", view.edge + 12, HEAD / 2);
  context.fillText("label", view.edge + (isWide ? 100 : 54), HEAD / 2);
  if (view.river > 260) {
    context.textAlign = "right";
    context.fillText("items as they arrive →", view.edge - 10, HEAD / 2);
  }
  drawTimes(context, view, palette, bottom);
  if (!store.rows.length) {
    context.textAlign = "center";
    context.font = `15px ${FONT}`;
    context.fillText("waiting for the first items …", view.left + view.river / 2, HEAD + view.room / 2);
  }
}

function drawTimes(context, view, palette, bottom) {
  const seconds = view.span / 1000;
  const step = [1, 2, 5, 10, 15, 30, 60].find((one) => (one / seconds) * view.river > 70) ?? 60;
  context.textAlign = "center";
  for (let ago = step; ago < seconds - step / 4; ago += step) {
    const x = view.edge - (ago / seconds) * view.river;
    context.fillStyle = palette.line;
    context.fillRect(Math.round(x), bottom, 1, 5);
    context.fillStyle = palette.muted;
    context.fillText(`${ago} s ago`, x, bottom + 15);
  }
  context.fillStyle = palette.accent;
  context.font = `600 12px ${FONT}`;
  context.fillText(view.isHeld ? "held" : "now", view.edge, bottom + 15);
}

/** Names, scores and labels beside the river; a row is drawn again only when its lane has changed. */
export class Gutter {
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("2d");
  #key = "";
  #shown = []; // what stands in each row

  /** Bring the rows up to date and lay them on the canvas. */
  draw(context, scene) {
    const { store, view, palette } = scene;
    const [wide, high] = [Math.round(view.width * view.ratio), Math.round(view.tall * view.ratio)];
    const key = [wide, high, view.ratio, view.row, view.base, palette.theme].join();
    if (key !== this.#key) {
      this.#canvas.width = wide;
      this.#canvas.height = high;
      this.#shown = [];
      this.#key = key;
    }
    const [first, end] = drawnRows(view);
    const pen = this.#context;
    pen.setTransform(view.ratio, 0, 0, view.ratio, 0, 0);
    pen.textBaseline = "middle";
    for (let row = first; row < end; row++) {
      const lane = store.rows[row];
      const isDim = lane ? isOver(lane, view) : false;
      const shown = this.#shown[row];
      if (shown && shown.lane === lane && shown.isDim === isDim && !lane?.isDirty) continue;
      const top = row * view.row - view.base;
      pen.clearRect(0, top, view.width, view.row);
      this.#shown[row] = { lane, isDim };
      if (!lane) continue;
      lane.isDirty = false;
      drawBeside(pen, lane, scene, top + view.row / 2, isDim);
    }
    const [y, h] = [Math.round((view.scroll - view.base) * view.ratio), Math.round(view.room * view.ratio)];
    for (const [from, part] of [
      [0, view.left],
      [view.edge + 1, view.width - view.edge - 1],
    ]) {
      const [x, w] = [Math.round(from * view.ratio), Math.round(part * view.ratio)];
      context.drawImage(this.#canvas, x, y, w, h, from, HEAD, part, view.room);
    }
  }
}

function drawBeside(pen, lane, { store, view, palette }, y, isDim) {
  const isWide = view.right > 200;
  const at = view.edge + 12;
  const bar = isWide ? 74 : 34;
  const decision = lane.decision;
  if (view.row < 11) {
    pen.fillStyle = decision ? decisionColour(palette, decision) : palette.bar;
    const share = decision ? 1 : fullness(lane, lane.halt);
    const high = Math.max(1, view.row - (view.row > 4 ? 1 : 0));
    pen.fillRect(at, y - high / 2, (decision ? view.right - 24 : bar) * share, high);
    return;
  }
  const size = Math.min(12.5, view.row * 0.6);
  pen.font = `${size}px ${FONT}`;
  pen.textAlign = "left";
  pen.fillStyle = isDim ? palette.muted : palette.ink;
  pen.fillText(shorten(pen, String(lane.key), view.left - 18, true), 12, y + 0.5);
  if (decision) drawLabel(pen, store, palette, decision, view, at, y, size, isDim);
  else {
    const share = fullness(lane, lane.halt);
    round(pen, at, y - 3, bar, 6, palette.line);
    if (share > 0.02) round(pen, at, y - 3, Math.max(6, bar * share), 6, isDim ? palette.run : palette.bar);
    pen.fillStyle = palette.muted;
    const isBefore = lane.isLate && share === 1; // decided while the page did not look
    const guess = isBefore ? "decided before" : `${labelName(store.labels, lane.top)}? ${percent(lane.chance)}`;
    pen.fillText(shorten(pen, guess, view.right - bar - 30), at + bar + 14, y + 0.5);
  }
}

function drawLabel(pen, store, palette, decision, view, at, y, size, isDim) {
  const isWide = view.right > 200;
  const colour = (isDim ? paleDecision : decisionColour)(palette, decision);
  const high = Math.min(22, view.row - 3);
  const text = decision.isKnown ? labelText(store.labels, decision) : "unknown";
  pen.font = `600 ${size}px ${FONT}`;
  const name = shorten(pen, text, isWide ? 132 : view.right - 26);
  const wide = pen.measureText(name).width + 18;
  if (decision.isKnown) round(pen, at - 2, y - high / 2, wide, high, colour);
  else hollow(pen, at - 2, y - high / 2, wide, high, palette.muted);
  pen.fillStyle = decision.isKnown ? inkOn(colour) : palette.muted;
  pen.fillText(name, at + 7, y + 0.5);
  if (!isWide) return;
  pen.font = `${size}px ${FONT}`;
  pen.fillStyle = palette.muted;
  const closest = `closest: ${labelText(store.labels, { ...decision, isKnown: true })}`;
  const more = decision.isKnown ? afterItems(decision) : closest;
  pen.fillText(shorten(pen, more, view.right - wide - 24), at + wide + 8, y + 0.5);
}

function round(pen, x, y, wide, high, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.roundRect(x, y, wide, high, high / 2);
  pen.fill();
}

function hollow(pen, x, y, wide, high, colour) {
  pen.strokeStyle = colour;
  pen.setLineDash([3, 2]);
  pen.beginPath();
  pen.roundRect(x + 0.5, y + 0.5, wide - 1, high - 1, high / 2);
  pen.stroke();
  pen.setLineDash([]);
}

const widths = new Map(); // texts that were shortened before

/** A text that fits, without its end, or without its middle: keys often differ in their ends. */
function shorten(pen, text, room, keepsEnd = false) {
  const key = `${pen.font}|${Math.round(room)}|${keepsEnd}|${text}`;
  let known = widths.get(key);
  if (known === undefined) {
    known = text;
    for (let left = text.length - 1; left > 1 && pen.measureText(known).width > room; left--) {
      const end = keepsEnd ? Math.ceil(left * 0.7) : 0;
      known = `${text.slice(0, left - end).trimEnd()}…${text.slice(text.length - end)}`;
    }
    if (widths.size > 5000) widths.clear();
    widths.set(key, known);
  }
  return known;
}
