"""One cell of an experiment: train once, score validation and test once, and tell how every way of halting does."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kvec import __version__
from kvec.decide.checkpoint import Trained
from kvec.decide.held import held_out
from kvec.decide.looking import attention_shares
from kvec.decide.operating import OWN_WORD, Held
from kvec.decide.replaying import score_table
from kvec.decide.scores import Scores
from kvec.decide.triggers.base import Prefixes
from kvec.decide.triggers.catalogue import TRIGGERS
from kvec.decide.triggers.thresholds import spread_thresholds
from kvec.learn.choosing import best_setting
from kvec.learn.fitting import Pace, Progress, fit_model
from kvec.learn.run import Record, Run, kept_of
from kvec.learn.trainer import Step
from kvec.learn.validating import traces
from kvec.report.curves import (
    Traces,
    accuracy_at_end,
    accuracy_by_items,
    best_threshold,
    stop_at_threshold,
)
from kvec.report.metrics import accuracy, earliness, harmonic_mean, macro_scores
from kvec.reproduce.datasets import Parts, evenly, read_parts
from kvec.reproduce.oracle import hindsight
from kvec.reproduce.paces import paced
from kvec.reproduce.plan import Cell, Outcome, Sizes
from kvec.reproduce.prefix_classifiers import PrefixClassifiers
from kvec.reproduce.resolved import cell_config
from kvec.reproduce.trainings import TRAININGS, Training
from kvec.reproduce.units import Stopped, by_items, by_unit, with_units
from kvec.tangle.repeats import is_new_to
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary

_PARTS = ("train", "validation", "test")
Ints = npt.NDArray[np.int64]
MOST_POINTS = 41  # of a curve
LATER = tuple(np.round(np.arange(0.1, 1.001, 0.05), 2))
BINS = np.array([0.02, 0.04, 0.06, 0.08, *LATER])  # upper ends, in shares of a sequence
LOOKED_AT = 150  # test tangles in which attention is measured


@dataclass(frozen=True)
class Learned:
    """What a training leaves behind: what it says of validation and test, and how it came there."""

    tangles: dict[str, Tangles]  # train, validation and test
    known: Seen
    test: Seen
    history: list[Record]  # of its epochs; none where there are no epochs
    kept: Record
    theta: float
    seconds: float  # of processor time
    model: Trained | None  # where it is a network


def run_cell(cell: Cell, sizes: Sizes, data: Mapping[str, str]) -> Outcome:
    """Train and measure a cell in this process, with one thread."""
    torch.set_num_threads(1)
    started, began = datetime.now(UTC), time.perf_counter()
    training = TRAININGS[cell.training]
    parts = read_parts(cell.dataset, data, sizes, cell.seed)
    if cell.is_paired:
        parts = replace(parts, test=with_units(parts.test))
    learned = (
        learn_prefixes(cell, training, parts)
        if training.classifier
        else learn_network(cell, sizes, training, parts, paced(cell, sizes, data))
    )
    tangles, known, test, history = learned.tangles, learned.known, learned.test, learned.history
    is_new = is_new_to(tangles["train"], tangles["test"])[tangles["test"].labels[:, 0] >= 0]
    stopped = list(curves(cell, training, known, test))
    points = [
        {"cell": cell.id, "method": each.method, "curve": each.curve, "setting": f"{each.setting:.6g}",
         "validated": "" if each.validated is None else f"{each.validated:.5f}"} | measure(test, each.stops, is_new)
        for each in stopped
    ]  # fmt: skip
    row: dict[str, str | int | float] = {
        "cell": cell.id, "profile": cell.profile, "dataset": cell.dataset, "training": cell.training,
        "setting": cell.setting, "value": "" if cell.value is None else f"{cell.value:g}", "seed": cell.seed,
        "settings": " ".join(cell.overrides), "commit": commit(), "version": __version__,
        "started": started.isoformat(timespec="seconds"), "train_seconds": round(learned.seconds, 1),
        "seconds": round(time.perf_counter() - began, 1), "epochs": len(history),
        "n_train": tangles["train"].n_sequences, "n_validation": len(known.traces.truth),
        "n_test": len(test.traces.truth), "n_new": int(is_new.sum()), "theta": f"{learned.theta:.6g}",
        **{f"validation_{name}": f"{learned.kept[name]:.4f}" for name in ("hm", "accuracy", "earliness")},
        "first_accuracy": f"{accuracy_by_items(test.traces, [1])[0]:.4f}",
        "end_accuracy": f"{accuracy_at_end(test.traces):.4f}",
        "first_earliness": f"{np.mean(1 / test.traces.length):.4f}",
        **{f"{name}_by_epoch": " ".join(f"{r[name]:.4f}" for r in history) for name in ("hm", "earliness", "word_hm")},
        "word_earliness": f"{learned.kept['word_earliness']:.4f}" if "word_earliness" in learned.kept else "",
    }  # fmt: skip
    sees_others = not training.is_alone and training.has_policy
    attention = looks(learned.model, tangles["test"], test, cell.id) if learned.model and sees_others else []
    halts = halting_positions(cell, test, parts.true_halt) if parts.true_halt and training.has_policy else []
    units = by_unit(stopped, cell.training, tangles["test"], test.prefixes) if cell.is_paired else None
    return Outcome(row, points, attention, halts, by_items(cell.id, test.prefixes), units)


def learn_network(cell: Cell, sizes: Sizes, training: Training, parts: Parts, pace: Pace | None = None) -> Learned:
    """Train a network for the time that is given, and score validation and test."""
    config = cell_config(cell, sizes, training, parts.keys_per_tangle)
    frames = parts.arranged(cell.seed, training.is_alone)
    clock = Clock()
    model = fit_model(
        frames[0], frames[1], parts.schema, config, torch.device("cuda" if torch.cuda.is_available() else "cpu"), {},
        None, Progress(on_step=clock.on_step, on_epoch=clock.on_epoch), training.network, pace,
    )  # fmt: skip
    tangles = {name: encode_tangles(f, parts.schema, model.vocabulary) for name, f in zip(_PARTS, frames, strict=True)}
    known, test = (Seen(tangles[name], score_table(model.network, tangles[name], model.config)) for name in _PARTS[1:])
    kept = kept_of(model.history, model.config.training)
    return Learned(tangles, known, test, model.history, kept, model.threshold, clock.seconds, model)


def learn_prefixes(cell: Cell, training: Training, parts: Parts) -> Learned:
    """Train a classifier for each number of items, and score validation and test."""
    frames = parts.arranged(cell.seed, training.is_alone)
    vocabulary = Vocabulary.fit(frames[0], parts.schema)
    tangles = {name: encode_tangles(f, parts.schema, vocabulary) for name, f in zip(_PARTS, frames, strict=True)}
    began = time.process_time()
    model = PrefixClassifiers.fit(
        training.classifier, tangles["train"], tangles["validation"], parts.schema, vocabulary, cell.seed
    )
    seconds = time.process_time() - began
    known, test = (Seen(tangles[name], model.score(tangles[name]), model.steps) for name in _PARTS[1:])
    theta, hm = best_threshold(known.traces)
    stops = stop_at_threshold(known.traces, theta)
    right, late = accuracy(known.traces.truth, known.traces.decided(stops)[0]), earliness(stops, known.traces.length)
    kept = {"hm": hm, "accuracy": right, "earliness": late}
    return Learned(tangles, known, test, [], kept, theta, seconds, None)


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit that kvec is run from, with a + where files were changed since; nothing outside of a checkout."""
    said = []
    for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "--untracked-files=no", ".")):
        try:
            done = subprocess.run(("git", *words), cwd=Path(__file__).parents[1], capture_output=True, text=True)
        except OSError:
            return ""
        if done.returncode:
            return ""
        said.append(done.stdout.strip())
    return said[0] + "+" * bool(said[1])


class Clock:
    """Processor time spent on training batches, without validation."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.began = self.now = 0.0

    def on_step(self, step: Step) -> None:
        """Hear of a batch."""
        self.now = time.process_time()
        if step.step == 1:
            self.began = self.now

    def on_epoch(self, run: Run) -> None:
        """Hear of an epoch; its first batch is not counted."""
        self.seconds += self.now - self.began


class Seen:
    """What a network says of the labelled sequences of a part."""

    dial: Held | None = None  # where the policy has one
    steps: Ints | None = None  # numbers of items that have a classifier, where not all have

    def __init__(self, tangles: Tangles, scores: Scores, steps: Ints | None = None) -> None:
        self.steps = steps
        self.traces: Traces = traces(tangles, scores)
        is_known = tangles.labels[:, 0] >= 0
        kept = np.repeat(is_known, np.diff(scores.offsets))
        self.prefixes = Prefixes(self.traces.offsets, scores.classes[0][kept].astype(np.float64), self.traces.truth)
        self.kept = kept
        if scores.knots is not None:
            self.dial = Held.of(held_out(tangles, scores))
        self.n_classes = scores.classes[0].shape[1]


def curves(cell: Cell, training: Training, known: Seen, test: Seen) -> Iterator[Stopped]:
    """All points of all methods; all that is learned or chosen comes from validation."""
    if training.is_swept:
        yield Stopped(cell.training, "swept", OWN_WORD, stop_at_threshold(test.traces, OWN_WORD))
    if training.has_policy and known.dial is not None and test.dial is not None:
        path, best = known.dial.path, known.dial.best()
        place, there = path.index(best), known.dial.stops(best)
        hm = harmonic_mean(float(known.dial.accuracy(there)), float(known.dial.earliness(there)))
        yield Stopped(cell.training, "chosen", place, test.dial.stops(best), hm)
        for k in _thinned(np.arange(len(path))[::-1]):
            yield Stopped(cell.training, "moved", k, test.dial.stops(path[int(k)]))
    elif training.has_policy:
        theta, hm = best_threshold(known.traces)
        yield Stopped(cell.training, "chosen", theta, stop_at_threshold(test.traces, theta), hm)
        for theta in map(float, spread_thresholds(known.traces.offsets, known.traces.halt, MOST_POINTS)):
            yield Stopped(cell.training, "moved", theta, stop_at_threshold(test.traces, theta))
    for name in training.triggers:
        trigger = TRIGGERS[name]().fit(known.prefixes)
        method = cell.training if training.triggers == ("confidence",) else f"{cell.training}-{name}"
        setting, hm = best_setting(trigger, known.prefixes)
        yield Stopped(method, "chosen", setting, trigger.stops(test.prefixes, setting), hm)
        steps = trigger.settings() if name != "fixed" or test.steps is None else test.steps.astype(np.float64)
        settings = np.array(_thinned(steps))
        for setting, stops in zip(settings, trigger.sweep(test.prefixes, settings), strict=True):
            yield Stopped(method, "moved", float(setting), stops)
    if training.classifier:
        for cost, stops in zip(*hindsight(test.prefixes), strict=True):
            yield Stopped(f"{cell.training}-oracle", "bound", float(cost), stops)


def measure(test: Seen, stops: Ints, is_new: npt.NDArray[np.bool_]) -> dict[str, str]:
    """The measures of a point, on all test sequences and on those that training does not hold."""
    truth, length, predicted = test.traces.truth, test.traces.length, test.traces.decided(stops)[0]
    right, early = accuracy(truth, predicted), earliness(stops, length)
    precision, recall, f1 = macro_scores(truth, predicted, test.n_classes)
    found = {"earliness": early, "accuracy": right, "precision": precision, "recall": recall, "f1": f1,
             "hm": harmonic_mean(right, early)}  # fmt: skip
    if is_new.any():
        right, early = accuracy(truth[is_new], predicted[is_new]), earliness(stops[is_new], length[is_new])
        found |= {"new_earliness": early, "new_accuracy": right, "new_hm": harmonic_mean(right, early)}
    return {name: f"{value:.5f}" for name, value in found.items()}


def halting_positions(cell: Cell, test: Seen, true: int) -> list[dict[str, Any]]:
    """How many sequences the policy halts after how many items, by its own word: HM would toss a coin at once."""
    stops, counts = np.unique(stop_at_threshold(test.traces, OWN_WORD), return_counts=True)
    return [
        {"cell": cell.id, "method": cell.training, "true": true, "n_observed": int(n), "count": int(count)}
        for n, count in zip(stops, counts, strict=True)
    ]


def looks(model: Trained, tangles: Tangles, test: Seen, cell: str) -> list[dict[str, Any]]:
    """Attention to the own sequence and to others, and accuracy, by the share of the sequence that was seen."""
    members = evenly(tangles.n_tangles, LOOKED_AT)
    inside, outside = attention_shares(model.network, tangles, make_rule(model.config.visibility), members)
    ends = tangles.offsets[tangles.sequence_starts]  # items of a tangle stand together, sequence by sequence
    rows = np.concatenate([np.arange(ends[g], ends[g + 1]) for g in members])
    kept = test.kept[rows]
    length, position = np.diff(tangles.offsets), tangles.sequences.position[tangles.sequences.by_sequence]
    share = ((position + 1) / np.repeat(length, length))[rows][kept]
    found = test.traces
    is_right = np.zeros(len(test.kept), bool)
    is_right[test.kept] = found.predicted == np.repeat(found.truth, found.length)
    is_right = is_right[rows][kept]
    place = np.searchsorted(BINS, share - 1e-9)
    return [
        {"cell": cell, "earliness": f"{end:.2f}", "inside": f"{inside[kept][held].mean():.5f}",
         "outside": f"{outside[kept][held].mean():.5f}", "items": int(held.sum()),
         "accuracy": f"{is_right[held].mean():.5f}"}
        for end, held in ((end, place == b) for b, end in enumerate(BINS)) if held.any()
    ]  # fmt: skip


def _thinned(settings: npt.NDArray[Any]) -> list[float]:
    """Some of the settings, the first and the last among them."""
    chosen = np.unique(np.linspace(0, len(settings) - 1, MOST_POINTS).round().astype(int))
    return [float(settings[i]) for i in chosen]
