"""What validation says of a network: the scores of held-out sequences, and the measures at their best threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from kvec.decide.held import Arrays, held_out, joined_arrays, prefixes_of
from kvec.decide.model import Network
from kvec.decide.operating import OWN_WORD
from kvec.decide.replaying import score_table
from kvec.decide.scores import Scores
from kvec.decide.triggers.base import logs_of
from kvec.learn.losses import Layout, length_weights
from kvec.learn.run import Record
from kvec.learn.settling import Settled, settle, traces_of
from kvec.learn.together import ALONE, Together
from kvec.report.curves import Traces, stop_at_threshold
from kvec.report.metrics import accuracy, earliness, harmonic_mean
from kvec.tangle.tangles import Tangles
from kvec.words.config import Config

Floats = npt.NDArray[np.float32]
Validation = Tangles | Sequence[Callable[[], Tangles]]  # in memory, or parts that are read when they are needed


def traces(tangles: Tangles, scores: Scores, column: int = 0) -> Traces:
    """The labelled sequences' scores as the report room reads them."""
    held = held_out(tangles, scores)
    if scores.untempered is not None:
        held["untempered"] = scores.untempered[column].max(axis=1, initial=0.0)
    return traces_of(held, column)


def validate(network: Network, validation: Validation, config: Config, together: Together = ALONE) -> Record:
    """Accuracy, earliness and HM at the operating point, accuracy at the sequences' ends; means over columns.

    Earliness and HM are told by the own word of what halts (θ = 0.5) as well; where only the classifier learns, also
    what it loses on these sequences.
    """
    settled = settle(hold_out(network, validation, config, together), config)
    found = [traces_of(settled.held, column) for column in range(len(network.n_classes))]
    theta = settled.point.threshold
    results = []
    for each in found:
        n_observed = stop_at_threshold(each, theta)
        right = accuracy(each.truth, each.decided(n_observed)[0])
        early = earliness(n_observed, each.length)
        at_end = accuracy(each.truth, each.decided(each.length)[0])
        by_word = stop_at_threshold(each, OWN_WORD)
        late = earliness(by_word, each.length)
        word_hm = harmonic_mean(accuracy(each.truth, each.decided(by_word)[0]), late)
        results.append((right, early, harmonic_mean(right, early), at_end, late, word_hm))
    means = np.mean(results, axis=0)
    names = ("accuracy", "earliness", "hm", "end_accuracy", "word_earliness", "word_hm")
    record = {"threshold": theta, **{name: float(value) for name, value in zip(names, means, strict=True)}}
    return record | ({"unseen": unseen(settled, config)} if config.training.objective == "every" else {})


def unseen(settled: Settled, config: Config) -> float:
    """The loss of `every` on the validation sequences, by calibrated probabilities.

    Not as the network gives them: it boasts before it knows less.
    """
    total, training = 0.0, config.training
    for column, temperatures in enumerate(settled.readiness.temperatures):
        known = prefixes_of(settled.held, column)
        shares = temperatures.apply(known.probabilities, known.place)
        losses = -logs_of(shares[np.arange(len(shares)), np.repeat(known.truth, known.length)])
        layout = Layout.of(torch.from_numpy(known.length))
        losses *= length_weights(layout, training.lengths, torch.float64, training.ends).numpy()
        if training.class_weights == "balanced":
            counts = np.bincount(known.truth)
            losses *= np.repeat((len(known.truth) / (counts * (counts > 0).sum()).clip(1))[known.truth], known.length)
        total += float(losses.sum()) / max(len(known.length), 1)
    return total


def hold_out(network: Network, validation: Validation, config: Config, together: Together = ALONE) -> Arrays:
    """What the network says of the validation sequences; each process scores some tangles, and all know all."""
    if isinstance(validation, Tangles):
        return held_out(validation, _scores(network, validation, config, together))
    own = {
        number: held_out(tangles, score_table(network, tangles, config))
        for number, load in enumerate(validation)
        if number % together.size == together.rank
        for tangles in [load()]
    }
    known = {number: arrays for found in together.gathered(own) for number, arrays in found.items()}
    return joined_arrays([known[number] for number in sorted(known)])


def _scores(network: Network, tangles: Tangles, config: Config, together: Together) -> Scores:
    if together.size == 1:
        return score_table(network, tangles, config)
    if config.deciding.after_halt == "drop":  # item by item, without batches to share out
        return together.agreed(score_table(network, tangles, config))
    part = score_table(network, tangles, config, share=(together.rank, together.size))
    device = network.policy.weight.device

    def whole(values: Floats) -> Floats:
        return together.total(torch.from_numpy(values).to(device)).cpu().numpy()

    knots = None if part.knots is None else whole(part.knots)
    return Scores(part.offsets, whole(part.halt), tuple(whole(each) for each in part.classes), knots)
