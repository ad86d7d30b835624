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

/** The greeting: names of labels and fields with their values, and the card. */
export function readHello({ labels, fields, model, is_replayed: isReplayed }) {
  return { labels, fields, isReplayed, card: readCard(model) };
}

/** The card of a model, with its curve sorted from early to late. */
export function readCard(card) {
  return { ...card, curve: card.curve.toSorted((a, b) => a.earliness - b.earliness) };
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
