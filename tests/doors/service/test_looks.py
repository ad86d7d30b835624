"""The looks that the service tells are those that `kvec explain` computes with PyTorch from the whole table."""

from __future__ import annotations

import polars as pl
import pytest
from tests.doors.made import Trained
from tests.doors.service.serviced import opened, taken

from kvec.estimator import load


def test_looks_are_those_of_the_explanation(lively: Trained) -> None:
    tangle = lively.frame["tangle"][0]
    frame = lively.frame.filter(pl.col("tangle") == tangle)
    served = opened(lively)
    taken(served, frame.drop("label").to_dicts())
    looked = served.stream.look_back(tangle)
    assert looked is not None and len(looked.items) == frame.height
    model = load(lively.model)
    n_compared = 0
    for key in frame["key"].unique().to_list():
        for step in model.explain(frame, key, tangle).steps:
            mine = {look.place: look.share for look in looked.looks[step.arrival]}
            theirs = {look.arrival: look.weight for look in step.looks}
            for place in mine.keys() & theirs.keys():
                assert mine[place] == pytest.approx(theirs[place], abs=1e-4)
                n_compared += 1
            assert sum(mine.values()) == pytest.approx(sum(theirs.values()), abs=1e-3)
    assert n_compared > 100
