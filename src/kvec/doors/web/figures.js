// Counters, charts and the table: what need not be drawn sixty times a second.

import { showKey } from "./chosen.js";
import { Chart, binName, drawDecisions, drawLegend, drawRead, drawShares } from "./charts.js";
import { byId, number } from "./dom.js";
import { page, shownNow } from "./page.js";
import { READ_BINS } from "./store.js";
import { fillTable } from "./words.js";

const chart = new Chart(byId("decisions"), 118);

/** Bring all of it up to date. */
export function drawFigures() {
  const { store, palette } = page;
  const held = page.heldAt === null ? [] : [[page.heldAt - page.span, page.heldAt]];
  store.sweep([[page.clock.now - page.span, Infinity], ...held], page.selected);
  for (const name of ["items", "rate", "live", "waiting", "decisions"])
    byId(`count-${name}`).textContent = number(store.counts[name]);
  byId("count-read").textContent = medianRead(store.byRead);
  drawDecisions(chart, store, shownNow(), palette);
  drawLegend(byId("classes"), store, palette);
  drawRead(byId("read"), store);
  drawShares(byId("earliness"), store);
  if (!byId("table-view").hidden) fillTable(store, page.selected);
  showKey();
  tellLost(store);
}

function medianRead({ halted, other }) {
  const sums = READ_BINS.map((_, bin) => halted[bin] + other[bin]);
  const half = sums.reduce((a, b) => a + b, 0) / 2;
  let seen = 0;
  return half ? binName(sums.findIndex((count) => (seen += count) >= half)) : "–";
}

function tellLost({ hidden, dropped }) {
  const parts = [];
  if (hidden) parts.push(`${number(hidden)} more lanes are there, without a row.`);
  if (dropped) parts.push(`${number(dropped)} items were only counted: more came than can be shown.`);
  byId("notice").hidden = !parts.length;
  byId("notice").textContent = parts.join(" ");
}

/** The ramp of colours with the least and the greatest value of the chosen field. */
export function drawRamp() {
  const ramp = byId("ramp");
  const pen = ramp.getContext("2d");
  const { values: colours } = page.palette;
  const wide = ramp.width / colours.length;
  pen.clearRect(0, 0, ramp.width, ramp.height);
  colours.forEach((colour, step) => {
    const high = ramp.height * (0.4 + (0.6 * step) / (colours.length - 1));
    pen.fillStyle = colour;
    pen.fillRect(step * wide, (ramp.height - high) / 2, wide - 1, high);
  });
  const values = page.store.fields[page.field]?.values ?? [];
  const order = [...values.keys()].sort((a, b) => page.scales[page.field][a] - page.scales[page.field][b]);
  byId("low").textContent = order.length ? String(values[order[0]]) : "";
  byId("high").textContent = order.length > 1 ? String(values[order.at(-1)]) : "";
}
