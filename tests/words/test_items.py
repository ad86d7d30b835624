"""Items and decisions: small frozen values with names of their own."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from kvec.words.errors import DataError, KvecError, MissingExtra, ModelError, SettingError
from kvec.words.items import Decision, Item, Reason

DECISION = Decision("link", 7, 1, ("web", "yes"), (0.9, 0.6), 3, 12, Reason.HALTED, ("web", None))


def test_a_decision_by_its_parts() -> None:
    assert DECISION.id == "link/7/1"
    assert (DECISION.label, DECISION.probability) == ("web", 0.9)
    assert DECISION.earliness == 0.25


def test_truth_is_no_part_of_a_decision() -> None:
    assert replace(DECISION, true_labels=None) == DECISION
    assert replace(DECISION, n_observed=4) != DECISION


def test_what_is_not_known_keeps_its_best_class() -> None:
    doubted = replace(DECISION, is_known=False, familiarity=0.01)
    assert (doubted.label, doubted.shown_label) == ("web", "(unknown)")
    assert DECISION.shown_label == "web" and doubted != DECISION
    assert Decision.from_plain(doubted.to_plain()) == doubted
    assert Decision.from_plain(DECISION.to_plain()[:8]) == DECISION, "states of before do not say"


def test_earliness_needs_a_known_length() -> None:
    with pytest.raises(ValueError, match=r"link/7/1 is not known yet"):
        _ = replace(DECISION, length=None).earliness


def test_values_are_frozen() -> None:
    item = Item("link", 7, {"size": 40}, 0.5)
    assert not item.is_end
    with pytest.raises(FrozenInstanceError):
        item.key = 8  # type: ignore[misc]


def test_reasons_are_their_words() -> None:
    assert [str(reason) for reason in Reason] == ["halted", "ended", "expired", "evicted", "closed"]


@pytest.mark.parametrize("error", [DataError, SettingError, ModelError, MissingExtra])
def test_errors_of_users_are_one_family(error: type[KvecError]) -> None:
    assert issubclass(error, KvecError) and issubclass(error, ValueError)
