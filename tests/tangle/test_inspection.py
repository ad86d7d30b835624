from __future__ import annotations

from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from kvec.tangle.inspection import inspect_items
from kvec.words.schema import Schema

SCHEMA = Schema.from_dict({
    "tangle": "tangle", "time": "time", "session": "size", "label": "label", "session_gap": 2.0,
    "values": {"size": {"kind": "categorical"}, "weight": {"kind": "binned"}},
})  # fmt: skip


def made(seed: int, n: int = 120) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    key = rng.integers(0, 5, n)
    return pl.DataFrame({
        "tangle": rng.integers(0, 4, n), "key": key, "time": rng.permutation(np.cumsum(rng.exponential(1.0, n))),
        "value.size": rng.integers(0, 3, n), "value.weight": rng.random(n), "label.label": [f"c{k % 2}" for k in key],
        "row": np.arange(1, n + 1, dtype=np.uint32),
    })  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("expiry", [None, 8.0])
def test_facts_as_a_plain_loop_finds_them(seed: int, expiry: float | None) -> None:
    schema = SCHEMA.changed(expiry=expiry)
    frame = made(seed)
    facts = inspect_items(frame, schema)
    lengths, sessions, live = [], 0, []
    for _, tangle in frame.sort("time").group_by("tangle", maintain_order=True):
        last: dict[int, dict[str, float]] = {}
        spans: list[list[int]] = []
        for i, row in enumerate(tangle.rows(named=True)):
            before = last.get(row["key"])
            if before is None or (expiry is not None and row["time"] - before["time"] > expiry):
                spans.append([i, i, 0])
                sessions += 1
                before = {"number": len(spans) - 1}
            elif row["value.size"] != before["value.size"] or row["time"] - before["time"] > 2.0:
                sessions += 1
            span = spans[int(before["number"])]
            span[1], span[2] = i, span[2] + 1
            last[row["key"]] = row | {"number": before["number"]}
        lengths += [span[2] for span in spans]
        live += [sum(first <= i <= end for first, end, _ in spans) for i in range(tangle.height)]
    assert facts.items == frame.height
    assert facts.sequences == len(lengths)
    assert facts.keys == frame.select("tangle", "key").n_unique()
    assert facts.tangles == 4
    assert facts.mean_length == pytest.approx(np.mean(lengths))
    assert (facts.least_length, facts.greatest_length) == (min(lengths), max(lengths))
    assert facts.mean_session_length == pytest.approx(frame.height / sessions)
    assert facts.concurrent_keys == pytest.approx(np.mean(live))
    assert facts.most_concurrent_keys == max(live)
    assert facts.time_span == pytest.approx(frame["time"].max() - frame["time"].min())
    assert sum(facts.labels["label"].values()) == facts.sequences


def kinds(frame: pl.DataFrame, schema: Schema = SCHEMA) -> dict[str, tuple[int, str]]:
    found = defaultdict(list)
    for finding in inspect_items(frame, schema, "items.csv").findings:
        found[finding.kind].append((finding.count, finding.text))
    assert all(len(each) == 1 for each in found.values())
    return {kind: each[0] for kind, each in found.items()}


def test_a_sound_table_has_no_findings_but_shared_keys() -> None:
    frame = made(0).with_columns(key=pl.col("tangle") * 10 + pl.col("key"))
    assert kinds(frame) == {}
    assert set(kinds(made(0))) == {"key in two tangles"}


def test_duplicate_items_are_counted_and_placed() -> None:
    frame = made(1)
    twice = pl.concat([frame, frame[5:8].with_columns(row=pl.Series([121, 122, 123], dtype=pl.UInt32))])
    count, text = kinds(twice)["duplicate items"]
    assert count == 3
    assert text.startswith("items.csv, row 121: 3 item(s)")
    order_free = Schema.from_dict({"tangle": "tangle", "values": {"size": {"kind": "categorical"}}})
    assert "duplicate items" not in kinds(twice.drop("time"), order_free), "without a clock, equal items are no doubles"


def test_fields_and_classes_that_tell_nothing() -> None:
    frame = made(2).with_columns(pl.lit(7).alias("value.size"), pl.lit(None, pl.Float64).alias("value.weight"))
    texts = [f.text for f in inspect_items(frame, SCHEMA).findings if f.kind == "field with one value"]
    assert [("one value only" in text, "no value at all" in text) for text in texts] == [(True, False), (False, True)]
    assert kinds(made(2).with_columns(pl.lit("x").alias("label.label")))["one class"][0] == 1
    is_first = (pl.col("tangle") == 0) & (pl.col("key") == 0)
    first = made(2).with_columns(pl.when(is_first).then(pl.lit("rare")).otherwise("label.label").alias("label.label"))
    assert "'rare'" in kinds(first)["rare classes"][1]


def test_sequences_that_are_alone() -> None:
    frame = made(3)
    single = frame.with_columns(tangle=pl.col("tangle") * 10 + pl.col("key"))
    assert "single sequences" in kinds(single)
    joined = SCHEMA.changed(tangle="")
    assert "one tangle" in kinds(frame.with_columns(tangle=pl.lit(0)), joined)


def test_tangles_are_made_first_where_the_schema_says_so() -> None:
    frame = made(4).with_columns(tangle=pl.lit(0))
    plain = {"values": {"size": {"kind": "categorical"}}, "tangling": {"number": 2, "of": "key", "clock": "order"}}
    facts = inspect_items(frame, Schema.from_dict(plain))
    assert facts.tangles == 3
    assert facts.most_concurrent_keys == 2


def test_plain_data_for_json() -> None:
    plain = inspect_items(made(0), SCHEMA).to_dict()
    assert plain["classes"] == plain["labels"]["label"]
    assert plain["n_classes"] == 2
    assert plain["fields"][0] == {"name": "size", "kind": "categorical", "values": 3, "missing": 0, "guessed": ""}
