"""The page in a real browser over a made stream: decisions, a key from near, the dial, replay, breaks, tokens, keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.web.conftest import PATIENCE, known_feed
from tests.doors.web.made_stream import LABELS, Key
from tests.doors.web.mock import CURVE, Service

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, expect

expect.set_options(timeout=PATIENCE)
Serve = Callable[..., Service]
Visit = Callable[..., Page]


def shown(page: Page, what: str) -> Any:
    """Something that the page's modules hold."""
    return page.evaluate(f"async () => {{ const {{ page }} = await import('/assets/page.js'); return {what}; }}")


def play_out(page: Page, service: Service) -> list[Key]:
    """Let the whole stream run; the decisions that it holds."""
    before = len(service.feed.taken)
    page.click("#replay-play")
    wait_until(lambda: len(service.feed.taken) > before and not service.feed.is_playing)
    expect(page.locator("#count-items")).to_have_text(str(len(service.feed.taken)))
    expect(page.locator("#replay-play")).to_have_attribute("data-icon", "play")
    return service.feed.decided


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE / 1000
    while not is_so():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def open_lane(page: Page, name: str) -> None:
    """Click the lane of a key on the canvas."""
    row = shown(page, f"page.store.rows.findIndex((lane) => lane?.key === '{name}')")
    assert row >= 0
    height, top = shown(page, "[page.view.row, page.view.scroll]")
    page.click("#river", position={"x": 300, "y": 24 + (row + 0.5) * height - top})


def test_it_shows_the_decisions_of_a_known_stream(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    decided = play_out(page, service)
    assert len(decided) > 5
    page.click("#words")
    for key in decided:
        label, chance, read, reason = key.decided  # type: ignore[misc]
        row = page.locator("#lanes tr", has_text=key.name)
        expect(row).to_contain_text(f"{LABELS[label]} {round(100 * chance)} %")
        expect(row).to_contain_text(f"after {read} items" if reason == "halted" else f"ended, {read} items")
    expect(page.locator("#count-decisions")).to_have_text(str(len(decided)))
    for label, name in enumerate(LABELS):
        count = sum(1 for key in decided if key.decided and key.decided[0] == label)
        expect(page.locator("#classes li", has_text=name).locator("b")).to_have_text(str(count))
    sizes = shown(page, "[...page.store.byRead.halted].reduce((a, b) => a + b, 0)")
    assert sizes == sum(1 for key in decided if key.decided and key.decided[3] == "halted")


def test_a_lane_is_named_on_the_canvas(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    decided = play_out(page, service)
    label = decided[-1].decided[0]  # type: ignore[index]
    row = shown(page, f"page.store.rows.findIndex((lane) => lane?.key === '{decided[-1].name}')")
    found = page.evaluate(
        """async ([row, label]) => {
            const { page } = await import("/assets/page.js");
            const { yOf } = await import("/assets/view.js");
            const { ratio, edge } = page.view;
            const canvas = document.getElementById("river");
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const [x, y] = [(edge + 15) * ratio, yOf(page.view, row) * ratio - 5];
            const [r, g, b] = canvas.getContext("2d").getImageData(x, y, 1, 1).data;
            const hex = "#" + [r, g, b].map((c) => c.toString(16).padStart(2, "0")).join("");
            return [hex, page.palette.classes[label], page.palette.pale[label]];
        }""",
        [row, label],
    )
    assert found[0] in found[1:]


def test_a_click_opens_a_key_with_its_trace_and_looks(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    key = next(key for key in play_out(page, service) if key.decided and 3 < key.decided[2] < len(key.items))
    label, chance, read, _ = key.decided  # type: ignore[misc]
    open_lane(page, key.name)
    expect(page.locator("#key-name")).to_have_text(key.name)
    expect(page.locator("#key-verdict")).to_have_text(f"{LABELS[label]} {round(100 * chance)} % after {read} items")
    seen = [item for item in key.items if item.is_taken]
    expect(page.locator("#trace tr")).to_have_count(len(seen))
    chosen = page.locator("#trace tr[aria-selected=true]")
    expect(chosen.locator("td").first).to_have_text(str(read))
    expect(page.locator("#trace tr.decided td").nth(2)).to_have_text(
        f"size {seen[read - 1].value['size']}, direction {seen[read - 1].value['direction']}"
    )
    expect(page.locator("#key-looks")).to_contain_text(f"Item {read} looked")
    told = service.feed.looks(str(key.tangle), key.name)
    assert told is not None
    entry = next(look for look in told["looks"] if told["items"][look["item"]]["n"] == read - 1)
    arcs = shown(page, "page.looks.found.map((look) => [look.isOwn, look.share])")
    gone = shown(page, "page.looks.gone")
    assert len(arcs) + gone == len(entry["at"]) and sum(1 for own, _ in arcs if own) == min(4, read)
    page.locator("#announce").click()  # a decision that is told late would be told in its place
    page.locator("#trace tr").first.click()
    expect(page.locator("#key-looks")).to_contain_text("Item 1 looked")
    expect(page.locator("#live")).to_contain_text("Item 1 looked")
    page.keyboard.press("Escape")
    expect(page.locator("#key")).to_be_hidden()


def test_the_keyboard_is_enough(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    play_out(page, service)
    page.locator("#announce").click()  # on a slow machine decisions may be told before the look below
    names = shown(page, "page.store.rows.filter(Boolean).map((lane) => lane.key)")
    page.focus("#river")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#live")).to_contain_text(names[1])
    page.keyboard.press("Enter")
    expect(page.locator("#key-name")).to_have_text(names[1])
    page.keyboard.press("ArrowUp")
    expect(page.locator("#key-name")).to_have_text(names[0])
    page.keyboard.press("Escape")
    expect(page.locator("#key")).to_be_hidden()
    expect(page.locator("#river")).to_be_focused()
    assert not service.feed.is_playing
    page.keyboard.press("Space")
    wait_until(lambda: service.feed.is_playing)


def test_the_table_of_a_key_is_one_stop_and_keeps_its_place(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=600, keys=2, length=(200, 300)))
    page = visit(service)
    for _ in range(30):
        page.keyboard.press(".")
    expect(page.locator("#count-items")).to_have_text("30")
    page.click("#words")
    page.locator("#lanes button").first.click()
    rows = page.locator("#trace tr")
    wait_until(lambda: rows.count() > 8)
    before = rows.count()
    expect(page.locator("#trace tr[tabindex='0']")).to_have_count(1)
    page.locator("#trace tr[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
    place = page.evaluate("document.querySelector('.rows').scrollTop")
    page.evaluate("document.getElementById('replay-play').click()")
    wait_until(lambda: rows.count() > before + 2)
    expect(rows.nth(1)).to_be_focused()
    expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
    assert page.evaluate("document.querySelector('.rows').scrollTop") == place
    expect(page.locator("#trace tr[tabindex='0']")).to_have_count(1)
    expect(page.locator("table:has(#trace)")).to_have_attribute("role", "grid")


def test_another_key_does_not_show_the_looks_of_the_one_before(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    one, other = play_out(page, service)[:2]
    open_lane(page, one.name)
    expect(page.locator("#key-looks")).to_contain_text("looked")
    page.route("**/looks", lambda route: None)  # never answered
    open_lane(page, other.name)
    expect(page.locator("#key-name")).to_have_text(other.name)
    assert page.locator("#key-looks").inner_text() == "Asking where it looked …"


def test_looks_are_asked_once_and_not_with_every_item(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=4000, keys=2, length=(1000, 2000)))
    page = visit(service)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rsplit("/", 1)[-1]))
    page.click("#replay-play")
    wait_until(lambda: shown(page, "page.store.rows.some((lane) => lane?.count > 3)"))
    page.click("#words")
    page.locator("#lanes button").first.click()
    expect(page.locator("#key-looks")).to_contain_text("looked")
    n_items = shown(page, "page.selected.count")
    wait_until(lambda: shown(page, "page.selected.count") > n_items + 5)
    wait_until(lambda: shown(page, "true") and len([one for one in asked if one.startswith("10.")]) > 2)  # the trace
    assert asked.count("looks") == 1


def test_the_dial_asks_before_it_changes_anything(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    before = dict(service.feed.point)
    expect(page.locator("#dial-says")).to_contain_text("Now it reads 20 %")
    page.focus("#dial")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#dial-says")).to_contain_text("There it reads 12 %")
    expect(page.locator("#dial-ask")).to_be_visible()
    page.click("#dial-no")
    expect(page.locator("#dial-ask")).to_be_hidden()
    expect(page.locator("#dial-says")).to_contain_text("Now it reads 20 %")
    assert service.feed.point == before
    page.focus("#dial")
    page.keyboard.press("ArrowLeft")
    page.click("#dial-yes")
    expect(page.locator("#dial-says")).to_contain_text("Now it reads 16 %")
    expect(page.locator("#dial-ask")).to_be_hidden()
    assert service.feed.point == CURVE[4]


def test_the_card_follows_labels_that_come_later(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    expect(page.locator("#card")).to_contain_text("5f2c9a71")
    expect(page.locator("#card")).not_to_contain_text("labelled")
    page.click("#card summary")
    service.feed.live = {"accuracy": 0.875, "labelled": 16}
    expect(page.locator("#card")).to_contain_text("87.5 % of 16 labelled")
    expect(page.locator("#card pre")).to_be_visible()


def test_a_replay_is_paused_stepped_and_sped_up(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=2000))
    page = visit(service)
    expect(page.locator("#state")).to_have_text("paused")
    for n in (1, 2, 3):
        page.click("#replay-step")
        expect(page.locator("#count-items")).to_have_text(str(n))
    moments = shown(page, "[0, 1, 2].map((n) => page.store.ring.at[n])")
    assert moments[0] < moments[1] < moments[2] == pytest.approx(shown(page, "page.clock.now"), abs=0.01)
    page.select_option("#replay-speed", "10")
    wait_until(lambda: service.feed.speed == 10)
    page.click("#replay-play")
    expect(page.locator("#state")).to_have_text("live")
    wait_until(lambda: len(service.feed.taken) > 20)
    page.click("#replay-play")
    wait_until(lambda: not service.feed.is_playing)
    expect(page.locator("#state")).to_have_text("paused")


def test_place_and_speed_follow_also_where_they_have_the_focus(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=2000))
    page = visit(service)
    page.locator("#replay-place").click()
    expect(page.locator("#replay-place")).to_be_focused()
    for _ in range(3):
        page.keyboard.press(".")
        page.evaluate("document.getElementById('replay-step').click()")
    expect(page.locator("#replay-place")).to_have_value("3")
    page.focus("#replay-speed")
    with service.feed.lock:
        service.feed.speed = 0.5
    expect(page.locator("#replay-speed")).to_have_value("0.5")


def test_without_a_replay_the_picture_can_be_held(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=100_000, is_replay=False, is_playing=True))
    page = visit(service)
    expect(page.locator("#replay")).to_be_hidden()
    wait_until(lambda: shown(page, "page.store.size") > 5)
    page.focus("#river")
    page.keyboard.press("Space")
    expect(page.locator("#hold")).to_have_attribute("aria-pressed", "true")
    held = shown(page, "page.view.now")
    size = shown(page, "page.store.size")
    wait_until(lambda: shown(page, "page.store.size") > size)
    assert shown(page, "page.view.now") == held
    page.click("#hold")
    wait_until(lambda: shown(page, "page.view.now") > held)


def test_a_fault_in_one_picture_is_not_the_end_of_all(serve: Serve, browser: Browser) -> None:
    service = serve(known_feed(n_items=100_000, is_replay=False, is_playing=True))
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(service.address)
    wait_until(lambda: shown(page, "page.store.size") > 5)
    page.evaluate(
        """async () => {
            const { page } = await import("/assets/page.js");
            const { palette } = page;
            page.palette = null;
            await new Promise((done) => setTimeout(done, 300));
            page.palette = palette;
        }"""
    )
    assert faults
    before = shown(page, "page.view.now")
    wait_until(lambda: shown(page, "page.view.now") > before)
    page.close()


def test_it_comes_back_after_a_restart_of_the_service(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=40))
    page = visit(service)
    play_out(page, service)
    lanes = shown(page, "page.store.rows.filter(Boolean).length")
    service.__exit__()
    expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    expect(page.locator("#countdown")).to_contain_text("again in")
    page.evaluate("document.getElementById('retry').click()")  # at once, and in vain
    expect(page.locator("#state")).to_contain_text("the service does not answer")
    again = serve(known_feed(n_items=60), port=service.port)
    expect(page.locator("#state")).to_have_text("paused")
    play_out(page, again)
    # the same sequences go on in their lanes, and the twenty further items may have brought new ones
    assert lanes <= shown(page, "page.store.rows.filter(Boolean).length") <= len(again.feed.keys)


def test_decisions_that_fall_in_a_break_are_learnt_also_where_the_first_question_fails(
    serve: Serve, visit: Visit
) -> None:
    service = serve()
    page = visit(service)
    service.feed.step(12)
    expect(page.locator("#count-items")).to_have_text("12")
    decided_of = "Object.fromEntries(page.store.rows.filter(Boolean).map((lane) => [lane.key, lane.decision?.label]))"
    waiting = {name for name, label in shown(page, decided_of).items() if label is None}
    page.route("**/v1/watch", lambda route: route.abort())
    service.feed.cut()
    expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    service.feed.step(100)
    missed = {key.name: key.decided[0] for key in service.feed.decided if key.decided and key.name in waiting}
    assert missed
    asked: list[str] = []

    def fail(route: Any) -> None:
        asked.append(route.request.url)
        route.abort()

    page.route("**/v1/keys/**", fail)
    page.unroute("**/v1/watch")
    begun = time.monotonic()
    page.evaluate("document.getElementById('retry').click()")
    expect(page.locator("#state")).to_have_text("paused")
    wait_until(lambda: shown(page, "true") and len(set(asked)) == len(waiting))
    page.wait_for_timeout(1500)
    assert len(asked) <= len(waiting) * (1 + (time.monotonic() - begun) // 4)  # again, but not at once
    page.unroute("**/v1/keys/**")
    wait_until(lambda: missed.items() <= shown(page, decided_of).items())
    page.click("#words")
    name, label = next(iter(missed.items()))
    expect(page.locator("#lanes tr", has_text=name)).to_contain_text(LABELS[label])


def test_sequences_that_begin_anew_lose_their_labels_and_the_open_one_stays_open(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(n_items=60))
    page = visit(service)
    play_out(page, service)
    first = service.feed.taken[0].key
    assert first.decided
    open_lane(page, first.name)
    expect(page.locator("#key-verdict")).to_contain_text(f"{LABELS[first.decided[0]]} ")
    expect(page.locator("#key-verdict")).not_to_contain_text("still reading")
    rows = shown(page, "page.store.rows.filter(Boolean).length")
    service.__exit__()
    expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    again = serve(known_feed(n_items=60), port=service.port)
    expect(page.locator("#state")).to_have_text("paused")
    again.feed.step(1)
    expect(page.locator("#key-verdict")).to_contain_text("still reading")
    expect(page.locator("#key-name")).to_have_text(first.name)
    expect(page.locator("#trace tr")).to_have_count(1)
    row = "page.store.rows.find((lane) => lane?.key === '" + first.name + "')"
    assert shown(page, f"[{row}.decision, {row}.count, page.store.itemsOf({row}).length]") == [None, 1, 1]
    assert shown(page, "page.store.rows.filter(Boolean).length") == rows
    play_out(page, again)
    expect(page.locator("#key-verdict")).to_contain_text(f"after {first.decided[2]} items")


def test_a_token_is_asked_for_once_and_stays_in_the_tab(serve: Serve, visit: Visit) -> None:
    service = serve(token="open sesame")
    page = visit(service, is_live=False)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(page.locator("#token-dialog")).to_be_visible()
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("#token-says")).to_have_text("That token was not accepted.")
    page.fill("#token", "open sesame")
    page.keyboard.press("Enter")
    expect(page.locator("#state")).to_have_text("paused")
    expect(page.locator("#token-dialog")).to_be_hidden()
    assert page.evaluate("sessionStorage.getItem('kvec-token')") == "open sesame"
    assert page.evaluate("JSON.stringify(localStorage)") == "{}"
    page.reload()
    expect(page.locator("#state")).to_have_text("paused")
    assert not any("sesame" in url for url in asked)


def test_nothing_is_fetched_from_elsewhere(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("#state[data-state=held]")
    assert len(asked) > 10 and all(url.startswith(service.address) for url in asked)


@pytest.mark.parametrize(("width", "height"), [(360, 740), (820, 1100)])
def test_narrow_screens_lose_nothing_sideways(serve: Serve, visit: Visit, width: int, height: int) -> None:
    service = serve()
    page = visit(service, viewport={"width": width, "height": height}, has_touch=True)
    key = play_out(page, service)[0]
    open_lane(page, key.name)
    expect(page.locator("#trace tr").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#river").bounding_box()["width"] > 0.8 * width  # type: ignore[index]


def test_header_and_tools_keep_to_one_line(serve: Serve, visit: Visit) -> None:
    page = visit(serve(), viewport={"width": 1400, "height": 900})
    page.evaluate("document.querySelector('#hold').hidden = false; document.querySelector('#replay').hidden = false")
    rows = (
        "q => new Set([...document.querySelectorAll(q)].map(e => Math.round(e.getBoundingClientRect().top / 20))).size"
    )
    assert page.evaluate("document.querySelector('.lead').getBoundingClientRect().height") < 30
    assert page.evaluate("document.querySelector('.bar').getBoundingClientRect().height") < 60
    assert page.evaluate(rows, ".tools button") == 1


def test_dark_and_light(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service, color_scheme="dark")
    assert shown(page, "page.palette.theme") == "dark"
    page.emulate_media(color_scheme="light")
    wait_until(lambda: shown(page, "page.palette.theme") == "light")
    page.click("#theme")
    assert shown(page, "page.palette.theme") == "dark"
    page.reload()
    page.wait_for_selector("#state[data-state=held]")
    assert shown(page, "page.palette.theme") == "dark"  # what a person chose stays


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_readable(serve: Serve, visit: Visit, scheme: str) -> None:
    page = visit(serve(), color_scheme=scheme)
    found = page.evaluate(
        """async () => {
            const { page } = await import("/assets/page.js");
            const { contrast, inkOn } = await import("/assets/palette.js");
            const style = getComputedStyle(document.documentElement);
            const get = (name) => style.getPropertyValue("--" + name).trim();
            const pairs = {};
            for (const ink of ["ink", "muted", "accent", "bad", "inside", "outside"]) {
                for (const on of ["panel", "chosen"]) pairs[ink + " on " + on] = contrast(get(ink), get(on));
            }
            pairs["button"] = contrast(get("on-accent"), get("accent"));
            for (const colour of [...page.palette.classes, ...page.palette.pale]) {
                pairs["label on " + colour] = contrast(inkOn(colour), colour);
            }
            return pairs;
        }"""
    )
    assert {name: value for name, value in found.items() if value < 4.5} == {}


def test_decisions_are_told_to_those_who_listen(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(speed=1.0))
    page = visit(service)
    page.click("#replay-play")
    live = page.locator("#live")
    expect(live).to_have_attribute("aria-live", "polite")
    expect(live).to_contain_text(" is ")
    name = live.inner_text().split(" is ")[0]
    assert any(key.name == name for key in service.feed.decided)


def test_what_is_told_can_be_muted_and_stays_so(serve: Serve, visit: Visit) -> None:
    service = serve(known_feed(speed=1.0))
    page = visit(service)
    page.click("#announce")
    expect(page.locator("#announce")).to_have_attribute("aria-pressed", "false")
    page.click("#replay-play")
    wait_until(lambda: shown(page, "page.store.decided") > 2)
    expect(page.locator("#live")).to_have_text("")
    page.reload()
    expect(page.locator("#announce")).to_have_attribute("aria-pressed", "false")
    page.click("#announce")
    expect(page.locator("#live")).to_contain_text(" is ")


def test_what_changes_all_the_time_is_not_told(serve: Serve, visit: Visit) -> None:
    page = visit(serve())
    told = page.evaluate(
        "[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map((one) => one.id)"
    )
    assert sorted(told) == ["dial-error", "live", "state"]


def test_all_controls_have_names(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service)
    open_lane(page, play_out(page, service)[0].name)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, canvas, [role=img]")]
            .filter((one) => one.offsetParent && one.getAttribute("aria-hidden") !== "true")
            .filter((one) => !one.parentElement.closest("[role=img]"))
            .filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.[0]?.textContent.trim()))
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []


def test_reduced_motion_is_respected(serve: Serve, visit: Visit) -> None:
    service = serve()
    page = visit(service, reduced_motion="reduce")
    play_out(page, service)
    scene = page.evaluate("import('/assets/stage.js').then((stage) => stage.makeScene().isCalm)")
    assert scene is True
    assert page.evaluate("getComputedStyle(document.querySelector('.stack i')).transitionDuration") == "0s"
