"""Each rival on a case made for it: what its own idea allows it reaches, and what it cannot see it cannot solve."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from kvec.decide.checkpoint import Trained
from kvec.decide.replaying import score_table
from kvec.learn.fitting import Progress, fit_model
from kvec.learn.validating import traces
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles
from kvec.report.curves import Traces, accuracy_at_end, stop_at_threshold
from kvec.reproduce.datasets import Parts
from kvec.reproduce.plan import start
from kvec.reproduce.trainings import TRAININGS
from kvec.tangle.tangles import encode_tangles

SMALL = (
    "encoder.width=32", "encoder.heads=2", "encoder.feed_forward=64", "encoder.fusion=32", "encoder.dropout=0",
    "encoder.hide=0", "training.learning_rate=5e-3", "training.batch=64",
)  # fmt: skip


def scored(name: str, case: str, *settings: str) -> tuple[Trained, Traces, pl.DataFrame]:
    """Train on a planted case; what the network says of unseen sequences, and which case each of them is."""
    made = [planted_tangles(n, case=case, seed=seed) for n, seed in ((500, 1), (60, 2), (200, 3))]
    parts = Parts(*(read_table(frame, SYNTHETIC_SCHEMA).frame for frame in made), SYNTHETIC_SCHEMA)
    training = TRAININGS[name]
    train, validation, test = parts.arranged(0, training.is_alone)
    config = start().override([*training.settings, *SMALL, *settings])
    model = fit_model(
        train, validation, parts.schema, config, torch.device("cpu"), {}, None, Progress(), training.network
    )
    tangles = encode_tangles(test, parts.schema, model.vocabulary)
    cases = made[2].select(pl.col("key").cast(pl.String), "case", "halt_at").unique()
    named = tangles.names().select(pl.col("key").cast(pl.String).str.split("/").list.last())
    return (
        model,
        traces(tangles, score_table(model.network, tangles, model.config)),
        named.join(cases, on="key", how="left", maintain_order="left"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["earliest", "srn-earliest"])
def test_a_sampled_policy_halts_where_the_own_sequence_shows_its_class(name: str) -> None:
    _, found, cases = scored(name, "early", "training.epochs=5", "training.beta=0.1", "training.policy_gradient=all")
    n_observed = stop_at_threshold(found, 0.5)
    assert np.mean(found.decided(n_observed)[0] == found.truth) > 0.9
    late = n_observed - cases["halt_at"].to_numpy()
    assert np.mean((late >= 0) & (late <= 4)) > 0.75, "neither before the marker nor long after it"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["earliest", "srn-earliest", "srn"])
def test_alone_a_class_that_shows_elsewhere_cannot_be_told(name: str) -> None:
    _, found, cases = scored(name, "value", "training.epochs=4", "training.beta=0.001")
    is_right = found.decided(found.length)[0] == found.truth
    is_needy = (cases["case"] == "value").to_numpy()
    assert np.mean(is_right[is_needy]) < 0.62
    assert np.mean(is_right[~is_needy]) > 0.9


@pytest.mark.slow
def test_a_transformer_that_sees_all_can_tell_it() -> None:
    _, found, cases = scored("srn-all", "value", "training.epochs=16")
    is_needy = (cases["case"] == "value").to_numpy()
    is_right = found.decided(found.length)[0] == found.truth
    assert np.mean(is_right[is_needy]) > 0.7


@pytest.mark.slow
def test_confidence_rises_where_the_marker_is() -> None:
    """SRN-Confidence halts at the marker: before it the classes are alike, after it one is certain."""
    _, found, cases = scored("srn", "early", "training.epochs=4")
    assert accuracy_at_end(found) > 0.98
    n_observed = stop_at_threshold(found, 0.9)
    assert np.mean(np.abs(n_observed - cases["halt_at"].to_numpy()) <= 1) > 0.9
