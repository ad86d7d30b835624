// The accuracy-earliness curve with the present point, and the dial: a slider along it that asks before anything changes.

import { Chart, axis } from "./charts.js";
import { byId, number } from "./dom.js";

const uPlot = globalThis.uPlot;

export class DialPanel {
  #chart = new Chart(byId("curve"), 138);
  #card = null;
  #palette = null;
  #chosen = -1;
  #turn;

  /** `turn(point)` asks the service for another point and gives the new card. */
  constructor(turn) {
    this.#turn = turn;
    byId("dial").addEventListener("input", (event) => this.#choose(Number(event.target.value)));
    byId("dial-yes").addEventListener("click", () => this.#confirm());
    byId("dial-no").addEventListener("click", () => this.reset());
    new ResizeObserver(() => this.#card && this.#draw()).observe(byId("curve"));
    byId("dial-form").addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#isAsking) return;
      event.stopPropagation();
      this.reset();
    });
  }

  /** Show a model's curve. */
  show(card, palette) {
    this.#palette = palette;
    byId("dial-form").hidden = false;
    if (card === this.#card) return this.#draw();
    this.#card = card;
    this.reset();
  }

  /** Put the slider back to the present point. */
  reset() {
    const { curve, point } = this.#card;
    this.#chosen = nearest(curve, point.earliness);
    const slider = byId("dial");
    slider.max = String(curve.length - 1);
    slider.value = String(this.#chosen);
    byId("dial-ask").hidden = true;
    byId("dial-error").textContent = "";
    this.#tell();
    this.#draw();
  }

  get #isAsking() {
    return !byId("dial-ask").hidden;
  }

  #choose(place) {
    this.#chosen = place;
    const { curve, point } = this.#card;
    byId("dial-ask").hidden = place === nearest(curve, point.earliness);
    byId("dial-error").textContent = "";
    this.#tell();
    this.#draw();
  }

  #tell() {
    const point = this.#card.curve[this.#chosen];
    const words = `reads ${share(point.earliness)} of a sequence, is right in ${share(point.accuracy)}`;
    byId("dial").setAttribute("aria-valuetext", words);
    byId("dial-says").textContent = `${this.#isAsking ? "There" : "Now"} it ${words} (HM ${number(point.hm, 3)}).`;
  }

  async #confirm() {
    const point = this.#card.curve[this.#chosen];
    const yes = byId("dial-yes");
    yes.disabled = true;
    try {
      await this.#turn(point);
      byId("dial").focus();
    } catch (error) {
      byId("dial-error").textContent = `Nothing was changed: ${error.message}`;
    } finally {
      yes.disabled = false;
    }
  }

  #draw() {
    const { curve, point: present } = this.#card;
    const palette = this.#palette;
    const at = curve.map((point) => point.earliness);
    const only = (place) => at.map((_, i) => (i === place ? curve[i].accuracy : null));
    const here = nearest(curve, present.earliness);
    const data = [at, curve.map((point) => point.accuracy), only(here), only(this.#isAsking ? this.#chosen : -1)];
    const [low, high] = [Math.min(...data[1]), Math.max(...data[1])];
    const dot = (colour, size, fill) => ({
      stroke: colour,
      width: 0,
      points: { show: true, size, fill, stroke: colour, width: 2 },
    });
    this.#chart.draw(`${palette.theme}|${curve.length}|${low}|${high}`, data, () => ({
      cursor: { show: false },
      padding: [8, 18, 0, 0],
      scales: {
        x: { time: false, range: [0, Math.max(...at)] },
        y: { range: [Math.max(0, low - 0.05), Math.min(1.01, high + 0.05)] },
      },
      axes: [axis(palette, { size: 26, values: percents }), axis(palette, { size: 46, values: percents })],
      series: [
        {},
        { stroke: palette.muted, width: 2, points: { show: false }, paths: uPlot.paths.linear() },
        dot(palette.accent, 13, palette.accent),
        dot(palette.ink, 13, palette.panel),
      ],
    }));
  }
}

const share = (value) => `${number(100 * value, value < 0.1 ? 1 : 0)} %`;
const percents = (_, all) => all.map((value) => `${number(100 * value)} %`);

/** The place on the curve that is nearest to an earliness. */
export function nearest(curve, earliness) {
  let best = -1;
  curve.forEach((point, place) => {
    if (best < 0 || Math.abs(point.earliness - earliness) < Math.abs(curve[best].earliness - earliness)) best = place;
  });
  return best;
}
