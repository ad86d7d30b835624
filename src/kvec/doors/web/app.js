// The page begins here: joins the connection to the store and the panels, and offers theme, model and replay.

import { drawCard } from "./card.js";
import { follow, learnLate, select, showKey } from "./chosen.js";
import { Connection } from "./connection.js";
import { DialPanel } from "./dial.js";
import { byId } from "./dom.js";
import { drawFigures, drawRamp } from "./figures.js";
import { heights, readCard, readHello } from "./frames.js";
import { page } from "./page.js";
import { makePalette } from "./palette.js";
import { listen } from "./pointing.js";
import { ReplayPanel } from "./replay.js";
import { redraw, start } from "./stage.js";
import { announcer } from "./words.js";

const THEME = "kvec-theme";
const MUTED = "kvec-muted";
const LIVE_AGAIN = 10_000; // milliseconds between two questions for what labels that came later say
const darkness = matchMedia("(prefers-color-scheme: dark)");
const connection = (page.connection = new Connection(askToken));
let wire = { state: "connecting", until: 0, reason: "" };
let isGreeted = false; // on this connection

const dial = new DialPanel(async ({ earliness }) => {
  await connection.post(`v1/models/${encodeURIComponent(page.card.name)}/dial`, { earliness });
  await refreshCard();
  announcer.say("The dial was moved.");
});
const replay = new ReplayPanel(connection, (state) => {
  page.clock.isHeld = state !== null && !state.isPlaying;
  byId("hold").hidden = state !== null;
  showState();
});

// --- what comes in

function takeFrame(frame) {
  if (frame.hello) return greet(readHello(frame.hello));
  const { store, clock } = page;
  clock.tick(performance.now());
  if (frame.items.length) clock.step(page.span / 60);
  const [since, at] = clock.place(frame.now);
  announcer.add(store.take(frame, since, at), store.labels);
  follow();
}

/** The service tells names and card: when a connection begins, and again when a model or its point has changed. */
function greet(hello) {
  if (isGreeted) page.store.greet(hello);
  else page.store.begin(hello);
  follow();
  page.scales = hello.fields.map((field) => heights(field.values));
  page.field = Math.min(page.field, hello.fields.length - 1);
  byId("field").replaceChildren(...hello.fields.map((field, place) => new Option(field.name, String(place))));
  byId("field").value = String(page.field);
  drawRamp();
  showCard(hello.card);
  if (!isGreeted) {
    offerModels();
    if (hello.isReplayed) replay.look(hello.card.name);
    else replay.leave();
  }
  isGreeted = true;
}

async function refreshCard() {
  showCard(readCard(await connection.get("v1/model")));
}

/** What labels that came later say of the model is asked again, for ever, while somebody can see it. */
async function followLabels() {
  if (isGreeted && !document.hidden) {
    const said = await connection.get("v1/model").catch(() => null);
    if (said?.name === page.card.name && said.hash === page.card.hash) {
      page.card.live = said.live;
      drawCard(page.card);
    }
  }
  setTimeout(followLabels, LIVE_AGAIN);
}

function showCard(card) {
  page.card = card;
  redraw();
  dial.show(card, page.palette);
  drawCard(card);
}

// --- the connection

function watch() {
  connection.watch(takeFrame, (state, wait, reason, status) => {
    wire = { state, until: performance.now() + wait, reason };
    if (state === "connecting") isGreeted = false;
    if (status === 404) offerModels(); // the chosen one is not served any more
    showState();
  });
}

function showState() {
  const isHeld = page.heldAt !== null || page.clock.isHeld;
  const shown = wire.state === "live" && isHeld ? "held" : wire.state;
  const seconds = Math.max(0, Math.ceil((wire.until - performance.now()) / 1000));
  const words = {
    connecting: "connecting …",
    live: "live",
    held: "paused",
    lost: wire.reason,
  }[shown];
  const place = byId("state");
  if (place.textContent !== words) place.textContent = words;
  place.dataset.state = shown;
  byId("retry").hidden = byId("countdown").hidden = wire.state !== "lost";
  byId("countdown").textContent = `again in ${seconds} s`;
}

function askToken(isWrong) {
  const dialog = byId("token-dialog");
  const why = isWrong ? "That token was not accepted." : "It is kept in this tab only, until the tab is closed.";
  byId("token-says").textContent = why;
  byId("token").value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => resolve(byId("token").value.trim()), { once: true });
  });
}

async function offerModels() {
  const choice = byId("model");
  const said = await connection.get("v1/models").catch(() => null);
  if (!said) return; // the connection's own state tells that the service is away
  const names = said.models.map((one) => one.name);
  const before = choice.value;
  choice.replaceChildren(...names.map((name) => new Option(name, name)));
  byId("model-choice").hidden = names.length < 2;
  if (names.includes(before)) choice.value = before;
  else if (before) chooseModel(names[0]);
}

function chooseModel(name) {
  select(null);
  page.store.clear();
  connection.choose(name);
  watch();
}

// --- what a person chooses

function hold() {
  page.heldAt = page.heldAt === null ? page.clock.now : null;
  byId("hold").setAttribute("aria-pressed", String(page.heldAt !== null));
  showState();
}

function mute(isMuted) {
  announcer.mute(isMuted);
  byId("announce").setAttribute("aria-pressed", String(!isMuted));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  page.palette = makePalette(theme, getComputedStyle(document.documentElement));
  redraw();
  drawRamp();
  if (page.card) dial.show(page.card, page.palette);
  showKey();
}

byId("theme").addEventListener("click", () => {
  const theme = page.palette.theme === "dark" ? "light" : "dark";
  localStorage.setItem(THEME, theme);
  setTheme(theme);
});
darkness.addEventListener("change", () => {
  if (!localStorage.getItem(THEME)) setTheme(darkness.matches ? "dark" : "light");
});
byId("hold").addEventListener("click", hold);
byId("retry").addEventListener("click", () => connection.retry());
byId("span").addEventListener("change", (event) => (page.span = Number(event.target.value)));
byId("density").addEventListener("change", (event) => (page.density = event.target.value));
byId("field").addEventListener("change", (event) => {
  page.field = Number(event.target.value);
  drawRamp();
});
byId("announce").addEventListener("click", () => {
  localStorage.setItem(MUTED, String(!announcer.isMuted));
  mute(!announcer.isMuted);
});
byId("words").addEventListener("click", () => {
  const isTable = byId("table-view").hidden;
  byId("table-view").hidden = !isTable;
  byId("river-box").hidden = isTable;
  byId("words").setAttribute("aria-pressed", String(isTable));
  drawFigures();
});
byId("model").addEventListener("change", (event) => chooseModel(event.target.value));

mute(localStorage.getItem(MUTED) === "true");
setTheme(localStorage.getItem(THEME) ?? (darkness.matches ? "dark" : "light"));
listen(
  () => (replay.state ? replay.toggle() : hold()),
  () => replay.step(),
);
setInterval(drawFigures, 500);
setInterval(showState, 500);
start();
watch();
learnLate();
setTimeout(followLabels, LIVE_AGAIN);
