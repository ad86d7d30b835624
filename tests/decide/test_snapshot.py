"""The state of a stream as a file: whole or not at all, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_arrays
from tests.properties.stories import MODEL, changed

from kvec import __version__
from kvec.decide.deployed import Deployed
from kvec.decide.folder import RELATIONS
from kvec.decide.snapshot import CARD, FORMAT, OLDEST, SLICE, read_state, write_state
from kvec.decide.stream import Stream, resume
from kvec.words.errors import DataError, ModelError
from kvec.words.items import Item

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros((0, 4), np.int64)}


def file_of(path: Path, card: Any, arrays: dict[str, np.ndarray[Any, Any]] | None = None) -> Path:
    """A file with a fitting hash, whatever is in it."""
    plain = np.frombuffer(json.dumps(card).encode(), np.uint8)
    content = save_arrays({**(arrays or ARRAYS), CARD: plain})
    path.write_bytes(hashlib.blake2b(content, digest_size=32).digest() + content)
    return path


def waiting(model: Deployed = MODEL) -> Stream:
    stream = Stream(model, threshold=1.0)
    stream.feed_many([Item("t", "k", {"size": 1, "way": "in"}, 1.0), Item("t", 7, {"size": 1, "way": "out"}, 2.0)])
    return stream


def test_what_is_written_is_read(tmp_path: Path) -> None:
    facts = {
        "text": "é\ud800",
        "large": 2**70,
        "none": None,
        "infinite": -np.inf,
        "counts": [np.int64(3), np.float32(0.5)],
    }
    write_state(tmp_path / "state", facts, ARRAYS)
    card, arrays = read_state(tmp_path / "state")
    assert card == {**facts, "counts": [3, 0.5], "format": OLDEST, "kvec": __version__}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_every_damage_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "state"
    waiting().save(file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    places = {0, 31, 32, 39, 40, len(whole) - 1, *rng.integers(0, len(whole), 14).tolist()}
    for place in places:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ModelError, match=r"is damaged, or not the state of a stream: its hash does not fit$"):
            resume(file)
        file.write_bytes(whole[:place])
        with pytest.raises(ModelError, match=r"is damaged, or not the state of a stream: its hash does not fit$"):
            resume(file)
    file.write_bytes(whole)
    assert resume(file).n_live == 2


@pytest.mark.parametrize("content", [b"", b"x" * 31, b"x" * 100, b"\x00" * 4096])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(ModelError, match=r"state is damaged, or not the state of a stream"):
        read_state(tmp_path / "state")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 8, b"\x02\x00\x00\x00\x00\x00\x00\x00{}", b"\x02" + b"\x00" * 7 + b"[]"]
)
def test_foreign_files_with_a_fitting_hash_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(hashlib.blake2b(content, digest_size=32).digest() + content)
    with pytest.raises(ModelError, match=r"state is not the state of a stream$"):
        read_state(tmp_path / "state")


@pytest.mark.parametrize("card", [[], "x", 3, {}, {"format": 1}, {"kvec": "0.1.0"}, {"format": None, "kvec": ""}])
def test_other_cards_are_refused(tmp_path: Path, card: Any) -> None:
    with pytest.raises(ModelError, match=r"state is not the state of a stream$"):
        read_state(file_of(tmp_path / "state", card))


def test_a_newer_format_is_refused_with_its_version(tmp_path: Path) -> None:
    file = file_of(tmp_path / "state", {"format": FORMAT + 1, "kvec": "9.9"})
    with pytest.raises(
        ModelError, match=rf"kvec 9\.9 in format {FORMAT + 1}; this is kvec .*: upgrade kvec to use it$"
    ):
        read_state(file)


def test_a_state_with_parts_missing_or_awry_is_damaged(tmp_path: Path) -> None:
    file = tmp_path / "state"
    waiting(changed(MODEL, "visibility.rule=typed")).save(file)
    card, arrays = read_state(file)
    engine = card["engines"][0]
    awry: list[dict[str, Any]] = [{**card, "engines": [{**engine, name: None}]} for name in ("live", "tangles", "raw")]
    awry += [{k: v for k, v in card.items() if k != left} for left in ("limits", "engines", "dtype", "reasons")]
    awry += [{**card, "engines": [{**engine, "live": [one[:5] for one in engine["live"]]}]}]
    awry += [{**card, "limits": {"max_tangles": 0}}, {**card, "dtype": "float16"}, {**card, "engines": [None]}]
    for one in awry:
        with pytest.raises(ModelError, match=r"state is damaged: "):
            resume(file_of(file, one, arrays))
    for name in arrays:
        if "baseline" not in name:  # which training alone needs
            with pytest.raises(
                ModelError, match=r"^(.*state is damaged: |the model is damaged: |the weights do not have)"
            ):
                resume(file_of(file, card, {k: v for k, v in arrays.items() if k != name}))
    assert resume(file_of(file, card, arrays)).n_live == 2


def test_what_cannot_be_read_or_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelError, match=r"none: cannot read the state: No such file"):
        resume(tmp_path / "none")
    with pytest.raises(ModelError, match=r"cannot read the state: "):
        resume(tmp_path)
    with pytest.raises(ModelError, match=r"cannot write the state: "):
        write_state(tmp_path / "file" / "state", {}, ARRAYS)
    with pytest.raises(ModelError, match=r"new.state: cannot write the state: No such file or directory"):
        write_state(tmp_path / "new" / "state", {}, ARRAYS)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match=r"cannot write the state: "):
        write_state(tmp_path / "folder", {}, ARRAYS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("at", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_state(tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state"
    stream = waiting()
    stream.save(file, note={"offset": 2})
    stream.feed(Item("t", "k", {"size": 2}, 3.0))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync") if at == "fsync" else (Path, "replace")), full)
        with pytest.raises(ModelError, match=r"state: cannot write the state: No space left on device$"):
            stream.save(file, note={"offset": 3})
    assert [one.name for one in tmp_path.iterdir()] == ["state"]
    assert resume(file).note == {"offset": 2}
    stream.save(file, note={"offset": 3})
    assert resume(file).note == {"offset": 3}


@pytest.mark.parametrize("cell", [datetime(2024, 5, 1), b"x", {1}, object(), np.datetime64("2024-05-01")])
def test_values_that_no_state_could_keep_are_refused_when_they_come(tmp_path: Path, cell: Any) -> None:
    """Also in fields that the model does not read: a newer one may."""
    stream = waiting()
    with pytest.raises(DataError, match=r"^tangle 't', key 'k', field 'seen at': \w+ is no single value"):
        stream.feed(Item("t", "k", {"size": 2, "seen at": cell}, 3.0))
    stream.save(tmp_path / "state")
    assert len(resume(tmp_path / "state").close()) == 2


def test_a_state_may_hold_more_than_a_header(tmp_path: Path) -> None:
    facts = {"much": "x" * 110_000_000}
    write_state(tmp_path / "state", facts, ARRAYS)
    assert read_state(tmp_path / "state")[0]["much"] == facts["much"]


def test_names_of_fields_and_notes_that_cannot_be_kept(tmp_path: Path) -> None:
    stream = waiting()
    with pytest.raises(ModelError, match="an item's value or the note cannot be kept in a state"):
        stream.save(tmp_path / "state", note={"offset": {1, 2}})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ModelError, match="an item's value or the note cannot be kept in a state"):
        stream.save(tmp_path / "state", note={"offset": endless})
    stream.feed(Item("t", "k", {("size", 1): 2}, 3.0))  # type: ignore[dict-item]
    with pytest.raises(ModelError, match="an item's value or the note cannot be kept in a state: keys must be"):
        stream.save(tmp_path / "state")


def test_a_state_has_the_format_of_its_newest_model(tmp_path: Path) -> None:
    stream, typed = (waiting(changed(MODEL, "visibility.rule=paper")), changed(MODEL, "visibility.rule=typed"))
    stream.save(tmp_path / "state")
    assert read_state(tmp_path / "state")[0]["format"] == OLDEST
    stream.take_over(typed)
    stream.save(tmp_path / "state")
    assert read_state(tmp_path / "state")[0]["format"] == RELATIONS > OLDEST
    assert len(resume(tmp_path / "state").close()) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_state_keeps_its_precision(tmp_path: Path, dtype: type) -> None:
    stream = Stream(MODEL, threshold=1.0, dtype=dtype)
    stream.feed_many([Item("t", "k", {"size": np.int64(1), "way": "in", "load": np.float32(0.1)}, np.float32(1.5))])
    stream.save(tmp_path / "state")
    again = resume(tmp_path / "state")
    assert again._engines[0].memory.cache.dtype == again._engines[0].memory.hidden.dtype == dtype
    item = Item("t", "j", {"size": 1, "way": "in", "load": 0.1}, 2.0)
    assert again.feed(item) + again.close() == stream.feed(item) + stream.close()
    facts, _ = again.to_plain()
    assert facts["dtype"] == np.dtype(dtype).name


def test_long_lists_are_written_in_slices_and_read_as_they_were(tmp_path: Path) -> None:
    rows: list[Any] = [["k", {"size": i, "way": None}, i / 7, True] for i in range(2 * SLICE + 3)]
    facts = {
        "engines": [{"raw": rows, "few": [], "none": {}, "deep": {"a": [{"b": [{}]}]}}],
        "note": {"ids": rows[:SLICE]},
    }
    arrays = {f"{i}": np.arange(i * 5, dtype=kind).reshape(5, i) for i, kind in enumerate("?bBhHiIlLefd")}
    write_state(tmp_path / "state", {**facts, "numbers": {1: 2}}, arrays)
    card, found = read_state(tmp_path / "state")
    assert {name: card[name] for name in facts} == facts and card["numbers"] == {"1": 2}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_a_copy_stays_as_it_is_while_the_stream_goes_on() -> None:
    stream = waiting()
    facts, arrays = stream.noted({"place": 1})
    before = json.dumps(facts), {name: array.tobytes() for name, array in arrays.items()}
    stream.feed_many([Item("t", i % 5, {"size": i % 3, "way": "in"}, 3.0 + i, i % 7 == 0) for i in range(50)])
    stream.close()
    assert (json.dumps(facts), {name: array.tobytes() for name, array in arrays.items()}) == before
