"""The road of `kvec tune`: score new data once, fit triggers on it, save the best beside the old network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from kvec.doors.newcomers import require_known_class
from kvec.doors.promises import held_by, promise_lines, unknown_lines
from kvec.doors.sources import read_by_schema, take_part
from kvec.doors.writing import require_apart
from kvec.estimator import load
from kvec.learn.comparing import Tried, best_of, compare_triggers
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
    require_possible(model.model_, tangles.labels, trigger, target)
    held = held_out(tangles, score_table(model.model_.network, tangles, model.model_.config))
    if trigger is None:
        tried = compare_triggers(model.model_, held, target)
        print("each fitted on half of the tangles, measured on the other half:\n")
        print(_shown(tried))
        trigger = best_of(tried, target).trigger
        if trigger == "calibrated":
            print("it turns by θ alone; --trigger induction gives a model that turns by λ")
    tuned = retune(model.model_, held, trigger, target)
    tuned = replace(tuned, tuned=np.union1d(tuned.tuned, seen_marks(items.frame)))  # it can promise nothing any more
    if there := held_by(output):
        say(f"{there}{', the one that was tuned' * (output.resolve() == path.resolve())}, which is replaced")
    save_model(tuned, output)
    print(f"the model that halts by {WAYS[trigger]} is in {output}, at {tuned.operating_point}")
    for line in unknown_lines(tuned.unknown):
        print(line)
    for line in promise_lines(tuned.deployed()):
        say(line)


def _shown(tried: list[Tried]) -> str:
    costs = [[] if t.cost is None else [f"{t.cost:.4g}"] for t in tried]
    rows = [
        (t.trigger, f"{t.accuracy:.4f}", f"{t.earliness:.4f}", f"{t.hm:.4f}", *cost)
        for t, cost in zip(tried, costs, strict=True)
    ]
    header = ("trigger", "accuracy", "earliness", "HM", "cost")[: len(rows[0])]
    return table(rows, header, right=(1, 2, 3, 4))
