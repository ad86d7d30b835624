"""`kvec guarantee` on a small model: the promise in its folder, what it refuses, and where it is shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from tests.doors.made import FLAGS, TINY, Trained

from kvec.decide.deployed import load_deployed
from kvec.decide.folder import digest
from kvec.decide.operating import OperatingPoint
from kvec.doors import guaranteeing
from kvec.doors.cli import run
from kvec.estimator import load
from kvec.read.synthetic import demo_traffic
from kvec.tangle.tangling import Split
from kvec.words.errors import ModelError

Refused = Callable[..., str]
FEW = ("--max-keys", "4")


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unseen") / "unseen.parquet"
    demo_traffic(60, seed=77, keys=4).write_parquet(path)
    return path


@pytest.fixture
def model(lively: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lively.model, tmp_path / "model"))


@pytest.fixture(scope="module")
def promised(lively: Trained, unseen: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(lively.model, tmp_path_factory.mktemp("promised") / "model"))
    assert run(["guarantee", str(folder), str(unseen), "--max-early-error", "0.1", *FEW]) == 0
    return folder


def change_card(folder: Path, **entries: object) -> None:
    card = folder / "kvec.json"
    card.write_text(json.dumps(json.loads(card.read_text()) | entries))


def test_the_promise_is_told_and_written(model: Path, unseen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = load(model)
    assert run(["guarantee", str(model), str(unseen), "--max-early-error", "0.1", "--confidence", "0.9", *FEW]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "promised: at most 10% of sequences are wrong when decided early, though right at their end (90% confidence, "
        "from 60 tangles, "
    )
    assert (
        f"operating point moves from θ = {before.model_.threshold:.3g} to θ = " in out
        and "another operating point" in out
    )
    after = load(model)
    promise = after.deployed().promised
    assert promise is not None
    assert promise.operating_point == {"threshold": after.model_.threshold}
    assert promise.most_keys == 4 and promise.n_sequences == 240 and promise.observed <= 0.1
    assert sorted(file.name for file in model.iterdir()) == [
        "history.csv", "kvec.json", "validation.safetensors", "vocabulary.json", "weights.safetensors",
    ]  # fmt: skip
    table = after.decision_frame(unseen).with_columns(end=pl.Series(labels_at_end(after, unseen)))
    lost = (pl.col("n_observed") < pl.col("length")) & (pl.col("label") != pl.col("true_label"))
    lost &= pl.col("end") == pl.col("true_label")
    assert table.select(lost.mean()).item() == pytest.approx(promise.observed), "counted by hand"


def labels_at_end(model: object, data: Path) -> list[str]:
    tangles = model.tangles(data)  # type: ignore[attr-defined]
    scores = model.scores(tangles)  # type: ignore[attr-defined]
    names = model.model_.vocabulary.labels[0]  # type: ignore[attr-defined]
    return [names[c] for c in scores.classes[0][scores.offsets[1:] - 1].argmax(axis=1)]


def test_as_json_and_per_class(model: Path, unseen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["guarantee", str(model), str(unseen), "--max-error", "0.9", "--per-class", "--max-keys", "4"]
    assert run([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["name"] for each in found["classes"]} == set(load(model).classes_)
    assert found["kind"] == "error" and found["operating_point_before"] != found["operating_point"]
    assert sum(each["n_sequences"] for each in found["classes"]) == 240
    assert run(given) == 0
    assert "upper bound" in capsys.readouterr().out.splitlines()[4]


def test_a_class_that_is_left_out_is_warned_of(
    model: Path, unseen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = load(model).decision_frame(unseen)
    names = load(model).classes_
    said = table["label"].mode()[0]
    rare = next(str(name) for name in names if name != said)
    items = pl.read_parquet(unseen)
    keys = items["key"].unique(maintain_order=True).to_list()
    never = items.with_columns(label=pl.when(pl.col("key") == keys[0]).then(pl.lit(rare)).otherwise(pl.lit(said)))
    never.filter((pl.col("key") != keys[0]) | (pl.col("tangle") < 5)).write_parquet(tmp_path / "rare.parquet")
    given = ["guarantee", str(model), str(tmp_path / "rare.parquet"), "--max-error", "0.9", "--per-class", *FEW]
    assert run([*given, "--confidence", "0.99"]) == 0
    out, err = capsys.readouterr()
    promise = load_deployed(model).promised
    assert promise is not None
    left = {each.name: each for each in promise.classes}[rare]
    assert not left.is_promised and left.n_sequences > 0
    share = f"of '{rare}' {100 * left.observed:.3g}% of {left.n_sequences}"
    assert "kvec: warning: nothing is promised of a class of this data; at the operating point" in err
    assert f"are wrong: {share}" in err and err.count("is promised of a class") == 1
    lines = out.splitlines()
    assert (
        f"of sequences of class {said!r} are wrong" in lines[0]
        and f"{rare!r}" in lines[0].split("nothing is promised of ")[1]
    )
    assert f"% of {promise.n_observed} sequences; upper bound" in lines[2] and promise.n_observed < promise.n_sequences
    (row,) = [line for line in lines if line.startswith(rare) and "needed" not in line]
    assert row.endswith("none")
    (reason,) = [line for line in lines if line.startswith(f"nothing is promised of {rare!r}: ")]
    assert reason.endswith("are needed") and lines.index(reason) > lines.index(row)


def test_what_was_used_is_refused(lively: Trained, model: Path, unseen: Path, tmp_path: Path, refused: Refused) -> None:
    line = refused("guarantee", model, lively.items, "--max-error", "0.5")
    assert "72 sequences, such as key" in line and "use the part that was held out: --split test" in line
    assert "there are too few tangles to calibrate on, 2" in refused(
        "guarantee", model, lively.items, "--max-error", "0.5", "--split", "test"
    )
    line = refused("guarantee", model, lively.items, "--max-error", "0.5", "--split", "validation")
    assert "only test was not used in training" in line
    split = load(model).model_.split
    assert split is not None
    used = Split.from_dict(split).part(lively.frame, "validation")
    one = used.filter(pl.col("key") == used["key"][0]).with_columns(tangle=pl.lit(1000))
    mixed = tmp_path / "mixed.csv"
    pl.concat([pl.read_parquet(unseen), one], how="vertical_relaxed").write_csv(mixed)
    line = refused("guarantee", model, mixed, "--max-error", "0.5")
    assert f"1 sequences, such as key {used['key'][0]!r} of tangle 1000, were used" in line, "in another file"


def test_the_same_sequences_give_one_promise(
    promised: Path, unseen: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copytree(promised, tmp_path / "model"))
    assert run(["guarantee", str(model), str(unseen), "--max-early-error", "0.1", *FEW]) == 0, (
        "the same wish may be repeated"
    )
    made = load_deployed(model).promise.made  # type: ignore[union-attr]
    out, err = capsys.readouterr()
    assert f"the promise of {made} in {model} is replaced" in err and "operating point stays at θ = " in out
    part = tmp_path / "part.csv"
    pl.read_parquet(unseen).filter(pl.col("tangle") < 50).write_csv(part)
    line = refused("guarantee", model, part, "--max-early-error", "0.1", *FEW)
    assert "or on more or fewer of them, so use other data" in line, "the same wish on a part"
    for data in (unseen, part):
        line = refused("guarantee", model, data, "--max-error", "0.9")
        assert f"gave the promise of {made}, --max-early-error 0.1; the confidence does not cover" in line
    assert run(["guarantee", str(model), str(part), "--max-error", "0.9", "--again"]) == 0
    assert "assumed: " in (out := capsys.readouterr().out) and "gave another promise before" in out
    assert "--max-error 0.9" in refused("guarantee", model, unseen, "--max-early-error", "0.2"), "saved with the model"
    load(model).save(tmp_path / "saved")
    assert "--max-error 0.9" in refused("guarantee", tmp_path / "saved", unseen, "--max-early-error", "0.2")
    demo_traffic(60, seed=78, keys=4).write_parquet(tmp_path / "other.parquet")
    assert run(["guarantee", str(model), str(tmp_path / "other.parquet"), "--max-early-error", "0.2"]) == 0


def test_a_tuned_model_gives_another_promise(
    promised: Path, unseen: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    newer, tuned, wish = tmp_path / "newer.parquet", tmp_path / "tuned", ("--max-early-error", "0.1", *FEW)
    demo_traffic(60, seed=79, keys=4).write_parquet(newer)
    assert run(["tune", str(promised), str(newer), "--trigger", "calibrated", "-o", str(tuned)]) == 0
    line = refused("guarantee", tuned, unseen, *wish)
    assert "gave the promise of" in line and "of a model that was tuned since" in line
    card = json.loads((tuned / "kvec.json").read_text())
    for each in card["calibrated"]:
        del each["wish"]["model"]  # as an older kvec wrote it
    change_card(tuned, calibrated=card["calibrated"])
    assert run(["guarantee", str(tuned), str(unseen), *wish]) == 0
    assert run(["guarantee", str(tuned), str(unseen), *wish]) == 0, "its operating point has moved since"
    moved = load(tuned).at(threshold=0.4)
    moved.save(tmp_path / "moved")
    assert run(["guarantee", str(tmp_path / "moved"), str(unseen), *wish]) == 0, "where it stands is no difference"


def test_a_promise_in_another_folder(model: Path, unseen: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, output = json.loads((model / "kvec.json").read_text()), model.with_name("promised")
    wish = ["guarantee", str(model), str(unseen), "--max-early-error", "0.1", *FEW, "-o", str(output)]
    assert run(wish) == 0
    out, err = capsys.readouterr()
    assert f"the promise is in {output};" in out and "replaced" not in err
    after = json.loads((model / "kvec.json").read_text())
    assert after.pop("calibrated") and after == {name: one for name, one in before.items() if name != "calibrated"}
    assert load_deployed(output).promised is not None and load_deployed(model).promise is None
    assert run(wish) == 0, "the same wish may be repeated"
    assert f"kvec: {output} holds a model with a promise, which is replaced" in capsys.readouterr().err.splitlines()


def test_a_promise_in_another_folder_is_remembered(
    model: Path, unseen: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    first, second = ("-o", str(tmp_path / "one")), ("-o", str(tmp_path / "two"))
    wish = ["guarantee", str(model), str(unseen), *FEW]
    assert run([*wish, "--max-early-error", "0.1", *first]) == 0
    for output in (first, second):
        line = refused(*wish, "--max-early-error", "0.2", *output)
        assert "--max-early-error 0.1; the confidence does not cover a second one" in line
    assert run([*wish, "--max-early-error", "0.2", *second, "--again"]) == 0
    assert "gave another promise before" in capsys.readouterr().out

    def fail(*_: object, **__: object) -> None:
        raise ModelError(f"{model}: cannot change the model: Read-only file system")

    monkeypatch.setattr(guaranteeing, "rewrite_card", fail)
    assert run([*wish, "--max-early-error", "0.2", *second, "--again"]) == 0
    assert "warning: " in (err := capsys.readouterr().err) and "so it does not remember that these" in err


def test_an_old_model_does_not_know_what_it_has_seen(
    model: Path, unseen: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    file = model / "validation.safetensors"
    file.write_bytes(save_arrays({name: a for name, a in load_arrays(file.read_bytes()).items() if name != "seen"}))
    hashes = json.loads((model / "kvec.json").read_text())["blake2b"]
    change_card(model, blake2b=hashes | {file.name: digest(file.read_bytes())})
    wish = ("guarantee", model, unseen, "--max-early-error", "0.1")
    assert "does not know which sequences it has seen" in refused(*wish)
    assert run([*map(str, wish), "--unchecked"]) == 0


def test_wishes_that_cannot_be(model: Path, unseen: Path, refused: Refused) -> None:
    for wish, message in (
        ((), "either --max-early-error SHARE or --max-error SHARE"),
        (("--max-error", "0.1", "--max-early-error", "0.1"), "either --max-early-error"),
        (("--max-error", "0.1", "--max-keys", "3"), "labelled sequences than 3, the number said; give the most that"),
        (("--max-error", "0.1", "--max-keys", "0"), "--max-keys is 0; at least 1"),
        (("--max-error", "0.1", "--block", "5"), "--block needs --max-keys"),
        (("--max-error", "0.1", "--block", "0", "--max-keys", "9"), "--block is 0; it must be a time"),
        (("--max-error", "0.1", "--block", "inf", "--max-keys", "9"), "--block is inf; it must be a time"),
        (("--max-error", "0.1", "--block", "1e-300", "--max-keys", "9"), "too short for times as large as those"),
        (("--max-error", "0.1", "--bound", "binomial"), "the binomial bound needs at most one sequence in a unit"),
        (("--max-error", "0.001", *FEW), "2,995 are needed for 0.1%"),
        (("--max-error", "0.05", *FEW), "even at the end of every sequence"),
    ):
        assert message in refused("guarantee", model, unseen, *wish)
    plain = json.loads((model / "kvec.json").read_text())["settings"]
    change_card(model, settings=plain | {
        "deciding": {"after_halt": "drop", "threshold": 0.5}, "training": plain["training"] | {"objective": "expected"},
    })  # fmt: skip
    assert "drops the items of decided sequences" in refused("guarantee", model, unseen, "--max-error", "0.5")


def test_the_most_of_a_tangle_is_twice_that_of_validation_and_not_read_off_the_calibration(
    lively: Trained, model: Path, tmp_path: Path, refused: Refused
) -> None:
    split = load(model).model_.split
    assert split is not None
    held_out = Split.from_dict(split).part(lively.frame, "validation")
    most = held_out.group_by("tangle").agg(pl.col("key").n_unique())["key"].max()
    assert isinstance(most, int)
    for keys, n_tangles in ((2 * most, 60), (2 * most + 1, 60)):
        demo_traffic(n_tangles, seed=80 + keys, keys=keys).write_parquet(tmp_path / f"{keys}.parquet")
    assert run(["guarantee", str(model), str(tmp_path / f"{2 * most}.parquet"), "--max-error", "0.9"]) == 0
    promise = load_deployed(model).promised
    assert promise is not None and promise.most_keys == 2 * most
    line = refused("guarantee", model, tmp_path / f"{2 * most + 1}.parquet", "--max-error", "0.9")
    assert f"more labelled sequences than {2 * most}, the number of the tangling, or twice the most of valid" in line
    assert "from what is known of such data and not from this calibration" in line
    assert str(2 * most + 1) not in line.replace(f"{2 * most + 1}.parquet", ""), "it would be given at once"


def test_one_endless_tangle_needs_blocks(
    model: Path, unseen: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    span = 1000.0
    endless = pl.read_parquet(unseen).with_columns(
        key=pl.format("{}-{}", "tangle", "key"), time=pl.col("time") + span * pl.col("tangle"), tangle=pl.lit(0)
    )
    endless.write_parquet(tmp_path / "endless.parquet")
    wish = ("guarantee", model, tmp_path / "endless.parquet", "--max-early-error", "0.1", "--max-keys", "300")
    assert "needs --block SECONDS" in refused(*wish)
    line = refused(*wish[:-2])
    assert "more labelled sequences than" in line and line.endswith(
        "one endless tangle is one unit alone, and needs --block SECONDS"
    )
    blocks = [*map(str, wish[:-1]), "4", "--block", str(span)]
    assert run(blocks) == 0
    assert "from 60 blocks of 1000 s" in capsys.readouterr().out
    promise = load_deployed(model).promised
    assert promise is not None and promise.block == span and "taken to be independent" in promise.assumption


def test_classes_and_labels_that_are_not_known(
    model: Path, unseen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = pl.read_parquet(unseen)
    label = pl.when(pl.col("tangle") < 2).then(None).when(pl.col("tangle") == 2).then(pl.lit("new")).otherwise("label")
    odd.with_columns(label=label).write_parquet(tmp_path / "odd.parquet")
    assert run(["guarantee", str(model), str(tmp_path / "odd.parquet"), "--max-error", "0.9", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "4 sequences have a class that the model does not know; they are always wrong" in err
    assert "8 sequences without a label are left out" in err
    assert json.loads(out)["n_units"] == 58


@pytest.mark.parametrize("kind", ["--max-early-error", "--max-error"])
def test_classes_of_which_the_model_knows_none_are_refused(
    model: Path, unseen: Path, tmp_path: Path, refused: Refused, kind: str
) -> None:
    before = (model / "kvec.json").read_bytes()
    pl.read_parquet(unseen).with_columns(label=pl.lit("novel")).write_parquet(tmp_path / "novel.parquet")
    line = refused("guarantee", model, tmp_path / "novel.parquet", kind, "0.5")
    assert "novel.parquet, column 'label': the model knows none of the classes, such as 'novel', but '" in line
    assert (model / "kvec.json").read_bytes() == before


def test_groups_that_lie_in_several_tangles_are_a_doubt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = demo_traffic(60, seed=3, keys=2)
    grouped = items.with_columns(group=pl.col("tangle") % 40)
    grouped.filter(pl.col("group") < 20).write_parquet(tmp_path / "train.parquet")
    grouped.filter(pl.col("group") >= 20).write_parquet(tmp_path / "rest.parquet")
    model = str(tmp_path / "model")
    train = ["train", str(tmp_path / "train.parquet"), *FLAGS, "--group", "group", *TINY, "-o", model, "--quiet"]
    assert run(train) == 0
    demo = demo_traffic(60, seed=9, keys=2).with_columns(group=pl.col("tangle") // 2)
    demo.write_parquet(tmp_path / "pairs.parquet")
    assert run(["guarantee", model, str(tmp_path / "pairs.parquet"), "--max-early-error", "0.2"]) == 0
    assert "warning: 30 groups lie in several units" in capsys.readouterr().err


def test_it_is_shown_with_decisions_and_in_the_report(
    promised: Path, unseen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = load_deployed(promised).promised.line()  # type: ignore[union-attr]
    capsys.readouterr()
    for command in (["decide", str(promised), str(unseen)], ["evaluate", str(promised), str(unseen)]):
        assert run(command) == 0
        assert f"kvec: {line}" in capsys.readouterr().err.splitlines()
    report = tmp_path / "report.html"
    assert run(["evaluate", str(promised), str(unseen), "--json", "--report", str(report)]) == 0
    assert json.loads(capsys.readouterr().out)["promise"]["alpha"] == 0.1
    assert line[1:] in report.read_text(encoding="utf-8")


def test_another_operating_point_makes_it_void(
    promised: Path, unseen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = Path(shutil.copytree(promised, tmp_path / "moved"))
    change_card(moved, operating_point={"threshold": 0.123})
    assert load_deployed(moved).promised is None
    assert run(["decide", str(moved), str(unseen)]) == 0
    err = capsys.readouterr().err
    assert "is void: it was made for θ = " in err and "promised: at most" not in err
    assert run(["evaluate", str(moved), str(unseen), "--json"]) == 0
    assert "promise" not in json.loads(capsys.readouterr().out)


def test_what_is_unknown_is_settled_for_the_promised_point(model: Path, unseen: Path, tmp_path: Path) -> None:
    load(model).at(unknown_below=0.5, abstain_below=0.4).save(tmp_path / "careful")
    assert run(["guarantee", str(tmp_path / "careful"), str(unseen), "--max-early-error", "0.1", *FEW]) == 0
    after = load(tmp_path / "careful").model_
    here = after.unknown.settled(after.validation, OperatingPoint(after.threshold, after.delay_cost))
    assert after.unknown.to_plain() == here.to_plain() and after.unknown.abstain_below == 0.4
    assert after.deployed().promised is not None, "the promise counts labels, known or not"


def test_other_weights_make_it_void_and_saving_keeps_it(promised: Path, tmp_path: Path) -> None:
    model = load(promised)
    model.save(tmp_path / "same")
    assert load_deployed(tmp_path / "same").promised == load_deployed(promised).promised is not None
    assert np.array_equal(load(tmp_path / "same").model_.seen, model.model_.seen)  # type: ignore[arg-type]
    next(iter(model.model_.network.parameters())).data += 1
    model.save(tmp_path / "other")
    assert load_deployed(tmp_path / "other").promised is None
    assert load_deployed(tmp_path / "other").promise is not None


def test_a_failed_rewrite_leaves_the_model_as_it_was(
    model: Path, unseen: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    before = (model / "kvec.json").read_bytes()
    monkeypatch.setattr(Path, "replace", fail)
    line = refused("guarantee", model, unseen, "--max-early-error", "0.1")
    assert "cannot change the model: No space left on device" in line
    assert (model / "kvec.json").read_bytes() == before
    assert len(list(model.iterdir())) == 5
