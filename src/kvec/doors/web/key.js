// One lane from near: its label, class probabilities item by item, the trace, and where the chosen item looked.

import { Chart, axis, swatchOf } from "./charts.js";
import { classColour } from "./palette.js";
import { byId, make, number, valueText } from "./dom.js";
import { MASK, UNKNOWN, fullness } from "./store.js";
import { afterItems, labelName, labelText, percent } from "./verdict.js";

const uPlot = globalThis.uPlot;
const SHOWN = 5; // classes in the chart
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8, Home: -Infinity, End: Infinity };

export class KeyPanel {
  #chart = new Chart(byId("key-chart"), 190);
  #lane = null;
  #trace = [];
  #labels = [];
  #isPicked = false; // a person has chosen an item
  index = null; // the item whose looks are shown

  /** `choose()` is told when a person points at an item of the trace. */
  constructor(choose) {
    const body = byId("trace");
    const pick = (row) => {
      if (!row) return;
      this.index = Number(row.dataset.i);
      this.#isPicked = true;
      this.#mark();
      choose();
    };
    body.addEventListener("click", (event) => pick(event.target.closest("tr")));
    body.addEventListener("keydown", (event) => {
      const row = event.target.closest("tr");
      if (event.key === "Enter" || event.key === " ") pick(row);
      else if (event.key in STEPS) {
        const place = row.sectionRowIndex + STEPS[event.key];
        focusRow(body.rows[Math.max(0, Math.min(place, body.rows.length - 1))]);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Show a lane with what the service said of its key, or null while that is being asked. */
  show(lane, answer, store, palette) {
    const isOther = lane !== this.#lane;
    if (isOther) this.#isPicked = false;
    this.#lane = lane;
    this.#labels = store.labels;
    const isSame = answer?.sequence === lane.sequence && answer.trace.length > 0;
    this.#trace = isSame ? answer.trace : ownTrace(store, lane);
    const before = this.index;
    this.index = this.#choice(isOther);
    this.#head(lane, palette);
    this.#table(palette, isOther);
    if (isOther || this.index !== before) this.#reveal();
    this.#draw(palette, lane.decision);
  }

  /** The item to be shown first: the one that decided, else the newest; what a person has chosen stays while it is there. */
  #choice(isOther) {
    const has = (index) => this.#trace.some((step) => step.i === index);
    const end = (this.#lane.decision?.read ?? 0) - 1;
    if (!this.#isPicked && has(end)) return end;
    return !isOther && has(this.index) ? this.index : (this.#trace.at(-1)?.i ?? null);
  }

  /** Say how the looks of the chosen item are shared out; the words. */
  tellLooks(looks, isAsked) {
    const place = byId("key-looks");
    const none = isAsked ? "Asking where it looked …" : "Where it looked is not known any more.";
    const words = looks ? looksText(this.index, looks) : none;
    if (place.textContent !== words) place.textContent = words;
    return words;
  }

  #head(lane, palette) {
    byId("key-name").textContent = String(lane.key);
    const where = [`tangle ${lane.tangle}`, lane.sequence && `sequence ${lane.sequence}`].filter(Boolean);
    byId("key-where").textContent = where.join(", ");
    const { decision } = lane;
    const guess = `${labelName(this.#labels, lane.top)}? ${percent(lane.chance)}`;
    const name = decision ? labelText(this.#labels, decision) : guess;
    const label = decision ? (decision.isKnown ? decision.label : UNKNOWN) : lane.top;
    const tail = decision ? afterItems(decision) : `still reading: halting score ${scoreText(lane, lane.halt)}`;
    byId("key-verdict").replaceChildren(swatchOf(palette, label), make("b", {}, name), ` ${tail}`);
  }

  /** Bring the rows up to date; those that are there stay, and with them focus and scroll. */
  #table(palette, isOther) {
    const body = byId("trace");
    if (isOther) body.replaceChildren();
    const shown = `${this.#trace[0]?.i}|${this.#trace.at(-1)?.i}|${this.#trace.length}|${this.#lane.decision?.n}`;
    if (!isOther && body.dataset.shown === shown && body.rows.length) return;
    body.dataset.shown = shown;
    const kept = new Set(this.#trace.map((step) => String(step.i)));
    const focused = body.contains(document.activeElement) ? document.activeElement : null;
    for (const row of [...body.rows]) if (!kept.has(row.dataset.i)) row.remove();
    this.#trace.forEach((step, place) => {
      let row = body.rows[place];
      if (row?.dataset.i !== String(step.i)) {
        row = make("tr", { dataset: { i: step.i } }, ...Array.from({ length: 5 }, () => make("td")));
        body.insertBefore(row, body.rows[place] ?? null);
      }
      this.#fill(row, step);
    });
    this.#mark();
    if (focused && !focused.isConnected) body.rows[0]?.focus({ preventScroll: true });
  }

  #fill(row, step) {
    const [label, chance] = best(step);
    const seconds = Number.isFinite(step.time) ? number(step.time - this.#trace[0].time, 2) : "–";
    const score = scoreText(this.#lane, step.halt);
    const cells = [`${step.i + 1}`, seconds, valueText(step.value), score, `${label} ${percent(chance)}`];
    const end = this.#lane.decision ? this.#lane.decision.read - 1 : Infinity;
    row.className = step.i < end ? "" : step.i === end ? "decided" : "after";
    cells.forEach((text, i) => {
      if (row.cells[i].textContent !== text) row.cells[i].textContent = text;
    });
  }

  /** Mark the chosen row; one row of all can be reached with the tab key: the one with the focus, else the chosen one. */
  #mark() {
    const { rows } = byId("trace");
    const chosen = [...rows].find((row) => row.dataset.i === String(this.index));
    for (const row of rows) {
      row.setAttribute("aria-selected", String(row === chosen));
      row.tabIndex = -1;
    }
    const reached = [...rows].find((row) => row === document.activeElement) ?? chosen ?? rows[0];
    if (reached) reached.tabIndex = 0;
  }

  #reveal() {
    const chosen = byId("trace").querySelector("[aria-selected=true]");
    if (chosen) chosen.closest(".rows").scrollTop = chosen.offsetTop - 54;
  }

  #draw(palette, decision) {
    const classes = topClasses(this.#trace, this.#labels);
    const at = this.#trace.map((step) => step.i + 1);
    const lines = classes.map((label) => this.#trace.map((step) => step.probabilities[label] ?? null));
    const halts = this.#trace.map((step) => fullness(this.#lane, step.halt));
    const end = decision ? decision.read : null;
    const mark = (plot) => {
      if (end === null || end < at[0] || end > at.at(-1)) return;
      const x = plot.valToPos(end, "x", true);
      plot.ctx.save();
      plot.ctx.fillStyle = palette.ink;
      plot.ctx.globalAlpha = 0.5;
      plot.ctx.fillRect(Math.round(x), plot.bbox.top, devicePixelRatio, plot.bbox.height);
      plot.ctx.restore();
    };
    const colour = (label) => classColour(palette, this.#labels.indexOf(label));
    const points = { show: at.length < 40, size: 5 };
    this.#chart.draw(
      `${palette.theme}|${classes}|${this.#lane.identity}|${end}|${at[0]}|${at.length < 40}`,
      [at, ...lines, halts],
      () => ({
        cursor: { show: false },
        scales: {
          x: { time: false, range: (_, low, high) => [low, Math.max(high, low + 1)] },
          y: { range: [0, 1.02] },
        },
        axes: [
          axis(palette, {
            size: 28,
            grid: { show: false },
            incrs: [1, 2, 5, 10, 20, 50, 100],
            values: (_, all) => all.map((i) => (Number.isInteger(i) ? `${i}` : "")),
          }),
          axis(palette, { size: 46, values: (_, all) => all.map((share) => `${Math.round(100 * share)} %`) }),
        ],
        series: [
          {},
          ...classes.map((label) => ({
            stroke: colour(label),
            width: 2.5,
            points: { ...points, fill: colour(label) },
          })),
          {
            stroke: palette.ink,
            width: 1.5,
            dash: [4, 4],
            points: { show: false },
            paths: uPlot.paths.stepped({ align: 1 }),
          },
        ],
        hooks: { draw: [mark] },
      }),
    );
    const swatches = classes.map((label) => make("li", {}, swatchOf(palette, this.#labels.indexOf(label)), label));
    const dash = make("span", { className: "dash", "aria-hidden": "true" });
    byId("key-legend").replaceChildren(...swatches, make("li", {}, dash, "halting score, full at the top"));
  }
}

function focusRow(row) {
  for (const one of row.parentElement.rows) one.tabIndex = one === row ? 0 : -1;
  row.focus();
}

/** How attention was shared out. */
export function looksText(index, { own, others, keys, gone }) {
  const elsewhere = keys ? `, ${percent(others)} at ${keys} other key${keys === 1 ? "" : "s"}` : " and at no other";
  const away = gone ? `; ${gone} of the items ${gone === 1 ? "is" : "are"} not in the river` : "";
  return `Item ${index + 1} looked ${percent(own)} at its own key${elsewhere}${away}.`;
}

const scoreText = (lane, halt) => (halt >= lane.threshold ? "full" : `${percent(fullness(lane, halt))} full`);

function best(step) {
  return Object.entries(step.probabilities).reduce((a, b) => (b[1] > a[1] ? b : a));
}

/** The classes that were ever likely, in the order of the labels. */
export function topClasses(trace, labels) {
  const most = new Map();
  for (const step of trace) {
    for (const [label, chance] of Object.entries(step.probabilities))
      most.set(label, Math.max(most.get(label) ?? 0, chance));
  }
  const chosen = [...most]
    .sort((a, b) => b[1] - a[1])
    .slice(0, SHOWN)
    .map(([label]) => label);
  return labels.filter((label) => chosen.includes(label));
}

/** What the page itself has seen of a lane, where the service tells nothing more. */
function ownTrace(store, lane) {
  const { ring } = store;
  return store.itemsOf(lane).map((n) => {
    const slot = n & MASK;
    const value = Object.fromEntries(
      store.fields
        .map((field, f) => [field.name, field.values[ring.codes[f][slot]]])
        .filter(([, one]) => one !== undefined),
    );
    const probabilities = { [store.labels[ring.top[slot]]]: ring.chance[slot] };
    return { i: ring.index[slot], time: ring.time[slot], value, halt: ring.halt[slot], probabilities };
  });
}
