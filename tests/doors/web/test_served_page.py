"""The page over a real `kvec serve` in a process of its own, which replays a recorded stream."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.doors.made import Trained
from tests.doors.service.processes import PATIENCE, Serving, free_port
from tests.doors.service.serviced import rows_of
from tests.doors.web.test_page import open_lane, shown, wait_until

pytest.importorskip("playwright")
pytest.importorskip("starlette")
from playwright.sync_api import Page, expect

from kvec.decide.folder import digest, rewrite_card

Serve = Callable[..., Serving]
Visit = Callable[..., Page]
STANDING = "0.0001"  # so slow that only the first item comes


@pytest.fixture()
def start(lively: Trained) -> Iterator[Serve]:
    """Start a service that replays the items of the model; what a test starts ends with it."""
    started: list[Serving] = []

    def serve(model: str | Path = lively.model, *more: str, port: int = 0) -> Serving:
        serving = Serving(model, "--replay", lively.items, "--speed", STANDING, *more, port=port)
        started.append(serving)
        return serving

    yield serve
    for serving in started:
        serving.stop()


@pytest.fixture()
def opened(visit: Visit) -> Callable[[Serving], Page]:
    """Open the page of a service, with a river that is long enough for a busy machine."""

    def look(serving: Serving) -> Page:
        page = visit(serving)
        page.select_option("#span", "60000")
        expect(page.locator("#replay")).to_be_visible()
        return page

    return look


def ask(serving: Serving, path: str) -> Any:
    answer = httpx.get(f"{serving.url}/v1/{path}", timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer.json()


def play_out(page: Page, serving: Serving) -> list[dict[str, Any]]:
    """Let all of it come; the decisions as the service tells them."""
    page.select_option("#replay-speed", "50")
    if page.get_attribute("#replay-play", "data-icon") == "play":
        page.click("#replay-play")
    length = ask(serving, "replay")["length"]
    wait_until(lambda: ask(serving, "model")["counts"]["items"] == length)
    n = ask(serving, "model")["counts"]["decisions"]
    wait_until(lambda: shown(page, "page.store.counts.decisions") == n)
    return decisions_of(serving, n)


def decisions_of(serving: Serving, n: int) -> list[dict[str, Any]]:
    found = []
    with httpx.stream("GET", f"{serving.url}/v1/decisions?after=0", timeout=PATIENCE) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
            if len(found) == n:
                return found
    raise AssertionError("the stream of decisions ended")


def lanes_of(page: Page) -> dict[tuple[str, str, int], dict[str, Any]]:
    told = """[...page.store.lanes.values()].map(({ tangle, key, sequence, threshold, count, decision: d }) => ({
        name: [tangle, key, sequence], threshold, count,
        decision: d && [page.store.labels[d.label], d.probability, d.read, d.reason, d.isKnown] }))"""
    return {tuple(one["name"]): one for one in shown(page, told)}


def row_of(page: Page, one: dict[str, Any]) -> Any:
    identity = json.dumps([one["tangle"], one["key"], one["sequence"]], separators=(",", ":"))
    return page.locator("#lanes tr").filter(has=page.locator(f"button[data-identity='{identity}']"))


def percent(share: float) -> str:
    return "99 %" if 0.995 <= share < 0.9995 else f"{round(100 * share)} %"


def test_it_shows_what_the_service_decides_and_each_key_from_near(start: Serve, opened: Callable[..., Page]) -> None:
    serving = start()
    page = opened(serving)
    decided = play_out(page, serving)
    lanes = lanes_of(page)
    assert len(decided) == len(lanes) > 50
    for one in decided:
        lane = lanes[one["tangle"], one["key"], one["sequence"]]
        said = [one["label"], one["probability"], one["n_observed"], one["reason"], one["is_known"]]
        assert lane["decision"] == [*said[:1], pytest.approx(said[1]), *said[2:]]
    page.click("#words")
    for one in decided[:5]:
        expect(row_of(page, one)).to_contain_text(f"{one['label']} {percent(one['probability'])}")
    page.click("#words")
    n_ended = shown(page, "[...page.store.byShare.halted, ...page.store.byShare.other].reduce((a, b) => a + b)")
    assert n_ended == len(decided)  # every sequence is over

    early = next(one for one in decided if one["reason"] == "halted" and one["n_observed"] > 2)
    count = lanes[early["tangle"], early["key"], 0]["count"]
    open_lane(page, early["key"])
    expect(page.locator("#key-verdict")).to_contain_text(f"{early['label']} {percent(early['probability'])} after")
    path = f"keys/{early['tangle']}/{early['key']}"
    trace = ask(serving, path)["trace"]
    expect(page.locator("#trace tr")).to_have_count(len(trace))
    assert len(trace) == count
    expect(page.locator("#trace tr[aria-selected=true] td").first).to_have_text(str(early["n_observed"]))
    expect(page.locator("#key-looks")).to_contain_text(f"Item {early['n_observed']} looked")
    looks = ask(serving, f"{path}/looks")
    entry = next(one for one in looks["looks"] if looks["items"][one["item"]]["n"] == early["n_observed"] - 1)
    found = shown(page, "page.looks")
    assert len(found["found"]) + found["gone"] == len(entry["at"])
    own = sum(one["share"] for one in entry["at"] if one["kind"] == "own")
    assert found["own"] == pytest.approx(own) and found["own"] + found["others"] <= 1.001
    assert found["found"] and found["gone"] == 0  # all of it is in the river
    targets = [looks["items"][one["i"]] for one in entry["at"]]
    assert [one["lane"]["key"] for one in found["found"]] == [one["key"] for one in targets]


def test_replay_and_dial(start: Serve, opened: Callable[..., Page]) -> None:
    serving = start()
    page = opened(serving)
    expect(page.locator("#replay-speed")).to_have_value(str(float(STANDING)))
    page.click("#replay-play")
    expect(page.locator("#state")).to_have_text("paused")
    for n in (2, 3, 4):
        page.click("#replay-step")
        expect(page.locator("#count-items")).to_have_text(str(n))
    assert ask(serving, "replay")["position"] == 4
    page.select_option("#replay-speed", "1")
    wait_until(lambda: ask(serving, "replay")["speed"] == 1)
    page.click("#replay-play")
    wait_until(lambda: ask(serving, "replay")["position"] > 200)
    page.click("#replay-play")
    wait_until(lambda: ask(serving, "replay")["state"] == "paused")
    place = ask(serving, "replay")["position"]
    wait_until(lambda: shown(page, "page.store.counts.items") == place)

    before, begun = ask(serving, "model"), lanes_of(page)
    assert any(lane["decision"] is None for lane in begun.values())
    page.focus("#dial")
    page.keyboard.press("Home")
    expect(page.locator("#dial-ask")).to_be_visible()
    assert ask(serving, "model")["point"] == before["point"]  # nothing without a yes
    page.click("#dial-yes")
    expect(page.locator("#dial-ask")).to_be_hidden()
    after = ask(serving, "model")
    earliest = min(before["curve"], key=lambda point: point["earliness"])
    assert after["point"]["earliness"] <= earliest["earliness"] < before["point"]["earliness"]
    expect(page.locator("#card")).to_contain_text(f"threshold{after['threshold']:.3f}")

    decided = play_out(page, serving)
    lanes = lanes_of(page)
    assert len(lanes) == len(decided) > len(begun)
    for name, lane in lanes.items():
        assert lane["decision"] is not None
        assert lane["threshold"] == (before if name in begun else after)["threshold"]


def test_the_slider_seeks(start: Serve, opened: Callable[..., Page], lively: Trained) -> None:
    serving = start()
    page = opened(serving)
    page.click("#replay-play")
    expect(page.locator("#state")).to_have_text("paused")
    times, place = lively.frame["time"].to_list(), page.locator("#replay-place")
    newest = "page.store.ring.time[(page.store.size - 1) & (page.store.ring.time.length - 1)]"
    seen = shown(page, "page.store.size")
    for go, is_there in (
        (lambda: place.click(), lambda at: abs(at / len(times) - 0.5) < 0.1),  # in its middle
        (lambda: place.press("ArrowRight"), lambda at: abs(at / len(times) - 0.5) < 0.1),
        (lambda: place.press("End"), lambda at: at == len(times) - 1),
        (lambda: place.press("Home"), lambda at: at == 0),  # what comes again comes in a tangle of its own
    ):
        before = ask(serving, "replay")
        expect(place).to_have_value(str(before["position"]))
        go()
        wait_until(lambda before=before: ask(serving, "replay")["position"] != before["position"])
        now = ask(serving, "replay")
        assert is_there(now["position"]) and now["state"] == "paused"
        expect(place).to_have_value(str(now["position"]))
        assert shown(page, "page.store.size") == seen  # a seek brings no item
        page.click("#replay-step")
        wait_until(lambda seen=seen: shown(page, "page.store.size") > seen)
        seen = shown(page, "page.store.size")
        expected = times[now["position"]] + now["round"] * now["duration"]
        assert shown(page, newest) == pytest.approx(expected)
    assert now["round"] == 1 and any("(2)" in tangle for tangle, _, _ in lanes_of(page))


def test_models_side_by_side(start: Serve, opened: Callable[..., Page], trained: Trained, lively: Trained) -> None:
    serving = start(f"fast={lively.model}", f"sure={trained.model}")
    page = opened(serving)
    expect(page.locator("#model option")).to_have_text(["fast", "sure"])
    fast, sure = ask(serving, "model?model=fast"), ask(serving, "model?model=sure")
    assert fast["threshold"] != sure["threshold"]
    expect(page.locator("#card")).to_contain_text(f"threshold{fast['threshold']:.3f}")
    n_decided = len(play_out(page, serving))
    assert n_decided
    names = set(lanes_of(page))

    page.select_option("#model", "sure")
    expect(page.locator("#card")).to_contain_text("namesure")
    expect(page.locator("#card")).to_contain_text(f"threshold{sure['threshold']:.3f}")
    expect(page.locator("#count-items")).to_have_text("0")
    assert lanes_of(page) == {}
    expect(page.locator("#replay")).to_be_hidden()  # it is the other model's
    expect(page.locator("#state")).to_have_text("live")
    rows = [{**row, "tangle": f"sure {row['tangle']}"} for row in rows_of(lively, 40)]
    said = httpx.post(f"{serving.url}/v1/items?model=sure", json=rows, timeout=PATIENCE).json()
    assert said["taken"] == 40
    expect(page.locator("#count-items")).to_have_text("40")
    own = {(row["tangle"], row["key"], 0) for row in rows}
    wait_until(lambda: set(lanes_of(page)) == own)
    open_lane(page, rows[-1]["key"])
    expect(page.locator("#trace tr").first).to_be_attached()
    trace = ask(serving, f"keys/{rows[-1]['tangle']}/{rows[-1]['key']}?model=sure")["trace"]
    expect(page.locator("#trace tr")).to_have_count(len(trace))

    page.select_option("#model", "fast")
    expect(page.locator("#card")).to_contain_text("namefast")
    expect(page.locator("#key")).to_be_hidden()
    expect(page.locator("#replay")).to_be_visible()
    expect(page.locator("#count-decisions")).to_have_text(str(n_decided))
    assert not own & set(lanes_of(page)) and not own & names
    counts = ask(serving, "model?model=fast")["counts"]
    assert (counts["items"], counts["decisions"]) == (ask(serving, "replay")["length"], n_decided)


def test_it_comes_back_after_a_crash_and_a_restart(start: Serve, opened: Callable[..., Page]) -> None:
    port = free_port()
    serving = start(port=port)
    page = opened(serving)
    n = len(play_out(page, serving))
    serving.kill()
    expect(page.locator("#state")).to_have_attribute("data-state", "lost")
    expect(page.locator("#countdown")).to_contain_text("again in")
    again = start(port=port)
    expect(page.locator("#state")).to_have_attribute("data-state", "live")
    assert len(play_out(page, again)) == n
    expect(page.locator("#count-decisions")).to_have_text(str(n))
    assert shown(page, "page.store.rows.filter(Boolean).length") == n  # the same sequences in the same lanes


def test_what_is_not_known_looks_so(start: Serve, opened: Callable[..., Page], lively: Trained) -> None:
    serving = start(lively.model, "--at", "abstain_below=0.99")
    page = opened(serving)
    decided = play_out(page, serving)
    unknown = [one for one in decided if not one["is_known"]]
    known = [one for one in decided if one["is_known"]]
    assert unknown and known
    lanes = lanes_of(page)
    for one in decided:
        assert lanes[one["tangle"], one["key"], one["sequence"]]["decision"][4] == one["is_known"]
    expect(page.locator("#classes li", has_text="unknown").locator("b")).to_have_text(str(len(unknown)))
    one = unknown[0]  # whose lane is on the screen
    words = f"unknown (closest: {one['label']} {percent(one['probability'])})"
    page.locator("#announce").click()  # on a slow machine decisions may be told before the look below
    open_lane(page, one["key"])
    expect(page.locator("#key-verdict")).to_contain_text(words)
    expect(page.locator("#live")).to_contain_text(words)
    expect(page.locator("#key-verdict .swatch")).to_have_class("swatch hollow")
    page.click("#words")
    expect(row_of(page, one)).to_contain_text(words)
    expect(row_of(page, known[-1])).not_to_contain_text("unknown")


def test_a_model_that_changes_under_an_open_page(
    start: Serve, opened: Callable[..., Page], lively: Trained, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(lively.model, model)
    serving = start(model)
    page = opened(serving)
    page.select_option("#replay-speed", "1")
    wait_until(lambda: shown(page, "page.store.size") > 200)
    page.click("#replay-play")
    begun = set(lanes_of(page))
    vocabulary = model / "vocabulary.json"
    labels = ask(serving, "model")["labels"]
    new = [f"{label} of late" for label in labels]
    text = vocabulary.read_text()
    for label in labels:
        text = text.replace(f'"{label}"', f'"{label} of late"')
    vocabulary.write_text(text)
    hashes = json.loads((model / "kvec.json").read_text())["blake2b"]
    rewrite_card(model, blake2b=hashes | {"vocabulary.json": digest(text.encode())})
    said = httpx.post(f"{serving.url}/v1/models/default/reload", timeout=PATIENCE).json()
    assert said["is_changed"]
    expect(page.locator("#card")).to_contain_text(new[0])
    assert shown(page, "page.store.labels") == [*labels, *new]
    decided = play_out(page, serving)
    assert {one["label"] for one in decided if (one["tangle"], one["key"], 0) in begun} <= set(labels)
    assert {one["label"] for one in decided} & set(new)
    lanes = lanes_of(page)
    for one in decided:
        assert lanes[one["tangle"], one["key"], one["sequence"]]["decision"][0] == one["label"]
    page.click("#words")
    late = next(one for one in reversed(decided) if one["label"] in new)
    expect(row_of(page, late)).to_contain_text(f"{late['label']} {percent(late['probability'])}")
