"""Classifiers of scikit-learn that learn from a table of features: gradient-boosted trees, logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.words import extras

Ints = npt.NDArray[np.int64]
Learn = Callable[[Any, Ints, Any, Ints, int], Any]  # rows and classes to learn from, to choose by; seed
PENALTIES = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)  # C of the logistic regression
ROUNDS, PATIENCE = 300, 10  # of boosting: at the most, and without a gain on validation
STEPS = 2000  # of the solver, at the most


@dataclass(frozen=True)
class Learner:
    """A way to learn from features: dense ones or sparse ones."""

    is_sparse: bool
    learn: Learn


def need_learner(module: str) -> Any:
    """A module of the extra `reproduce`, or a word on how to install it."""
    return extras.need(module, "prefix classifiers need", "reproduce")


def learn_trees(rows: Any, truth: Ints, held: Any, held_truth: Ints, seed: int) -> Any:
    """Gradient-boosted trees, as many rounds as help on validation."""
    trees = need_learner("sklearn.ensemble").HistGradientBoostingClassifier(
        max_iter=ROUNDS, early_stopping=True, n_iter_no_change=PATIENCE, random_state=seed
    )
    never = np.isnan(rows).all(axis=0)  # such as the most of items that none has: it cannot be binned
    return trees.fit(np.where(never, 0.0, rows), truth, X_val=held, y_val=held_truth)


def learn_logistic(rows: Any, truth: Ints, held: Any, held_truth: Ints, seed: int) -> Any:
    """Logistic regression, with the penalty that is best by log-loss on validation."""
    regression = need_learner("sklearn.linear_model").LogisticRegression
    found, least = None, np.inf
    for penalty in PENALTIES:
        tried = regression(C=penalty, max_iter=STEPS, random_state=seed).fit(rows, truth)
        of_truth = tried.predict_proba(held)[np.arange(len(held_truth)), np.searchsorted(tried.classes_, held_truth)]
        loss = -float(np.mean(np.log(np.maximum(of_truth, 1e-12))))
        if loss < least:
            found, least = tried, loss
    return found


LEARNERS = {"trees": Learner(is_sparse=False, learn=learn_trees), "logistic": Learner(True, learn_logistic)}
