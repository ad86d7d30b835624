"""Decisions that say that they do not know: when they do, how often known keys are called so, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.decide.made_held import made_held

from kvec.decide.held import Arrays, some_of
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.unknown import Unknown, parted, settle
from kvec.decide.usual import Usual
from kvec.words.config import Config
from kvec.words.errors import SettingError

POINT = OperatingPoint(0.7)


def familiarity(unknown: Unknown, new: Arrays) -> np.ndarray:
    held = Held.of(new)
    stops = held.stops(POINT)
    rows = new["classes.0"][held.offsets[:-1] + stops - 1]
    found = unknown.judged(rows.max(axis=1), rows, stops, np.ones(len(stops), bool))[1]
    assert found is not None
    return found


def test_known_sequences_are_called_unknown_as_often_as_was_said() -> None:
    """The share of new known ones at or below α, over the draw of validation and new sequences, is at most α."""
    shares = {0.05: [], 0.2: []}
    for seed in range(25):
        for level, found in shares.items():
            unknown = Unknown(unknown_below=level).settled(made_held(200, seed), POINT)
            found.append(float((familiarity(unknown, made_held(300, 1000 + seed)) <= level).mean()))
    for level, found in shares.items():
        spread = np.std(found) / np.sqrt(len(found))
        assert 0.5 * level < np.mean(found) < level + 3 * spread, level


def test_p_values_of_exchangeable_scores_are_valid_in_every_group() -> None:
    """Strangeness itself drawn at random: P(p ≤ α) ≤ α for all α, whatever the group."""
    rng = np.random.default_rng(0)
    below = np.zeros((2, 3))
    for _ in range(2000):
        typical = (np.sort(rng.normal(size=19)), np.sort(rng.normal(5, 2, size=40)))
        unknown = Unknown(unknown_below=0.05, firsts=(1, 8), typical=typical)
        p = unknown._familiarity(np.array([rng.normal(), rng.normal(5, 2)]), np.array([7, 8]))
        below += p[:, None] <= np.array([0.05, 0.1, 0.5])
    share = below / 2000
    assert (share <= np.array([0.05, 0.1, 0.5]) + 3 * np.sqrt(0.25 / 2000)).all()
    assert share[0] == pytest.approx([0.05, 0.1, 0.5], abs=0.035), "and not far below, where n + 1 allows it"


def test_sequences_of_no_known_class_are_found() -> None:
    unknown = Unknown(unknown_below=0.05).settled(made_held(200, 0), POINT)
    known, strange = familiarity(unknown, made_held(200, 1)), familiarity(unknown, made_held(200, 2, shift=12.0))
    assert (strange <= 0.05).mean() > 0.5 > 0.15 > (known <= 0.05).mean()


def test_the_unsure_abstain_at_their_end_and_where_asked_at_halts() -> None:
    sure, rows, n = np.array([0.5, 0.7, 0.5, 0.7], np.float32), np.full((4, 2), 0.5), np.ones(4, np.int64)
    halted = np.array([False, False, True, True])
    assert Unknown().judged(sure, rows, n, halted)[0].all() and not Unknown().is_asked
    at_end = Unknown().asked({"abstain_below": 0.6})
    assert at_end.is_asked and at_end.judged(sure, rows, n, halted)[0].tolist() == [False, True, True, True]
    always = at_end.asked({"abstain_at_halts": 1.0})
    assert always.judged(sure, rows, n, halted)[0].tolist() == [False, True, False, True]
    assert always.judged(sure, rows, n, halted)[1] is None
    assert always.asked({"abstain_below": 0.7}).judged(sure, rows, n, halted)[0].tolist() == [False] * 4, "rounded"


def test_octaves_with_few_sequences_share_their_group() -> None:
    few = Unknown(unknown_below=0.2).settled(made_held(30, 0), POINT)
    many = Unknown(unknown_below=0.2).settled(made_held(400, 0), POINT)
    assert few.firsts == (1,) and len(many.firsts) > 2 and many.firsts[0] == 1
    assert sum(map(len, few.typical)) == 30 and sum(map(len, many.typical)) == 400
    assert all((np.diff(known) >= 0).all() for known in many.typical)


def test_sequences_without_a_known_label_say_nothing_of_what_is_usual() -> None:
    kept = made_held(60, 3)
    kept["labels"][::2] = -1
    found = Unknown(unknown_below=0.2).settled(kept, POINT)
    alone = Unknown(unknown_below=0.2).settled(some_of(kept, kept["labels"][:, 0] >= 0), POINT)
    assert found.to_plain() == alone.to_plain()


def test_one_class_alone_has_nothing_strange() -> None:
    usual = Usual.fit(np.zeros((5, 1)), np.zeros(5, np.int64))
    assert usual.strangeness(np.zeros((2, 1))).tolist() == [0.0, 0.0]


def test_plain_data_brings_it_back() -> None:
    unknown = Unknown(0.6, True, 0.1).settled(made_held(60, 0), POINT)
    again = Unknown.from_plain(unknown.to_plain())
    assert again.to_plain() == unknown.to_plain()
    np.testing.assert_array_equal(familiarity(again, made_held(20, 1)), familiarity(unknown, made_held(20, 1)))
    assert Unknown.from_plain(None) == Unknown() == Unknown.from_plain(Unknown().to_plain())


def test_words_go_with_a_target_or_alone() -> None:
    kept, classes = made_held(60, 0), ("a", "b", "c", "d")

    def settled(target: dict[str, Any], unknown: Unknown) -> tuple[OperatingPoint, Unknown]:
        return settle(target, kept, POINT, unknown, classes, Config())

    alone = settled({"abstain_below": 0.6}, Unknown())
    assert alone[0] is POINT and alone[1].abstain_below == 0.6
    both = settled({"unknown_below": 0.1, "threshold": 0.3}, alone[1])
    assert both[0].threshold == 0.3 and (both[1].abstain_below, both[1].unknown_below) == (0.6, 0.1)
    later = settled({"threshold": 0.9}, both[1])
    assert later[1].unknown_below == 0.1, "another point keeps the words"
    assert later[1].to_plain()["typical"] != both[1].to_plain()["typical"], "but not what is usual there"
    assert not settled({"unknown_below": 0, "abstain_below": 0}, both[1])[1].is_asked
    halts = settled({"abstain_below": 0.6, "abstain_at_halts": 1, "unknown_below": 0.1}, Unknown())[1]
    off = settled({"unknown_below": 0, "abstain_below": 0}, halts)[1]
    assert not off.is_asked and not off.abstain_at_halts, "without a confidence nothing is asked of halts"
    assert settled({"abstain_below": 0.7}, halts)[1].abstain_at_halts
    assert parted({"earliness": 0.1, "abstain_below": 0.5}) == ({"earliness": 0.1}, {"abstain_below": 0.5})
    drops = Config().override(["training.objective=expected", "deciding.after_halt=drop"])
    assert settle({"abstain_below": 0.6}, kept, POINT, Unknown(), classes, drops)[1].is_asked, "it is not turned"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"abstain_below": 1.5}, "abstain_below is 1.5; it must lie between 0 and 1"),
        ({"unknown_below": -0.1}, "must lie between 0 and 1"),
        ({"abstain_at_halts": 0.5, "abstain_below": 0.5}, r"it can be 1 \(yes\) or 0 \(no\)"),
        ({"abstain_at_halts": 2, "abstain_below": 0.5}, r"abstain_at_halts is 2; it can be 1 \(yes\) or 0 \(no\)"),
        ({"abstain_at_halts": 1, "abstain_below": 0}, "say abstain_below too"),
        ({"abstain_at_halts": 1}, "say abstain_below too"),
        ({"unknown_below": 0.01}, "needs 99 labelled validation sequences; the model keeps 60, enough for 0.016"),
    ],
)
def test_words_that_make_no_sense_are_refused(words: dict[str, float], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Unknown().asked(words).settled(made_held(60, 0), POINT)


def test_a_small_share_keeps_as_many_sequences_as_it_needs() -> None:
    """Else nothing could ever be strange enough, however many sequences there were."""
    unknown = Unknown(unknown_below=0.0004).settled(made_held(6000, 0), POINT)
    assert min(map(len, unknown.typical)) + 1 >= 1 / 0.0004
    assert familiarity(unknown, made_held(200, 2, shift=1000.0)).min() <= 0.0004


@pytest.mark.parametrize(
    "words", [{"abstain_below": "a"}, {"abstain_below": None}, {"unknown_below": True}, {"abstain_at_halts": "x"}]
)
def test_words_of_the_wrong_kind_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=f"{next(iter(words))} is .*; (write a number|it can be 1)"):
        Unknown().asked(words)
