"""Training that reads windows of Parquet files: the same as in memory where all fits, and bounded where it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from kvec.estimator import KVEC
from kvec.learn import supply as supplying
from kvec.learn.run import Run
from kvec.learn.streamed import Streamed, streamed_material, survey
from kvec.learn.supply import InMemory, Supply
from kvec.learn.together import ALONE, Together
from kvec.read.rows import read_table
from kvec.read.shards import open_shards
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.tangling import Split, arrange
from kvec.tangle.windows import plan_windows
from kvec.words.config import Training
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema

SCHEMA: dict[str, Any] = {
    "key": "key", "tangle": "tangle", "order": "order", "labels": "label",
    "values": {"sign": {"kind": "categorical"}, "x": {"kind": "binned", "bins": 4}, "y": {"kind": "projected"}},
}  # fmt: skip
TINY: dict[str, Any] = {
    "width": 16, "blocks": 1, "heads": 2, "feed_forward": 32, "fusion": 16, "slots": 8, "positions": 16, "hide": 0.1,
    "epochs": 2, "warmup": 3, "batch_items": 4096,
}  # fmt: skip

ALL_KEYS = pl.concat_str("tangle", "key", separator="/").alias("key")  # told apart without their tangle


def made(n_tangles: int = 40, seed: int = 0, n_keys: int = 2) -> pl.DataFrame:
    """Some keys side by side in each tangle; the third item of a key names its class."""
    rng = np.random.default_rng(seed)
    rows = []
    for tangle in range(n_tangles):
        for order in range(int(rng.integers(4, 12))):
            for key in range(n_keys):
                label = "ab"[(tangle + key) % 2]
                sign = label if order == 2 else "xyz"[rng.integers(3)]
                rows.append((f"t{tangle}", key, order, sign, rng.normal(), rng.normal(5, 2), label))
    return pl.DataFrame(rows, schema=["tangle", "key", "order", "sign", "x", "y", "label"], orient="row")


def written(frame: pl.DataFrame, folder: Path) -> Path:
    """Two files with small row groups, and a tangle that is cut by the end of a file."""
    folder.mkdir(parents=True, exist_ok=True)
    half = frame.height // 2
    frame[:half].write_parquet(folder / "a.parquet", row_group_size=64)
    frame[half:].write_parquet(folder / "b.parquet", row_group_size=64)
    return folder


def state(model: KVEC) -> dict[str, torch.Tensor]:
    return model.model_.network.state_dict()


def assert_same_model(one: KVEC, two: KVEC) -> None:
    for (name, a), b in zip(state(one).items(), state(two).values(), strict=True):
        assert torch.equal(a, b), name
    assert one.model_.split == two.model_.split
    assert one.model_.about == two.model_.about
    assert one.model_.vocabulary == two.model_.vocabulary
    assert one.model_.threshold == two.model_.threshold
    np.testing.assert_array_equal(one.model_.seen, two.model_.seen)
    for name, array in one.model_.validation.items():
        np.testing.assert_array_equal(two.model_.validation[name], array, err_msg=name)


# -- where all fits in one window ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_keys", "objective"), [(2, "every"), (16, "every"), (16, "expected")])  # 16: dealt out
def test_a_window_that_holds_all_gives_the_model_of_a_table_in_memory(
    tmp_path: Path, n_keys: int, objective: str
) -> None:
    data = written(made(n_keys=n_keys), tmp_path / "data")
    settings = TINY | {"schema": SCHEMA, "class_weights": "balanced", "objective": objective}
    assert_same_model(KVEC(**settings).fit(data), KVEC(stream_items=10**6, **settings).fit(data))


def test_tangles_may_lie_scattered_and_grouped(tmp_path: Path) -> None:
    frame = made().with_columns(group=pl.col("tangle").str.slice(0, 2)).sample(fraction=1, shuffle=True, seed=1)
    data = written(frame, tmp_path / "data")
    schema = SCHEMA | {"group": "group"}
    whole = KVEC(schema=schema, **TINY | {"epochs": 1}).fit(data)
    assert whole.model_.split is not None and whole.model_.split["unit"] == "group"
    assert_same_model(whole, KVEC(schema=schema, stream_items=10**6, **TINY | {"epochs": 1}).fit(data))


def test_sequences_that_expire_make_more_tangles(tmp_path: Path) -> None:
    frame = made(20).with_columns(time=pl.col("order").cast(pl.Float64) + 100 * (pl.col("order") > 5)).drop("order")
    data = written(frame, tmp_path / "data")
    schema = {name: entry for name, entry in SCHEMA.items() if name != "order"} | {"time": "time", "expiry": 50.0}
    whole = KVEC(schema=schema, **TINY | {"epochs": 1}).fit(data)
    assert whole.model_.about["train_tangles"] > 16
    assert_same_model(whole, KVEC(schema=schema, stream_items=10**6, **TINY | {"epochs": 1}).fit(data))


def test_labels_may_lie_in_a_table_of_their_own(tmp_path: Path) -> None:
    frame = made(20)
    data = written(frame.drop("label"), tmp_path / "data")
    labels = tmp_path / "labels.csv"
    frame.select("tangle", "key", "label").unique().write_csv(labels)
    settings = TINY | {"epochs": 1}
    whole = KVEC(schema=SCHEMA, **settings).fit(data, labels=labels)
    assert_same_model(whole, KVEC(schema=SCHEMA, stream_items=10**6, **settings).fit(data, labels=labels))


# -- where it does not -----------------------------------------------------------------------------------------------


def prepared(data: Path, most: int) -> tuple[Streamed, Any]:
    shards = open_shards(data, Schema.from_dict(SCHEMA))
    settings = Training(stream_items=most, batch=4)
    found = survey(shards, settings, (8, 1, 1))
    material = streamed_material(shards, found, settings, None)
    assert isinstance(material.training, Streamed)
    return material.training, material


@pytest.mark.parametrize(("n_keys", "most"), [(2, 120), (16, 960)])
def test_windows_hold_every_training_sequence_once_and_no_more_than_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_keys: int, most: int
) -> None:
    monkeypatch.setattr(supplying, "LEAST_STEPS", 8)  # batches of four tangles
    frame = made(40, n_keys=n_keys)
    supply, _ = prepared(written(frame, tmp_path / "data"), most)
    for size in (1, 2, 3):
        met: list[tuple[int, str, int]] = []
        for rank in range(size):
            n_steps, portions = supply.epoch(
                0, Training(stream_items=most, batch=4), np.random.default_rng(0), Together(rank, size)
            )
            told = list(portions)
            assert len(told) == n_steps
            for step, portion in enumerate(told):
                batch = portion.batch
                assert batch.tangles.n_items <= most
                np.testing.assert_array_equal(batch.tangles.sizes[batch.members], batch.sizes[batch.here])
                met += [(step, tangle, key) for tangle, key in batch.tangles.names()[batch.sequences].rows()]
        if size == 1:
            alone = sorted(met)
        assert sorted(met) == alone, "processes share out the batches of one"
    train = Split.of(frame, (8, 1, 1), 0).part(frame, "train").select("tangle", "key").unique()
    assert sorted(name for _, *name in alone) == sorted(map(list, train.rows()))
    tangles = {(step, name) for step, name, _ in alone}
    assert (len(tangles) > len({name for _, name in tangles})) == (n_keys > 2), "sixteen keys are dealt out"


@pytest.mark.parametrize("most", [960, 0])
def test_delays_are_those_of_the_items_that_are_dealt_out(tmp_path: Path, most: int) -> None:
    data = written(made(40, n_keys=16), tmp_path / "data")
    supply: Supply
    supply, material = prepared(data, 960)
    if not most:
        table = read_table(data, Schema.from_dict(SCHEMA))
        supply = InMemory(encode_tangles(arrange(table.frame), table.schema, material.vocabulary), (2,))
    settings = Training(objective="expected", stream_items=most, batch=4)
    n_dealt = 0
    for portion in supply.epoch(0, settings, np.random.default_rng(0), ALONE)[1]:
        batch = portion.batch
        share = np.concatenate([np.arange(1, n + 1) / n for n in np.diff(batch.offsets)])
        np.testing.assert_allclose(portion.delays[batch.items], share)
        n_dealt += len(batch.members)
    assert n_dealt > 40


def test_data_of_which_other_keys_came_while_training_are_refused(tmp_path: Path) -> None:
    frame = made(40, n_keys=16)
    supply, _ = prepared(written(frame, tmp_path / "data"), 960)
    merged = frame.with_columns(key=pl.col("key").replace(15, 14), label=pl.lit("a"))
    written(merged, tmp_path / "data")
    with pytest.raises(DataError, match="the data has changed since training began"):
        for _ in supply.epoch(0, Training(stream_items=960), np.random.default_rng(0), ALONE)[1]:
            pass


def test_classes_are_counted_over_all_windows(tmp_path: Path) -> None:
    frame = made(40)
    supply, _ = prepared(written(frame, tmp_path / "data"), 120)
    train = Split.of(frame, (8, 1, 1), 0).part(frame, "train").unique(["tangle", "key"])
    wanted = [train.filter(pl.col("label") == label).height for label in "ab"]
    assert [counts.tolist() for counts in supply.class_counts()] == [wanted]


def test_every_epoch_mixes_windows_anew(tmp_path: Path) -> None:
    supply, _ = prepared(written(made(40), tmp_path / "data"), 120)
    plans = []
    for epoch in (0, 1, 0):
        _, portions = supply.epoch(epoch, Training(stream_items=120), np.random.default_rng(0), ALONE)
        plans.append([tuple(p.batch.tangles.frame["tangle"].unique(maintain_order=True)) for p in portions])
    assert plans[0] == plans[2] != plans[1]


def test_small_windows_learn_what_is_planted(tmp_path: Path) -> None:
    data = written(made(120), tmp_path / "data")
    settings = TINY | {"epochs": 8, "learning_rate": 0.01, "threshold": 0.9, "dropout": 0.0}
    model = KVEC(schema=SCHEMA, stream_items=400, **settings).fit(data)
    assert model.model_.history[-1]["end_accuracy"] > 0.9
    assert model.evaluate(made(30, seed=5)).accuracy > 0.8


def test_vocabulary_and_validation_do_not_depend_on_the_window(tmp_path: Path) -> None:
    data = written(made(40), tmp_path / "data")
    (_, whole), (_, parts) = prepared(data, 10**6), prepared(data, 40)
    assert len(whole.validation) == 1 < len(parts.validation)
    assert (whole.about, whole.split) == (parts.about, parts.split)
    (sign, x, y), (sign2, x2, y2) = whole.vocabulary.fields, parts.vocabulary.fields
    assert (sign, x, whole.vocabulary.labels) == (sign2, x2, parts.vocabulary.labels)
    assert (y.mean, y.scale) == pytest.approx((y2.mean, y2.scale))


def test_a_run_is_gone_on_with(tmp_path: Path) -> None:
    data = written(made(), tmp_path / "data")
    settings = TINY | {"stream_items": 150, "epochs": 2}
    unbroken = KVEC(schema=SCHEMA, **settings).fit(data)

    def stop(run: Run) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KVEC(schema=SCHEMA, **settings).fit(data, progress=tmp_path / "kept", on_epoch=stop)
    again = KVEC(schema=SCHEMA, **settings).fit(data, progress=tmp_path / "kept", resume=True)
    assert_same_model(unbroken, again)


def test_validation_may_be_a_table_of_its_own(tmp_path: Path) -> None:
    data = written(made(), tmp_path / "data")
    model = KVEC(schema=SCHEMA, stream_items=150, **TINY | {"epochs": 1}).fit(data, made(8, seed=9))
    assert model.model_.split is None
    assert model.model_.about["train_tangles"] == 40 and model.model_.about["validation_tangles"] == 8


# -- what cannot be streamed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "schema", "said"),
    [
        (lambda f: f, {"tangling": {"number": 2, "clock": "order"}}, "say --tangling none"),
        (lambda f: f.with_columns(ALL_KEYS, pl.lit("t").alias("tangle")), {}, "there is one; leave out --stream"),
        (lambda f: f.with_columns(pl.col("key") + 0.5), {}, "names must be whole numbers or text"),
        (lambda f: f.with_columns(pl.when(pl.col("key") == 1).then("label").alias("label")), {}, "has no label"),
        (lambda f: f.with_columns(ALL_KEYS).drop("tangle"), {"tangle": ""}, "no tangle column is named"),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path: Path, change: Any, schema: dict[str, Any], said: str) -> None:
    data = written(change(made(12)), tmp_path / "data")
    with pytest.raises((DataError, SettingError), match=said):
        KVEC(schema=SCHEMA | schema, stream_items=100, **TINY).fit(data)


def test_only_parquet_is_streamed(tmp_path: Path) -> None:
    made(3).write_csv(tmp_path / "a.csv")
    for source, said in ((tmp_path / "a.csv", "is CSV; streamed training reads Parquet"), (made(3), "give a path")):
        with pytest.raises(DataError, match=said):
            KVEC(schema=SCHEMA, stream_items=100, **TINY).fit(source)


def test_data_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    data = written(made(), tmp_path / "data")
    supply, _ = prepared(data, 10**6)
    made().filter(pl.col("order") > 0).write_parquet(data / "b.parquet")
    _, portions = supply.epoch(0, Training(stream_items=10**6), np.random.default_rng(0), ALONE)
    with pytest.raises(DataError):
        next(iter(portions))


def test_one_tangle_larger_than_a_window_is_a_window() -> None:
    windows = plan_windows(np.array([5, 50, 5, 5]), 12, np.random.default_rng(0))
    assert sorted(np.concatenate(windows)) == [0, 1, 2, 3]
    assert [1] in [window.tolist() for window in windows]
