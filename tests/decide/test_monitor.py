"""Monitors: silent while all is as it was, loud when it changes or when labels say so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.decide.made_promise import KEYS, promise, units, watched

from kvec.decide import monitor as room
from kvec.decide.monitor import PATIENCE, Alarm, Monitor
from kvec.decide.promise import ClassPromise
from kvec.words.errors import SettingError
from kvec.words.items import Decision, Reason


def fed(monitor: Monitor, *parts: list[list[Decision]]) -> Monitor:
    """Tangles one after the other, each of which ends."""
    for unit in [unit for part in parts for unit in part]:
        for decision in unit:
            monitor.observe(decision)
        monitor.close(unit[0].tangle)
    return monitor


def labelled(rng: np.random.Generator, risk: float, n: int, **changes: Any) -> Monitor:
    """A monitor that has heard the labels of n units, all of a unit right or wrong together."""
    monitor = Monitor(watched(rng, **changes))
    for unit in units(rng, n):
        is_wrong = rng.random() < risk
        for one in unit:
            monitor.observe(one)
        for one in unit:
            monitor.observe_label(one.id, "other" if is_wrong else one.label)
        monitor.close(unit[0].tangle)
    return monitor


def test_few_false_alarms() -> None:
    rng = np.random.default_rng(0)
    monitors = [fed(Monitor(watched(rng, 60)), units(rng, 150)) for _ in range(60)]
    assert sum(not monitor.status().holds for monitor in monitors) <= 8, "δ = 0.05: 3, and three standard deviations"
    assert all(monitor.status().n_units == 150 for monitor in monitors)


def test_few_false_alarms_where_some_sequences_have_no_label() -> None:
    """A promise counts labelled sequences, and decisions come of all: a tangle is over when it ends, not before."""
    rng = np.random.default_rng(10)
    monitors = [fed(Monitor(watched(rng, 60, most_keys=1)), units(rng, 150)) for _ in range(60)]
    assert all(monitor.status().n_units == 150 for monitor in monitors)
    assert sum(not monitor.status().holds for monitor in monitors) <= 8, "δ = 0.05: 3, and three standard deviations"


def test_ties_are_broken_otherwise_for_each_calibration() -> None:
    """One series for all promises would make the luck of one the luck of all."""
    rng = np.random.default_rng(14)
    one, seen = watched(rng), units(rng, 100)
    drifts = [fed(Monitor(replace(one, calibration=name)), seen).status().drift for name in ("a1", "a1", "b2", "c3")]
    assert drifts[0] == drifts[1] and len(set(drifts)) == 3


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"doubt": 3.0}, "how sure decisions are changed"),
        ({"patience": 2.0}, "how many items they take changed"),
        ({"mix": {"a": 0.8, "b": 0.1, "c": 0.1}}, "the share of class 'a' changed"),
    ],
)
def test_what_changed_is_named(change: dict[str, Any], what: str) -> None:
    rng = np.random.default_rng(1)
    monitor = fed(Monitor(watched(rng)), units(rng, 20), units(rng, 120, **change))
    now = monitor.status()
    assert not now.holds and now.drift == 1
    assert what in {alarm.what for alarm in now.alarms}
    assert 20 < now.alarms[0].n_units < 140
    assert now.line().startswith("the promise does not hold any more: ")


def test_labels_that_come_later() -> None:
    rng = np.random.default_rng(2)
    assert all(labelled(rng, 0.1, 150).status().errors < 1 for _ in range(10))
    bad = labelled(rng, 0.4, 150).status()
    assert not bad.holds and bad.errors == 1 and bad.n_labelled_units == 150
    assert bad.alarms[0].what == "more than 10% are lost, by the labels that came"


def test_labels_raise_few_false_alarms() -> None:
    rng = np.random.default_rng(3)
    kept = watched(rng)
    n_false = 0
    for _ in range(200):
        monitor = Monitor(kept)
        for tangle in range(100):
            one = Decision(tangle, 0, 0, ("a",), (0.9,), 3, None, Reason.HALTED)
            monitor.observe(one)
            monitor.close(tangle)
            monitor.observe_label(one.id, "b" if rng.random() < 0.1 else "a")
        n_false += monitor.status().errors == 1
    assert n_false <= 11, "half of δ is for errors: 5, and three standard deviations"


def test_more_labels_than_the_promise_allows_for_do_not_break_the_bets() -> None:
    """A bet that could lose more than all would have to be cut off at nothing, and be no fair bet any more."""
    rng = np.random.default_rng(12)
    capital = labelled(rng, 0.0, 1, most_keys=1).to_plain()["capital"]
    assert len(capital) > 3 and all(0 < each * len(capital) < 1 for each in capital)


def test_early_errors_need_what_would_have_been_said_at_the_end() -> None:
    rng = np.random.default_rng(4)
    for label_at_end, holds, n_units in (("other", False, 60), ("a", True, 60), (None, True, 0)):
        monitor = Monitor(watched(rng, kind="early error"))
        for tangle in range(60):
            one = Decision(tangle, 0, 0, ("a",), (0.9,), 3, None, Reason.HALTED)
            monitor.observe(one)
            assert monitor.observe_label(one.id, "other", label_at_end) == (label_at_end is not None)
        monitor.close()
        assert (monitor.status().errors < 1) == holds
        assert monitor.status().n_labelled_units == n_units
    assert "labels" not in monitor.status().line(), "of early errors they said nothing"
    assert sum(monitor.to_plain()["capital"]) == pytest.approx(1), "nor did they speak for the promise"


@pytest.mark.parametrize("right", [0, KEYS - 1])
def test_units_of_which_a_label_never_comes_count_without_it(right: int) -> None:
    """Three labels of four come, all wrong or all right."""
    rng = np.random.default_rng(13)
    kept = watched(rng)
    whole, cut = Monitor(kept), Monitor(kept)
    parts = units(rng, PATIENCE + 40)
    for number, unit in enumerate(parts):
        if number == PATIENCE + 20:
            cut = Monitor.from_plain(kept, json.loads(json.dumps(cut.to_plain())))
        for monitor in (whole, cut):
            for one in unit:
                monitor.observe(one)
            for i, one in enumerate(unit[:-1]):
                assert monitor.observe_label(one.id, one.label if i < right else "other")
            assert monitor.status().n_labelled_units == max(number - PATIENCE, 0)
            monitor.close(unit[0].tangle)
    now = whole.status()
    assert now.n_labelled_units == 40 and now.holds == bool(right)
    assert (sum(whole.to_plain()["capital"]) > 1) == (not right)
    assert len(whole.to_plain()["units"]) == PATIENCE, "no other is kept"
    assert len(whole.to_plain()["awaited"]) == PATIENCE, "nor what is not waited for any more"
    assert whole.to_plain() == cut.to_plain()
    assert not whole.observe_label(parts[0][-1].id, "other"), "it is waited for no more"
    assert whole.observe_label(parts[-1][-1].id, "other") and whole.status().n_labelled_units == 41


def test_labels_of_units_that_have_none_are_waited_for() -> None:
    rng = np.random.default_rng(14)
    parts = units(rng, 3 * PATIENCE)
    monitor = fed(Monitor(watched(rng)), parts)
    for unit in parts:
        for one in unit:
            assert monitor.observe_label(one.id, one.label)
    assert monitor.status().n_labelled_units == 3 * PATIENCE


def test_classes_of_which_nothing_is_promised_do_not_count() -> None:
    rng = np.random.default_rng(5)
    classes = tuple(ClassPromise(name, name == "a", "", 9, 9, 4, 0.0, 0.1) for name in ("a", "other"))
    assert labelled(rng, 0.9, 60, classes=classes).status().errors < 1


def test_tangles_are_compared_in_their_order_of_arrival() -> None:
    """Those whose decisions fall at once must not come first: they are not like the others."""
    rng = np.random.default_rng(6)
    monitor = Monitor(watched(rng))
    first, second = units(rng, 2)
    monitor.arrived(0)
    monitor.arrived(0)
    fed(monitor, [second])
    assert monitor.status().n_units == 0, "the first is not over"
    fed(monitor, [first[: KEYS - 1]])
    monitor.close(0)
    assert monitor.status().n_units == 2
    assert monitor.status().n_decisions == 2 * KEYS - 1
    monitor.arrived("nothing of it is decided")
    monitor.close("nothing of it is decided")
    monitor.close("never heard of")
    assert monitor.status().n_units == 2


def test_blocks_of_time() -> None:
    rng = np.random.default_rng(7)
    monitor = Monitor(watched(rng, block=60.0))
    for number, unit in enumerate(units(rng, 5)):
        for i, one in enumerate(unit):
            time = 60.0 * number + 10 * i
            monitor.arrived(0, time)
            told = replace(one, tangle=0, key=f"{number} {i}", fell=time if i else None)
            monitor.observe(told, None if i else time)
    monitor.observe(replace(unit[0], tangle=0, fell=59.0))
    assert monitor.status().n_units == 0 and len(monitor.to_plain()["open"]) == 5, "what is told late is no new unit"
    for number in (0, 1, 3):
        monitor.close(0, 60.0 * number + 59)
    assert monitor.status().n_units == 2, "in their order"
    monitor.close()
    assert monitor.status().n_units == 5
    with pytest.raises(SettingError, match="needs the time of each item and decision"):
        monitor.observe(unit[0])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_OPEN", 3)
    monkeypatch.setattr(room, "MOST_AWAITED", 5)
    rng = np.random.default_rng(8)
    monitor = Monitor(watched(rng))
    parts = units(rng, 20)
    for one in [one for unit in parts for one in unit[:2]]:
        monitor.observe(one)
    plain = monitor.to_plain()
    assert len(plain["open"]) == 3 and len(plain["awaited"]) == 5
    assert [monitor.observe_label(unit[0].id, "a") for unit in parts] == [False] * 18 + [True] * 2
    monitor.close()
    assert monitor.status().n_units == 3, "of the others nobody knows whether they were over"
    silent = fed(Monitor(watched(rng), awaits_labels=False), parts)
    assert not silent.to_plain()["awaited"] and not silent.to_plain()["units"]


def test_an_endless_tangle_holds_up_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_OPEN", 3)
    rng = np.random.default_rng(11)
    monitor = Monitor(watched(rng), awaits_labels=False)
    monitor.arrived("endless")
    for number, unit in enumerate(units(rng, 20), 1):
        fed(monitor, [unit])
        assert len(monitor.to_plain()["units"]) <= 3
        assert monitor.status().n_units == (number if number > 2 else 0), "given up, the endless one comes no more"


def test_a_kept_monitor_goes_on() -> None:
    rng = np.random.default_rng(9)
    kept = watched(rng)
    parts = units(rng, 40, doubt=1.5)
    whole, cut = Monitor(kept), Monitor(kept)
    for number, unit in enumerate(parts):
        for i, one in enumerate(unit):
            if (number, i) == (17, 2):
                cut = Monitor.from_plain(kept, json.loads(json.dumps(cut.to_plain())))
            for monitor in (whole, cut):
                monitor.observe(one)
                if number % 2:
                    monitor.observe_label(one.id, "a")
        for monitor in (whole, cut):
            monitor.close(number)
    assert whole.status().n_units == 40
    assert whole.status() == cut.status()
    assert whole.to_plain() == cut.to_plain()


def test_a_promise_without_a_reference_cannot_be_watched() -> None:
    with pytest.raises(SettingError, match="keeps no calibration decisions to compare with"):
        Monitor(promise())
    with pytest.raises(SettingError, match="nothing is promised at this operating point; kvec guarantee makes"):
        Monitor(None)


def test_what_is_said_before_a_unit_is_over_and_that_every_sign_is_named() -> None:
    rng = np.random.default_rng(15)
    monitor = Monitor(watched(rng))
    for one in units(rng, 1)[0]:
        monitor.observe(one)
    assert monitor.status().line().startswith(f"nothing can be said of the promise yet: {KEYS} decisions in 0 whole")
    alarms = (Alarm("how sure they are changed", 7), Alarm("how many items they take changed", 1200))
    told = replace(monitor.status(), holds=False, alarms=alarms, n_units=1300).line()
    assert (
        "how sure they are changed, seen after 7 units; how many items they take changed, seen after 1,200 units ("
        in told
    )


def test_what_an_older_kvec_kept_is_read() -> None:
    rng = np.random.default_rng(16)
    kept = watched(rng)
    monitor = Monitor(kept)
    first, second = units(rng, 2)
    fed(monitor, [first])
    for one in second:
        monitor.observe(one)
    plain = json.loads(json.dumps(monitor.to_plain()))
    for _, unit in plain["units"]:
        unit["n_awaited"] = KEYS
        del unit["awaited"]
    plain["awaited"]["of a unit that was counted"] = [99, "a", True]
    assert Monitor.from_plain(kept, plain).to_plain() == monitor.to_plain()
