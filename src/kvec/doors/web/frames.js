// What the service says, read into one form: lines of server-sent events, frames of /v1/watch, and the model's card.

/** Splits a text that arrives in pieces into server-sent events: {event, id, data}. */
export class EventReader {
  #rest = "";

  /** The events that this piece completes. */
  push(text) {
    this.#rest += text.replaceAll("\r", "");
    const blocks = this.#rest.split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map(readBlock).filter((event) => event.data !== "");
  }
}

function readBlock(block) {
  const event = { event: "message", id: "", data: "" };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue; // a comment keeps the line open
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event" || name === "id") event[name] = value;
  }
  event.data = data.join("\n");
  return event;
}

/** The greeting: names of labels and fields with their values, the session field and the card. */
export function readHello(hello) {
  const fields = (hello.fields ?? []).map((field) =>
    typeof field === "string" ? { name: field, values: [] } : { name: field.name, values: field.values ?? [] },
  );
  return {
    labels: (hello.labels ?? []).map(String),
    fields: fields.length ? fields : [{ name: "value", values: [] }],
    sessionField: hello.session_field ?? null,
    card: hello.model && typeof hello.model === "object" ? readCard(hello.model) : null,
  };
}

/** The card of a model, with its curve sorted from early to late and the present point in numbers. */
export function readCard(card) {
  const curve = (card.curve ?? [])
    .filter((point) => Number.isFinite(point.earliness) && Number.isFinite(point.accuracy))
    .map((point) => ({ ...point, hm: point.hm ?? harmonic(point.accuracy, point.earliness) }))
    .sort((a, b) => a.earliness - b.earliness);
  const threshold = Number.isFinite(card.threshold) ? card.threshold : 0.5;
  return { ...card, curve, threshold, present: presentPoint(card, curve, threshold) };
}

/** The harmonic mean of accuracy and of the share that was not read. */
export function harmonic(accuracy, earliness) {
  const early = 1 - earliness;
  return accuracy + early > 0 ? (2 * early * accuracy) / (early + accuracy) : 0;
}

function presentPoint(card, curve, threshold) {
  if (Number.isFinite(card.point?.earliness)) return card.point;
  const at = curve.filter((point) => Number.isFinite(point.threshold));
  const near = (a, b) => (Math.abs(a.threshold - threshold) <= Math.abs(b.threshold - threshold) ? a : b);
  return at.length ? at.reduce(near) : null;
}

/** How high each value of a field stands between 0 and 1: by the root of its size where all are numbers, else by its place. */
export function heights(values) {
  const numbers = values.map(lowEnd);
  const isCounted = values.length > 0 && numbers.every(Number.isFinite);
  const sizes = isCounted ? numbers : [...values.keys()];
  const [low, high] = [Math.min(...sizes), Math.max(...sizes)];
  if (high === low) return new Float32Array(values.length).fill(0.5);
  return Float32Array.from(sizes, (size) => ((size - low) / (high - low)) ** (isCounted ? 0.5 : 1));
}

function lowEnd(value) {
  if (typeof value === "number") return value;
  const found = /^[<≤]?\s*(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*(?:$|…|–)/i.exec(String(value)); // also of bins: "<10", "10…52.5"
  return found ? Number(found[1]) : NaN;
}
