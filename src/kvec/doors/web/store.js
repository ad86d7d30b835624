// All that the page remembers: lanes (one per sequence), the newest items in a ring, decisions by class and by items read.

export const CAPACITY = 1 << 17; // items; two minutes at 1,000 a second
export const MOST_ROWS = 600; // lanes that have a row; further ones are counted
export const MOST_NAMES = 60_000; // sequences of which the name is known, those with the newest items; the service keeps 50,000
export const MASK = CAPACITY - 1; // of an item's number: its place in the ring
export const BIN = 2000; // milliseconds of one bar of decisions over time
const BINS = 64;
export const READ_BINS = [1, 2, 3, 4, 6, 8, 12, 16, 32, Infinity]; // items read until decided, up to and including
export const SHARE_BINS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]; // the same as a share of the sequence
export const UNKNOWN = -2; // in place of a label: decisions that say that they do not know

/** By what a sequence is known. */
export const identify = (tangle, key, sequence) => JSON.stringify([tangle, key, sequence]);

/** How full a halting score of a lane is, 0 to 1. */
export const fullness = (lane, halt) => Math.min(1, halt / Math.max(lane.threshold, 1e-6));

const kindOf = (reason) => (reason === "halted" ? "halted" : "other");
const emptyBins = (bins) => ({ halted: new Uint32Array(bins.length), other: new Uint32Array(bins.length) });

/** The items and lanes of one stream; times are milliseconds of the river's own clock. */
export class Store {
  constructor() {
    this.labels = [];
    this.fields = [];
    this.threshold = 1; // the halting score from which sequences that begin now are decided
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
    this.erasures = 0; // grows when items that may be drawn are forgotten
    this.clear();
  }

  /** Forget everything, as for another model. */
  clear() {
    this.erasures++;
    this.changes = 0; // grows with all that could be seen
    this.size = 0; // items ever taken; the newest CAPACITY of them are in the ring
    this.rows = []; // lane of each row, or null
    this.lanes = new Map(); // by identity
    this.byNumber = new Map(); // by the connection's small number
    this.hidden = 0; // lanes without a row
    this.decided = 0;
    this.byClass = new Map(); // decisions of each label, and of UNKNOWN
    this.byRead = emptyBins(READ_BINS);
    this.byShare = emptyBins(SHARE_BINS); // of sequences that are over
    this.bins = new Map(); // number of a bin of time -> decisions per class
    this.dropped = 0; // items that the service has only counted
    this.counts = { items: 0, decisions: 0, live: 0, waiting: 0, rate: 0 };
    this.newest = []; // the newest decisions, newest last
    this.ring.lane.fill(null);
  }

  /** A connection begins: its numbers mean nothing yet; lanes of the same sequences go on, perhaps decided by now. */
  begin(hello) {
    const isSame = (name) => JSON.stringify(hello[name]) === JSON.stringify(this[name]);
    if (this.labels.length && !(isSame("labels") && isSame("fields"))) this.clear();
    this.byNumber.clear();
    for (const lane of this.lanes.values()) if (!lane.decision) Object.assign(lane, { isLate: true, isAsked: false });
    this.greet(hello);
  }

  /** Names and the threshold for lanes from now on; within a connection names only grow. */
  greet({ labels, fields, card }) {
    this.labels = labels;
    this.fields = fields;
    this.threshold = card.threshold;
    this.changes++;
    while (this.ring.codes.length < this.fields.length) this.ring.codes.push(new Int32Array(CAPACITY).fill(-1));
  }

  /** Take a frame that came at `at`; its items are spread from `since` on. Returns the decisions in it. */
  take({ keys, items, decisions, ended, counts }, since, at) {
    if (items.length || decisions.length) this.changes++;
    for (const key of keys) this.#name(...key);
    const ends = new Map(decisions.map(([number, , , , read]) => [number, read]));
    const step = (at - since) / Math.max(items.length, 1);
    items.forEach((item, place) => this.#item(item, since + step * (place + 1), ends));
    for (const one of ended) this.#end(...one);
    Object.assign(this.counts, counts);
    this.dropped += counts.dropped_frames_items;
    return decisions.map((one) => this.#decide(one, at));
  }

  #name(number, tangle, key, sequence, threshold) {
    const lane = this.lanes.get(identify(tangle, key, sequence));
    if (!lane) this.#open(number, tangle, key, sequence, threshold ?? this.threshold);
    else {
      lane.threshold = threshold ?? lane.threshold;
      this.byNumber.set(number, lane);
    }
    if (this.byNumber.size > MOST_NAMES) this.byNumber.delete(this.byNumber.keys().next().value);
  }

  #open(number, tangle, key, sequence, threshold) {
    const lane = {
      identity: identify(tangle, key, sequence),
      tangle,
      key,
      sequence,
      threshold, // with which it began
      row: -1,
      last: -1,
      count: 0,
      halt: 0,
      top: -1,
      chance: 0,
      decision: null,
      bornAt: -Infinity,
      lastAt: -Infinity,
      isDirty: true,
      isLate: false, // it may have been decided while nobody looked
      isAsked: false, // the service was asked whether it was
    };
    this.lanes.set(lane.identity, lane);
    this.byNumber.set(number, lane);
    return lane;
  }

  /** Another sequence has a lane's name, as after a restart of a service that keeps nothing: it takes the row. */
  #anew(number, old) {
    const lane = this.#open(number, old.tangle, old.key, old.sequence, old.threshold);
    if (old.row >= 0) this.rows[old.row] = lane;
    [lane.row, old.row] = [old.row, -1];
    this.erasures++;
    return lane;
  }

  #lane(number) {
    const lane = this.byNumber.get(number);
    this.byNumber.delete(number); // the newest stand last
    this.byNumber.set(number, lane);
    if (!this.lanes.has(lane.identity)) this.lanes.set(lane.identity, lane); // it had left the river
    return lane;
  }

  #item([number, index, time, codes, session, halt, top, chance], at, ends) {
    let lane = this.#lane(number);
    if (index < lane.count || (index === 0 && lane.decision)) lane = this.#anew(number, lane);
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
    ring.session[slot] = session;
    ring.halt[slot] = halt;
    ring.top[slot] = top;
    ring.chance[slot] = chance;
    ring.before[slot] = lane.last;
    ring.isAfter[slot] = lane.decision || index >= end ? 1 : 0;
    if (index === end - 1) lane.haltAt = at;
    codes.forEach((code, f) => (ring.codes[f][slot] = code));
    lane.last = this.size++;
    lane.lastAt = at;
    lane.count = index + 1;
    if (!ring.isAfter[slot]) Object.assign(lane, { halt, top, chance });
    lane.isDirty = true;
  }

  #decide([number, n, label, probability, read, reason, isKnown], at) {
    const lane = this.#lane(number);
    const decision = { n, label, probability, read, reason, isKnown, at: lane.haltAt ?? at, lane };
    if (lane.last < 0) lane.bornAt = at;
    else if (lane.row < 0) this.#place(lane);
    lane.decision = decision;
    lane.isDirty = true;
    this.decided++;
    this.byRead[kindOf(reason)][READ_BINS.findIndex((most) => read <= most)]++;
    const bin = Math.floor(at / BIN);
    if (!this.bins.has(bin)) this.bins.set(bin, new Map());
    for (const counted of [this.byClass, this.bins.get(bin)]) {
      const name = isKnown ? label : UNKNOWN;
      counted.set(name, (counted.get(name) ?? 0) + 1);
    }
    if (this.bins.size > BINS) this.bins.delete(this.bins.keys().next().value);
    this.newest.push(decision);
    if (this.newest.length > 200) this.newest.shift();
    return decision;
  }

  #end(read, length, reason) {
    const last = SHARE_BINS.length - 1;
    this.byShare[kindOf(reason)][Math.min(last, Math.max(0, Math.ceil((read / length) * SHARE_BINS.length) - 1))]++;
  }

  /** What is known from elsewhere of a lane that was decided while this page did not look. */
  learn(lane, label, probability, read, reason, isKnown) {
    if (lane.decision) return;
    lane.decision = { n: -1, label, probability, read, reason, isKnown, at: -Infinity, lane };
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

  /** Give back the rows of lanes of which nothing lies in any of these windows of time, but not that of `kept`. */
  sweep(windows, kept) {
    this.hidden = 0;
    for (const lane of this.lanes.values()) {
      const newest = Math.max(lane.lastAt, lane.decision?.at ?? -Infinity);
      if (lane === kept || windows.some(([from, until]) => lane.bornAt <= until && newest >= from)) {
        if (lane.row < 0 && lane.last >= 0) this.hidden++;
        continue;
      }
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

  /** When an item of a lane came, by its place in the sequence; null if it is gone. */
  whereIs(lane, index) {
    const found = this.itemsOf(lane).find((n) => this.ring.index[n & MASK] === index);
    return found === undefined ? null : this.ring.at[found & MASK];
  }
}
