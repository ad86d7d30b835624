"""The last words of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doors.made import Trained
from tests.read.quiet import Quiet

from kvec.decide.deployed import load_deployed
from kvec.decide.stream import Stream
from kvec.doors.outlets import DeadLetters, Sink
from kvec.doors.running import Loop, Manner
from kvec.doors.summary import is_useless, summary
from kvec.read.arriving import RowReader
from kvec.read.arriving_forms import JsonLines


def run_of(lively: Trained, letters: DeadLetters | None = None) -> Loop:
    model = load_deployed(lively.model)
    reader = RowReader(model.schema)
    reader.unseen.clear()
    return Loop(
        Stream(model), Quiet("items.ndjson", JsonLines()), reader, Sink(None, ["label"], True),
        letters or DeadLetters(None), None, Manner(),
    )  # fmt: skip


def test_what_was_odd_is_told_in_words(lively: Trained) -> None:
    loop = run_of(lively)
    counters = loop.stream.counters
    counters.items = 1200
    loop.stream.reasons |= {"halted": 30, "closed": 1}
    head, *others = summary(loop, None, True, True)
    assert head.startswith("1,200 items, 31 decisions (30 halted, 1 closed); ") and head.endswith(" items/s")
    assert others == [], "nothing was odd"
    counters.late, counters.backwards, counters.duplicates, counters.dropped = 12, 3, 1, 13
    counters.unknown_values, counters.missing_values, counters.after_halt, counters.evicted_items = 1, 2, 4, 1
    _, odd = summary(loop, None, True, True)
    assert odd == (
        "noticed: 12 late items (3 of them after a newer one of the same key), 1 duplicate item, 13 of these dropped, "
        "4 items of decided sequences left out, 1 value unknown to the model, 2 missing values, "
        "1 item forgotten early (--max-cached-items)"
    )


def test_fields_that_were_never_there_are_named(lively: Trained) -> None:
    loop = run_of(lively)
    loop.reader.unseen.add("size")
    assert summary(loop, None, True, True)[1:] == ["items.ndjson: no rows came"]
    loop.stream.counters.items = 3
    assert summary(loop, None, True, True)[1:] == ["field 'size' was in no row"]
    loop.reader.unseen.add("direction")
    assert summary(loop, None, True, True)[1:] == ["fields 'direction', 'size' were in no row"]


def test_rows_that_could_not_be_used_are_apart_from_the_items(lively: Trained, tmp_path: Path) -> None:
    letters = DeadLetters(None)
    loop = run_of(lively, letters)
    loop.stream.counters.items = letters.count = 1
    head, bad = summary(loop, None, True, True)
    assert head.startswith("1 item, 0 decisions; ")
    assert bad == "1 row could not be used; --dead-letters FILE keeps them"
    kept = DeadLetters(tmp_path / "letters.ndjson", 7)
    loop = run_of(lively, kept)
    loop.stream.counters.items = 1
    assert summary(loop, None, True, True)[1] == f"7 rows could not be used; see {tmp_path / 'letters.ndjson'}"


@pytest.mark.parametrize(
    ("is_decided", "words"),
    [
        (False, "open sequences are kept in kept; the same command goes on"),
        (True, "all sequences are decided; the stream is kept in kept; the same command goes on"),
    ],
)
def test_what_a_state_keeps(lively: Trained, is_decided: bool, words: str) -> None:
    loop = run_of(lively)
    loop.tally.items_before, loop.stream.counters.items = 1000, 1200
    head, kept = summary(loop, Path("kept"), False, is_decided)
    assert head.startswith("1,200 items (200 of them now), 0 decisions; ")
    assert kept == words
    assert len(summary(loop, Path("kept"), True, True)) == 1, "the source has ended"


def test_a_source_without_rows(lively: Trained) -> None:
    loop = run_of(lively)
    assert summary(loop, None, True, True)[1:] == ["items.ndjson: no rows came"]
    assert len(summary(loop, None, False, True)) == 1, "they may still come"


def test_a_run_without_any_row_that_could_be_used(lively: Trained) -> None:
    letters = DeadLetters(None, before=3)
    loop = run_of(lively, letters)
    loop.tally.items_before = loop.stream.counters.items = 10
    assert not is_useless(loop), "nothing came in this run"
    letters.count, letters.first = 4, "stdin, line 4: is bad"
    assert is_useless(loop)
    assert summary(loop, None, True, True)[1:] == ["the only row could not be used; stdin, line 4: is bad"]
    letters.count = 1203
    assert summary(loop, None, True, True)[1:] == ["none of the 1,200 rows could be used; stdin, line 4: is bad"]
    loop.stream.counters.items = 11
    assert not is_useless(loop)
