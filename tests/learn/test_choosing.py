"""The curve of a trigger, and the setting of largest HM on held-out sequences."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.triggers.made import accuracy, prefixes, walks

from kvec.decide.triggers.catalogue import TRIGGERS
from kvec.learn.choosing import best_setting, trigger_curve
from kvec.report.metrics import harmonic_mean


@pytest.mark.parametrize("name", TRIGGERS)
def test_a_curve_has_a_point_for_every_setting(name: str) -> None:
    known, others = walks(100, seed=0), walks(100, seed=1)
    trigger = TRIGGERS[name]().fit(known)
    curve = trigger_curve(trigger, others)
    assert np.array_equal(curve.setting, trigger.settings())
    for i in (0, len(curve.setting) // 2, -1):
        stopped = trigger.stops(others, float(curve.setting[i]))
        assert curve.accuracy[i] == accuracy(others, stopped)
        assert curve.earliness[i] == pytest.approx(np.mean(stopped / others.length))
        assert curve.hm[i] == pytest.approx(harmonic_mean(curve.accuracy[i], curve.earliness[i]))
    assert trigger_curve(trigger, known).hm.max() == pytest.approx(
        harmonic_mean(
            accuracy(known, trigger.stops(known, best_setting(trigger, known)[0])),
            float(np.mean(trigger.stops(known, best_setting(trigger, known)[0]) / known.length)),
        )
    )


def test_the_best_number_of_items_is_found() -> None:
    wrong, right = [0.9, 0.1], [0.2, 0.8]
    known = prefixes([np.array([wrong] * 3 + [right] * 17)] * 5, [1] * 5)
    assert best_setting(TRIGGERS["fixed"]().fit(known), known)[0] == 4
