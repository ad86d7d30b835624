"""Held-out sequences made without a network, as a model folder keeps them."""

from __future__ import annotations

import numpy as np

from kvec.decide.held import Arrays

CLASSES = 4


def made_held(n: int, seed: int, shift: float = 0.0, classes: int = CLASSES) -> Arrays:
    """Sequences of a few classes, ever clearer; with `shift` their scores lie where no known class has any."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, 20, n)
    truth = rng.permutation(np.arange(n) % classes)
    place = np.concatenate([np.arange(k) for k in length])
    owner = np.repeat(np.arange(n), length)
    logits = rng.normal(size=(len(owner), classes))
    logits[np.arange(len(owner)), truth[owner]] += 2 + 0.2 * place
    logits += shift * (np.arange(classes) % 2)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return {
        "offsets": np.concatenate([[0], np.cumsum(length)]),
        "halt": rng.random(len(owner)).astype(np.float32),
        "classes.0": (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32),
        "labels": truth[:, None],
        "tangle": np.arange(n) // 3,
    }
