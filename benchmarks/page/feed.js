// Before the page's own scripts: /v1/watch becomes a made stream, and every picture is timed until its pixels are there.

(() => {
  const { lanes, rate, length } = globalThis.benchSettings;
  const labels = ["backup", "chat", "scan", "video", "web"];
  const sizes = [52, 66, 93, 126, 240, 517, 801, 1004, 1249, 1380, 1460];
  const fields = [
    { name: "size", values: sizes },
    { name: "direction", values: ["up", "down"] },
  ];
  const curve = [0.05, 0.1, 0.2, 0.4, 0.8, 1].map((earliness) => ({
    earliness,
    accuracy: 0.99 - 0.4 * (1 - earliness) ** 4,
    hm: 0.9,
  }));
  const made = { name: "default", threshold: 0.5, curve, point: curve[2], settings: {}, promise: null, live: {} };
  const card = { ...made, labels, fields, session: ["direction"] };
  let state = 1;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647; // the same stream every time
  const open = [];
  let opened = 0;
  let [items, decisions] = [0, 0];

  function frame(count) {
    const made = { now: Date.now() / 1000, items: [], keys: [], decisions: [], ended: [], counts: null };
    for (let n = 0; n < count; n++) {
      const place = Math.floor(random() * lanes);
      let one = open[place];
      if (!one || one.i >= one.length) {
        one = open[place] = {
          k: opened++,
          i: 0,
          session: 0,
          top: Math.floor(random() * 5),
          read: 3 + Math.floor(random() * 12),
          length: length * (0.5 + random()),
        };
        made.keys.push([one.k, one.k % 8, `10.0.${one.k % 8}.${one.k % 250}:${40000 + one.k}`, 0, 0.5]);
      }
      if (random() < 0.3) one.session++;
      const halt = one.i >= one.read - 1 ? 0.6 : (0.45 * one.i) / one.read;
      const codes = [Math.floor(random() * sizes.length), one.session % 2];
      made.items.push([
        one.k,
        one.i,
        items / rate,
        codes,
        one.session,
        halt,
        one.top,
        0.3 + (0.6 * Math.min(one.i, one.read)) / one.read,
      ]);
      if (one.i === one.read - 1) made.decisions.push([one.k, decisions++, one.top, 0.9, one.read, "halted", true]);
      one.i++;
      items++;
    }
    made.counts = { items, decisions, live: lanes, waiting: 0, rate, dropped_frames_items: 0 };
    return made;
  }

  function stream() {
    const encoder = new TextEncoder();
    const say = (control, value) => control.enqueue(encoder.encode(`data: ${JSON.stringify(value)}\n\n`));
    let [began, sent] = [performance.now(), 0];
    return new ReadableStream({
      start(control) {
        say(control, { hello: { labels, fields, session_field: "direction", model: card } });
        setInterval(() => {
          const due = Math.floor(((performance.now() - began) / 1000) * rate);
          if (due > sent) say(control, frame(Math.min(due - sent, 2000)));
          sent = due;
        }, 50);
      },
    });
  }

  const realFetch = globalThis.fetch;
  globalThis.fetch = (address, options) => {
    const { pathname } = new URL(address, location.href);
    if (pathname.endsWith("/v1/watch")) return Promise.resolve(new Response(stream()));
    if (pathname.includes("/v1/")) return Promise.resolve(new Response("{}", { status: 404 }));
    return realFetch(address, options);
  };

  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...where) {
    this.isDrawn = true; // every picture begins so
    return clear.apply(this, where);
  };
  const costs = (globalThis.benchCosts = []);
  const realFrame = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (callback) =>
    realFrame((at) => {
      const isPicture = callback.name === "picture";
      const began = performance.now();
      callback(at);
      if (!isPicture) return;
      const context = document.getElementById("river").getContext("2d");
      if (!context.isDrawn) return; // it would have looked like the one before
      context.isDrawn = false;
      context.getImageData(0, 0, 1, 1); // pixels are made only when someone wants them
      costs.push(performance.now() - began);
    });
})();
