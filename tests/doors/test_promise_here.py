"""`kvec evaluate` sets a promise against the labels of the data at hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import Trained

from kvec.doors.cli import run
from kvec.estimator import KVEC, load
from kvec.read.synthetic import demo_traffic

KEYS = 4


@pytest.fixture(scope="module")
def place(lively: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with calibration.parquet, other.parquet, which has missing and new labels, and models with promises."""
    folder = tmp_path_factory.mktemp("promised")
    demo_traffic(60, seed=77, keys=KEYS).write_parquet(folder / "calibration.parquet")
    label = pl.when(pl.col("tangle") < 2).then(None).when(pl.col("tangle") < 7).then(pl.lit("new")).otherwise("label")
    demo_traffic(30, seed=78, keys=KEYS).with_columns(label=label).write_parquet(folder / "other.parquet")
    for name, wish in (("early", ["--max-early-error", "0.1"]), ("error", ["--max-error", "0.9", "--per-class"])):
        shutil.copytree(lively.model, folder / name)
        given = ["guarantee", str(folder / name), str(folder / "calibration.parquet"), *wish]
        assert run([*given, "--max-keys", str(KEYS)]) == 0
    return folder


def promise_more(folder: Path, alpha: float, to: Path) -> Path:
    """A copy of a model whose promise is of another α."""
    copy = Path(shutil.copytree(folder, to))
    card = json.loads((copy / "kvec.json").read_text())
    card["promise"]["alpha"] = alpha
    (copy / "kvec.json").write_text(json.dumps(card))
    return copy


def by_hand(model: KVEC, data: Path) -> pl.DataFrame:
    """Decisions with the labels as they were given, and what would have been said at the end."""
    tangles = model.tangles(data)
    ends = model.scores(tangles).classes[0][tangles.offsets[1:] - 1].argmax(axis=1)
    given = tangles.frame["label.label"][tangles.sequences.first]
    frame = model.decision_frame(data).with_columns(end=pl.Series(model.classes_[ends]), given=given)
    is_wrong = pl.col("label") != pl.col("given")
    is_early = (pl.col("n_observed") < pl.col("length")) & (pl.col("end") == pl.col("given"))
    return frame.filter(pl.col("given").is_not_null()).with_columns(error=is_wrong, early=is_wrong & is_early)


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[dict[str, object], list[str]]:
    capsys.readouterr()
    assert run(["evaluate", *map(str, arguments), "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err.splitlines()


def test_what_is_lost_here_stands_beside_the_promise(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = promise_more(place / "early", 0.001, tmp_path / "model"), place / "other.parquet"
    plain, told = evaluated(capsys, model, data, "--report", tmp_path / "report.html")
    counted = by_hand(load(model), data)
    share = counted["early"].mean()
    assert isinstance(share, float) and share > 0.001
    assert plain["promise_here"] == {"lost": pytest.approx(share), "n_keys": counted.height, "is_within": False}
    line = f"on this data: {100 * share:.3g}% of {counted.height} sequences, more than promised"
    first = next(i for i, each in enumerate(told) if each.startswith("kvec: promised: at most 0.1%"))
    assert told[first + 1] == f"kvec: {line}"
    assert f"O{line[1:]}.</p>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_each_class_is_set_against_its_promise(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = place / "other.parquet"
    counted = by_hand(load(place / "error"), data)
    of = {name: (share, n) for name, share, n in counted.group_by("given").agg(
        pl.col("error").mean().alias("lost"), pl.len()).rows()}  # fmt: skip
    plain, told = evaluated(capsys, place / "error", data)
    promised = {each["name"] for each in plain["promise"]["classes"] if each["is_promised"]}
    here = plain["promise_here"]
    assert here["classes"] == {
        name: {"lost": pytest.approx(of[name][0]), "n_keys": of[name][1]} for name in promised & of.keys()
    }
    assert here["n_keys"] == sum(of[name][1] for name in promised & of.keys()) and "new" not in here["classes"]
    strict, told = evaluated(capsys, promise_more(place / "error", 0.3, tmp_path / "model"), data)
    assert not strict["promise_here"]["is_within"]
    (line,) = (each for each in told if each.startswith("kvec: on this data: "))
    worst = max(here["classes"], key=lambda name: here["classes"][name]["lost"])
    assert "; more than promised of " in line and f"{worst!r} (" in line


def test_without_a_promise_in_force_nothing_is_set_against_it(
    place: Path, lively: Trained, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ((place / "early", "--at", "threshold=0.3"), (lively.model,)):
        plain, told = evaluated(capsys, words[0], place / "other.parquet", *words[1:])
        assert "promise" not in plain and "promise_here" not in plain
        assert not any("on this data" in line for line in told)


def test_what_gave_the_promise_flatters(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = tmp_path / "some.parquet"
    pl.read_parquet(place / "calibration.parquet").filter(pl.col("tangle") < 20).write_parquet(some)
    for data in (place / "calibration.parquet", some):
        (line,) = (each for each in evaluated(capsys, place / "early", data)[1] if "flatter" in each)
        assert line.startswith(f"kvec: warning: {data} holds sequences that gave the promise of ")
        assert line.endswith(", and with it the operating point, so these figures flatter the model; measure on others")
        told = evaluated(capsys, place / "early", data, "--at", "threshold=0.3")[1]
        assert not any("flatter" in each for each in told), "another point, which they did not choose"
    assert not any("flatter" in each for each in evaluated(capsys, place / "early", place / "other.parquet")[1])


def test_the_folder_from_which_a_promise_was_made_is_not_flattered(
    lively: Trained, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = Path(shutil.copytree(lively.model, tmp_path / "model")), place / "calibration.parquet"
    wish = ["guarantee", str(model), str(data), "--max-early-error", "0.1", "--max-keys", "4"]
    assert run([*wish, "-o", str(tmp_path / "promised")]) == 0
    assert not any("flatter" in each for each in evaluated(capsys, model, data)[1]), "its point was chosen elsewhere"
    assert any("flatter" in each for each in evaluated(capsys, tmp_path / "promised", data)[1])


def test_of_new_classes_alone_all_is_lost(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Path(shutil.copytree(place / "early", tmp_path / "model"))
    demo_traffic(60, seed=79, keys=KEYS).write_parquet(tmp_path / "more.parquet")
    wish = ["--max-error", "0.9", "--max-keys", str(KEYS)]
    assert run(["guarantee", str(model), str(tmp_path / "more.parquet"), *wish]) == 0
    demo_traffic(5, seed=80, keys=KEYS).with_columns(label=pl.lit("new")).write_parquet(tmp_path / "new.parquet")
    found, said = evaluated(capsys, model, tmp_path / "new.parquet", "--at", "abstain_below=0.5")
    assert found["promise_here"] == {"lost": 1.0, "n_keys": 20, "is_within": False}
    assert "kvec: on this data: 100% of 20 sequences, more than promised" in said


def test_data_that_gave_an_earlier_promise_flatters_nothing(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copytree(place / "early", tmp_path / "model"))
    demo_traffic(60, seed=79, keys=KEYS).write_parquet(tmp_path / "more.parquet")
    wish = ["--max-early-error", "0.15", "--max-keys", str(KEYS)]
    assert run(["guarantee", str(model), str(tmp_path / "more.parquet"), *wish]) == 0
    for data, is_told in ((tmp_path / "more.parquet", True), (place / "calibration.parquet", False)):
        _, said = evaluated(capsys, model, data)
        assert any("flatter the model" in line for line in said) is is_told
