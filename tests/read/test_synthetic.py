"""Made tangles: what is planted can be found by the visibility rule, and by nothing less."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from kvec.read.synthetic import (
    APPLICATIONS,
    CASES,
    DEMO_SCHEMA,
    SYNTHETIC_SCHEMA,
    demo_traffic,
    planted_tangles,
    synthetic_traffic,
)
from kvec.words.errors import DataError, SettingError

Items = list[dict[str, Any]]
MARKERS = {400: "a", 401: "b"}


def tangles_of(frame: pl.DataFrame) -> list[Items]:
    """The items of each tangle, each with the number of its session, by plain loops."""
    tangles = []
    for tangle in frame.partition_by("tangle", maintain_order=True):
        items: Items = tangle.to_dicts()
        open_sessions: dict[int, int] = {}
        for number, item in enumerate(items):
            session = open_sessions.get(item["key"])
            if session is None or items[session]["direction"] != item["direction"]:
                session = number
            open_sessions[item["key"]] = item["session"] = session
        tangles.append(items)
    return tangles


def visible(items: Items, i: int, use_key: bool, use_value: bool) -> set[int]:
    """The definition, without limits: own earlier items, and sessions of others that hold an equal item."""
    me = items[i]
    seen = {i}
    for j in range(i):
        other = items[j]
        if other["key"] == me["key"]:
            if use_key:
                seen.add(j)
        elif use_value and (other["size"], other["direction"]) == (me["size"], me["direction"]):
            seen.update(m for m in range(i) if items[m]["session"] == other["session"])
    return seen


def found(items: Items, key: int, use_key: bool = True, use_value: bool = True) -> str | None:
    """The class of a key by its own marker, else by the markers within two looks of its items."""
    own = [i for i, item in enumerate(items) if item["key"] == key]
    for i in own:
        if items[i]["size"] in MARKERS:
            return MARKERS[items[i]["size"]]
    looks = {i for mine in own for i in visible(items, mine, use_key, use_value)}
    looks = {i for look in looks for i in visible(items, look, use_key, use_value)}
    told = {MARKERS[items[i]["size"]] for i in looks if items[i]["size"] in MARKERS}
    assert len(told) <= 1, "two markers disagree"
    return told.pop() if told else None


def answers(frame: pl.DataFrame, **rule: bool) -> dict[str, list[bool | None]]:
    """Per case: whether each key's class was found right, or None where nothing was found."""
    result: dict[str, list[bool | None]] = {}
    for items in tangles_of(frame):
        for key, case, label in {(item["key"], item["case"], item["label"]) for item in items}:
            answer = found(items, key, **rule)
            result.setdefault(case, []).append(None if answer is None else answer == label)
    return result


@pytest.mark.parametrize(("case", "keys"), [("value", 4), ("value", 5), ("two_hop", 4), ("two_hop", 5), ("mixed", 6)])
def test_every_class_is_found_by_the_visibility_rule(case: str, keys: int) -> None:
    found_right = answers(planted_tangles(40, keys, case, seed=3))
    assert set(found_right) == (set(CASES) - {"mixed"} | {"helper"} if case == "mixed" else {case, "helper"})
    assert all(all(right) for right in found_right.values())


def test_cases_that_need_others_show_nothing_without_value_correlation() -> None:
    blind = answers(planted_tangles(40, 6, "mixed", seed=4), use_value=False)
    assert set(blind["value"]) == set(blind["two_hop"]) == {None}
    assert all(all(blind[case]) for case in ("early", "late", "own", "helper"))


def test_only_two_hops_need_key_correlation() -> None:
    shortsighted = answers(planted_tangles(40, 6, "mixed", seed=5), use_key=False)
    assert set(shortsighted["two_hop"]) == {None}
    assert all(shortsighted["value"])


def test_one_look_is_not_enough_for_two_hops() -> None:
    for items in tangles_of(planted_tangles(30, 4, "two_hop", seed=6)):
        for i, item in enumerate(items):
            if item["case"] == "two_hop":
                assert not any(items[j]["size"] in MARKERS for j in visible(items, i, True, True))


def test_other_sequences_mislead_where_the_own_one_tells() -> None:
    misled = right = 0
    for items in tangles_of(planted_tangles(60, 4, "own", seed=7)):
        for key in {item["key"] for item in items}:
            own = {i for i, item in enumerate(items) if item["key"] == key}
            seen = {j for i in own for j in visible(items, i, False, True)} - own
            told = {MARKERS[items[j]["size"]] for j in seen if items[j]["size"] in MARKERS}
            label = next(items[i]["label"] for i in own)
            right += found(items, key) == label
            misled += bool(told - {label})
    assert right == 240
    assert misled > 60


@pytest.mark.parametrize("case", ["value", "two_hop"])
def test_nothing_about_a_needy_sequence_depends_on_its_class(case: str) -> None:
    frame = planted_tangles(3000, 4, case, seed=8)
    opened = frame.group_by("tangle", "key", maintain_order=True).agg(opened=pl.col("order").first())
    opened = opened.with_columns(rank=pl.col("opened").rank("ordinal").over("tangle"))
    needy = frame.filter(pl.col("case") == case)
    keys = needy.group_by("key", maintain_order=True).agg(
        pl.col("label").first(),
        pl.col("size"),
        pl.col("order").last().alias("ends"),
        length=pl.len(),
        halt_at=pl.col("halt_at").first(),
        turns=pl.col("direction").diff().abs().sum(),
        start=pl.col("direction").first(),
        link=pl.col("size").filter(pl.col("size") >= 500).first(),
        side=pl.col("direction").filter(pl.col("size") >= 500).first(),
    )
    keys = keys.join(opened, on="key").with_columns(parity=pl.col("key") % 4)
    for feature in ("length", "halt_at", "turns", "start", "link", "side", "rank", "ends", "parity"):
        assert_independent(keys[feature].to_numpy(), keys["label"].to_numpy())
    items = keys.select("label", "size").explode("size")
    assert_independent(items["size"].to_numpy(), items["label"].to_numpy())
    assert abs(naive_bayes(keys) - 0.5) < 0.03


def assert_independent(feature: np.ndarray, label: np.ndarray) -> None:
    """A chi-square test; four standard deviations of the statistic above its mean count as dependence."""
    values, columns = np.unique(feature, return_inverse=True)
    counts = np.stack([np.bincount(columns[label == name], minlength=len(values)) for name in ("a", "b")])
    counts = counts[:, counts.sum(axis=0) >= 20]
    expected = counts.sum(axis=0) * counts.sum(axis=1, keepdims=True) / counts.sum()
    df = counts.shape[1] - 1
    assert ((counts - expected) ** 2 / expected).sum() < df + 4 * np.sqrt(2 * df)


def naive_bayes(keys: pl.DataFrame) -> float:
    """Accuracy on the second half of a Bayes count of sizes learned on the first."""
    is_b = keys["label"].to_numpy() == "b"
    bags = np.stack([np.bincount(sizes, minlength=600) for sizes in keys["size"].to_list()])
    half = len(bags) // 2
    counts = np.stack([bags[:half][is_b[:half] == side].sum(axis=0) + 1 for side in (False, True)])
    odds = np.log(counts / counts.sum(axis=1, keepdims=True))
    return float(((bags[half:] @ odds[1] > bags[half:] @ odds[0]) == is_b[half:]).mean())


def test_the_leak_tests_would_see_a_leak() -> None:
    open_keys = planted_tangles(300, 4, "early", seed=9).group_by("key").agg(pl.col("label").first(), "size")
    assert naive_bayes(open_keys) > 0.95
    items = open_keys.explode("size")
    with pytest.raises(AssertionError):
        assert_independent(items["size"].to_numpy(), items["label"].to_numpy())


@pytest.mark.parametrize("case", CASES)
def test_planted_tangles_have_the_asked_shape(case: str) -> None:
    frame = planted_tangles(50, 6, case, seed=1, length=20)
    assert frame.equals(planted_tangles(50, 6, case, seed=1, length=20))
    assert not frame.equals(planted_tangles(50, 6, case, seed=2, length=20))
    keys = frame.group_by("key").agg(
        pl.len(), pl.col("tangle", "label", "case").n_unique(), at=pl.col("halt_at").first()
    )
    assert frame["tangle"].n_unique() == 50 and keys.height == 300
    assert keys.select("tangle", "label", "case").unique().rows() == [(1, 1, 1)]
    assert keys["len"].is_between(15, 20).all() and (keys["at"] <= keys["len"]).all()
    assert frame.select(pl.col("order").diff().over("tangle").drop_nulls()).to_series().unique().to_list() == [1]
    assert 0.4 < (frame.unique("key")["label"] == "a").mean() < 0.6  # type: ignore[operator]


@pytest.mark.parametrize("case", ["value", "two_hop"])
def test_pairs_of_a_tangle_are_of_independent_classes(case: str) -> None:
    frame = planted_tangles(1000, 4, case, seed=3)
    needy = frame.filter(pl.col("case") == case).unique(("tangle", "key")).sort("key")
    agree = needy.group_by("tangle").agg(same=pl.col("label").n_unique() == 1)["same"].mean()
    assert 0.45 < agree < 0.55  # type: ignore[operator]


def test_a_needy_class_is_known_at_its_link_and_not_before() -> None:
    for items in tangles_of(planted_tangles(30, 4, "value", seed=2)):
        for key in {item["key"] for item in items if item["case"] == "value"}:
            own = [i for i, item in enumerate(items) if item["key"] == key]
            knows = [any(items[j]["size"] in MARKERS for j in visible(items, i, True, True)) for i in own]
            assert knows.index(True) + 1 == items[own[0]]["halt_at"]


def test_early_and_late_markers_stand_where_halt_at_says() -> None:
    for case, bound in (("early", lambda at, n: at <= 2), ("late", lambda at, n: at > n - 2)):
        frame = planted_tangles(50, 3, case, seed=1)
        for sequence in frame.partition_by("key"):
            at = sequence["halt_at"][0]
            assert MARKERS[sequence["size"][at - 1]] == sequence["label"][0]
            assert bound(at, sequence.height)


@pytest.mark.parametrize(
    "call",
    [
        lambda: planted_tangles(3, case="middle"),
        lambda: planted_tangles(0),
        lambda: planted_tangles(3, keys=1, case="value"),
        lambda: planted_tangles(3, keys=2, case="mixed"),
        lambda: planted_tangles(3, length=8),
        lambda: synthetic_traffic(3, kind="middle"),
        lambda: synthetic_traffic(3, length=5),
        lambda: demo_traffic(0),
    ],
)
def test_impossible_wishes_are_refused(call: Any) -> None:
    with pytest.raises(SettingError):
        call()


@pytest.mark.parametrize(("kind", "halt_at"), [("early", 10), ("late", 100)])
def test_synthetic_traffic_hides_a_signal_among_empty_items(kind: str, halt_at: int) -> None:
    frame = synthetic_traffic(200, kind, seed=1)
    assert frame["halt_at"].unique().to_list() == [halt_at]
    flows = frame.group_by("key", maintain_order=True).agg("size", pl.col("label").first(), pl.col("tangle").first())
    sizes = np.array(flows["size"].to_list())
    assert sizes.shape == (400, 100)
    inside = np.zeros(100, dtype=bool)
    inside[halt_at - 10 : halt_at] = True
    assert (sizes[:, inside] > 0).all() and (sizes[:, ~inside] == 0).all()
    assert flows.group_by("tangle").len()["len"].unique().to_list() == [2]
    assert 0.4 < (flows["label"] == "heavy").mean() < 0.6  # type: ignore[operator]
    turns = frame.select((pl.col("direction").diff().over("key") != 0).sum()).item()
    assert frame.height / (turns + 400) == pytest.approx(2.05, abs=0.1)  # mean session; the paper's table has 2.1
    mixing = (frame["key"].diff().drop_nulls() != 0).mean()
    assert 0.4 < mixing < 0.6  # type: ignore[operator]


def test_a_made_signal_takes_several_packets_to_tell() -> None:
    frame = synthetic_traffic(1000, "early", seed=2, length=10)
    flows = frame.group_by("key", maintain_order=True).agg("size", pl.col("label").first())
    lean = np.cumsum(np.array(flows["size"].to_list()) - 625, axis=1)  # 625 is the middle of the eight sizes
    accuracy = ((lean > 0) == (flows["label"] == "heavy").to_numpy()[:, None]).mean(axis=0)
    assert accuracy[0] < 0.85 and accuracy[-1] > 0.95


def test_synthetic_traffic_from_given_flows() -> None:
    rng = np.random.default_rng(0)
    flows = pl.DataFrame(
        {
            "key": np.repeat(np.arange(30), 12),
            "order": np.tile(np.arange(12)[::-1], 30),
            "size": rng.integers(40, 1500, 360),
            "direction": rng.integers(0, 2, 360),
            "label": np.repeat(np.array(["x", "y", "z"]), 120),
        }
    )
    known = {
        tuple(flow.sort("order")["size"][:10]): flow["label"][0]
        for flow in flows.partition_by("key", maintain_order=True)
    }
    made = synthetic_traffic(50, "late", seed=1, flows=flows, length=40)
    assert made["label"].n_unique() == 2
    for flow in made.partition_by("key"):
        assert known[tuple(flow["size"][-10:])] == flow["label"][0]
    with pytest.raises(DataError, match="no column 'size'"):
        synthetic_traffic(5, flows=flows.drop("size"))
    with pytest.raises(DataError, match="whole numbers"):
        synthetic_traffic(5, flows=flows.with_columns(pl.col("size").cast(pl.String)))
    with pytest.raises(DataError, match="0 classes with 20 packets"):
        synthetic_traffic(5, flows=flows, signal=20)


def test_demo_traffic_is_believable() -> None:
    frame = demo_traffic(200, seed=1)
    assert frame.equals(demo_traffic(200, seed=1))
    assert set(frame["label"]) == set(APPLICATIONS)
    assert frame.select(pl.col("time").diff().over("tangle").drop_nulls().min()).item() >= 0
    keys = frame.group_by("tangle", "key").agg(pl.len(), pl.col("label").n_unique())
    assert keys.height == 1200 and frame["key"].n_unique() == 1200
    assert keys["len"].is_between(8, 60).all() and keys["label"].unique().to_list() == [1]
    alive = frame.group_by("tangle", "key").agg(start=pl.col("time").min(), end=pl.col("time").max())
    pairs = alive.join(alive, on="tangle").filter(pl.col("key") != pl.col("key_right"))
    overlap = (pairs["start"] < pairs["end_right"]) & (pairs["start_right"] < pairs["end"])
    assert overlap.mean() > 0.3  # type: ignore[operator]


def test_some_demo_flows_show_their_application_by_another_flow() -> None:
    frame = demo_traffic(200, seed=2).with_columns(order=pl.int_range(pl.len()))
    tickets = frame.filter(pl.col("size").is_between(1000, 1360) & (pl.col("direction") == 0))
    first = tickets.unique(("tangle", "size"), keep="first", maintain_order=True)
    repeated = tickets.join(first, on=("tangle", "size")).filter(pl.col("key") != pl.col("key_right"))
    assert (repeated["label"] == repeated["label_right"]).all()
    assert (repeated["order"] > repeated["order_right"]).all()
    assert 0.15 < repeated.unique(("tangle", "key")).height / 1200 < 0.4


def test_the_schemas_name_columns_that_are_there() -> None:
    for schema, frame in ((SYNTHETIC_SCHEMA, planted_tangles(1)), (DEMO_SCHEMA, demo_traffic(1))):
        named = {
            *schema.key,
            schema.tangle,
            schema.time,
            schema.order,
            *schema.labels,
            *(f.source for f in schema.values),
        }
        assert named - {""} <= set(frame.columns)
        assert schema.session == ("direction",) and schema.match_names == ("size", "direction")
