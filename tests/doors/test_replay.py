from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tests.doors.made import Trained

import kvec
from kvec.decide.scores import Scores
from kvec.doors.replay import Stage, replay
from kvec.tangle.tangles import Tangles

Played = tuple[kvec.KVEC, Tangles, Scores]


@pytest.fixture(scope="module")
def played(trained: Trained) -> Played:
    """A model that halts here and there, and what it makes of the items."""
    model = kvec.load(trained.model)
    tangles = model.tangles(trained.items)
    scores = model.scores(tangles)
    model.model_.threshold = float(np.quantile(scores.halt, 0.9))
    return model, tangles, scores


def shown(played: Played, which: list[int], seconds: float, **console: Any) -> str:
    model, tangles, scores = played
    screen = io.StringIO()
    replay(model, tangles, scores, which, seconds, Console(file=screen, width=100, **console))
    return screen.getvalue()


def test_lines_without_a_terminal(played: Played) -> None:
    lines = [line for line in shown(played, [0, 3], seconds=60).splitlines() if line]
    decisions = [d for d in played[0].decide(played[1]) if d.tangle in (0, 3)]
    assert len(lines) == 2 + len(decisions)
    assert lines[0].startswith("tangle 1 of 2: ")
    for decision in decisions:
        (line,) = [text for text in lines if f" {decision.key} " in text]
        assert f"{decision.label} " in line
        assert f"after {decision.n_observed} item" in line
        assert ("✓" in line) == (decision.true_labels == decision.labels)


def test_lanes_in_a_terminal(played: Played) -> None:
    drawn = shown(played, [0], seconds=0.1, force_terminal=True, color_system=None, legacy_windows=False)
    for decision in [d for d in played[0].decide(played[1]) if d.tangle == 0]:
        assert str(decision.key) in drawn
        assert f"{decision.label} {100 * decision.probability:.0f} % after {decision.n_observed} item" in drawn
    assert "? " in drawn, "before a flow is decided, its guess is shown"


def test_items_arrive_in_order_and_decide_their_own_lane(played: Played) -> None:
    model, tangles, scores = played
    stage = Stage(model, tangles, scores, 2)
    keys = tangles.frame["key"][stage.items.start : stage.items.stop].to_list()
    seen: dict[str, int] = {}
    for key, lane in zip(keys, stage.play(), strict=True):
        seen[key] = seen.get(key, 0) + 1
        assert lane.decision.key == key
        assert len(lane.glyphs) == seen[key]
        assert lane.is_decided == (seen[key] >= lane.decision.n_observed)
