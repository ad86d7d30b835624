"""An evaluation says what became of what was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.doors.made import Trained

import kvec
from kvec.decide.scores import Scores
from kvec.decide.unknown import Unknown
from kvec.doors.asked import _without_effect
from kvec.doors.cli import run
from kvec.doors.measuring import Evaluation, evaluate_model


def evaluated(model: kvec.KVEC, data: str, target: dict[str, float]) -> Evaluation:
    turned = model.at(**target)
    tangles = turned.tangles(data)
    (found,) = evaluate_model(turned, tangles, turned.scores(tangles), target=target)
    return found


@pytest.fixture(scope="module")
def model(lively: Trained) -> kvec.KVEC:
    return kvec.load(lively.model)


def test_a_target_stands_beside_what_was_reached(model: kvec.KVEC, lively: Trained) -> None:
    wanted = evaluated(model, lively.items, {"threshold": 0.0}).halting.accuracy  # one item each: it can be reached
    for name, value in (("accuracy", 0.9 * wanted), ("earliness", 0.6)):
        found = evaluated(model, lively.items, {name: value})
        (line,) = (note for note in found.notes() if note.startswith("asked for"))
        start, _, here = line.rpartition(" ")
        assert start.startswith(f"asked for: {name} {value:g}; at this point validation has ")
        assert start.endswith(", this data")
        assert float(here) == pytest.approx(getattr(found.halting, name), abs=1e-4)
        there = float(start.split("validation has ")[1].split(",")[0])
        assert there >= value - 1e-4 if name == "accuracy" else abs(there - value) < 0.03
        assert line in found.to_text() and found.to_text().count("asked for") == 1


def test_unknown_ones_do_not_stand_against_an_accuracy_that_was_asked_for(model: kvec.KVEC, lively: Trained) -> None:
    found = evaluated(model, lively.items, {"accuracy": 0.1, "abstain_below": 0.9, "abstain_at_halts": 1.0})
    (line,) = (note for note in found.notes() if note.startswith("asked for"))
    assert line.startswith("asked for: accuracy 0.1 (known or not); at this point validation has ")
    assert found.halting.coverage < 1 and float(line.split()[-1]) > found.halting.accuracy


@pytest.mark.parametrize("target", [
    {"threshold": 0.4}, {"cost_per_error": 1.0, "cost_per_item": 0.01}, {"abstain_below": 0.2}, {},
])  # fmt: skip
def test_of_other_targets_nothing_is_said(model: kvec.KVEC, lively: Trained, target: dict[str, float]) -> None:
    assert "asked for" not in evaluated(model, lively.items, target or {"threshold": 0.5}).to_text()


def test_what_abstains_only_at_ends_affects_nothing_where_all_halt(
    model: kvec.KVEC, lively: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "no decision is affected by abstain_below=0.6, as all halt; add abstain_at_halts=1"
    for target, is_said in (
        ({"threshold": 0.0, "abstain_below": 0.6}, True),
        ({"threshold": 1.0, "abstain_below": 0.6}, False),
        ({"threshold": 0.0, "abstain_below": 0.6, "abstain_at_halts": 1.0}, False),
        ({"threshold": 0.0}, False),
    ):
        assert evaluated(model, lively.items, target).notes().count(words) == is_said, target
    report = tmp_path / "report.html"
    model.at(threshold=0.0).save(tmp_path / "model")
    asked = ["evaluate", str(tmp_path / "model"), lively.items, "--at", "abstain_below=0.6", "--report", str(report)]
    capsys.readouterr()
    assert run(asked) == 0
    assert words in capsys.readouterr().out and "No decision is affected by abstain_below=0.6" in report.read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(("sure", "why"), [
    ((0.5, 0.9, 0.9), "as all that are less sure halt"), ((0.9, 0.9, 0.5), ""), ((0.9, 0.9, 0.9), ""),
    ((0.5, 0.5, 0.5), ""),
])  # fmt: skip
def test_only_unsure_decisions_at_ends_are_affected(sure: tuple[float, ...], why: str) -> None:
    """Two sequences that halt at their first item, and one that ends."""
    classes = np.array([[each, 1 - each] for each in sure], np.float32)
    scores = Scores(np.arange(4), np.array([0.9, 0.9, 0.1], np.float32), (classes,))
    said = _without_effect(Unknown(abstain_below=0.6), 0.5, scores)
    assert [why in line for line in said] == [True] * bool(why)


@pytest.mark.parametrize(("threshold", "words"), [
    (0.0, "--at abstain_below=0.6,abstain_at_halts=1</code>"), (1.0, "--at abstain_below=0.6</code>"),
])  # fmt: skip
def test_the_report_names_words_that_have_an_effect(
    model: kvec.KVEC, lively: Trained, tmp_path: Path, threshold: float, words: str
) -> None:
    model.at(threshold=threshold).save(tmp_path / "model")
    report = tmp_path / "report.html"
    assert run(["evaluate", str(tmp_path / "model"), lively.items, "--report", str(report)]) == 0
    assert words in report.read_text(encoding="utf-8")
