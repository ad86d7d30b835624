"""Where decisions and unusable lines go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvec.doors.outlets import DeadLetters, Outlet, Sink
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import DataError, SettingError
from kvec.words.items import Decision, Reason

DECISION = Decision(0, "ü\ud800", 0, ("web", "big"), (0.9, 0.8), 4, None, Reason.HALTED)


def test_decisions_are_lines(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    sink = Sink(tmp_path / "decisions.ndjson", ["app", "size"])
    sink.outlet.begin(is_kept=False, is_replaced=True)
    sink.write([DECISION, DECISION])
    line = (tmp_path / "decisions.ndjson").read_bytes().splitlines()[0]
    assert json.loads(line) == {
        "id": "0/ü\ud800/0", "tangle": 0, "key": "ü\ud800", "sequence": 0, "label": "web", "probability": 0.9,
        "n_observed": 4, "length": None, "reason": "halted", "is_known": True, "label.size": "big",
        "probability.size": 0.8,
    }  # fmt: skip
    assert sink.outlet.size == (tmp_path / "decisions.ndjson").stat().st_size
    sink.outlet.close()
    Sink(None, ["app", "size"]).write([DECISION])
    assert capsysbinary.readouterr().out == line + b"\n"
    Sink(None, ["app", "size"], is_shown=True).write([DECISION])
    assert capsysbinary.readouterr().out == b""


def test_an_outlet_is_replaced_added_to_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    path.write_text("before\n")
    with pytest.raises(SettingError, match="holds something already"):
        Outlet(path).begin(is_kept=True, is_replaced=False)
    added = Outlet(path)
    added.begin(is_kept=False, is_replaced=False)
    added.write([{"a": 1}])
    added.close()
    assert path.read_text() == 'before\n{"a":1}\n' and added.size == path.stat().st_size
    replaced = Outlet(path)
    replaced.begin(is_kept=False, is_replaced=True)
    replaced.close()
    assert path.read_text() == ""
    with pytest.raises(SettingError, match="cannot be written: Is a directory"):
        Outlet(tmp_path).begin(is_kept=False, is_replaced=True)


def test_an_outlet_is_cut_back_to_its_place(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    first = Outlet(path)
    first.begin(is_kept=True, is_replaced=False)
    first.write([{"a": 1}])
    place = first.place()
    first.write([{"a": 2}])
    first.sync()
    first.close()
    with path.open("ab") as torn:
        torn.write(b'{"a')
    second = Outlet(path)
    second.go_on(place)
    second.write([{"a": 3}])
    second.close()
    assert path.read_text() == '{"a":1}\n{"a":3}\n'
    path.write_text("")
    with pytest.raises(SettingError, match="has 0 bytes, but had 8 bytes when the state was saved"):
        Outlet(path).go_on(place)
    path.unlink()
    with pytest.raises(SettingError, match="is gone, but had 8 bytes when the state was saved"):
        Outlet(path).go_on(place)
    assert not path.exists()
    other = Outlet(tmp_path / "other.ndjson")
    other.go_on(place)  # from now on decisions go there
    other.close()
    nowhere = Outlet(None)
    nowhere.go_on(None)
    assert nowhere.place() is None


def test_bad_lines_are_told_less_and_less(capsys: pytest.CaptureFixture[str]) -> None:
    letters = DeadLetters(None)
    for number in range(1, 1001):
        letters.report(f"items.csv, line {number}", Arrived(number, b"x"), DataError("is bad"))
    told = capsys.readouterr().err.splitlines()
    assert told[:2] == ["kvec: items.csv, line 1: is bad", "kvec: items.csv, line 2: is bad"]
    assert told[5:] == [
        "kvec: items.csv, line 10: is bad (10 such lines so far)",
        "kvec: items.csv, line 100: is bad (100 such lines so far)",
        "kvec: items.csv, line 1000: is bad (1,000 such lines so far)",
    ]


@pytest.mark.parametrize(
    ("problem", "hint"),
    [
        ("is not JSON: Extra data at character 3", "; if this is CSV, say --format csv"),
        ("is longer than 20 bytes", "; allow longer lines with --max-line"),
        ("column 'key': is empty", ""),
    ],
)
def test_a_source_that_begins_with_nothing_usable_is_told_soon(
    capsys: pytest.CaptureFixture[str], problem: str, hint: str
) -> None:
    letters = DeadLetters(None, has_form=True)
    for number in range(1, 10):
        letters.report(f"stdin, line {number}", Arrived(number, b"1,2"), DataError(problem))
    assert capsys.readouterr().err.splitlines()[5:] == [f"kvec: none of the first 5 lines could be used{hint}"]
    assert letters.first == f"stdin, line 1: {problem}{hint}"
    letters = DeadLetters(None, has_form=True)
    for number in range(2, 10):  # the first one was good
        letters.report(f"stdin, line {number}", Arrived(number, b"1,2"), DataError(problem))
    assert "none of the first" not in capsys.readouterr().err


def test_what_was_told_before_a_crash_is_counted_again_and_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    letters = DeadLetters(None, has_form=True)
    for number in range(1, 8):
        letters.report(f"stdin, line {number}", Arrived(number, b"x"), DataError("is bad"), is_again=number < 7)
    assert capsys.readouterr().err == "" and letters.count == 7
    for number in range(8, 11):
        letters.report(f"stdin, line {number}", Arrived(number, b"x"), DataError("is bad"))
    assert capsys.readouterr().err == "kvec: stdin, line 10: is bad (10 such lines so far)\n"


def test_bad_lines_can_go_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    letters = DeadLetters(tmp_path / "letters.ndjson")
    letters.outlet.begin(is_kept=False, is_replaced=True)
    letters.report("a, line 7", Arrived(7, b'{"key": \xff'), DataError("is not UTF-8 text"))
    letters.report("b, row 8", Arrived(8, {"key": None, "size": 1.5}), DataError("column 'key': is empty"))
    letters.outlet.close()
    first, second = map(json.loads, (tmp_path / "letters.ndjson").read_text().splitlines())
    assert first == {"place": "a, line 7", "number": 7, "problem": "is not UTF-8 text", "raw": '{"key": \\xff'}
    assert second["raw"] == {"key": None, "size": 1.5}
    assert letters.count == 2 and capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
def test_an_outlet_that_could_not_be_written_can_be_closed() -> None:
    outlet = Outlet(Path("/dev/full"))
    outlet.begin(is_kept=False, is_replaced=True)
    with pytest.raises(SettingError, match="No space left"):
        outlet.write_bytes(b"line\n")
    outlet.close()
