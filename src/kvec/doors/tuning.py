"""The road of `kvec tune`: score new data once, fit triggers on it, save the best beside the old network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from kvec.decide.checkpoint import require_model_place, save_model
from kvec.decide.held import held_out
from kvec.decide.readiness import TRIGGERS
from kvec.decide.replaying import score_table
from kvec.doors.doubts import require_unused
from kvec.doors.measuring import require_truth
from kvec.doors.messages import say, warn_of
from kvec.doors.newcomers import missing_lines, new_lines, require_known_class
from kvec.doors.promises import held_by, promise_lines, unknown_lines
from kvec.doors.sources import read_by_schema, take_part
from kvec.doors.writing import require_apart
from kvec.estimator import load
from kvec.learn.comparing import FEWEST_TANGLES, Gain, Tried, choose, compare_triggers, measure_of
from kvec.learn.retuning import require_possible, retune
from kvec.report.text import table
from kvec.tangle.seen import seen_marks
from kvec.words.plain import require_choice

WAYS = {"hazard": "its learned score", "calibrated": "calibrated probability", "induction": "backward induction"}


def tune_model(
    path: Path, data: Path, output: Path, trigger: str | None, target: Mapping[str, Any], labels: Path | None,
    device: str, part: str | None = None,
) -> None:  # fmt: skip
    """Fit a trigger on data, and write the model with it into the folder `output`."""
    if trigger is not None:
        require_choice(trigger, TRIGGERS, "--trigger")
    if part is not None:
        require_choice(part, ("test",), "--split")
    require_model_place(output)
    require_apart(output, (data, labels))
    model = load(path, device)
    items = read_by_schema(data, model.model_.schema, labels)
    if part is not None:
        items, _ = take_part(items, model.model_.split, part, path, "give")
    if model.model_.seen is not None:
        so = "training or validation, where a model is surer than elsewhere, so a trigger fitted on them would err"
        require_unused(items.frame, model.model_, model.model_.seen, data, part, so)
    require_truth(items)
    warn_of(items)
    tangles = model.tangles(items)
    require_known_class(model, tangles, data, "there is nothing to tune on")
    for line in new_lines(model, tangles):
        say(line)
    require_possible(model.model_, tangles.labels, trigger, target)
    for line in missing_lines(model, tangles, data):
        say(line)
    held = held_out(tangles, score_table(model.model_.network, tangles, model.model_.config))
    is_given = trigger is not None
    if trigger is None:
        present, tried = model.model_.readiness.trigger, compare_triggers(model.model_, held, target)
        trigger, gains = choose(tried, present, target)
        print("each fitted on half of the tangles, measured on the other half:\n")
        print(_shown(tried, gains, present, measure_of(target)))
        print(f"\n{_why(trigger, gains, present)}")
    tuned = retune(model.model_, held, trigger, target)
    tuned = replace(tuned, tuned=np.union1d(tuned.tuned, seen_marks(items.frame)))  # it can promise nothing any more
    if there := held_by(output):
        say(f"{there}{', the one that was tuned' * (output.resolve() == path.resolve())}, which is replaced")
    save_model(tuned, output)
    if not is_given and tuned.delay_cost is None:
        print("it turns by θ alone; --trigger induction gives a model that turns by λ")
    print(f"the model that halts by {WAYS[trigger]} is in {output}, at {tuned.operating_point}")
    for line in unknown_lines(tuned.unknown):
        print(line)
    for line in promise_lines(tuned.deployed()):
        say(line)


def _shown(tried: Sequence[Tried], gains: Mapping[str, Gain], present: str, measure: str) -> str:
    """What each does, and by how much it is ahead of the present one."""
    is_cost = measure == "cost"
    header = ["trigger", "accuracy", "earliness", "HM", *["cost"] * is_cost]
    rows = [
        [t.trigger, f"{t.accuracy:.4f}", f"{t.earliness:.4f}", f"{t.hm:.4f}", *[f"{t.cost:.4g}"] * is_cost]
        for t in tried
    ]
    if gains:
        header += [f"{'less' if is_cost else 'more'} {measure} than {present}", "95 % interval"]
        rows = [row + _gained(gains.get(row[0]), "+.4g" if is_cost else "+.4f") for row in rows]
    return table(rows, header, right=range(1, len(header) - bool(gains)))


def _gained(gain: Gain | None, digits: str) -> list[str]:
    if gain is None:
        return ["", ""]
    between = f"{gain.low:{digits}} to {gain.high:{digits}}" if isfinite(gain.low) else "of too few tangles"
    return [f"{gain.point:{digits}}", between]


def _why(trigger: str, gains: Mapping[str, Gain], present: str) -> str:
    """Why a trigger was kept or taken."""
    now = f"{present}, by which the model halts now,"
    if trigger != present:
        if gains:
            return f"{trigger} is taken: it is ahead of {now} beyond the interval"
        return f"{trigger} is taken, the best that can reach this; {now} cannot"
    if not gains:
        return f"{now} is kept: no other can reach this"
    if not all(isfinite(gain.low) for gain in gains.values()):
        return f"{now} is kept: fewer than {FEWEST_TANGLES} tangles with labels do not tell which is better"
    return f"{now} is kept: no other is ahead of it beyond the interval (--trigger takes another)"
