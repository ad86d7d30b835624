// The control of a replay: pause and play, one step, speed, and where it stands; hidden where the model has none.

import { byId, number } from "./dom.js";

/** A replay's state in one form. */
export function readReplay({ state, speed, position, length }) {
  return { isPlaying: state === "playing", isOver: state === "over", speed, position, length };
}

export class ReplayPanel {
  #connection;
  #onChange;
  #timer = null;
  #isDragged = false;
  #model = null;
  state = null;

  /** `onChange(state)` is told whenever the replay has been asked or told something. */
  constructor(connection, onChange) {
    this.#connection = connection;
    this.#onChange = onChange;
    byId("replay-play").addEventListener("click", () => this.toggle());
    byId("replay-step").addEventListener("click", () => this.step());
    byId("replay-speed").addEventListener("change", (event) => {
      this.#send({ action: this.state.isPlaying ? "play" : "pause", speed: Number(event.target.value) });
    });
    const place = byId("replay-place");
    place.addEventListener("change", () => this.#send({ action: "seek", position: Number(place.value) }));
    place.addEventListener("pointerdown", () => (this.#isDragged = true));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (this.#isDragged = false));
  }

  /** Ask whether there is a replay of a model and how it stands; goes on asking while there is one. */
  async look(model = this.#model) {
    clearTimeout(this.#timer);
    this.#model = model;
    try {
      const said = await this.#connection.get("v1/replay");
      this.#show(said?.model === this.#model ? readReplay(said) : null);
    } catch {
      // the connection's own state tells that the service is away
    }
    if (this.state) this.#timer = setTimeout(() => this.look(), 1000);
  }

  /** There is none. */
  leave() {
    clearTimeout(this.#timer);
    this.#model = null;
    this.#show(null);
  }

  /** Pause what plays, play what is paused. */
  toggle() {
    if (this.state) this.#send({ action: this.state.isPlaying ? "pause" : "play" });
  }

  /** One item more, and stand. */
  step() {
    if (this.state) this.#send({ action: "step" });
  }

  async #send(body) {
    try {
      this.#show(readReplay(await this.#connection.post("v1/replay", body)));
    } catch (error) {
      byId("replay-says").textContent = error.message;
    }
  }

  #show(state) {
    this.state = state;
    byId("replay").hidden = state === null;
    this.#onChange(state);
    if (!state) return;
    const play = byId("replay-play");
    play.dataset.icon = state.isPlaying ? "pause" : "play";
    play.setAttribute("aria-label", state.isPlaying ? "Pause the replay" : "Play the replay");
    play.title = state.isPlaying ? "Pause (space)" : "Play (space)";
    const speed = byId("replay-speed");
    if (![...speed.options].some((option) => Number(option.value) === state.speed)) {
      speed.add(new Option(`${number(state.speed, state.speed < 1 ? 2 : 0)}×`, String(state.speed)));
    }
    speed.value = String(state.speed);
    const place = byId("replay-place");
    if (!this.#isDragged) {
      place.max = String(state.length);
      place.value = String(state.position);
      place.setAttribute("aria-valuetext", `item ${number(state.position)} of ${number(state.length)}`);
    }
    byId("replay-says").textContent = state.isOver ? "at its end" : "";
  }
}
