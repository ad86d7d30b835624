"""The trade-off of a trigger, and the setting that held-out sequences speak for."""

from __future__ import annotations

import numpy as np

from kvec.decide.triggers.base import Prefixes, Trigger
from kvec.report.curves import Curve
from kvec.report.metrics import harmonic_means


def trigger_curve(trigger: Trigger, prefixes: Prefixes) -> Curve:
    """Accuracy, earliness and HM of a fitted trigger at each of its settings."""
    settings = trigger.settings()
    stopped = trigger.sweep(prefixes, settings)
    late = np.mean(stopped / prefixes.length, axis=1)
    right = np.array([np.mean(prefixes.predicted(row) == prefixes.truth) for row in stopped])
    return Curve(settings, late, right, harmonic_means(right, late))


def best_setting(trigger: Trigger, known: Prefixes) -> tuple[float, float]:
    """The setting of largest HM on held-out sequences (of equals, the one of larger accuracy), and that HM."""
    curve = trigger_curve(trigger, known)
    best = curve.best()
    return float(curve.setting[best]), float(curve.hm[best])
