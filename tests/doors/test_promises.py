"""A stream watches its model's promise, from its first item to its last, and over a stop."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import Trained

from kvec.decide.deployed import load_deployed
from kvec.decide.drift import LATE, SURE, from_text
from kvec.decide.models import is_newly_promised
from kvec.decide.stream import Stream, resume
from kvec.doors.cli import run
from kvec.doors.guaranteeing import _reference
from kvec.doors.promises import Watcher, promise_lines
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic
from kvec.words.items import Decision, Item, Reason
from kvec.words.limits import Limits


@pytest.fixture(scope="module")
def promised(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("promised")
    demo_traffic(60, seed=77, keys=4).write_parquet(folder / "unseen.parquet")
    model = Path(shutil.copytree(lively.model, folder / "model"))
    wish = ("--max-early-error", "0.1", "--max-keys", "4")
    assert run(["guarantee", str(model), str(folder / "unseen.parquet"), *wish]) == 0
    return model


def new_items(folder: Path, change: pl.Expr | None = None) -> Path:
    items = demo_traffic(40, seed=78, keys=4).sort("time", maintain_order=True)
    path = folder / "items.ndjson"
    (items if change is None else items.with_columns(change)).write_ndjson(path)
    return path


def test_a_stream_is_watched(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items, out = str(new_items(tmp_path)), str(tmp_path / "decisions.ndjson")
    assert run(["stream", str(promised), items, "-o", out]) == 0
    err = capsys.readouterr().err
    assert "kvec: promised: at most 10%" in err
    assert "nothing speaks against the promise so far: 160 decisions in 40 whole units" in err
    assert run(["stream", str(promised), items, "-o", out, "--threshold", "0.9"]) == 0
    err = capsys.readouterr().err
    assert "is void" in err and "speaks against" not in err, "another threshold"


def test_a_changed_stream_is_told(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = new_items(tmp_path, pl.lit(99_999).alias("size"))
    assert run(["stream", str(promised), str(items), "-o", str(tmp_path / "decisions.ndjson")]) == 0
    err = capsys.readouterr().err
    assert "warning: the promise does not hold any more: " in err


def test_what_was_watched_survives_a_stop(promised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = new_items(tmp_path)
    lines = items.read_text().splitlines(keepends=True)
    first = tmp_path / "first"
    first.mkdir()
    half = first / "items.ndjson"
    half.write_text("".join(lines[: len(lines) // 2]))
    given = ["-o", str(tmp_path / "decisions.ndjson"), "--state", str(tmp_path / "state")]
    assert run(["stream", str(promised), str(half), *given]) == 0
    capsys.readouterr()
    half.write_text("".join(lines))
    assert run(["stream", str(promised), str(half), *given]) == 0
    told = capsys.readouterr().err
    n_decisions = len((tmp_path / "decisions.ndjson").read_text().splitlines())
    assert f"{n_decisions:,} decisions in " in told, "those of both runs"


def test_tangles_that_are_let_go_are_over(promised: Path) -> None:
    stream = Stream(load_deployed(promised), Limits(expiry=10.0))
    watcher = Watcher.of(stream)
    assert watcher is not None

    def feed(tangle: str, time: float) -> None:
        items = [Item(tangle, "k", {"size": 40, "direction": 0}, time)]
        decisions = stream.feed_many(items)
        watcher.arrived(items)
        watcher.observe(decisions)

    feed("a", 0.0)
    watcher.look(stream)
    assert stream.watches("a") and not stream.watches("b")
    watcher.observe(stream.tick(now=100.0))
    watcher.look(stream)
    assert not stream.watches("a")
    assert watcher.line().endswith("1 decision in 1 whole unit")
    feed("b", 101.0)
    again = Watcher.of(stream, watcher.to_plain())
    assert again is not None and again.to_plain() == watcher.to_plain()


HOURS = 3600.0


@pytest.fixture(scope="module")
def resting(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has an expiry and a promise, and items.parquet that gave it: tangles with quiet hours."""
    folder = tmp_path_factory.mktemp("resting")
    model = Path(shutil.copytree(lively.model, folder / "model"))
    card = json.loads((model / "kvec.json").read_text())
    card["schema"]["expiry"] = 60.0
    (model / "kvec.json").write_text(json.dumps(card))
    given = demo_traffic(120, seed=79, keys=3)
    starts = pl.col("time").min().over("tangle")
    number, part = pl.col("tangle") // 3, pl.col("tangle") % 3
    items = given.with_columns(
        time=pl.col("time") - starts + part * HOURS + number * 7.0,
        key=pl.when(part == 1).then(pl.format("late {}", "key")).otherwise(pl.format("{}", "key")),
        tangle=number,
    )
    items.sort("time", maintain_order=True).write_parquet(folder / "items.parquet")
    assert run(["guarantee", str(model), str(folder / "items.parquet"), "--max-error", "0.9", "--max-keys", "9"]) == 0
    return folder


@pytest.mark.parametrize(("at_once", "ticks", "stops"), [
    (1, False, False), (50, False, True), (100_000, False, False), (1, True, True), (50, True, False),
])  # fmt: skip
def test_units_are_those_of_the_calibration(resting: Path, at_once: int, ticks: bool, stops: bool) -> None:
    """A stream of what was calibrated on counts every unit once more, whether or not it is told of quiet hours."""
    model = load_deployed(resting / "model")
    assert model.promised is not None and model.promised.reference is not None and model.promised.n_units == 40
    stream = Stream(model)
    watcher = Watcher.of(stream)
    assert watcher is not None
    items = list(load(resting / "model").items(resting / "items.parquet"))
    items.sort(key=lambda item: item.time or 0.0)
    for start in range(0, len(items), at_once):
        some = items[start : start + at_once]
        if ticks:
            watcher.observe(stream.tick(some[0].time))
            watcher.look(stream)
        decisions = stream.feed_many(some)
        watcher.arrived(some)
        watcher.observe(decisions)
        if start == 10 * at_once and stops:
            stream.save(resting / "state", {"watched": watcher.to_plain()})
            stream = resume(resting / "state")
            watcher = Watcher.of(stream, stream.note["watched"])
            assert watcher is not None
        if start % 100 == 0:
            watcher.look(stream)
    watcher.observe(stream.close())
    watcher.close()
    assert watcher.status().n_units == 120, "three bursts of each of 40 tangles"
    tests = watcher.to_plain()["monitor"]["tests"]
    for name, text in model.promised.reference.items():
        assert from_text(text).sum() == 120
        assert from_text(tests[name]["counts"]).tolist() == (2 * from_text(text)).tolist(), name


def test_a_tangle_that_begins_anew_is_over_when_a_look_is_taken(resting: Path) -> None:
    """Units before it wait for none that are over: though it came again before anybody looked."""
    stream = Stream(load_deployed(resting / "model"))
    watcher = Watcher.of(stream)
    assert watcher is not None
    some = [
        Item("a", key, {"size": 40, "direction": 0}, time) for key, time in (("k", 0.0), ("k", HOURS), ("l", HOURS))
    ]
    decisions = stream.feed_many(some)
    assert {one.began for one in decisions} <= {0.0, HOURS} and decisions[0].began == 0.0
    watcher.arrived(some)
    watcher.observe(decisions)
    watcher.look(stream)
    assert watcher.status().n_units == 1
    assert stream.watches("a") and stream.watches("a", HOURS) and not stream.watches("a", 0.0)
    watcher.observe(stream.tick(now=3 * HOURS))
    watcher.look(stream)
    assert watcher.line().endswith("3 decisions in 2 whole units")
    assert watcher.to_plain()["tangles"] == watcher.to_plain()["clocks"] == []


def test_decisions_say_when_their_tangle_began_and_when_they_fell(resting: Path, tmp_path: Path) -> None:
    """So that parts and blocks can be told apart, also by a newer model and after a stop."""
    model = load_deployed(resting / "model")
    never = model.turned(replace(model.operating_point, threshold=1.0))
    stream = Stream(never)
    for time in (5.0, 8.0, 7.0):
        assert stream.feed(Item("a", "k", {"size": 40, "direction": 0}, time)) == []
    stream.take_over(never)
    stream.feed(Item("a", "l", {"size": 40, "direction": 0}, 9.0))
    stream.save(tmp_path / "state")
    stream = resume(tmp_path / "state")
    assert [(one.key, one.began, one.fell) for one in stream.tick(now=HOURS)] == [
        ("k", 5.0, 8.0), ("l", 5.0, 9.0),
    ]  # fmt: skip


def test_what_an_older_kvec_kept_of_a_watch_is_read(promised: Path) -> None:
    stream = Stream(load_deployed(promised))
    watcher = Watcher.of(stream)
    assert watcher is not None
    watcher.arrived([Item("a", "k", {}, 0.0)])
    kept = watcher.to_plain()
    again = Watcher.of(stream, {"tangles": ["a"], "monitor": kept["monitor"]})
    assert again is not None and again.to_plain() == kept


def test_what_the_end_of_a_tangle_shows_is_told_once(promised: Path) -> None:
    model = load_deployed(promised)
    assert model.promised is not None
    odd = replace(model.promised, reference={SURE: "0:500", LATE: "0:500"})  # none was ever so sure, or took so long
    for is_told_by in ("look", "close"):
        stream, watcher = Stream(model), Watcher(odd)
        told = []
        for number in range(60):
            decision = Decision(number, 0, 0, ("web",), (0.999,), 50, None, Reason.HALTED)
            watcher.arrived([Item(number, 0, {})])
            told.append(watcher.observe([decision]))
            if is_told_by == "look":
                told.append(watcher.look(stream))
        told.append(watcher.close())
        (warning,) = [line for line in told if line]
        assert warning.startswith("warning: the promise does not hold any more: ")
        assert (told[-1] == warning) == (is_told_by == "close")


BLOCK = 20.0


@pytest.fixture(scope="module")
def endless(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that promises about blocks of time, and items.parquet that gave it: one tangle without an end."""
    folder = tmp_path_factory.mktemp("endless")
    given = demo_traffic(60, seed=81, keys=3)
    since = pl.col("time") - pl.col("time").min().over("tangle")
    items = given.with_columns(
        key=pl.format("{}-{}", "tangle", "key"), time=since + 7.0 * pl.col("tangle"), tangle=pl.lit(0)
    )
    items.sort("time", maintain_order=True).write_parquet(folder / "items.parquet")
    model = str(shutil.copytree(lively.model, folder / "model"))
    wish = ("--max-error", "0.9", "--max-keys", "40", "--block", str(BLOCK))
    assert run(["guarantee", model, str(folder / "items.parquet"), *wish]) == 0
    return folder


@pytest.mark.parametrize("threshold", [None, 0.9])
@pytest.mark.parametrize(("at_once", "expiry"), [(1, None), (50, None), (100_000, None), (1, 30.0), (50, 30.0)])
def test_blocks_are_those_of_the_calibration(
    endless: Path, tmp_path: Path, at_once: int, expiry: float | None, threshold: float | None
) -> None:
    """Whatever comes at once: a decision counts in the block of its last item, also where it is told much later."""
    where = endless / "model"
    if threshold is not None:  # many sequences are read to their end
        where = tmp_path / "late"
        load(endless / "model").at(threshold=threshold).save(where)
    model = load_deployed(where)
    trained = load(where)
    tangles = trained.tangles(endless / "items.parquet")
    reference = _reference(trained, tangles, trained.scores(tangles), model.operating_point, BLOCK)
    assert model.promise is not None
    if threshold is None:
        assert reference == model.promise.reference
    watched = replace(model.promise, reference=reference)
    stream, watcher = Stream(model, Limits(expiry=expiry)), Watcher(watched)
    items = list(trained.items(endless / "items.parquet"))
    seen = []
    for start in range(0, len(items), at_once):
        some = items[start : start + at_once]
        decisions = stream.feed_many(some)
        watcher.arrived(some)
        watcher.observe(decisions)
        watcher.look(stream)
        seen.append(watcher.status().n_units)
    watcher.observe(stream.close())
    watcher.close()
    n_units = int(from_text(reference[SURE]).sum())
    assert watcher.status().n_units == n_units > 15
    tests = watcher.to_plain()["monitor"]["tests"]
    for name, text in reference.items():
        assert from_text(tests[name]["counts"]).tolist() == (2 * from_text(text)).tolist(), name
    if expiry is not None and at_once == 1:
        assert seen[-1] > n_units - 5 and seen[len(seen) // 2] > n_units // 3, "blocks count while the stream runs"


def test_a_stream_by_the_command_line_counts_the_blocks_of_the_calibration(
    endless: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promise = load_deployed(endless / "model").promised
    assert promise is not None and promise.reference is not None
    n_units = int(from_text(promise.reference[SURE]).sum())
    items, out = tmp_path / "items.ndjson", str(tmp_path / "decisions.ndjson")
    pl.read_parquet(endless / "items.parquet").write_ndjson(items)
    assert run(["stream", str(endless / "model"), str(items), "-o", out]) == 0
    assert f"so far: 180 decisions in {n_units} whole units" in capsys.readouterr().err


def test_a_block_is_over_when_nothing_can_fall_in_it_any_more(endless: Path) -> None:
    model = load_deployed(endless / "model")
    never = model.turned(replace(model.operating_point, threshold=1.0))
    assert model.promise is not None
    stream, watcher = Stream(never, Limits(expiry=50.0)), Watcher(model.promise)

    def feed(key: str, time: float, tangle: str = "a") -> int:
        some = [Item(tangle, key, {"size": 40, "direction": 0}, time)]
        decisions = stream.feed_many(some)
        watcher.arrived(some)
        watcher.observe(decisions)
        watcher.look(stream)
        return watcher.status().n_units

    assert stream.open_since("a") is None
    feed("k", 5.0)
    assert [feed("l", 25.0), feed("l", 55.0)] == [0, 0] and stream.open_since("a") == 5.0, (
        "k may end in the first block"
    )
    assert feed("l", 56.0) == 1 and stream.open_since("a") == 56.0
    watcher.observe(stream.tick(now=200.0))
    watcher.look(stream)
    assert stream.open_since("a") is None and watcher.status().n_units == 1, "it may come again in its last block"
    assert feed("m", 205.0) == 2
    kept = watcher.to_plain()
    again = Watcher(model.promise, kept)
    assert again.to_plain() == kept
    assert feed("n", 5.0, "of another time") == 2
    watcher.observe(stream.tick(now=300.0))
    watcher.look(stream)
    assert watcher.status().n_units == 3, "another tangle's time is over"


def test_blocks_that_an_older_kvec_left_open_are_over(endless: Path) -> None:
    promise = load_deployed(endless / "model").promise
    assert promise is not None
    watcher = Watcher(promise)
    decision = Decision("a", "k", 0, ("web",), (0.9,), 3, None, Reason.HALTED, fell=5.0)
    watcher.observe([decision])
    kept = watcher.to_plain()
    older = {"tangles": [["a", None]], "monitor": kept["monitor"] | {"block": 0}}
    assert Watcher(promise, older).status().n_units == 1


def test_blocks_without_times_are_not_watched(endless: Path) -> None:
    model = load_deployed(endless / "model")
    stream = Stream(model)
    assert Watcher.of(stream) is not None
    stream.model.__dict__["has_time"] = False
    assert Watcher.of(stream) is None


def test_what_is_said(promised: Path) -> None:
    model = load_deployed(promised)
    (line,) = promise_lines(model)
    assert line.startswith("promised: ")
    assert promise_lines(model, model.threshold) == [line]
    assert promise_lines(replace(model, promise=None)) == []
    (void,) = promise_lines(model, model.threshold / 2)
    assert "is void: it was made for θ = " in void
    assert Watcher.of(Stream(replace(model, promise=None))) is None


# -- a watch that begins under way ----------------------------------------------------------------------------------


def staggered() -> list[Item]:
    """Sixty tangles of four keys, of which some twenty are under way at any time."""
    given = demo_traffic(60, seed=83, keys=4)
    since = pl.col("time") - pl.col("time").min().over("tangle")
    items = given.with_columns(time=since + 2.0 * pl.col("tangle")).sort("time", maintain_order=True)
    return [
        Item(row["tangle"], row["key"], {"size": row["size"], "direction": row["direction"]}, row["time"])
        for row in items.iter_rows(named=True)
    ]


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("has_promise_before", [True, False])
def test_what_others_have_begun_to_decide_is_no_unit_of_a_new_watch(
    promised: Path, tmp_path: Path, stops: bool, has_promise_before: bool
) -> None:
    """Of a tangle that is half decided only the late ones would be seen, and look like a drift."""
    model = load_deployed(promised)
    items = staggered()
    half = len(items) // 2
    stream = Stream(model if has_promise_before else replace(model, promise=None))
    assert (Watcher.of(stream) is None) != has_promise_before
    before = stream.feed_many(items[:half])
    under_way = {item.tangle for item in items[:half]}
    assert before and 10 < len(under_way) < 50
    told = stream.take_over(model)
    watcher = Watcher.of(stream)
    assert watcher is not None
    watcher.observe(told)
    for i, item in enumerate(items[half:]):
        decisions = stream.feed(item)
        watcher.arrived([item])
        watcher.observe(decisions)
        assert watcher.look(stream) == ""
        if i == 100 and stops:
            stream.save(tmp_path / "state", {"watched": watcher.to_plain()})
            stream = resume(tmp_path / "state")
            watcher = Watcher.of(stream, stream.note["watched"])
            assert watcher is not None
    watcher.observe(stream.close())
    assert watcher.close() == ""
    later = {item.tangle for item in items} - under_way
    assert (watcher.status().n_units, watcher.status().n_decisions) == (len(later), 4 * len(later))


@pytest.mark.parametrize("reorder", [0.0, 3.0])
def test_a_tangle_that_begins_anew_is_a_unit_of_a_watch_that_began_before(resting: Path, reorder: float) -> None:
    """Each tangle comes three times, with hours between: what comes after the take-over counts, but for the rest."""
    model = load_deployed(resting / "model")
    stream = Stream(model, Limits(reorder=reorder))
    items = sorted(load(resting / "model").items(resting / "items.parquet"), key=lambda item: item.time or 0.0)
    cut = next(i for i, item in enumerate(items) if (item.time or 0.0) > HOURS + 60.0)
    stream.feed_many(items[:cut])
    stream.take_over(model)
    watcher = Watcher.of(stream)
    assert watcher is not None
    for item in items[cut:]:
        decisions = stream.feed(item)
        watcher.arrived([item])
        watcher.observe(decisions)
        watcher.look(stream)
    watcher.observe(stream.close())
    watcher.close()
    begun = {item.tangle for item in items[:cut] if (item.time or 0.0) >= HOURS}
    assert 0 < len(begun) < 40
    assert watcher.status().n_units == 40 - len(begun) + 40, "the second bursts that begin later, and all third ones"


@pytest.mark.parametrize("at_once", [1, 20])
def test_blocks_in_which_an_older_model_still_decides_are_no_units(endless: Path, at_once: int) -> None:
    model = load_deployed(endless / "model")
    items = list(load(endless / "model").items(endless / "items.parquet"))
    half = len(items) // 2
    late = model.turned(replace(model.operating_point, threshold=1.0))
    stream = Stream(late, Limits(expiry=30.0))
    stream.feed_many(items[:half])
    stream.take_over(model)
    watcher = Watcher.of(stream)
    assert watcher is not None and stream.older
    until = max(item.time or 0.0 for item in items[:half]) // BLOCK
    decisions = []
    for start in range(half, len(items), at_once):
        some = items[start : start + at_once]
        if stream.older:
            until = max(item.time or 0.0 for item in some) // BLOCK
        new = stream.feed_many(some)
        decisions += new
        watcher.arrived(some)
        watcher.observe(new, stream)
        if start == half:
            kept = watcher.to_plain()
            watcher = Watcher.of(stream, kept)
            assert watcher is not None and watcher.to_plain() == kept
    last = stream.close()
    watcher.observe(last)
    watcher.close()
    assert not stream.older
    fallen = [one.fell // BLOCK for one in decisions + last if one.fell is not None and one.fell // BLOCK > until]
    assert (watcher.status().n_units, watcher.status().n_decisions) == (len(set(fallen)), len(fallen))
    assert len(set(fallen)) > 5


def test_a_promise_that_is_made_later_counts_for_a_stream_that_is_gone_on_with(
    lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copytree(lively.model, tmp_path / "model"))
    unseen = tmp_path / "unseen.parquet"
    demo_traffic(60, seed=77, keys=4).write_parquet(unseen)
    items = tmp_path / "items.ndjson"
    lines = [json.dumps({**one.value, "tangle": one.tangle, "key": one.key, "time": one.time}) for one in staggered()]
    items.write_text("\n".join(lines[: len(lines) // 4]) + "\n")
    given = ["-o", str(tmp_path / "decisions.ndjson"), "--state", str(tmp_path / "state")]
    assert run(["stream", str(model), str(items), *given]) == 0
    assert run(["guarantee", str(model), str(unseen), "--max-error", "0.9", "--max-keys", "4"]) == 0
    at = load_deployed(model).operating_point.to_dict()
    before = load_deployed(lively.model).operating_point.to_dict()
    items.write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    same = at == before
    assert run(["stream", str(model), str(items), *given, *([] if same else ["--take-over"])]) == 0
    err = capsys.readouterr().err
    assert "kvec: promised: at most 90%" in err and "nothing speaks against the promise so far" in err
    assert run(["stream", str(model), str(items), *given]) == 0, "it is taken up once"
    assert "counts for" not in capsys.readouterr().err


def test_a_promise_about_another_point_ends_no_watch(
    lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A state stands where one promise holds; the folder has another one by now, about another point."""
    model = Path(shutil.copytree(lively.model, tmp_path / "model"))
    for seed in (77, 79):
        demo_traffic(60, seed=seed, keys=4).write_parquet(tmp_path / f"{seed}.parquet")
    assert run(["guarantee", str(model), str(tmp_path / "77.parquet"), "--max-error", "0.9", "--max-keys", "4"]) == 0
    at = f"threshold={load_deployed(model).threshold!r}"
    items = tmp_path / "items.ndjson"
    lines = [json.dumps({**one.value, "tangle": one.tangle, "key": one.key, "time": one.time}) for one in staggered()]
    items.write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    given = ["-o", str(tmp_path / "decisions.ndjson"), "--state", str(tmp_path / "state"), "--at", at]
    assert run(["stream", str(model), str(items), *given]) == 0
    late = load(model).at(threshold=0.99)
    late.save(tmp_path / "late")
    wish = ["--max-error", "0.8", "--max-keys", "4"]
    assert run(["guarantee", str(tmp_path / "late"), str(tmp_path / "79.parquet"), *wish]) == 0
    moved = load_deployed(tmp_path / "late", {"threshold": load_deployed(model).threshold})
    assert moved.promised is None and not is_newly_promised(moved, load_deployed(model))
    items.write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    assert run(["stream", str(tmp_path / "late"), str(items), *given]) == 0
    err = capsys.readouterr().err
    assert "counts for" not in err and "nothing speaks against the promise so far" in err


def test_a_promise_that_was_repeated_on_another_day_is_no_new_one(promised: Path) -> None:
    model = load_deployed(promised)
    assert model.promise is not None
    again = replace(model, promise=replace(model.promise, made="2031-01-01"))
    other = replace(model, promise=replace(model.promise, alpha=0.2))
    none = replace(model, promise=None)
    assert [is_newly_promised(each, model) for each in (model, again, other, none)] == [False, False, True, False]
    assert is_newly_promised(model, none)


def test_a_tangle_of_another_time_silences_no_blocks(endless: Path) -> None:
    """The blocks that are left out are those of each tangle, by its own clock."""
    model = load_deployed(endless / "model")
    items = list(load(endless / "model").items(endless / "items.parquet"))
    half = len(items) // 2
    counted = []
    for far in (0.0, 1e6):
        stream = Stream(model, Limits(expiry=30.0))
        stream.feed_many([Item("elsewhere", "k", {"size": 40, "direction": 0}, far), *items[:half]])
        stream.end("elsewhere", "k")
        stream.take_over(model)
        watcher = Watcher.of(stream)
        assert watcher is not None
        for item in items[half:]:
            decisions = stream.feed(item)
            watcher.arrived([item])
            watcher.observe(decisions, stream)
        watcher.observe(stream.close())
        watcher.close()
        counted.append(watcher.status().n_units)
    assert counted[0] == counted[1] > 5


def test_tangles_are_over_while_items_of_others_are_held_back(promised: Path) -> None:
    stream = Stream(load_deployed(promised), Limits(expiry=10.0, reorder=2.0))
    watcher = Watcher.of(stream)
    assert watcher is not None
    for number in range(60):
        item = Item(f"t{number}", "k", {"size": 40, "direction": 0}, float(number))
        decisions = stream.tick(now=item.time) + stream.feed(item)
        watcher.arrived([item])
        watcher.observe(decisions, stream)
        watcher.look(stream)
    assert stream.n_held > 0 and not stream.watches("t0")
    assert watcher.status().n_units > 30 and len(watcher.to_plain()["tangles"]) < 20
