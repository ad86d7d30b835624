// The model's card in words.

import { byId, make, number } from "./dom.js";

/** Fill the card; settings that are shown already stay as they are, open or not. */
export function drawCard(card) {
  const { labels, fields, session, live } = card;
  const rows = [
    ["name", card.name],
    ["hash", card.hash],
    ["labels", `${labels.length}: ${labels.slice(0, 12).join(", ")}${labels.length > 12 ? " …" : ""}`],
    ["values", fields.map((field) => field.name).join(", ")],
    ["session by", session.join(", ")],
    ["threshold", number(card.threshold, 3)],
    ["delay cost", Number.isFinite(card.delay_cost) ? number(card.delay_cost, 3) : null],
    ["promise", promiseText(card.promise, live)],
    [
      "live accuracy",
      Number.isFinite(live.accuracy)
        ? `${number(100 * live.accuracy, 1)} % of ${number(live.labelled)} labelled`
        : null,
    ],
  ].filter(([, text]) => text !== null && text !== undefined && text !== "");
  const told = rows.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, String(text))]);
  const place = byId("card");
  const text = JSON.stringify(card.settings, null, 1);
  const isThere = place.querySelector("pre")?.textContent === text;
  for (const one of [...place.children]) if (!isThere || one.tagName !== "DETAILS") one.remove();
  place.prepend(...told);
  if (!isThere) place.append(make("details", {}, make("summary", {}, "settings"), make("pre", {}, text)));
}

function promiseText(promise, live) {
  if (!promise) return "none";
  return live.promise_holds === false
    ? `${promise.text} – it does not hold any more: ${live.promise_line}`
    : promise.text;
}
