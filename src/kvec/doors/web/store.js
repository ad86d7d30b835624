// All that the page remembers: lanes (one per sequence), the newest items in a ring, decisions by class and by items read.

export const CAPACITY = 1 << 17; // items; two minutes at 1,000 a second
export const MOST_ROWS = 600; // lanes that have a row; further ones are counted
export const MOST_NAMES = 60_000; // sequences of which the name is known, those with the newest items; the service keeps 50,000
export const MASK = CAPACITY - 1; // of an item's number: its place in the ring
export const BIN = 2000; // milliseconds of one bar of decisions over time
const BINS = 64;
export const READ_BINS = [1, 2, 3, 4, 6, 8, 12, 16, 32, Infinity]; // items read until decided, up to and including

/** The items and lanes of one stream; times are milliseconds of the river's own clock. */
export class Store {
  constructor() {
    this.labels = [];
    this.fields = [];
    this.ring = {
      lane: new Array(CAPACITY).fill(null),
      at: new Float64Array(CAPACITY),
      time: new Float64Array(CAPACITY),
      index: new Int32Array(CAPACITY),
      session: new Int32Array(CAPACITY),
      halt: new Float32Array(CAPACITY),
      top: new Int16Array(CAPACITY),
      chance: new Float32Array(CAPACITY),
      before: new Float64Array(CAPACITY), // number of the item before it in its lane, or -1
      isAfter: new Uint8Array(CAPACITY), // whether its lane had been decided before it
      codes: [],
    };
    this.clear();
  }

  /** Forget everything, as for another model. */
  clear() {
    this.changes = 0; // grows with all that could be seen
    this.size = 0; // items ever taken; the newest CAPACITY of them are in the ring
    this.rows = []; // lane of each row, or null
    this.lanes = new Map(); // by identity
    this.byNumber = new Map(); // by the connection's small number
    this.hidden = 0; // lanes without a row
    this.decided = 0;
    this.byClass = [];
    this.byRead = { halted: new Uint32Array(READ_BINS.length), other: new Uint32Array(READ_BINS.length) };
    this.bins = new Map(); // number of a bin of time -> decisions per class
    this.dropped = 0; // items that the service has only counted
    this.counts = { items: 0, decisions: 0, live: 0, waiting: 0, rate: 0 };
    this.newest = []; // the newest decisions, newest last
    this.ring.lane.fill(null);
  }

  /** A connection begins: its numbers mean nothing yet, lanes of the same sequences go on. */
  begin(hello) {
    const same = JSON.stringify(hello.labels) === JSON.stringify(this.labels);
    if (!same && this.labels.length) this.clear();
    this.labels = hello.labels;
    this.fields = hello.fields;
    this.byNumber.clear();
    while (this.ring.codes.length < this.fields.length) this.ring.codes.push(new Int32Array(CAPACITY).fill(-1));
  }

  /** Take a frame that came at `at`; its items are spread from `since` on. Returns the decisions in it. */
  take(frame, since, at) {
    if (frame.items?.length || frame.decisions?.length) this.changes++;
    for (const [number, tangle, key, sequence] of frame.keys ?? []) this.#name(number, tangle, key, sequence ?? 0);
    const ends = new Map((frame.decisions ?? []).map((one) => [one[0], one[4]]));
    const items = frame.items ?? [];
    const step = items.length ? (at - since) / items.length : 0;
    items.forEach((item, place) => this.#item(item, since + step * (place + 1), ends));
    const decisions = (frame.decisions ?? []).map((one) => this.#decide(one, at));
    Object.assign(this.counts, frame.counts);
    this.dropped += frame.counts?.dropped_frames_items ?? 0;
    return decisions;
  }

  #name(number, tangle, key, sequence) {
    const identity = JSON.stringify([tangle, key, sequence]);
    let lane = this.lanes.get(identity);
    if (!lane) {
      lane = {
        identity,
        tangle,
        key,
        sequence,
        row: -1,

        last: -1,
        count: 0,
        halt: 0,
        top: -1,
        chance: 0,
        decision: null,
        bornAt: 0,
        lastAt: -Infinity,
        isDirty: true,
        isLate: false,
        isAsked: false,
      };
      this.lanes.set(identity, lane);
    }
    this.byNumber.set(number, lane);
    if (this.byNumber.size > MOST_NAMES) this.byNumber.delete(this.byNumber.keys().next().value);
    return lane;
  }

  #lane(number) {
    const lane = this.byNumber.get(number) ?? this.#name(number, null, `sequence ${number}`, 0);
    this.byNumber.delete(number); // the newest stand last
    this.byNumber.set(number, lane);
    if (!this.lanes.has(lane.identity)) this.lanes.set(lane.identity, lane); // it had left the river
    return lane;
  }

  #item([number, index, time, code, session, halt, top, chance], at, ends) {
    const lane = this.#lane(number);
    const ring = this.ring;
    const slot = this.size & MASK;
    const end = ends.get(number) ?? Infinity;
    if (lane.row < 0) this.#place(lane);
    if (lane.last < 0) {
      lane.bornAt = at;
      lane.isLate = index > 0; // its first items came before this page
    }
    ring.lane[slot] = lane;
    ring.at[slot] = at;
    ring.time[slot] = time ?? NaN;
    ring.index[slot] = index;
    ring.session[slot] = session ?? -1;
    ring.halt[slot] = halt;
    ring.top[slot] = top ?? -1;
    ring.chance[slot] = chance;
    ring.before[slot] = lane.last;
    ring.isAfter[slot] = lane.decision || index >= end ? 1 : 0;
    if (index === end - 1) lane.haltAt = at;
    for (let f = 0; f < ring.codes.length; f++)
      ring.codes[f][slot] = (Array.isArray(code) ? code[f] : f ? null : code) ?? -1;
    lane.last = this.size++;
    lane.lastAt = at;
    lane.count = index + 1;
    if (!ring.isAfter[slot]) Object.assign(lane, { halt, top: top ?? -1, chance });
    lane.isDirty = true;
  }

  #decide([number, n, label, probability, read, reason], at) {
    const lane = this.#lane(number);
    const decision = { n, label, probability, read, reason, at: lane.haltAt ?? at, lane };
    if (lane.row < 0 && lane.last >= 0) this.#place(lane);
    lane.decision = decision;
    lane.isDirty = true;
    this.decided++;
    this.byClass[label] = (this.byClass[label] ?? 0) + 1;
    const which = reason === "halted" ? "halted" : "other";
    this.byRead[which][READ_BINS.findIndex((most) => read <= most)]++;
    const bin = Math.floor(at / BIN);
    if (!this.bins.has(bin)) this.bins.set(bin, []);
    const counted = this.bins.get(bin);
    counted[label] = (counted[label] ?? 0) + 1;
    if (this.bins.size > BINS) this.bins.delete(this.bins.keys().next().value);
    this.newest.push(decision);
    if (this.newest.length > 200) this.newest.shift();
    return decision;
  }

  /** What is known from elsewhere of a lane that was decided before this page came. */
  learn(lane, label, probability, read, reason) {
    if (lane.decision) return;
    lane.decision = { n: -1, label, probability, read, reason, at: -Infinity, lane };
    lane.isDirty = true;
    this.changes++;
  }

  #place(lane) {
    let row = this.rows.indexOf(null);
    if (row < 0 && this.rows.length < MOST_ROWS) row = this.rows.push(null) - 1;
    if (row < 0) return; // it stays without one until one is free
    this.rows[row] = lane;
    lane.row = row;
    lane.isDirty = true;
  }

  /** Give back the rows of lanes of which nothing lies after `since`, but not that of `kept`. */
  sweep(since, kept) {
    this.hidden = 0;
    for (const lane of this.lanes.values()) {
      const isOld = lane.lastAt < since && (lane.decision?.at ?? -Infinity) < since && lane !== kept;
      if (!isOld) {
        if (lane.row < 0 && lane.last >= 0) this.hidden++;
        continue;
      }
      if (lane.last < 0) continue; // named, and its first item is still to come
      if (lane.row >= 0) this.rows[lane.row] = null;
      lane.row = -1;
      this.changes++;
      this.lanes.delete(lane.identity);
    }
    while (this.rows.length && this.rows.at(-1) === null) this.rows.pop();
  }

  /** The number of the oldest item that is still in the ring. */
  get oldest() {
    return Math.max(0, this.size - CAPACITY);
  }

  /** The number of the first item that came at or after `at`. */
  firstSince(at) {
    let low = this.oldest;
    let high = this.size;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.ring.at[middle & MASK] < at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Numbers of the items of a lane that are still remembered, oldest first. */
  itemsOf(lane, most = 256) {
    const found = [];
    for (let n = lane.last; n >= this.oldest && found.length < most; n = this.ring.before[n & MASK]) {
      if (n < 0 || this.ring.lane[n & MASK] !== lane) break;
      found.push(n);
    }
    return found.reverse();
  }

  /** The lane of a key in a tangle, the newest sequence of it; compared as text. */
  findLane(tangle, key) {
    let best = null;
    for (const lane of this.lanes.values()) {
      if (String(lane.key) !== String(key) || (tangle !== undefined && String(lane.tangle) !== String(tangle)))
        continue;
      if (!best || lane.sequence >= best.sequence) best = lane;
    }
    return best;
  }

  /** When an item of a lane came that has this time, or without times is so many before its newest; null if it is gone. */
  whereIs(lane, time, fromEnd) {
    const { ring } = this;
    const items = this.itemsOf(lane);
    const isTimed = Number.isFinite(time);
    const found = isTimed ? items.findLast((n) => Math.abs(ring.time[n & MASK] - time) < 1e-9) : items.at(-1 - fromEnd);
    return found === undefined ? null : ring.at[found & MASK];
  }
}
