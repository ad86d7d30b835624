// The model's card in words.

import { byId, make, number } from "./dom.js";

const KNOWN = new Set(["labels", "fields", "schema", "threshold", "delay_cost", "settings", "promise", "version", "hash", "curve", "present", "point", "name"]); // prettier-ignore

/** Fill the card; what is not known by name stands in the folded part. */
export function drawCard(card, labels, fields, sessionField) {
  const place = byId("card");
  const rows = [
    ["name", card.name],
    ["version", card.version ?? card.hash],
    ["labels", `${labels.length}: ${labels.slice(0, 12).join(", ")}${labels.length > 12 ? " …" : ""}`],
    ["values", fields.map((field) => field.name).join(", ")],
    ["session by", sessionField === null ? null : String(sessionField)],
    ["threshold", Number.isFinite(card.threshold) ? number(card.threshold, 3) : null],
    ["delay cost", Number.isFinite(card.delay_cost) ? number(card.delay_cost, 3) : null],
    ["promise", promiseText(card.promise)],
  ].filter(([, text]) => text !== null && text !== undefined && text !== "");
  const rest = Object.fromEntries(Object.entries(card).filter(([name]) => !KNOWN.has(name)));
  const all = card.settings || Object.keys(rest).length ? JSON.stringify({ ...rest, settings: card.settings }, null, 1) : "";
  const folded = all ? [make("details", {}, make("summary", {}, "settings"), make("pre", {}, all))] : [];
  place.replaceChildren(...rows.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, String(text))]), ...folded);
}

function promiseText(promise) {
  if (promise === null || promise === undefined) return "none";
  return typeof promise === "string" ? promise : (promise.text ?? promise.says ?? JSON.stringify(promise));
}
