"""Explanations: plain values that any text or picture can show."""

from __future__ import annotations

from kvec.words.explanation import Explanation, Look, Step
from kvec.words.items import Decision, Reason


def test_an_explanation_is_made_of_plain_values() -> None:
    look = Look(arrival=3, key="b", value="size=40", position=1, weight=0.7, is_own=False)
    step = Step(arrival=5, value="size=40", halt_score=0.8, probabilities=(0.9, 0.1), looks=(look,))
    decision = Decision("link", "a", 0, ("web",), (0.9,), 1, 4, Reason.HALTED)
    explanation = Explanation(decision, ("web", "mail"), 0.5, (step,))
    assert explanation == Explanation(decision, ("web", "mail"), 0.5, (step,))
    assert hash(step) == hash(Step(5, "size=40", 0.8, (0.9, 0.1), (look,)))
