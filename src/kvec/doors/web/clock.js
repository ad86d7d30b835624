// The river's time: it runs with the page's, stands while a replay stands, and knows when frames were sent.

const SPREAD = 250; // milliseconds over which the items of one frame are laid out at the most
const JUMP = 3000; // milliseconds; by more the service's clock was set, or the page slept
const DRIFT = 2; // milliseconds by which a frame may move the service's clock against the page's

export class Clock {
  #last = null;
  #offset = Infinity; // from the service's clock to the river's, by the frames that came fastest
  #sent = 0; // when the newest frame was sent, on the river's clock
  now = 0;
  isHeld = false;

  /** Move on to the page's time in milliseconds. */
  tick(page) {
    if (this.#last !== null && !this.isHeld) this.now += Math.max(0, page - this.#last);
    this.#last = page;
    return this.now;
  }

  /** Let some time pass while it stands, so that a single step can be seen. */
  step(milliseconds) {
    if (this.isHeld) this.now += milliseconds;
  }

  /** From when until when the items of a frame came that was sent at `seconds` of the service's clock. */
  place(seconds) {
    const offset = this.now - seconds * 1000;
    const isAnew = this.isHeld || offset > this.#offset + JUMP;
    this.#offset = isAnew ? offset : Math.min(offset, this.#offset + DRIFT); // frames that wait in line come later than they were sent
    const at = Math.min(this.now, Math.max(this.#sent, seconds * 1000 + this.#offset));
    const since = Math.max(this.#sent, at - SPREAD);
    this.#sent = at;
    return [since, at];
  }
}
