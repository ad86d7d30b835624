"""Traces, a history and explanations made for the tests of this room."""

import numpy as np

from kvec.report.curves import Traces
from kvec.words.explanation import Explanation, Look, Step
from kvec.words.items import Decision, Reason

NASTY = ("<b>bold</b> & co", "$x^2$", "日本語", "tab\tand\x00nul")
CLASSES = (*NASTY, "web", "mail")
HISTORY = tuple(
    {"epoch": e, "loss": 2 / e, "classification": 1.5 / e, "policy": 0.0, "validation_hm": 0.8 - 0.5 / e,
     "validation_accuracy": 0.9 - 0.5 / e, "validation_earliness": 0.2 + 0.3 / e, "seconds": 9.0}
    for e in range(1, 6)
)  # fmt: skip


def traces(n_sequences: int = 60, n_classes: int = len(CLASSES), seed: int = 0) -> Traces:
    """Sequences whose class shows more and more clearly, two to a tangle."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 40, n_sequences)
    offsets = np.append(0, np.cumsum(length))
    truth = rng.integers(0, n_classes, n_sequences)
    sequence = np.repeat(np.arange(n_sequences), length)
    known = 1 - np.exp(-(np.arange(offsets[-1]) - offsets[sequence] + 1) / 6)
    guess = rng.integers(0, n_classes, offsets[-1])
    predicted = np.where(rng.random(n_sequences)[sequence] < known, truth[sequence], guess)
    return Traces(
        offsets, known * rng.uniform(0.5, 1, known.size), predicted, known, truth, np.arange(n_sequences) // 2
    )


def explanation(n_steps: int, n_observed: int, n_others: int = 3) -> Explanation:
    """A sequence that looks at itself and at a few items of other keys."""
    rng = np.random.default_rng(n_steps)
    steps = []
    for i in range(n_steps):
        weights = rng.dirichlet(np.ones(i + 1 + n_others)).tolist()
        own = [Look(2 * j, "me", f"value {j}", j, weights[j], True) for j in range(i + 1)]
        others = [Look(2 * j + 1, NASTY[j % 4], NASTY[j % 4], j, weights[i + 1 + j], False) for j in range(n_others)]
        looks = tuple(sorted([*own, *others], key=lambda look: -look.weight))
        steps.append(
            Step(2 * i, f"value {i}", (i + 1) / (n_steps + 1), tuple(rng.dirichlet(np.ones(6)).tolist()), looks)
        )
    decision = Decision("link", NASTY[0], 0, ("web",), (0.7,), n_observed, n_steps, Reason.HALTED, ("mail",))
    return Explanation(decision, CLASSES, 0.5, tuple(steps))
