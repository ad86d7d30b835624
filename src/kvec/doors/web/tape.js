// The river's items on a canvas used as a ring: each item is drawn once when it comes, and time only moves the window over it.

import { MASK } from "./store.js";
import { decisionColour, paleDecision, stepOf } from "./palette.js";
import { HEAD, drawnRows } from "./view.js";

const AHEAD = 24; // pixels kept clear in front of now, for marks that reach over it

export class Tape {
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("2d");
  #key = "";
  #drawn = 0; // items up to this number are on the tape
  #decided = 0; // the same for decisions
  #head = 0; // the newest clear column, counted from time 0

  /** Bring the tape up to date and lay it on the canvas. */
  draw(context, store, view, palette, scales, field) {
    const width = Math.round(view.river * view.ratio);
    const height = Math.round(view.tall * view.ratio);
    const perMs = width / view.span;
    const now = Math.floor(view.now * perMs);
    const { ratio, span, row, base, isHeld } = view;
    const key = [width, height, ratio, span, row, base, palette.theme, field, isHeld, store.erasures].join();
    const pen = { context: this.#context, store, view, palette, scales, field, perMs, ring: width + AHEAD * 2 };
    const isNew = key !== this.#key || now + AHEAD - this.#head >= pen.ring || now + AHEAD < this.#head - AHEAD;
    if (isNew) this.#renew(pen, key, width, height, now);
    else this.#clearTo(pen, now + AHEAD);
    const first = isNew ? store.firstSince(view.now - view.span * 1.02) : Math.max(this.#drawn, store.oldest);
    const end = view.isHeld ? store.firstSince(view.now + 1e-6) : store.size;
    if (isNew) drawAll(pen, first, end);
    else for (let n = first; n < end; n++) drawItem(pen, n);
    this.#flags(pen, isNew);
    this.#drawn = end;
    this.#lay(context, view, pen, now, width);
  }

  #renew(pen, key, width, height, now) {
    this.#key = key;
    if (this.#canvas.width !== pen.ring || this.#canvas.height !== height) {
      this.#canvas.width = pen.ring;
      this.#canvas.height = height;
    } else this.#context.clearRect(0, 0, pen.ring, height);
    this.#head = now + AHEAD;
  }

  #clearTo(pen, head) {
    const count = head - this.#head;
    if (count <= 0) return;
    for (const [from, wide] of pieces(this.#head + 1, count, pen.ring))
      this.#context.clearRect(from, 0, wide, this.#canvas.height);
    this.#head = head;
  }

  #flags(pen, isNew) {
    const { store } = pen;
    const fresh = isNew ? [] : store.newest.slice(Math.max(0, store.newest.length - (store.decided - this.#decided)));
    const those = isNew ? store.rows.filter((lane) => lane?.decision).map((lane) => lane.decision) : fresh;
    for (const decision of those) drawFlag(pen, decision);
    this.#decided = store.decided;
  }

  #lay(context, view, pen, now, width) {
    const top = Math.round((view.scroll - view.base) * view.ratio);
    const height = Math.round(view.room * view.ratio);
    let to = 0;
    for (const [from, wide] of pieces(now - width + 1, width, pen.ring)) {
      context.drawImage(
        this.#canvas,
        from,
        top,
        wide,
        height,
        view.left + to / view.ratio,
        HEAD,
        wide / view.ratio,
        view.room,
      );
      to += wide;
    }
  }
}

/** A stretch of columns as one or two pieces of the ring. */
export function pieces(first, count, ring) {
  const from = ((first % ring) + ring) % ring;
  const until = Math.min(count, ring - from);
  return until < count
    ? [
        [from, until],
        [0, count - until],
      ]
    : [[from, until]];
}

function fill(pen, x, y, wide, high) {
  for (const [from, part] of pieces(Math.round(x), Math.max(1, Math.round(wide)), pen.ring)) {
    pen.context.fillRect(from, Math.round(y), part, Math.max(1, Math.round(high)));
  }
}

function middle(pen, row) {
  return (row * pen.view.row - pen.view.base + pen.view.row / 2) * pen.view.ratio;
}

function drawAll(pen, first, end) {
  for (let n = first; n < end; n++) drawRun(pen, n);
  for (let n = first; n < end; n++) drawMark(pen, n);
}

function drawItem(pen, n) {
  pen.context.globalCompositeOperation = "destination-over"; // the run lies below the mark of the item before
  drawRun(pen, n);
  pen.context.globalCompositeOperation = "source-over";
  drawMark(pen, n);
}

function isDrawn(pen, row) {
  const [first, end] = (pen.drawn ??= drawnRows(pen.view));
  return row >= first && row < end;
}

/** What joins an item to the one before: a broad run inside a session, a thread between sessions. */
function drawRun(pen, n) {
  const { ring } = pen.store;
  const slot = n & MASK;
  const lane = ring.lane[slot];
  const before = ring.before[slot];
  if (before < 0 || before < pen.store.oldest || !isDrawn(pen, lane.row)) return;
  const last = before & MASK;
  const least = (pen.view.now - pen.view.span * 1.02) * pen.perMs;
  const from = Math.max(Math.floor(ring.at[last] * pen.perMs), Math.floor(least));
  const to = Math.floor(ring.at[slot] * pen.perMs);
  if (to <= from) return;
  const isRun = ring.session[slot] === ring.session[last] && ring.session[slot] >= 0;
  const row = pen.view.row * pen.view.ratio;
  const high = isRun && row >= 8 ? row * 0.5 : Math.max(1, row * 0.08);
  const isNamed = ring.isAfter[slot] && lane.decision;
  pen.context.fillStyle = isNamed ? paleDecision(pen.palette, lane.decision) : pen.palette.run;
  fill(pen, from, middle(pen, lane.row) - high / 2, to - from, high);
}

/** One item: the higher its value, the taller and stronger its mark; pale once its lane is named. */
function drawMark(pen, n) {
  const { ring } = pen.store;
  const slot = n & MASK;
  const lane = ring.lane[slot];
  if (!isDrawn(pen, lane.row)) return;
  const { palette, view } = pen;
  const code = ring.codes[pen.field]?.[slot] ?? -1;
  const height = pen.scales[pen.field]?.[code] ?? -1;
  const row = view.row * view.ratio;
  const isLow = row < 8;
  const high = isLow ? row : row * (height < 0 ? 0.3 : 0.3 + 0.42 * height);
  const wide = Math.max(isLow ? 1 : 3, Math.min(6, view.row / 5)) * (isLow ? 1 : view.ratio);
  const colours = ring.isAfter[slot] ? palette.paleValues : palette.values;
  pen.context.fillStyle = height < 0 ? palette.unknown : colours[stepOf(height)];
  fill(pen, Math.floor(ring.at[slot] * pen.perMs) - wide / 2, middle(pen, lane.row) - high / 2, wide, high);
}

/** Where a lane was decided: a post in the colour of its class, or a hollow one where that is not known. */
function drawFlag(pen, decision) {
  const { lane } = decision;
  if (!isDrawn(pen, lane.row) || !Number.isFinite(decision.at)) return;
  if (decision.at < pen.view.now - pen.view.span * 1.02 || decision.at > pen.view.now) return;
  const row = pen.view.row * pen.view.ratio;
  const x = Math.floor(decision.at * pen.perMs);
  const wide = Math.max(2, Math.min(5, pen.view.row / 5)) * pen.view.ratio;
  const [left, top] = [x + 3 * pen.view.ratio, middle(pen, lane.row) - row * 0.45];
  pen.context.fillStyle = decisionColour(pen.palette, decision);
  fill(pen, left, top, wide, row * 0.9);
  const edge = pen.view.ratio;
  if (decision.isKnown || row * 0.9 <= 4 * edge || wide <= 2 * edge) return;
  pen.context.fillStyle = pen.palette.panel;
  fill(pen, left + edge, top + edge, wide - 2 * edge, row * 0.9 - 2 * edge);
}
