"""What a page is told: names that only grow, decisions that do not know, ends, and looks by their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, rows_of, taken, told

from kvec.doors.service.asking import Manner
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.frames import Watch
from kvec.doors.service.meters import Meters
from kvec.doors.service.served import Served
from kvec.doors.service.service import Origin
from kvec.doors.service.telling import key_told, looks_told, places_of
from kvec.doors.service.wording import Wording
from kvec.tangle.vocabulary import FieldVocabulary, Vocabulary

UNSURE = {"abstain_below": 0.999, "abstain_at_halts": 1.0}


def unsure(lively: Trained) -> Served:
    """A model that knows next to nothing for sure."""
    return Served("default", Origin(Path(lively.model), UNSURE).read(), Manner(Bounds(), {}), None, Meters())


def test_decisions_that_do_not_know_say_so_everywhere(lively: Trained) -> None:
    served, watch = unsure(lively), Watch()
    served.traces.watch(watch)
    taken(served, rows_of(lively))
    decided = told(served)
    unknown = [one for one in decided if not one["is_known"]]
    assert unknown
    frame = watch.frame(watch.taken(), 0.0, {})
    assert [(row[1], row[6]) for row in frame["decisions"]] == [(one["n"], one["is_known"]) for one in decided]
    names = served.stream.model.vocabulary.label_names
    for one in decided:
        status, trace = served.about(str(one["tangle"]), one["key"])
        for known in {status, None}:
            found = key_told(known, trace, names)
            assert found is not None and (found["is_final"], found["is_known"]) == (True, one["is_known"])
            assert found["trace"][-1]["halt"] == pytest.approx(found["halt_probability"], abs=1e-6)
    lines = [line for line in served.meters.text().decode().splitlines() if line.startswith("kvec_decisions_total")]
    counted = sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'is_known="false"' in line)
    assert counted == len(unknown)


def test_a_key_that_waits_is_neither_known_nor_unknown(lively: Trained) -> None:
    served = opened(lively)
    rows, names = rows_of(lively, 50), served.stream.model.vocabulary.label_names
    taken(served, rows)
    found = [key_told(*served.about(str(row["tangle"]), row["key"]), names) for row in rows]
    waiting = [(one["is_known"], one["reason"]) for one in found if one is not None and not one["is_final"]]
    assert set(waiting) == {(None, None)}


def test_sequences_that_are_over_tell_how_early_they_were_decided(lively: Trained) -> None:
    served, watch = opened(lively), Watch()
    served.traces.watch(watch)
    rows = rows_of(lively)
    taken(served, rows)
    assert watch.taken().ended == []
    served._tell(served.stream.close(), 0.0)
    frame = orjson.loads(orjson.dumps(watch.frame(watch.taken(), 0.0, {})))
    lengths = {(one["tangle"], one["key"]): 0 for one in rows}
    for one in rows:
        lengths[one["tangle"], one["key"]] += 1
    expected = [[one["n_observed"], lengths[one["tangle"], one["key"]], one["reason"]] for one in told(served)]
    assert sorted(frame["ended"]) == sorted(expected)


def test_items_carry_the_threshold_with_which_their_sequence_began(lively: Trained) -> None:
    served, watch = opened(lively), Watch()
    served.traces.watch(watch)
    rows = rows_of(lively, 40)
    taken(served, rows[:20])
    first = served.stream.threshold
    served.take_over(served.version.aimed({"threshold": first / 2}))
    taken(served, rows[20:])
    frame = watch.frame(watch.taken(), 0.0, {})
    begun = {(row["tangle"], row["key"]) for row in rows[:20]}
    assert {key[4] for key in frame["keys"]} == {first, first / 2}
    for _, tangle, key, _, threshold in frame["keys"]:
        assert threshold == (first if (tangle, key) in begun else first / 2)


def test_looks_tell_items_by_sequence_and_place(lively: Trained) -> None:
    served = opened(lively)
    rows = [one for one in rows_of(lively) if one["tangle"] == 0]
    taken(served, rows)
    key = rows[0]["key"]
    recalled = served.stream.recall(0)
    assert recalled is not None
    looked = recalled.looked()
    found = looks_told(looked, places_of(recalled.remembered, served.traces.find), key, 0)
    assert (found["key"], found["sequence"]) == (key, 0)
    places: dict[str, int] = {}
    for item, row in zip(found["items"], rows, strict=True):
        assert (item["key"], item["sequence"], item["time"]) == (row["key"], 0, row["time"])
        assert item["n"] == places.get(row["key"], 0)
        places[row["key"]] = item["n"] + 1
    own = [item["i"] for item in found["items"] if item["key"] == key]
    assert [look["item"] for look in found["looks"]] == own
    assert set(places_of(recalled.remembered, lambda tangle, key: None)) == {None}


def test_places_are_those_of_the_trace_also_where_the_first_items_are_forgotten(lively: Trained) -> None:
    rows = [one for one in rows_of(lively) if one["tangle"] == 0]
    served = opened(lively, max_cached_items=12)
    taken(served, rows)
    recalled = served.stream.recall(0)
    assert recalled is not None and len(recalled.remembered) == 12
    found = places_of(recalled.remembered, served.traces.find)
    for item in looks_told(recalled.looked(), found, rows[0]["key"], 0)["items"]:
        trace = served.traces.find(0, item["key"])
        assert trace is not None and trace.sequence == item["sequence"]
        (same,) = [one for one in trace.traced() if one.place == item["n"]]
        assert (same.time, same.value) == (item["time"], item["value"])


def test_names_only_grow(lively: Trained) -> None:
    def vocabulary(labels: tuple[str, ...], sizes: tuple[int, ...], *more: FieldVocabulary) -> Vocabulary:
        return Vocabulary((FieldVocabulary("size", "categorical", sizes), *more), (labels,), ("label",))

    wording, kind = Wording(), FieldVocabulary("kind", "categorical", ("x",))
    one, other = vocabulary(("a", "b"), (10, 20)), vocabulary(("b", "c"), (20, 30), kind)
    wording.meet(one)
    assert wording.told()["labels"] == ["a", "b"] and not wording.is_new
    assert wording.said(one, [1], 1) == ([1], 1) and not wording.is_new
    assert wording.said(other, [0, 0], 0) == ([1, 0], 1) and wording.is_new  # the same names, the same numbers
    assert wording.said(other, [1, -1], 1) == ([2, -1], 2)
    assert wording.said(one, [0], 0) == ([0, -1], 0)
    assert wording.label("d") == 3
    assert wording.told() == {
        "labels": ["a", "b", "c", "d"],
        "fields": [
            {"name": "size", "kind": "categorical", "values": [10, 20, 30]},
            {"name": "kind", "kind": "categorical", "values": ["x"]},
        ],
    }
    version = opened(lively).version
    wording.meet(version.base.vocabulary)
    same = replace(version, point=version.point)
    wording.told()
    wording.meet(same.model.vocabulary)
    assert not wording.is_new  # another point has the same names
