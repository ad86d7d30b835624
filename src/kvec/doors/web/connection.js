// The way to the service: answers as JSON, frames as a stream that comes back after a break, the token where one is wanted.

import { EventReader } from "./frames.js";

const WAITS = [500, 1000, 2000, 4000, 8000, 15000]; // milliseconds before the next try
const SILENCE = 60_000; // after so long without a word the line is taken for dead
const TOKEN = "kvec-token";

/** An answer that is no success: its status and what the service says about it. */
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export class Connection {
  #askToken;
  #asking = null;
  #model = null;
  #watching = null;

  /** `askToken(isWrong)` gives a promise of the token that a person has typed. */
  constructor(askToken) {
    this.#askToken = askToken;
  }

  /** Choose the model that all requests are about; null is the service's first. */
  choose(model) {
    this.#model = model;
  }

  /** One request; asks for the token when the service wants one. */
  async request(path, options = {}) {
    for (;;) {
      const token = sessionStorage.getItem(TOKEN);
      const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
      const response = await fetch(this.#address(path), { ...options, headers, cache: "no-store" });
      if (response.ok) return response;
      if (response.status !== 401) throw await refusal(response);
      this.#asking ??= this.#askToken(token !== null).finally(() => (this.#asking = null));
      sessionStorage.setItem(TOKEN, await this.#asking);
    }
  }

  /** The JSON at a path; null where there is none. */
  async get(path) {
    try {
      return await (await this.request(path)).json();
    } catch (error) {
      if (error instanceof Refusal && error.status === 404) return null;
      throw error;
    }
  }

  /** Send JSON, and give the answer's. */
  async post(path, body) {
    const headers = { "Content-Type": "application/json" };
    return (await this.request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
  }

  /** Watch the stream for ever; `onState` is told "connecting", "live", or "lost" with the milliseconds until the next try, why, and the status of a refusal. */
  async watch(onFrame, onState) {
    this.stop();
    const mine = (this.#watching = { isOver: false, abort: null, wake: null });
    for (let tries = 0; !mine.isOver; tries++) {
      onState("connecting", 0, "");
      let [reason, status] = ["the service ended the stream", 0];
      try {
        await this.#listen(mine, (frame) => {
          tries = -1; // the next break starts with the shortest wait
          onState("live", 0, "");
          onFrame(frame);
        });
      } catch (error) {
        [reason, status] = error instanceof Refusal ? [error.message, error.status] : ["the service does not answer", 0];
      }
      if (mine.isOver) return;
      const wait = WAITS[Math.min(Math.max(tries, 0), WAITS.length - 1)] * (0.8 + 0.4 * Math.random());
      onState("lost", wait, reason, status);
      await new Promise((resolve) => {
        mine.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }

  /** Try again at once, where a break is being waited out. */
  retry() {
    this.#watching?.wake?.();
  }

  /** End watching. */
  stop() {
    if (!this.#watching) return;
    this.#watching.isOver = true;
    this.#watching.abort?.abort();
    this.#watching.wake?.();
  }

  async #listen(mine, onFrame) {
    mine.abort = new AbortController();
    const response = await this.request("v1/watch", { signal: mine.abort.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const events = new EventReader();
    let silence = null;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => mine.abort.abort(), SILENCE);
    };
    try {
      for (heard(); ; heard()) {
        const { done, value } = await reader.read();
        if (done) return;
        for (const event of events.push(value)) safely(onFrame, JSON.parse(event.data));
      }
    } finally {
      clearTimeout(silence);
    }
  }

  #address(path) {
    const url = new URL(path, document.baseURI);
    if (this.#model !== null) url.searchParams.set("model", this.#model);
    return url;
  }
}

/** A fault of the page itself must not look like one of the service. */
function safely(action, given) {
  try {
    action(given);
  } catch (error) {
    reportError(error);
  }
}

async function refusal(response) {
  const said = await response.json().catch(() => ({}));
  return new Refusal(response.status, said.detail ?? said.title ?? `the service answered ${response.status}`);
}
