// Small charts beside the river, drawn with uPlot; each is made again when the theme or its width changes.

import { classColour } from "./palette.js";
import { BIN, READ_BINS, SHARE_BINS, UNKNOWN } from "./store.js";
import { make, number } from "./dom.js";

const uPlot = globalThis.uPlot;
const FONT = "12px system-ui, sans-serif";

/** A place for a chart: `draw(data, build)` makes it when its key or width is new, else only gives it the new data. */
export class Chart {
  #plot = null;
  #key = "";

  constructor(place, height) {
    this.place = place;
    this.height = height;
  }

  /** Show the data; `build(width)` gives the options and is asked only when `key` or the width has changed. */
  draw(key, data, build) {
    const width = Math.floor(this.place.clientWidth);
    if (width < 40) return null;
    const whole = `${key}|${width}`;
    if (this.#plot && whole === this.#key) this.#plot.setData(data);
    else {
      this.#plot?.destroy();
      const usual = { width, height: this.height, legend: { show: false }, padding: [8, 10, 0, 0] };
      this.#plot = new uPlot({ ...usual, ...build() }, data, this.place);
      this.#key = whole;
    }
    return this.#plot;
  }
}

/** An axis in the page's colours. */
export function axis(palette, more = {}) {
  const line = { stroke: palette.line, width: 1 };
  return { stroke: palette.muted, font: FONT, grid: line, ticks: { ...line, size: 4 }, ...more };
}

/** The eight classes that were said most often, in their own order, and the rest. */
function chooseClasses(store) {
  const said = (label) => store.byClass.get(label) ?? 0;
  const busiest = [...store.labels.keys()].sort((a, b) => said(b) - said(a));
  return { shown: busiest.slice(0, 8).sort((a, b) => a - b), rest: busiest.slice(8) };
}

/** Decisions per class over the newest time, as stacked bars: the data, and the classes from bottom to top (-1: the rest). */
export function stackDecisions(store, now, count = 30) {
  const last = Math.floor(now / BIN);
  const { shown, rest } = chooseClasses(store);
  const numbers = Array.from({ length: count }, (_, i) => last - count + 1 + i);
  const of = (bin, label) => store.bins.get(bin)?.get(label) ?? 0;
  const layers = shown.map((label) => numbers.map((bin) => of(bin, label)));
  if (rest.length) layers.push(numbers.map((bin) => rest.reduce((sum, label) => sum + of(bin, label), 0)));
  if (store.byClass.has(UNKNOWN)) layers.push(numbers.map((bin) => of(bin, UNKNOWN)));
  const ages = numbers.map((bin) => ((bin - last) * BIN) / 1000);
  const sums = layers.map((_, i) =>
    numbers.map((bin, b) => layers.slice(0, i + 1).reduce((sum, layer) => sum + layer[b], 0)),
  );
  const others = [...(rest.length ? [-1] : []), ...(store.byClass.has(UNKNOWN) ? [UNKNOWN] : [])];
  return { ages, sums, classes: [...shown, ...others] };
}

/** Draw decisions per class over time. */
export function drawDecisions(chart, store, now, palette) {
  const { ages, sums, classes } = stackDecisions(store, now);
  const data = [ages, ...sums.toReversed()]; // the tallest first, so that lower layers lie over it
  const bars = uPlot.paths.bars({ size: [0.8, 100], align: 1 });
  chart.draw(`${palette.theme}|${classes}`, data, () => ({
    cursor: { show: false },
    scales: {
      x: { time: false, range: [ages[0], BIN / 1000] },
      y: { range: (_, low, high) => [0, Math.max(4, high)] },
    },
    axes: [
      axis(palette, {
        values: (_, all) => all.map((age) => (age === 0 ? "now" : `${-age} s`)),
        size: 28,
        grid: { show: false },
      }),
      axis(palette, { size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] }),
    ],
    series: [
      {},
      ...classes
        .toReversed()
        .map((label) => ({ paths: bars, points: { show: false }, width: 0, fill: barColour(palette, label) })),
    ],
  }));
}

const barColour = (palette, label) => (label === UNKNOWN ? palette.line : classColour(palette, label));

/** The classes with their colours and how often each was said. */
export function drawLegend(place, store, palette) {
  const { shown, rest } = chooseClasses(store);
  const counted = [...shown, ...(store.byClass.has(UNKNOWN) ? [UNKNOWN] : [])];
  const said = (label) => number(store.byClass.get(label) ?? 0);
  const key = `${palette.theme}|${counted.map((label) => `${store.labels[label]}:${said(label)}`)}`;
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(
    ...counted.map((label) => {
      const name = label === UNKNOWN ? "unknown" : store.labels[label];
      return make("li", {}, swatchOf(palette, label), `${name} `, make("b", {}, said(label)));
    }),
    ...(rest.length ? [make("li", {}, `and ${rest.length} others`)] : []),
  );
}

/** A small square in the colour of a class; hollow for what is not known. */
export function swatchOf(palette, label) {
  const swatch = make("span", { className: label === UNKNOWN ? "swatch hollow" : "swatch", "aria-hidden": "true" });
  if (label !== UNKNOWN) swatch.style.backgroundColor = classColour(palette, label);
  return swatch;
}

/** How many items had been read when sequences were decided. */
export function drawRead(place, { byRead }) {
  const names = READ_BINS.map((most) => (most === Infinity ? "more" : String(most)));
  drawBars(place, byRead, names, binName);
}

/** Of sequences that are over: which share of them had been read. */
export function drawShares(place, { byShare }) {
  const names = SHARE_BINS.map((most) => String(Math.round(100 * most)));
  drawBars(place, byShare, names, shareName);
}

/** A histogram as bars of plain elements. */
function drawBars(place, { halted, other }, names, wordsOf) {
  const most = Math.max(1, ...halted.map((count, bin) => count + other[bin]));
  if (!place.children.length) place.replaceChildren(...names.map(emptyBar));
  [...place.children].forEach((bar, bin) => {
    const stack = bar.firstChild;
    stack.children[0].style.height = `${(100 * other[bin]) / most}%`;
    stack.children[1].style.height = `${(100 * halted[bin]) / most}%`;
    const words = `${wordsOf(bin)}: ${number(halted[bin])} halted, ${number(other[bin])} decided for other reasons`;
    if (bar.title !== words) {
      bar.title = words;
      bar.setAttribute("aria-label", words);
    }
  });
}

/** The numbers of items that a bar of the histogram counts, in words. */
export function binName(bin) {
  const least = bin ? READ_BINS[bin - 1] + 1 : 1;
  const most = READ_BINS[bin];
  if (most === Infinity) return `${least} items and more`;
  return least === most ? `${most} item${most === 1 ? "" : "s"}` : `${least}–${most} items`;
}

/** The shares that a bar counts, in words. */
export function shareName(bin) {
  const [low, high] = [bin ? SHARE_BINS[bin - 1] : 0, SHARE_BINS[bin]].map((share) => Math.round(100 * share));
  return `more than ${low} % and up to ${high} % of the sequence`;
}

function emptyBar(name) {
  const stack = make(
    "span",
    { className: "stack" },
    make("i", { className: "other" }),
    make("i", { className: "halted" }),
  );
  return make("li", {}, stack, make("span", { className: "name" }, name));
}
