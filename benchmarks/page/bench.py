"""How long the page takes for one picture of the river: a made stream in headless Chromium without a graphics card.

The stream comes through the page's own connection (its fetch is answered inside the browser). Each picture is timed
from the start of its drawing until a pixel of it has been read back, so that the rasterising counts too. Pictures that
would look like the one before are not drawn, and not counted.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import shutil
import statistics
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).resolve().parent
WEB = HERE.parents[1] / "src" / "kvec" / "doors" / "web"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SCENES = ("readable", "all", "chosen", "scrolling")


class Files(http.server.SimpleHTTPRequestHandler):
    """The page's files at the addresses that the service gives them."""

    def translate_path(self, path: str) -> str:
        """The file at an address."""
        name = path.partition("?")[0].lstrip("/").removeprefix("assets/")
        return str(WEB / (name or "index.html"))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def set_scene(page: Page, name: str) -> None:
    page.select_option("#density", "all" if name == "all" else "auto")
    if name == "chosen":
        page.click("#river", position={"x": 40, "y": 120})
    if name == "scrolling":
        page.keyboard.press("Escape")
        page.evaluate(
            """() => { const place = document.getElementById("scroll"); let step = 3;
            setInterval(() => { const before = place.scrollTop; place.scrollTop += step;
                if (place.scrollTop === before) step = -step; }, 16); }"""
        )


def measure(page: Page, seconds: float) -> dict[str, Any]:
    page.evaluate("benchCosts.length = 0")
    page.wait_for_timeout(seconds * 1000)
    costs = sorted(page.evaluate("benchCosts"))
    lanes = page.evaluate("""async () => (await import("/assets/page.js")).page.store.rows.filter(Boolean).length""")
    centiles = statistics.quantiles(costs, n=100, method="inclusive")
    named = {f"p{n}_ms": round(centiles[n - 1], 2) for n in (50, 90, 95, 99)}
    return {"pictures": len(costs), **named, "max_ms": round(costs[-1], 2), "lanes_with_a_row": lanes}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--lanes", type=int, default=300, help="sequences at a time")
    options.add_argument("--rate", type=int, default=1000, help="items a second")
    options.add_argument("--length", type=int, default=200, help="items of a sequence, on the average")
    options.add_argument("--seconds", type=float, default=30.0, help="measured time of each scene")
    options.add_argument("--warm", type=float, default=30.0, help="seconds before, in which the river fills")
    options.add_argument("--browser", default=shutil.which("chromium"), help="where Chromium is")
    options.add_argument("-o", "--out", type=Path, default=HERE, help="the folder that result.json goes into")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = {"lanes": given.lanes, "rate": given.rate, "length": given.length}
    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.browser, headless=True, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.add_init_script(f"globalThis.benchSettings = {json.dumps(settings)};")
        page.add_init_script(path=str(HERE / "feed.js"))
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_timeout(given.warm * 1000)
        for name in SCENES:
            set_scene(page, name)
            page.wait_for_timeout(1000)
            found[name] = measure(page, given.seconds)
        version = browser.version
        browser.close()
    server.shutdown()
    server.server_close()
    said = {
        "command": f"python benchmarks/page/bench.py --lanes {given.lanes} --rate {given.rate} "
        f"--length {given.length} --seconds {given.seconds:g} --warm {given.warm:g}",
        "cores": os.cpu_count(), "load_at_the_end": round(os.getloadavg()[0], 1),
        "browser": f"Chromium {version}, headless, no graphics card, 1440 × 900",
        "scenes": found,
    }  # fmt: skip
    (given.out / "result.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(said))


if __name__ == "__main__":
    main()
