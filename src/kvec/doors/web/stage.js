// The canvas on its stage: its size, the window on the river, and a new picture whenever the browser shows one.

import { byId } from "./dom.js";
import { page, shownNow } from "./page.js";
import { Gutter, drawRiver } from "./river.js";
import { Tape } from "./tape.js";
import { makeView, rowsFor, scrollTo } from "./view.js";

const canvas = byId("river");
const scroller = byId("scroll");
const box = byId("river-box");
const spacer = byId("spacer");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const scene = { tape: new Tape(), gutter: new Gutter() };
const context = canvas.getContext("2d");
let last = []; // what the last picture showed
let places = 0; // rows for which there is room

/** Look at the window anew. */
export function makeScene() {
  const { store, palette, scales, field, selected, hovered, looks, span, density } = page;
  const ratio = Math.min(devicePixelRatio || 1, 2);
  places = rowsFor(store.rows.length, places);
  const [width, height, scroll] = [scroller.clientWidth, box.clientHeight, scroller.scrollTop];
  const isHeld = page.heldAt !== null;
  const view = makeView({
    width,
    height,
    ratio,
    span,
    rows: store.rows.length,
    places,
    density,
    scroll,
    now: shownNow(),
    isHeld,
  });
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    Object.assign(canvas, { width: wide, height: high });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  }
  const whole = `${Math.max(height, Math.ceil(view.whole + height - view.room))}px`;
  if (spacer.style.height !== whole) spacer.style.height = whole;
  page.view = view;
  return Object.assign(scene, {
    store,
    view,
    palette,
    scales,
    field,
    selected,
    hovered,
    looks,
    isCalm: calm.matches,
  });
}

/** Bring a lane into sight. */
export function reveal(lane) {
  if (lane.row >= 0) scroller.scrollTop = scrollTo(makeScene().view, lane.row);
}

/** All that stands beside lanes is drawn again, as after a change of colours. */
export function redraw() {
  for (const lane of page.store.lanes.values()) lane.isDirty = true;
  page.store.changes++;
}

/** Draw, if anything would look different from the last picture. */
function picture() {
  requestAnimationFrame(picture); // first, so that a fault in one picture is not the end of all
  page.clock.tick(performance.now());
  if (!box.hidden) {
    const now = makeScene();
    const { view, store, palette, field, selected, hovered, looks } = now;
    const column = Math.floor((view.now / view.span) * view.river * view.ratio); // time moves the river by whole pixels
    const seen = [
      column,
      store.changes,
      view.width,
      view.height,
      view.ratio,
      view.scroll,
      view.row,
      view.span,
      view.isHeld,
      palette,
      field,
      selected,
      hovered,
      looks,
    ];
    if (seen.some((one, i) => one !== last[i])) drawRiver(context, now);
    last = seen;
  }
}

/** Begin to draw. */
export function start() {
  requestAnimationFrame(picture);
  new ResizeObserver(() => page.selected && reveal(page.selected)).observe(box);
}
