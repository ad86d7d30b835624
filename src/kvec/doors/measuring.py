"""An evaluation as the command line shows it: the model, the best fixed-n rule and the whole sequence side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec import __version__
from kvec.decide.calibrating import calibration
from kvec.decide.checkpoint import Trained
from kvec.decide.held import held_out, scores_of
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.promise_here import PromiseHere, promise_here
from kvec.decide.scores import Scores
from kvec.decide.targets import COSTS, Target, with_classes
from kvec.doors.asked import of_the_asked
from kvec.doors.promises import promise_lines, unknown_lines
from kvec.estimator import KVEC
from kvec.learn.run import kept_of
from kvec.read.table import Table
from kvec.report.curves import Dial, Traces, best_fixed, fixed_sizes, stop_at_fixed, stop_at_threshold, summarise_stops
from kvec.report.html import write_report
from kvec.report.metrics import Summary, per_class
from kvec.report.text import percent, table
from kvec.report.trust import Trust, trust
from kvec.tangle.repeats import is_new_to
from kvec.tangle.tangles import Tangles
from kvec.words.errors import DataError
from kvec.words.explanation import Explanation

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
FEW = 5  # classes that are named


@dataclass(frozen=True)
class Evaluation:
    """What a model achieves on the labelled sequences of one label column."""

    label: str
    classes: tuple[str, ...]
    threshold: float
    traces: Traces
    n_missing: int  # sequences without a label
    new_classes: dict[str, int]  # labels that the model does not know, with their numbers of sequences
    halting: Summary  # at the model's operating point
    fixed_n: int  # best on the validation sequences, by HM or, where costs are given, by these
    fixed: Summary
    whole: Summary  # every sequence at its end
    is_new: Bools | None = None  # sequences that do not occur in the training part
    delay_cost: float | None = None  # where the model's dial stands, if it has one
    is_known: Bools | None = None  # decisions that say that they know, where some may not
    n_new_unknown: int = 0  # sequences of new classes that are decided as not known
    costs: tuple[float, float, float] | None = None  # of a sequence: by halting, the fixed rule, at the end
    promise_here: PromiseHere | None = None  # what is lost of that which the model's promise is about
    of_the_asked: tuple[str, ...] = ()  # what is said of what was asked for

    @property
    def without_repeats(self) -> Summary | None:
        """The halting policy on the sequences that training has not seen identically, where that is known."""
        if self.is_new is None or not self.is_new.any():
            return None
        kept = _chosen(self.traces, self.is_new)
        is_known = None if self.is_known is None else self.is_known[self.is_new]
        return summarise_stops(kept, stop_at_threshold(kept, self.threshold), len(self.classes), is_known=is_known)

    @cached_property
    def trust(self) -> Trust:
        """How far the probabilities of its decisions can be trusted."""
        return trust(self.traces, self.threshold)

    @property
    def n_new(self) -> int:
        """Sequences whose label the model does not know."""
        return sum(self.new_classes.values())

    @property
    def accuracy_with_new(self) -> float:
        """The accuracy when sequences of classes that the model does not know count as wrong."""
        return self.halting.accuracy * self.halting.n_keys / (self.halting.n_keys + self.n_new)

    def notes(self) -> list[str]:
        """What must be known beside the figures, a sentence each."""
        found = one_for_all(self.traces, self.threshold, self.classes)
        if self.costs is not None:
            found.append(f"fixed rule: {_items(self.fixed_n)}, the number of least cost on the validation sequences")
        new = self.without_repeats
        if new is not None and new.n_keys < self.halting.n_keys:
            found.append(
                f"without the {_sequences(self.halting.n_keys - new.n_keys)} that occur identically in the training "
                f"part: accuracy {new.accuracy:.4f}, earliness {new.earliness:.4f}, HM {new.hm:.4f}"
            )
        if self.n_missing:
            found.append(f"left out: {_sequences(self.n_missing)} without a label")
        if self.n_new:
            found.append(
                f"left out: {_sequences(self.n_new)} of classes new to the model ({named(list(self.new_classes))}); "
                f"with them counted as wrong, accuracy is {self.accuracy_with_new:.4f}"
            )
        if self.n_new and self.is_known is not None:
            found.append(
                f"unknown: {percent(self.n_new_unknown / self.n_new)} of the {_sequences(self.n_new)} of new classes, "
                f"and {percent(1 - self.halting.coverage)} of the others"
            )
        return [*found, *self.of_the_asked]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        names = ("accuracy", "earliness", "hm")
        n_observed = stop_at_threshold(self.traces, self.threshold)
        scores = per_class(
            self.traces.truth,
            self.traces.decided(n_observed)[0],
            n_observed,
            self.traces.length,
            len(self.classes),
            self.is_known,
        )
        plain = self.halting.to_dict() | {
            "label": self.label,
            "threshold": self.threshold,
            "delay_cost": self.delay_cost,
            "end_accuracy": self.whole.accuracy,
            "fixed_n": {
                "n": self.fixed_n,
                "chosen_by": "hm" if self.costs is None else "cost",
                **{name: getattr(self.fixed, name) for name in names},
            },
            "n_left_out": self.n_missing + self.n_new,
            "n_missing_labels": self.n_missing,
            "n_new_labels": self.n_new,
            "new_classes": self.new_classes,
            "accuracy_with_new": self.accuracy_with_new,
            "n_new_unknown": self.n_new_unknown,
            "calibration": self.trust.to_dict(),
            "classes": {
                name: {"precision": s.precision, "recall": s.recall, "f1": s.f1, "n_keys": s.support}
                for name, s in zip(self.classes, scores, strict=True)
            },
        }
        if self.costs is not None:
            plain["cost"], plain["fixed_n"]["cost"], plain["end_cost"] = self.costs
        if self.promise_here is not None:
            plain["promise_here"] = self.promise_here.to_dict()
        new = self.without_repeats
        return plain if new is None else plain | {"without_repeats": new.to_dict()}

    def to_text(self) -> str:
        """Tables for a terminal."""
        rule = "every sequence" if self.costs is None else "the cheapest n:"
        rules = [
            (f"the model, {OperatingPoint(self.threshold, self.delay_cost)}", self.halting),
            (f"{rule} after {_items(self.fixed_n)}", self.fixed),
            ("every sequence at its end", self.whole),
        ]
        costs = [()] * len(rules) if self.costs is None else [(f"{cost:.4g}",) for cost in self.costs]
        rows = [
            (name, f"{s.accuracy:.4f}", f"{s.earliness:.4f}", f"{s.hm:.4f}", f"{s.mean_n_observed:.1f}", *cost)
            for (name, s), cost in zip(rules, costs, strict=True)
        ]
        header = ("decided", "accuracy", "earliness", "HM", "items seen", "cost")[: len(rows[0])]
        tables = [str(self.halting), table(rows, header, right=(1, 2, 3, 4, 5)[: len(header) - 1])]
        return "\n\n".join([*tables, self.trust.line(), *self.notes()])


def require_truth(items: Table) -> None:
    """Refuse a table that has no labels to compare with."""
    for name in items.schema.label_names:
        if items.frame[f"label.{name}"].null_count() == items.frame.height:
            way_out = (
                "; say --labels by-file, by-folder or FILE, as for training"
                if items.schema.packets
                else f", in a column {name!r} (schema.labels of the model); add that column, or name a second table "
                "that holds it per key with --labels FILE"
            )
            raise DataError(f"{items.source}: there are no labels in it to measure by{way_out}")


def evaluate_model(
    model: KVEC, tangles: Tangles, scores: Scores, training: Tangles | None = None, target: Target | None = None
) -> tuple[Evaluation, ...]:
    """Evaluate every label column; with the training part, tell which sequences it holds identically.

    Where the target says what costs, so do the rules of the first column, and the fixed one is the cheapest.
    """
    trained = model.model_
    is_new = None if training is None else is_new_to(training, tangles)
    found = []
    for column, label in enumerate(trained.vocabulary.label_names):
        traces = model.traces(tangles, scores, column)
        classes = trained.vocabulary.labels[column]
        aims = with_classes(target, classes) if column == 0 and target and set(target) & set(COSTS) else None
        if aims is None:
            fixed_n = best_fixed(validation_traces(trained, column))[0]
        else:
            fixed_n = cheapest_fixed(Held.of(trained.validation), aims)
        known = tangles.labels[:, column] >= 0
        sure = model.is_known(tangles, scores, column)
        is_sure = None if sure is None else sure[known]
        stops = stop_at_threshold(traces, trained.threshold)
        halting = summarise_stops(traces, stops, len(classes), is_known=is_sure)
        fixed, whole = (
            summarise_stops(traces, stop, len(classes), draws=0)
            for stop in (stop_at_fixed(traces, fixed_n), traces.length)
        )
        n_missing, new_classes, of_new = left_out(tangles, label, known)
        costs = None
        if aims is not None:
            held = Held.of(held_out(tangles, scores))
            at_point, at_fixed, at_end = (
                float(held.cost(stop, aims)) for stop in (stops, stop_at_fixed(traces, fixed_n), traces.length)
            )
            costs = at_point, at_fixed, at_end
        is_new_here = None if is_new is None else is_new[known]
        n_new_unknown = 0 if sure is None else int((~sure[of_new]).sum())
        found.append(Evaluation(
            label, classes, trained.threshold, traces, n_missing, new_classes, halting, fixed_n, fixed, whole,
            is_new_here, trained.delay_cost, is_sure, n_new_unknown, costs,
            None if column else lost_here(model, tangles, scores),
            () if column else of_the_asked(model, tangles, scores, target or {}),
        ))  # fmt: skip
    return tuple(found)


def cheapest_fixed(held: Held, costs: Target) -> int:
    """The number of items after which these sequences cost least on average; of equals, the smallest."""
    sizes = fixed_sizes(held.length)
    return int(sizes[np.argmin([held.cost(np.minimum(held.length, n), costs) for n in sizes])])


def lost_here(model: KVEC, tangles: Tangles, scores: Scores) -> PromiseHere | None:
    """What is lost here of that which the model promises, where it does; a class that is new to it is always wrong."""
    promise = model.deployed().promised
    if promise is None:
        return None
    is_given = tangles.frame[f"label.{promise.label}"][tangles.sequences.first].is_not_null().to_numpy()
    found = calibration(tangles, scores, is_given, tangles.tangle_of.astype(np.int64), [model.model_.operating_point])
    return promise_here(promise, found, model.model_.vocabulary.labels[0])


def told_of(model: KVEC, here: PromiseHere | None) -> list[str]:
    """What is told of the model before any figures: its promise, what is lost here, and when it says unknown."""
    return [
        *promise_lines(model.deployed()), *([] if here is None else [here.line()]),
        *unknown_lines(model.model_.unknown),
    ]  # fmt: skip


def to_json(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """The first label column at the top, and where there are several, all of them by name."""
    plain = evaluations[0].to_dict()
    if len(evaluations) > 1:
        plain["columns"] = {each.label: each.to_dict() for each in evaluations}
    return plain


def report_evaluation(
    path: Path, model: KVEC, evaluations: Sequence[Evaluation], title: str, command: str, data: dict[str, Any],
    explanations: Sequence[Explanation] = (), dial: Dial | None = None,
) -> None:  # fmt: skip
    """Write the HTML report of the first label column, along the dial where there is one; others are noted in it."""
    first, *others = evaluations
    notes = [
        f"{each.label}: accuracy {percent(each.halting.accuracy)}, earliness {percent(each.halting.earliness)}, "
        f"HM {each.halting.hm:.3f}"
        for each in others
    ]
    notes += [f"{note[0].upper()}{note[1:]}." for note in (*told_of(model, first.promise_here), *first.notes())]
    trained = model.model_
    write_report(
        path, title=title, summary=first.halting, traces=first.traces, threshold=first.threshold,
        delay_cost=first.delay_cost, dial=dial, classes=first.classes, fixed_n=first.fixed_n, history=trained.history,
        kept=kept_of(trained.history, trained.config.training)["epoch"] if trained.history else None,
        settings=trained.config.to_dict(),
        data=data | trained.about, explanations=explanations, notes=notes, command=command, version=__version__,
        is_known=first.is_known, costs=first.costs,
    )  # fmt: skip


def dial_of(model: KVEC, tangles: Tangles, scores: Scores) -> Dial | None:
    """Where the points of a model's dial, as validation has them, stop these sequences; nothing where θ alone turns."""
    if scores.knots is None or model.model_.delay_cost is None:
        return None
    grid, held = Held.of(model.model_.validation).grid()[::-1], Held.of(held_out(tangles, scores))
    return Dial(tuple(map(str, grid)), np.stack([held.stops(point) for point in grid]))


def validation_traces(trained: Trained, column: int = 0) -> Traces:
    """The scores of the validation sequences that the model folder keeps."""
    kept = trained.validation
    heard = trained.readiness.applied(scores_of(kept), trained.delay_cost)
    scores = heard.classes[column].astype(np.float64)
    truth = kept["labels"][:, column].astype(np.int64)
    halt = heard.halt.astype(np.float64)
    every = Traces(heard.offsets, halt, scores.argmax(axis=1), scores.max(axis=1), truth, kept["tangle"])
    return _chosen(every, truth >= 0)


def one_for_all(traces: Traces, threshold: float, classes: Sequence[str]) -> list[str]:
    """A sentence where sequences of several classes are all named the same."""
    decided = np.unique(traces.decided(stop_at_threshold(traces, threshold))[0])
    if len(decided) != 1 or len(np.unique(traces.truth)) < 2:
        return []
    return [
        f"the model names every sequence {classes[decided[0]]!r} (HM rewards an early guess of the most frequent class)"
    ]


def named(classes: Sequence[str]) -> str:
    """The first of some classes, and how many more there are.

    >>> named(["chat", "game"]), named(list("abcdefg"))
    ("'chat', 'game'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    more = f" and {len(classes) - FEW:,} more" if len(classes) > FEW else ""
    return ", ".join(map(repr, classes[:FEW])) + more


def left_out(tangles: Tangles, label: str, known: Bools) -> tuple[int, dict[str, int], Ints]:
    """How many sequences have no label; the labels that the model does not know, the most frequent first; their own."""
    which = np.flatnonzero(~known)
    left_out = tangles.sequences.first[which]
    if (column := f"label.{label}") not in tangles.frame.columns:
        return len(left_out), {}, which[:0]
    given = tangles.frame[column][left_out]
    counts = given.drop_nulls().cast(pl.String).alias("name").value_counts()
    counts = counts.sort("count", "name", descending=[True, False])
    return given.null_count(), dict(counts.rows()), which[given.is_not_null().to_numpy()]


def _items(n: int) -> str:
    return f"{n} item{'s' * (n != 1)}"


def _sequences(n: int) -> str:
    return f"{n:,} sequence{'s' * (n != 1)}"


def _chosen(traces: Traces, which: Bools) -> Traces:
    """The traces of some of the sequences."""
    items = np.repeat(which, traces.length)
    before = traces.untempered
    return replace(
        traces,
        untempered=None if before is None else before[items],
        offsets=np.concatenate([[0], np.cumsum(traces.length[which])]),
        halt=traces.halt[items],
        predicted=traces.predicted[items],
        confidence=traces.confidence[items],
        truth=traces.truth[which],
        tangle=traces.tangle[which],
    )
