// The window on the river: how long it is, how high rows are, where on the canvas a lane and a moment lie.

export const AXIS = 26; // height of the line of times below the lanes
export const HEAD = 24; // height of the column titles above them
const COMFORT = 34;
const READABLE = 20; // rows are not made lower than this unless all of them shall be seen
const LEAST = 1.5;

const STEPS = [6, 8, 10, 12, 14, 17, 20, 24, 30, 40, 60, 90, 130, 200, 300, 450, 600];

/** For how many rows there is room: as many as there are, in steps, so that rows do not change their height all the time. */
export function rowsFor(rows, before) {
  const needed = STEPS.find((step) => step >= rows) ?? rows;
  return needed > before || rows < before * 0.6 ? needed : before;
}

/** Gutters beside the river: names at the left, score and label at the right. */
export function gutters(width) {
  if (width < 520) return { left: 90, right: 132 };
  if (width < 800) return { left: 128, right: 160 };
  return { left: 136, right: 262 };
}

/** The height of a row for so many rows in so much room; `density` is "auto", "all" or a number of pixels. */
export function rowHeight(rows, room, density) {
  if (typeof density === "number") return density;
  const fitting = room / Math.max(rows, 1);
  return Math.min(COMFORT, Math.max(density === "all" ? LEAST : READABLE, fitting));
}

/** Everything that drawing and pointing need to know of the window. */
export function makeView(options) {
  const { width, height, ratio, span, rows, places, density, scroll, now, isHeld } = options;
  const { left, right } = gutters(width);
  const room = Math.max(height - AXIS - HEAD, 1);
  const row = rowHeight(places, room, density);
  const river = Math.max(width - left - right, 40);
  const whole = row * rows;
  const offset = Math.max(0, Math.min(scroll, whole - room));
  const half = Math.ceil(room / 2);
  const base = Math.floor(offset / half) * half; // rows are drawn from here on, so that scrolling a little draws nothing again
  const tall = whole > room ? room + half : room;
  return {
    width,
    height,
    ratio,
    span,
    rows,
    row,
    left,
    right,
    river,
    room,
    scroll: offset,
    whole,
    base,
    tall,
    now,
    isHeld,
    edge: left + river,
  };
}

/** The middle of a row on the canvas. */
export function yOf(view, row) {
  return HEAD + row * view.row - view.scroll + view.row / 2;
}

/** The place of a moment on the canvas; now is at the right edge of the river. */
export function xOf(view, at) {
  return view.edge - ((view.now - at) / view.span) * view.river;
}

/** The rows that can be seen: from the first to before the second. */
export function seenRows(view) {
  const first = Math.max(0, Math.floor(view.scroll / view.row));
  return [first, Math.min(view.rows, Math.ceil((view.scroll + view.room) / view.row))];
}

/** The rows that are drawn: those that can be seen, and some below. */
export function drawnRows(view) {
  return [Math.floor(view.base / view.row), Math.ceil((view.base + view.tall) / view.row)];
}

/** The row at a place on the canvas, or -1. */
export function rowAt(view, y) {
  if (y < HEAD || y > HEAD + view.room) return -1;
  const row = Math.floor((y - HEAD + view.scroll) / view.row);
  return row < view.rows ? row : -1;
}

/** The moment at a place on the canvas. */
export function momentAt(view, x) {
  return view.now - ((view.edge - x) / view.river) * view.span;
}

/** The scroll that brings a row wholly into sight. */
export function scrollTo(view, row) {
  const top = row * view.row;
  if (top < view.scroll) return top;
  return top + view.row > view.scroll + view.room ? top + view.row - view.room : view.scroll;
}
