import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pytest
from tests.decide.made_promise import promise

from kvec.decide.deployed import load_deployed
from kvec.decide.readiness import TRIGGERS
from kvec.doors.cli import run
from kvec.doors.service.versions import Version
from kvec.estimator import load
from kvec.learn.comparing import Tried
from kvec.read.synthetic import demo_traffic


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    demo_traffic(50).write_parquet(folder / "train.parquet")
    demo_traffic(30, seed=3).write_parquet(folder / "newer.parquet")
    sizes = ["encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16", "encoder.knots=3"]
    words = ["train", str(folder / "train.parquet"), "--epochs", "2", "--quiet", "-o", str(folder / "model")]
    words += ["--objective", "expected"]
    assert run([*words, *(word for size in sizes for word in ("--set", size))]) == 0
    return folder


def test_triggers_are_tried_and_one_of_them_halts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer, tuned = str(place / "newer.parquet"), str(place / "tuned")
    assert run(["tune", str(place / "model"), newer, "-o", tuned]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("hazard", "calibrated", "induction", f"is in {tuned}, at θ = "))
    assert run(["evaluate", tuned, newer]) == 0
    assert "180 of 180 sequences were used in training, validation or tuning" in capsys.readouterr().err


def test_what_it_was_trained_on_is_refused(
    place: Path, tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    given, items = ("--trigger", "hazard", "-o", tmp_path / "tuned"), demo_traffic(50)
    line = refused("tune", place / "model", place / "train.parquet", *given)
    assert "were used in training or validation" in line and line.endswith("held out: --split test")
    items.filter(pl.col("tangle") < 20).write_csv(tmp_path / "some.csv")
    assert refused("tune", place / "model", tmp_path / "some.csv", *given).endswith("; leave them out")
    line = refused("tune", place / "model", place / "train.parquet", *given, "--split", "train")
    assert "--split is 'train'; it can be test" in line
    line = refused("tune", place / "model", place / "train.parquet", *given, "--split", "test")
    assert "labelled sequences are too few to tune on" in line


def test_what_it_was_tuned_on_flatters_but_may_tune_again(
    place: Path, tmp_path: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    newer, tuned = str(place / "newer.parquet"), str(tmp_path / "tuned")
    assert run(["tune", str(place / "model"), newer, "--trigger", "calibrated", "-o", tuned]) == 0
    assert f"the model that halts by calibrated probability is in {tuned}, at" in capsys.readouterr().out
    assert run(["tune", tuned, newer, "--trigger", "hazard", "-o", tuned]) == 0
    assert f"{tuned} holds a model, the one that was tuned, which is replaced" in capsys.readouterr().err
    assert "were used in training, validation or tuning" in refused("guarantee", tuned, newer, "--max-error", "0.5")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_tuned_model_can_be_told_where_to_work(
    place: Path, tmp_path: Path, trigger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newer, tuned = str(place / "newer.parquet"), tmp_path / "tuned"
    assert run(["tune", str(place / "model"), newer, "--trigger", trigger, "-o", str(tuned)]) == 0
    there = load(tuned, at={"earliness": 0.4}).model_.operating_point
    assert load_deployed(tuned, {"earliness": 0.4}).operating_point == there
    assert Version.read(tuned, {"earliness": 0.4}).model.operating_point == there
    curve = Version.read(tuned).curve
    assert len(curve) > 10 and curve[0]["earliness"] > 0.9 > 0.1 > curve[-1]["earliness"]
    demo_traffic(6, seed=4).write_parquet(tmp_path / "few.parquet")
    few = str(tmp_path / "few.parquet")
    capsys.readouterr()
    decided = []
    for command in (["decide", str(tuned), few, "--format", "ndjson"], ["stream", str(tuned), few]):
        assert run([*command, "--at", "earliness=0.4"]) == 0
        rows = map(json.loads, capsys.readouterr().out.splitlines())
        decided.append({row["id"]: row["n_observed"] for row in rows})
    assert decided[0] == decided[1]


def test_every_command_can_be_told_where_to_work(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, newer = str(place / "model"), str(place / "newer.parquet")
    counts = []
    for command in (["decide", model, newer, "--format", "ndjson"], ["stream", model, newer]):
        for at in ("threshold=0", "threshold=1"):
            assert run([*command, "--at", at]) == 0
            decided = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            counts.append(sum(row["n_observed"] == 1 for row in decided))
    assert counts[0] == counts[2] > counts[1] == counts[3]
    assert run(["evaluate", model, newer, "--at", "earliness=0.4"]) == 0


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("fast", "--at 'fast' cannot be read"),
        ("speed=1", "unknown target 'speed'"),
        ("earlines=0.1", "cost_per_second, abstain_below, abstain_at_halts, unknown_below; did you mean 'earliness'?"),
        ("unknown_bellow=0.1", "; did you mean 'unknown_below'?"),
        ("earliness=0.1,accuracy=1", "one target at a time"),
        ("threshold=7", "between 0 and 1"),
        ("=0.1", "--at '=0.1' cannot be read"),
        ("cost_per_error=inf", "cost_per_error is inf; write a number"),
        ("cost_per_error=costs.parquet", "costs by class are a table: cost_per_error=costs.csv"),
        ("cost_per_error=none.csv", "none.csv: cannot be read: No such file"),
        ("earliness=0.0001", "it lies between"),
        ("accuracy=1", "cannot be reached: on validation the best is"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(
    place: Path, at: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["decide", str(place / "model"), str(place / "newer.parquet"), "--at", at]) == 2
    assert says in capsys.readouterr().err


WORDS = (
    "earliness=0.4", "accuracy=0.15", "cost_per_error=1,cost_per_item=0.01", "cost_per_error=1, cost_per_second=0.05",
    "cost_per_error={costs},cost_per_item=0.02", "threshold=0.02",
)  # fmt: skip


@pytest.fixture(scope="module")
def costs(place: Path) -> Path:
    classes = load(place / "model").model_.vocabulary.labels[0]
    lines = [f"{a},{b},{5 if a == 'scan' else 1}" for a in classes for b in classes if a != b]
    (place / "costs.csv").write_text("\n".join(["true,decided,cost", *lines]))
    return place / "costs.csv"


@pytest.fixture(scope="module")
def plain(place: Path) -> Path:
    """A model that learned to halt at one delay cost."""
    words = ["train", str(place / "train.parquet"), "--epochs", "1", "--quiet", "-o", str(place / "plain")]
    words += ["--objective", "expected"]
    sizes = ["encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16"]
    assert run([*words, *(word for size in sizes for word in ("--set", size))]) == 0
    return place / "plain"


@pytest.fixture(scope="module")
def induced(place: Path) -> Path:
    """A model with knots that halts by induction."""
    words = ["tune", str(place / "model"), str(place / "newer.parquet"), "--trigger", "induction"]
    assert run([*words, "-o", str(place / "induced")]) == 0
    return place / "induced"


@pytest.fixture(scope="module")
def told(place: Path) -> Path:
    """A model that learned to tell at every length, as by default, and halts by induction."""
    words = ["train", str(place / "train.parquet"), "--epochs", "1", "--quiet", "--split", "7:2:1"]
    sizes = ["encoder.width=16", "encoder.heads=2", "encoder.feed_forward=16", "encoder.fusion=16"]
    assert run([*words, "-o", str(place / "told"), *(word for size in sizes for word in ("--set", size))]) == 0
    return place / "told"


def test_what_learned_nothing_about_halting_has_no_learned_score(
    place: Path, told: Path, refused: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    tune = ("tune", told, place / "newer.parquet", "-o", place / "again")
    line = refused(*tune, "--trigger", "hazard")
    assert "learned nothing about halting" in line and line.endswith("--trigger induction or calibrated")
    assert run([str(word) for word in tune]) == 0
    shown = capsys.readouterr().out
    assert "calibrated" in shown and "induction" in shown and "hazard" not in shown


@pytest.mark.parametrize("kind", ["knots", "plain", "induced", "told"])
def test_every_word_means_the_same_to_every_command(
    place: Path,
    plain: Path,
    induced: Path,
    told: Path,
    costs: Path,
    kind: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = {"knots": place / "model", "plain": plain, "induced": induced, "told": told}[kind]
    few = demo_traffic(6, seed=4)
    few.write_parquet(tmp_path / "few.parquet")
    data, key = str(tmp_path / "few.parquet"), str(few["key"][0])
    words = [*WORDS, "delay_cost=0.5", "delay_cost=2,threshold=0.03"] if kind != "plain" else WORDS
    for word in words:
        at = ["--at", word.format(costs=costs)]
        capsys.readouterr()
        decided = {}
        for command in ("decide", "stream"):
            out = tmp_path / f"{command}.ndjson"
            assert run([command, str(model), data, "-o", str(out), *at]) == 0, word
            rows = [json.loads(line) for line in out.read_text().splitlines()]
            decided[command] = {row["id"]: (row["label"], row["n_observed"]) for row in rows}
        assert decided["decide"] == decided["stream"], word
        capsys.readouterr()
        assert run(["evaluate", str(model), data, "--json", *at]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["delay_cost"] is None) == (kind == "plain")
        assert ("cost" in found) == ("cost_per" in word)
        counts = [n for _, n in decided["decide"].values()]
        assert found["mean_n_observed"] == pytest.approx(sum(counts) / len(counts)), word
        assert run(["explain", str(model), data, "--key", key, "--json", *at]) == 0
        explained = json.loads(capsys.readouterr().out)
        assert explained["decision"]["n_observed"] == decided["decide"][explained["id"]][1], word
        assert (explained["threshold"], explained["delay_cost"]) == (found["threshold"], found["delay_cost"])


def test_errors_that_cost_while_waiting_does_not(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["decide", str(place / "model"), str(place / "newer.parquet"), "--format", "ndjson", "--at"]
    for target, is_told in (("cost_per_error=1", True), ("cost_per_error=1,cost_per_item=0.01", False)):
        assert run([*words, target]) == 0
        assert ("kvec: waiting costs nothing here, so sequences are read" in capsys.readouterr().err) is is_told


@pytest.mark.parametrize("at", ["accuracy=0.3", "delay_cost=1", "cost_per_error=1,cost_per_second=0.05"])
def test_induction_can_be_aimed_at_anything(
    place: Path, tmp_path: Path, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", str(place / "model"), str(place / "newer.parquet"), "--trigger", "induction", "--at", at]
    assert run([*words, "-o", str(tmp_path / "tuned")]) == 0
    point = load(tmp_path / "tuned").model_.operating_point
    assert f"halts by backward induction is in {tmp_path / 'tuned'}, at {point}" in capsys.readouterr().out
    assert point.delay_cost is not None and ("delay_cost" not in at or point.delay_cost == 1)


def test_models_without_knots_say_what_they_can_be_aimed_at(
    place: Path, plain: Path, refused: Callable[..., str]
) -> None:
    line = refused("decide", plain, place / "newer.parquet", "--at", "delay_cost=2")
    assert "takes no delay cost; aim at earliness, accuracy or costs, or fit what takes one" in line
    assert line.endswith("with kvec tune --trigger induction")


def test_triggers_that_cannot_aim_at_a_target_are_left_out(
    place: Path, costs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune = ["tune", str(place / "model"), str(place / "newer.parquet"), "-o", str(place / "aimed"), "--at"]
    for target, tried in (
        ("accuracy=0.2", TRIGGERS),
        (f"cost_per_error={costs},cost_per_item=0.02", TRIGGERS),
        ("delay_cost=2", ("hazard", "induction")),
    ):
        assert run([*tune, target]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert tuple(line.split()[0] for line in lines[4 : 4 + len(tried)]) == tried, target
        assert ("cost" in lines[2].split()) == ("cost_per" in target)
    assert load(place / "aimed").model_.delay_cost == 2


def made(ahead: float, of: int = 40, trigger: str = "calibrated") -> Tried:
    """A trigger that decides so many more of ten sequences of each tangle rightly."""
    right = np.random.default_rng(0).integers(4, 9, of) + ahead
    return Tried(trigger, np.stack([np.full(of, 10.0), right, np.full(of, 2.0), 10 - right], axis=1))


@pytest.mark.parametrize(
    ("tried", "says", "trigger"),
    [
        ([made(0.0), made(0.0, trigger="induction")], "now, is kept: no other is ahead of it beyond", "induction"),
        ([made(1.0), made(0.0, trigger="induction")], "calibrated is taken: it is ahead of induction", "calibrated"),
        ([made(1.0, 4), made(0.0, 4, "induction")], "is kept: fewer than 20 tangles with labels do not", "induction"),
        ([made(0.0, trigger="induction")], "now, is kept: no other can reach this", "induction"),
        ([made(0.0)], "calibrated is taken, the best that can reach this; induction,", "calibrated"),
    ],
)
def test_it_says_why_a_trigger_is_kept_or_taken(
    place: Path, induced: Path, tried: list[Tried], says: str, trigger: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("kvec.doors.tuning.compare_triggers", lambda *_: tried)
    tuned = tmp_path / "tuned"
    assert run(["tune", str(induced), str(place / "newer.parquet"), "-o", str(tuned)]) == 0
    said = capsys.readouterr().out
    assert says in said and ("it turns by θ alone" in said) == (trigger == "calibrated")
    assert load(tuned).model_.readiness.trigger == trigger
    assert ("more HM than induction  95 % interval" in said) == (len(tried) == 2)
    if trigger == "induction":
        assert load(tuned, at={"delay_cost": 2.0}).model_.delay_cost == 2


@pytest.mark.parametrize(
    ("at", "column"),
    [("earliness=0.4", "more accuracy than"), ("cost_per_error=1,cost_per_item=0.01", "less cost than")],
)
def test_triggers_are_compared_by_what_was_asked_for(
    place: Path, induced: Path, tmp_path: Path, at: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", str(induced), str(place / "newer.parquet"), "-o", str(tmp_path / "tuned"), "--at", at]
    assert run(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"{column} induction  95 % interval" in lines[2]
    rows = {line.split()[0]: line.split() for line in lines[4:7]}
    lows = {name: float(row[-3]) for name, row in rows.items() if name != "induction"}
    taken = load(tmp_path / "tuned").model_.readiness.trigger
    assert taken == "induction" if max(lows.values()) <= 0 else lows[taken] > 0


def test_labels_in_every_other_tangle_are_enough(place: Path, tmp_path: Path) -> None:
    label = pl.when(pl.col("tangle") % 2 == 0).then("label")
    demo_traffic(30, seed=3).with_columns(label=label).write_parquet(tmp_path / "half.parquet")
    assert run(["tune", str(place / "model"), str(tmp_path / "half.parquet"), "-o", str(tmp_path / "tuned")]) == 0


def test_one_tangle_has_no_halves(place: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    one = demo_traffic(30, seed=3).with_columns(key=pl.format("{}-{}", "tangle", "key"), tangle=pl.lit(0))
    one.sort("time").write_parquet(tmp_path / "one.parquet")
    line = refused("tune", place / "model", tmp_path / "one.parquet", "-o", tmp_path / "tuned")
    assert "one half has 0 labelled sequences" in line and "--trigger induction" in line


@pytest.mark.parametrize(
    ("trigger", "at", "says"),
    [
        ("induction", "delay_cost=70", "the delay cost is 70; it must lie between 0.02 and 50"),
        ("induction", "earliness=7", "at most 1"),
        ("induction", "accuracy=1", "cannot be reached: on validation the best is"),
        ("calibrated", "delay_cost=1", "takes no delay cost"),
    ],
)
def test_a_trigger_says_what_it_cannot_aim_at(
    place: Path, trigger: str, at: str, says: str, refused: Callable[..., str]
) -> None:
    given = ("tune", place / "model", place / "newer.parquet", "-o", place / "never")
    assert says in refused(*given, "--trigger", trigger, "--at", at)


def middle(place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A probability that half of the decisions reach."""
    assert run(["decide", str(place / "model"), str(place / "newer.parquet"), "--format", "ndjson"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return f"{median(row['probability'] for row in rows):.3f}"


def test_a_tuned_model_keeps_when_it_says_unknown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newer, tuned = str(place / "newer.parquet"), str(place / "unsure")
    words = ["--abstain-below", "0.1", "--abstain-at-halts", "--unknown-below", "0.3"]
    assert run(["tune", str(place / "model"), newer, "-o", tuned, "--trigger", "hazard", *words]) == 0
    said = capsys.readouterr().out
    assert "what halts or ends below a probability of 10.0 %" in said
    assert "and what is stranger than all but 30.0 % of the known sequences" in said
    assert run(["evaluate", tuned, newer, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["coverage"] < 1 and found["known_accuracy"] > found["accuracy"]
    assert set(found["calibration"]) == {"n", "is_of_halts", "ece", "brier", "ece_before", "brier_before"}
    assert run(["evaluate", tuned, newer, "--at", "abstain_below=0,abstain_at_halts=0,unknown_below=0"]) == 0
    assert "coverage" not in capsys.readouterr().out
    words = ["tune", str(place / "model"), newer, "-o", tuned, "--trigger", "hazard", "--abstain-below", "0.1"]
    assert run([*words, "--abstain-at-ends"]) == 0
    assert "what ends without a halt below" in capsys.readouterr().out
    assert run([*words, "--abstain-at-ends", "--abstain-at-halts"]) == 2


def test_every_command_says_unknown_alike(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, newer, report = str(place / "model"), str(place / "newer.parquet"), place / "unknown.html"
    least = middle(place, capsys)
    at = ["--at", f"abstain_below={least},abstain_at_halts=1,unknown_below=0.1", "--at", "threshold=0.6"]
    told = []
    for command in (["decide", model, newer, "--format", "ndjson"], ["stream", model, newer]):
        assert run([*command, *at]) == 0
        shown = capsys.readouterr()
        told.append({row["id"]: row for row in map(json.loads, shown.out.splitlines())})
    table, stream = told
    assert f", {sum(not row['is_known'] for row in stream.values())} of them unknown; " in shown.err
    assert table.keys() == stream.keys() and 0 < sum(not row["is_known"] for row in table.values()) < len(table)
    for name, row in table.items():
        assert stream[name]["familiarity"] == pytest.approx(row["familiarity"], abs=0.05)
        is_near = abs(row["familiarity"] - 0.1) < 0.05 or abs(row["probability"] - float(least)) < 1e-4
        assert stream[name]["is_known"] == row["is_known"] or is_near
    assert run(["decide", model, newer, "-o", str(place / "decided.csv"), *at]) == 0
    n_unknown = sum(not row["is_known"] for row in table.values())
    assert f", {n_unknown} unknown" in capsys.readouterr().err
    assert run(["evaluate", model, newer, "--report", str(report), *at]) == 0
    said = capsys.readouterr().out
    assert "decisions that are known; the others count as wrong above" in said and "ECE" in said
    assert "If only the surest are taken" in report.read_text(encoding="utf-8")
    key = next(row["key"] for row in table.values() if not row["is_known"])
    tangle = next(row["tangle"] for row in table.values() if not row["is_known"])
    assert run(["explain", model, newer, "--key", str(key), "--tangle", str(tangle), *at]) == 0
    assert "(unknown), at best " in capsys.readouterr().out


def test_sequences_of_new_classes_are_counted_among_the_unknown(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = demo_traffic(12, seed=5).with_columns(label=pl.col("label").replace("scan", "worm"))
    items.write_parquet(tmp_path / "other.parquet")
    words = ["--at", "abstain_below=0.9,abstain_at_halts=1"]
    assert run(["evaluate", str(place / "model"), str(tmp_path / "other.parquet"), "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 <= found["n_new_unknown"] <= found["n_new_labels"] == sum(found["new_classes"].values()) > 0
    assert run(["evaluate", str(place / "model"), str(tmp_path / "other.parquet"), *words]) == 0
    assert f"of the {found['n_new_labels']} sequences of new classes, and" in capsys.readouterr().out


def test_a_stream_refuses_a_threshold_for_which_nothing_was_settled(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["stream", str(place / "model"), str(place / "newer.parquet"), "--at", "unknown_below=0.1"]
    assert run([*words, "--threshold", "0.3"]) == 2
    said = capsys.readouterr().err
    assert "turn the model itself elsewhere" in said
    assert said.endswith("with model.at or --at unknown_below=0.1,threshold=0.3\n")


@pytest.fixture(scope="module")
def worms(place: Path) -> Path:
    """Sequences of a class that the model does not know."""
    demo_traffic(12, seed=5).with_columns(label=pl.lit("worm")).write_parquet(place / "worms.parquet")
    return place / "worms.parquet"


def test_classes_that_are_all_new_are_named(place: Path, worms: Path, refused: Callable[..., str]) -> None:
    for command, so in (("tune", "nothing to tune on"), ("evaluate", "nothing to compare with")):
        line = refused(command, place / "model", worms, *(("-o", place / "never") if command == "tune" else ()))
        assert f"the model knows none of the classes in it ('worm'), so there is {so}; it knows" in line
        assert "'scan'" in line


def test_of_new_classes_alone_the_unknown_are_counted(
    place: Path, worms: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--at", "abstain_below=1,abstain_at_halts=1"]
    assert run(["evaluate", str(place / "model"), str(worms), *at]) == 0
    assert "unknown: 100.0 % of the 72 sequences" in capsys.readouterr().out
    assert run(["evaluate", str(place / "model"), str(worms), "--at", "unknown_below=0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    decided = load(place / "model", at={"unknown_below": 0.2}).decide(worms)
    assert found["n_new_unknown"] == sum(not one.is_known for one in decided)
    assert (found["new_classes"], found["n_new_labels"], found["n_keys"]) == ({"worm": 72}, 72, 0)


def test_sequences_of_new_classes_are_said_to_be_left_out(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = demo_traffic(30, seed=3).with_columns(label=pl.col("label").replace("scan", "worm"))
    items.write_parquet(tmp_path / "worms.parquet")
    n = items.filter(pl.col("label") == "worm").select(pl.struct("tangle", "key").n_unique()).item()
    words = ["tune", str(place / "model"), str(tmp_path / "worms.parquet"), "--trigger", "hazard"]
    assert run([*words, "-o", str(tmp_path / "tuned")]) == 0
    said = capsys.readouterr().err.splitlines()
    assert f"kvec: left out: {n} sequences of classes new to the model ('worm')" in said
    (line,) = (line for line in said if "warning" in line)
    assert "worms.parquet holds no sequence of 'scan', 1 of the 5 classes that the model knows" in line


def test_known_classes_that_are_missing_are_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", str(place / "model"), "--trigger", "hazard", "-o", str(tmp_path / "tuned")]
    assert run([*words, str(place / "newer.parquet")]) == 0
    assert "classes" not in capsys.readouterr().err
    demo_traffic(80, seed=3).filter(pl.col("label") == "web").write_parquet(tmp_path / "web.parquet")
    assert run([*words, str(tmp_path / "web.parquet")]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "warning" in line)
    assert "'chat'" in line and "'scan'" in line and "'web'" not in line and "4 of the 5 classes" in line
    assert "left out" not in line


def test_new_classes_are_told_before_the_others_are_too_few(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    label = pl.when(pl.col("label") == "web").then("label").otherwise(pl.lit("worm"))
    demo_traffic(20, seed=3).with_columns(label=label).write_parquet(tmp_path / "most.parquet")
    assert run(["tune", str(place / "model"), str(tmp_path / "most.parquet"), "-o", str(tmp_path / "tuned")]) == 2
    first, last = capsys.readouterr().err.splitlines()
    assert "sequences of classes new to the model ('worm')" in first and "too few to tune on" in last


def test_few_sequences_are_too_few_for_any_trigger(place: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    demo_traffic(5, seed=7).write_parquet(tmp_path / "few.parquet")
    line = refused("tune", place / "model", tmp_path / "few.parquet", "-o", tmp_path / "tuned")
    assert line.endswith("30 labelled sequences are too few to tune on; give 40 or more")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--abstain-below", "2"), "abstain_below is 2; it must lie between 0 and 1"),
        (("--abstain-at-halts",), "say abstain_below too"),
        (("--unknown-below", ".0001"), "needs 9,999 labelled sequences; there are 180, enough for 0.0055"),
        (("--at", "earliness=7"), "at most 1"),
        (("--abstain-below", ".6", "--at", "abstain_below=.7"), "given twice, in --at and as --abstain-below; choose"),
        (("--unknown-below", ".6", "--at", "unknown_below=.6"), "given twice, in --at and as --unknown-below; choose"),
    ],
)
def test_words_that_no_tuning_can_keep_are_refused_before_the_work(
    place: Path, words: tuple[str, ...], says: str, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvec.doors.tuning.score_table", lambda *_: pytest.fail("it was at work already"))
    assert says in refused("tune", place / "model", place / "newer.parquet", "-o", place / "never", *words)


def test_a_model_of_separate_files_has_no_test_part(place: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    model = load(place / "model")
    model.model_.split = None
    model.save(tmp_path / "apart")
    line = refused("tune", tmp_path / "apart", place / "newer.parquet", "-o", tmp_path / "tuned", "--split", "test")
    assert line.endswith("so it knows no parts; give those files instead")
    line = refused("evaluate", tmp_path / "apart", place / "newer.parquet", "--split", "test")
    assert line.endswith("so it knows no parts; evaluate those files instead")


def test_tuning_makes_a_promise_void_and_says_so(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load(place / "model")
    point, made = model.model_.operating_point.to_dict(), model.deployed().hash
    model.model_.promise = promise(operating_point=point, model=made)
    model.save(tmp_path / "promised")
    tune = ["tune", str(tmp_path / "promised"), str(place / "newer.parquet"), "-o", str(tmp_path / "tuned")]
    assert run([*tune, "--trigger", "calibrated"]) == 0
    assert "is void: it was made for" in capsys.readouterr().err
