"""Labels that come later to a served model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from tests.decide.made_promise import watched
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, rows_of, taken, told

from kvec.decide.operating import OperatingPoint
from kvec.doors.service import label_store
from kvec.doors.service.bodies import JSON
from kvec.doors.service.bodies import rows_of as read_rows
from kvec.doors.service.bounds import Bounds
from kvec.doors.service.label_store import FILE, LabelStore, labelled_items
from kvec.doors.service.served import Served
from kvec.doors.service.versions import Version

NAMED = {"tangle": "t", "label": "web"}


def labelled(served: Served, *rows: dict[str, Any]) -> dict[str, Any]:
    return served.label(read_rows(orjson.dumps(rows), JSON, Bounds()))


def test_a_label_that_comes_again_keeps_what_is_known(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept")
    taken(served, rows_of(lively, 1500))
    decision = told(served)[-1]
    label = {"tangle": decision["tangle"], "key": decision["key"], "label": decision["label"]}
    labelled(served, label)
    path = tmp_path / "kept" / FILE
    before = labelled_items(path).table
    assert before.height > 0
    served.close()
    again = opened(lively, tmp_path / "kept")
    other = next(name for name in ("web", "chat") if name != decision["label"])
    labelled(again, {**label, "label": other})
    after = labelled_items(path).table
    assert after.drop("label").equals(before.drop("label")) and after["label"].unique().to_list() == [other]
    assert [one[2] for one in again.truths._store.since(0)] == [other]  # type: ignore[union-attr]
    again.close()


def test_a_label_that_comes_first_gets_all_items(lively: Trained, tmp_path: Path) -> None:
    item = {"tangle": "t", "time": 1.0, "size": 52, "direction": 1}
    served = opened(lively, tmp_path / "kept", expiry=10.0)
    taken(served, [{**item, "key": key, "time": time} for key in "ab" for time in (1.0, 2.0)])
    labelled(served, {"tangle": "t", "key": "a", "label": "web"})
    taken(served, [{**item, "key": "a", "time": 3.0}])
    taken(served, [{**item, "key": "c", "time": 50.0}])  # the others are over
    table = labelled_items(tmp_path / "kept" / FILE).table
    assert table["key"].to_list() == ["a"] * 3 and table["time"].to_list() == [1.0, 2.0, 3.0]
    served.close()


def test_a_label_without_a_sequence_is_of_the_newest_that_is_decided(lively: Trained) -> None:
    item = {"tangle": "t", "key": "a", "size": 52, "direction": 1}
    served = opened(lively, expiry=10.0)
    for time in (1.0, 50.0):  # the first sequence is over by then
        taken(served, [{**item, "time": time}])
    status, _ = served.about("t", "a")
    assert status is not None and status.sequence == 1 and not status.is_final
    assert labelled(served, {**NAMED, "key": "a"})["decided"] == 1
    assert labelled(served, {**NAMED, "key": "a", "sequence": 1})["decided"] == 0


def test_sequences_are_kept_from_their_beginning_or_left_out(lively: Trained, tmp_path: Path) -> None:
    item = {"tangle": "t", "size": 52, "direction": 1}
    served = opened(lively, tmp_path / "kept", expiry=10.0)
    taken(served, [{**item, "key": "long", "time": 0.01 * n} for n in range(300)])
    taken(served, [{**item, "key": "cut", "time": 4.0}])
    served.close()
    again = opened(lively, tmp_path / "kept", expiry=10.0)
    taken(again, [{**item, "key": "cut", "time": 4.0 + 0.1 * n} for n in range(1, 40)])
    labelled(again, {**NAMED, "key": "cut"}, {**NAMED, "key": "long"})
    found = labelled_items(tmp_path / "kept" / FILE)
    assert not found.table.height and found.left_out == 2, "of both the beginning was heard before the restart"
    taken(again, [{**item, "key": "long", "time": 100 + 0.01 * n} for n in range(300)])  # its second sequence
    labelled(again, {**NAMED, "key": "long", "sequence": 1})
    found = labelled_items(tmp_path / "kept" / FILE)
    assert found.table["key"].unique().to_list() == ["long#1"] and found.left_out == 2
    assert found.table["time"].to_list() == pytest.approx([100 + 0.01 * n for n in range(256)]), "its first items"
    again.close()


def test_the_newest_sequences_are_kept_however_often_one_is_labelled(
    lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_store, "MOST_ROWS", 3)
    monkeypatch.setattr(label_store, "SLACK", 0)
    served = opened(lively, tmp_path / "kept")
    labelled(served, {**NAMED, "key": "a"}, {**NAMED, "key": "b"})
    for _ in range(9):
        labelled(served, {**NAMED, "key": "b"})
    store = LabelStore(tmp_path / "kept" / FILE, served.stream.model.schema)
    assert {name[1] for _, name, _ in store.since(0)} == {"a", "b"}
    for key in "cdef":
        labelled(served, {**NAMED, "key": key})
    assert {name[1] for _, name, _ in store.since(0)} == {"d", "e", "f"}
    store.close()
    served.close()


def test_labels_are_bounded_as_items_are(lively: Trained, tmp_path: Path) -> None:
    served = opened(lively, tmp_path / "kept", Bounds(max_text=8))
    good = {"tangle": 1, "key": "a", "label": "web"}
    rows = (
        {**good, "key": "x" * 9},
        {**good, "sequence": 2**63},
        {**good, "sequence": -1},
        {**good, "sequence": 2**62},
    )
    answer = labelled(served, *rows)
    assert answer["taken"] == 1 and [one["row"] for one in answer["refused"]] == [0, 1, 2]
    served.close()


def test_labels_are_read_from_a_folder_of_any_name(lively: Trained, tmp_path: Path) -> None:
    folder = tmp_path / "run #1? 100%41"
    served = opened(lively, folder)
    taken(served, [{"tangle": "t", "key": "a", "time": 1.0, "size": 52, "direction": 1}])
    labelled(served, {**NAMED, "key": "a"})
    assert labelled_items(folder / FILE).table.height == 1
    served.close()


@pytest.mark.parametrize("comes_first", [True, False])
def test_the_watch_on_the_promise_hears_labels_whenever_they_come(lively: Trained, comes_first: bool) -> None:
    version = Version.read(Path(lively.model)).at(OperatingPoint(0.0))  # each first item decides
    of = {"operating_point": version.point.to_dict(), "model": version.model.hash}
    promise = watched(np.random.default_rng(0), **of)
    served = opened(lively)
    served.take_over(replace(version, base=replace(version.base, promise=promise)))
    assert served.watcher is not None
    item = {"tangle": "t", "key": "a", "size": 52, "direction": 1}
    if comes_first:
        labelled(served, {**NAMED, "key": "a"})
    taken(served, [{**item, "time": 1.0}])
    assert served.log.newest == 1
    if not comes_first:
        labelled(served, {**NAMED, "key": "a"})
    served.watcher.close()
    assert served.watcher.status().n_labelled_units == 1
    served.close()


def test_a_label_that_the_model_does_not_know_is_an_error_of_its_decision(lively: Trained, tmp_path: Path) -> None:
    """To leave it out would make labels come only where decisions can be right."""
    served = opened(lively, tmp_path / "kept")
    taken(served, [{"tangle": "t", "key": key, "time": 1.0, "size": 52, "direction": 1} for key in "ab"])
    answer = labelled(served, {**NAMED, "key": "a", "label": "unheard of"}, {**NAMED, "key": "b", "label": ""})
    assert (answer["taken"], answer["new"]) == (1, {"unheard of": 1})
    assert answer["refused"] == [{"row": 1, "detail": "'label' is ''; it must be text of at most 1,024 characters"}]
    assert labelled_items(tmp_path / "kept" / FILE).table["label"].to_list() == ["unheard of"]
    again = labelled(served, {**NAMED, "key": "a", "label": "web"})
    assert again["new"] == {}
    served.close()
