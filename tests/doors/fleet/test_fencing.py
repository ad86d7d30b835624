"""Owners that were lost, and come back: they can neither send nor keep anything any more."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.doors.fleet.crewed import Server, needs_server, rows_of, send
from tests.doors.made import Trained
from tests.doors.streamed import assert_same, decided, streamed

from kvec.decide.deployed import load_deployed
from kvec.decide.stream import Stream
from kvec.doors.fleet import states as keeping
from kvec.doors.fleet.ground import Subjects, buckets_of, sink_of, source_of
from kvec.doors.fleet.intake import CLOSE
from kvec.doors.fleet.leases import LeaseLost, Leases
from kvec.doors.fleet.link import Link
from kvec.doors.fleet.places import Place
from kvec.doors.fleet.sink import MOST_ID, marked_id
from kvec.doors.fleet.states import States
from kvec.doors.fleet.work import Manner, Tally, Work, take
from kvec.read.arriving import RowReader
from kvec.words.errors import ModelError
from kvec.words.items import Decision
from kvec.words.limits import Limits

pytest.importorskip("nats")
pytestmark = needs_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.kill()


class Bench:
    """Workers that take partitions at the test's word."""

    def __init__(
        self, link: Link, place: Place, model: str, sink: str = "", limits: Limits | None = None
    ) -> None:  # fmt: skip
        self.link, self.place, self.tally = link, place, Tally()
        self.manner = Manner(load_deployed(Path(model)), limits or Limits(), None, None, 3600.0, 1 << 20, False)
        self.subjects = Subjects(place.stream, sink or f"{place.stream}-decisions")

    async def open(self) -> None:
        await source_of(self.link, self.place)
        await sink_of(self.link, self.place, self.subjects.sink)
        bucket, objects = await buckets_of(self.link, self.place)
        self.bucket, self.states = bucket, States(self.link, objects, self.place.group)

    async def worker(self, name: str) -> Leases:
        leases = Leases(self.link, self.bucket, name, 3600.0)
        await leases.open()
        return leases

    async def take(self, leases: Leases) -> Work:
        return await take(
            0, self.link, leases, self.states, self.place.group, self.manner, self.tally, self.subjects, lambda: None
        )  # fmt: skip

    async def surely(self, leases: Leases) -> Work:
        """Take it, as soon as this worker has heard of the last owner."""
        for _ in range(1000):
            with suppress(LeaseLost):
                return await self.take(leases)
            await asyncio.sleep(0.02)
        raise AssertionError("it cannot be taken")

    async def surely_sent(self, work: Work, n: int) -> None:
        """Let time pass until so many decisions were sent."""
        while self.tally.decisions < n:
            await work.tick()
            await asyncio.sleep(0.02)
        await work._sink.settle()

    async def until(self, work: Work, position: int) -> None:
        while work.position < position:
            await work.step()
            await self.link.flush()


def on_bench(
    server: Server, model: str, name: str, play: Callable[[Bench], Coroutine[Any, Any, None]],
    limits: Limits | None = None,
) -> None:  # fmt: skip
    place = server.place(f"?create=yes&partitions=1&group={name}", name)

    async def played(link: Link) -> None:
        bench = Bench(link, place, model, limits=limits)
        await bench.open()
        await play(bench)

    server.ask(played)


def test_a_stalled_owner_can_do_nothing(
    server: Server, lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvec.doors.fleet.work.MOST_ROWS", 50)
    items = rows_of(lively.frame.head(600), tmp_path / "items.ndjson")
    streamed(lively.model, items, "-o", tmp_path / "wanted.ndjson")

    async def nothing(bench: Bench) -> None:
        return

    on_bench(server, lively.model, "stalled", nothing)  # makes the streams
    send(lively.model, items, server.url("stalled"), "--close")

    async def play(bench: Bench) -> None:
        leases = {name: await bench.worker(name) for name in "abc"}
        first = await bench.take(leases["a"])
        await bench.until(first, 200)
        await first.save()
        await bench.until(first, 350)  # decisions that no state knows of
        await first._sink.settle()
        second = await bench.surely(leases["b"])
        assert second.position == first.lease.position >= 200
        assert len(second._sink.known) > 0
        with pytest.raises(LeaseLost):
            for _ in range(1000):
                await first.step()
                await bench.link.flush()
            await first.save()
        with pytest.raises(LeaseLost):
            await first.save()
        with pytest.raises(LeaseLost):  # even if it did not know of the other
            monkeypatch.setattr(leases["a"], "is_mine", lambda *_: True)
            await first._sink.send([("x/y/0", b"{}")])
            await first._sink.settle()
        await bench.until(second, 500)
        await second.save()
        while leases["a"]._leases[0] != second.lease:
            await asyncio.sleep(0.02)
        claimed = await leases["a"].claim(0)  # stalls before it says so at the sink
        third = await bench.surely(leases["c"])
        late = Work(0, claimed, bench.manner, bench.tally, bench.subjects)
        with pytest.raises(LeaseLost):
            await late.open(bench.link, leases["a"], bench.states, "stalled", lambda: None)
        await bench.until(third, 601)
        await third.release()
        assert bench.tally.again > 0
        for one in leases.values():
            await one.close(is_left=True)

    on_bench(server, lively.model, "stalled", play)
    assert_same(server.decided("stalled-decisions"), decided(tmp_path / "wanted.ndjson"))


numbers = count()
actions = st.lists(
    st.tuples(st.sampled_from(["take", "run", "run", "save", "crash"]), st.sampled_from("abc")), max_size=14
)


@pytest.fixture(scope="module")
def few(server: Server, lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some items in a stream of one partition; beside them, as a file, what is decided about them."""
    folder = tmp_path_factory.mktemp("few")
    items = rows_of(lively.frame.head(160), folder / "items.ndjson")
    streamed(lively.model, items, "-o", folder / "wanted.ndjson")
    send(lively.model, items, server.url("few", "?create=yes&partitions=1"), "--close")
    return folder / "wanted.ndjson"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=actions)
def test_whoever_takes_over_from_whom_each_decision_is_there_once(
    server: Server, lively: Trained, few: Path, monkeypatch: pytest.MonkeyPatch, actions: list[tuple[str, str]]
) -> None:
    """Three workers that never hear of each other, and each goes on as if the partition were still its own."""
    monkeypatch.setattr("kvec.doors.fleet.work.MOST_ROWS", 20)
    name = f"law-{next(numbers)}"

    async def play(link: Link) -> None:
        bench = Bench(link, server.place(f"?create=yes&group={name}", "few"), lively.model, name)
        await bench.open()
        leases = {one: await bench.worker(one) for one in "abcd"}
        monkeypatch.setattr(Leases, "is_mine", lambda *_: True)
        works: dict[str, Work] = {}
        for action, one in actions:
            try:
                if action == "take":
                    works[one] = await bench.take(leases[one])
                elif action == "crash":
                    works.pop(one, None)
                elif one in works and action == "run":
                    await bench.until(works[one], min(works[one].position + 20, 161))
                elif one in works:
                    await works[one].save()
            except LeaseLost:
                works.pop(one, None)
            await link.flush()
        last = await bench.surely(leases["d"])
        await bench.until(last, 161)
        for work in works.values():  # they were only asleep
            with suppress(LeaseLost):
                await bench.until(work, 161)
                await work.save()
        await last.release()
        for lease in leases.values():
            await lease.close(is_left=True)

    server.ask(play)
    assert_same(server.decided(name), decided(few))


def test_consumers_of_earlier_owners_go_however_many_there_are(server: Server, lively: Trained) -> None:
    async def play(bench: Bench) -> None:
        js, api = bench.link.js, bench.link.api
        for number in range(260):  # the server names 256 at a time
            config = api.ConsumerConfig(durable_name=f"another-{number}", ack_policy=api.AckPolicy.NONE)
            await js.add_consumer("many", config)
        leases = await bench.worker("a")
        for _ in range(2):
            await (await bench.surely(leases)).release()
        pages = [await js.consumers_info("many", offset=offset) for offset in (0, 256)]
        assert [one.name for page in pages for one in page if one.name.startswith("many-0-")] == ["many-0-2"]
        await leases.close(is_left=True)

    on_bench(server, lively.model, "many", play)


def test_items_that_are_read_again_have_been_idle_as_before(server: Server, lively: Trained) -> None:
    """Visits of the same keys, further apart than --idle, are three sequences, also where all are read at once."""
    limits = Limits(idle=1.0)
    rows = [
        {"tangle": "t", "key": f"k{i}", "time": float(visit), "size": 100 * i, "direction": 1}
        for visit in range(3) for i in range(3)
    ]  # fmt: skip
    model = load_deployed(Path(lively.model))
    reader, alone = RowReader(model.schema), Stream(model, limits)
    wanted: list[Decision] = []
    for number, row in enumerate(rows):
        item = reader.item(row)
        assert item is not None
        wanted += alone.feed(item, 10.0 * (number // 3))
    wanted += alone.close(30.0)

    async def play(bench: Bench) -> None:
        async def visit(number: int) -> None:
            for row in rows[3 * number : 3 * number + 3]:
                await bench.link.publish("visits.0", json.dumps(row).encode(), {})

        leases = {name: await bench.worker(name) for name in "ab"}
        first = await bench.take(leases["a"])
        for number in range(2):
            await visit(number)
            await bench.until(first, 3 * number + 3)
            await first.tick()
            await asyncio.sleep(1.4)
        await bench.surely_sent(first, 6)
        second = await bench.surely(leases["b"])  # without a state
        assert len(second._sink.known) == 6 and second.position == 0
        await second.tick()
        await bench.until(second, 6)
        await second.tick()
        await visit(2)
        await bench.link.publish("visits.0", b"", {CLOSE: "yes"})
        await bench.until(second, 10)
        await second.release()
        for one in leases.values():
            await one.close(is_left=True)

    on_bench(server, lively.model, "visits", play, limits)
    names = [row["id"] for row in server.decided("visits-decisions").values()]
    assert (
        sorted(names) == sorted(one.id for one in wanted) == sorted(f"t/k{i}/{n}" for i in range(3) for n in range(3))
    )


def test_states_of_any_size_and_what_is_cleared_away(
    server: Server, lively: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = os.urandom(9 << 20)

    async def play(bench: Bench) -> None:
        states, stream = bench.states, "OBJ_large"
        await states.save("0.1.0", large)
        await states.save("0.1.1", b"newer")
        await states.save("1.1.0", b"of another partition")
        assert await states.load("0.1.0") == large
        await bench.link.publish("$O.large.C.unfinished", b"half a state", {})
        await states.tidy(0, "0.1.0")
        assert await states.load("0.1.0") == large and await states.load("1.1.0") == b"of another partition"
        with pytest.raises(ModelError, match=r"state 0\.1\.1 of group large is damaged or gone"):
            await states.load("0.1.1")
        await states.forget("0.1.1")  # twice is no harm
        info = await bench.link.js.stream_info(stream, subjects_filter="$O.large.>")
        assert "$O.large.C.unfinished" in info.state.subjects  # it may be under way
        monkeypatch.setattr(keeping, "ORPHAN", -1.0)
        await states.tidy(0, "0.1.0")
        await states.forget("0.1.0")
        await states.forget("1.1.0")
        await states.tidy(0, "")
        assert (await bench.link.js.stream_info(stream)).state.messages == 0

    on_bench(server, lively.model, "large", play)


def test_a_clock_that_is_ahead_clears_away_nothing_that_is_under_way(
    server: Server, lively: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = time.time() + 86_400

    async def play(bench: Bench) -> None:
        await bench.link.publish("$O.ahead.C.underway", b"half a state", {})
        monkeypatch.setattr(time, "time", lambda: ahead)
        await bench.states.tidy(0, "")
        info = await bench.link.js.stream_info("OBJ_ahead", subjects_filter="$O.ahead.>")
        assert "$O.ahead.C.underway" in (info.state.subjects or {})
        monkeypatch.setattr(keeping, "ORPHAN", 0.0)
        await bench.states.tidy(0, "")
        assert (await bench.link.js.stream_info("OBJ_ahead")).state.messages == 0

    on_bench(server, lively.model, "ahead", play)


def test_ids_as_headers() -> None:
    assert marked_id("0/a b/1") == "0/a b/1"
    assert marked_id("a\r\nNats-Rollup: all/0") == "a%0D%0ANats-Rollup: all/0"
    assert marked_id(" a/0 ") == "%20a%2F0%20"
    assert marked_id("100%/0") != marked_id("100%25/0")
    long = [marked_id("k" * 2000 + end) for end in "ab"]
    assert len({*long}) == 2 and all(len(one) <= MOST_ID for one in long)
