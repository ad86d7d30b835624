// One lane from near: its label, class probabilities item by item, the trace, and where the chosen item looked.

import { Chart, axis } from "./charts.js";
import { classColour } from "./palette.js";
import { byId, make, number, valueText } from "./dom.js";
import { afterItems, percent } from "./river.js";
import { MASK } from "./store.js";

const uPlot = globalThis.uPlot;
const SHOWN = 5; // classes in the chart

export class KeyPanel {
  #chart = new Chart(byId("key-chart"), 190);
  #choose;
  #lane = null;
  #trace = [];
  #labels = [];
  index = null; // the item whose looks are shown

  /** `choose(index)` is told when a person points at an item of the trace. */
  constructor(choose) {
    this.#choose = choose;
    const body = byId("trace");
    body.addEventListener("click", (event) => this.#pick(event.target.closest("tr")));
    body.addEventListener("keydown", (event) => {
      const row = event.target.closest("tr");
      const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
      if (event.key === "Enter" || event.key === " ") this.#pick(row);
      else if (next) next.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  /** Show a lane with what the service said of its key, or null while that is being asked. */
  show(lane, answer, store, palette, threshold) {
    if (lane !== this.#lane) this.index = null;
    this.#lane = lane;
    this.#labels = store.labels;
    const isSame = answer && (answer.sequence ?? lane.sequence) === lane.sequence;
    this.#trace = isSame && answer.trace?.length ? answer.trace : ownTrace(store, lane);
    const end = lane.decision ? lane.decision.read - 1 : this.#trace.at(-1)?.i;
    if (this.index === null || !this.#trace.some((step) => step.i === this.index)) {
      this.index = this.#trace.some((step) => step.i === end) ? end : (this.#trace.at(-1)?.i ?? null);
    }
    this.#head(lane, palette, threshold);
    this.#table(palette, threshold);
    this.#draw(palette, lane.decision, threshold);
  }

  /** The chosen item as the trace has it, and how many came after it. */
  get chosen() {
    const place = this.#trace.findIndex((step) => step.i === this.index);
    return { step: this.#trace[place] ?? {}, fromEnd: this.#trace.length - 1 - place };
  }

  /** Say how the looks of the chosen item are shared out. */
  tellLooks(looks) {
    const place = byId("key-looks");
    if (!looks) return void (place.textContent = "Where it looked is not known any more.");
    const sum = (isOwn) =>
      looks.found.filter((look) => look.isOwn === isOwn).reduce((all, look) => all + look.share, 0);
    const gone = looks.gone ? `; ${looks.gone} of the items have left the river` : "";
    const keys = new Set(looks.found.filter((look) => !look.isOwn).map((look) => look.lane)).size;
    const others = keys
      ? `${percent(sum(false))} at ${keys} other key${keys === 1 ? "" : "s"}`
      : "at no other key that is shown";
    place.textContent = `Item ${this.index + 1} looked ${percent(sum(true))} at its own key, ${others}${gone}.`;
  }

  #head(lane, palette, threshold) {
    byId("key-name").textContent = String(lane.key);
    const where = [
      lane.tangle !== null && `tangle ${lane.tangle}`,
      lane.sequence && `sequence ${lane.sequence}`,
    ].filter(Boolean);
    byId("key-where").textContent = where.join(", ");
    const verdict = byId("key-verdict");
    const decision = lane.decision;
    const name = decision ? this.#labels[decision.label] : `${this.#labels[lane.top] ?? "?"}?`;
    const chance = percent(decision ? decision.probability : lane.chance);
    const swatch = make("span", { className: "swatch", "aria-hidden": "true" });
    swatch.style.backgroundColor = classColour(palette, decision ? decision.label : lane.top);
    const tail = decision ? afterItems(decision) : `still reading: halting score ${scoreText(lane.halt, threshold)}`;
    verdict.replaceChildren(swatch, make("b", {}, `${name} ${chance}`), ` ${tail}`);
  }

  #pick(row) {
    if (!row) return;
    this.index = Number(row.dataset.i);
    for (const one of byId("trace").rows) one.setAttribute("aria-selected", String(one === row));
    this.#choose(this.index);
  }

  #table(palette, threshold) {
    const body = byId("trace");
    const start = this.#trace[0]?.time;
    const key = `${palette.theme}|${threshold}|${this.#lane.identity}|${this.#trace.at(-1)?.i}|${this.#trace.length}|${this.#lane.decision?.n}`;
    if (body.dataset.key === key) return;
    const isFocused = body.contains(document.activeElement);
    body.dataset.key = key;
    const end = this.#lane.decision ? this.#lane.decision.read - 1 : Infinity;
    body.replaceChildren(
      ...this.#trace.map((step) => {
        const [label, chance] = best(step);
        const time = Number.isFinite(step.time) ? `${number(step.time - start, 2)}` : "–";
        const cells = [
          step.i + 1,
          time,
          valueText(step.value),
          scoreText(step.halt, threshold),
          `${label} ${percent(chance)}`,
        ];
        const name = step.i < end ? "" : step.i === end ? "decided" : "after";
        const row = make("tr", {
          tabIndex: 0,
          className: name,
          dataset: { i: step.i },
          "aria-selected": String(step.i === this.index),
        });
        row.append(...cells.map((cell) => make("td", {}, String(cell))));
        return row;
      }),
    );
    const chosen = [...body.rows].find((row) => Number(row.dataset.i) === this.index);
    if (chosen) body.parentElement.parentElement.scrollTop = chosen.offsetTop - 54;
    if (isFocused) chosen?.focus({ preventScroll: true });
  }

  #draw(palette, decision, threshold) {
    const classes = topClasses(this.#trace, this.#labels);
    const at = this.#trace.map((step) => step.i + 1);
    const lines = classes.map((label) => this.#trace.map((step) => step.probabilities?.[label] ?? null));
    const halts = this.#trace.map((step) => step.halt / Math.max(threshold, 1e-6)).map((score) => Math.min(score, 1));
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
    const swatches = classes.map((label) => {
      const swatch = make("span", { className: "swatch", "aria-hidden": "true" });
      swatch.style.backgroundColor = colour(label);
      return make("li", {}, swatch, label);
    });
    const dash = make("span", { className: "dash", "aria-hidden": "true" });
    byId("key-legend").replaceChildren(...swatches, make("li", {}, dash, "halting score, full at the top"));
  }
}

const scoreText = (halt, threshold) =>
  halt >= threshold ? "full" : `${percent(halt / Math.max(threshold, 1e-6))} full`;

function best(step) {
  const all = Object.entries(step.probabilities ?? {});
  return all.reduce((a, b) => (b[1] > a[1] ? b : a), ["–", 0]);
}

/** The classes that were ever likely, in the order of the labels. */
export function topClasses(trace, labels) {
  const most = new Map();
  for (const step of trace) {
    for (const [label, chance] of Object.entries(step.probabilities ?? {}))
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
