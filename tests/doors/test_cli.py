from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.doors.made import FLAGS, TINY, Trained

from kvec import __version__
from kvec.doors.cli import run
from kvec.learn import display
from kvec.read.synthetic import demo_traffic


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--version") == f"kvec {__version__}\n"
    assert "inspect" in printed(capsys)
    for command in ("inspect", "train", "evaluate", "decide", "guarantee", "stream", "explain", "datasets", "demo"):
        assert f"kvec {command}" in printed(capsys, command, "--help"), "every command shows an example"


@pytest.mark.parametrize("command", ["inspect", "train", "evaluate", "decide", "explain", "tune", "guarantee"])
def test_help_is_not_cut_in_a_narrow_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = printed(capsys, command, "--help")
    assert max(map(len, shown.splitlines())) <= 80
    assert not re.search(r"[\w=.-]…", shown)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("trane", "kvec: No such command 'trane'. Did you mean 'train', 'tune'? See kvec --help."),
        ("train", "kvec: Missing argument 'DATA'. See kvec train --help."),
        (
            "train x --epochs many -o m",
            "kvec: Invalid value for '--epochs': it must be a whole number. See kvec train --help.",
        ),
        (
            "train x --minutes many -o m",
            "kvec: Invalid value for '--minutes': it must be a number. See kvec train --help.",
        ),
    ],
)
def test_what_is_not_understood(words: str, line: str, refused: Callable[..., str]) -> None:
    assert refused(*words.split()) == line


def test_python_dash_m() -> None:
    done = subprocess.run([sys.executable, "-m", "kvec", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"kvec {__version__}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_standard_output_that_is_full_is_named(is_buffered: bool) -> None:
    words = [sys.executable, *["-u"][is_buffered:], "-m", "kvec", "--version"]
    around = {name: word for name, word in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, env=around)
    assert (done.returncode, done.stderr) == (2, "kvec: standard output: No space left on device\n")


def test_nobody_complains_where_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    around = {name: word for name, word in os.environ.items() if name != "PYTHONUNBUFFERED"}
    words = [sys.executable, "-m", "kvec", "--version"]
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, env=around)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_inspect_as_json(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(printed(capsys, "inspect", trained.items, *FLAGS, "--json"))
    frame = trained.frame
    assert facts["items"] == frame.height
    assert facts["keys"] == frame.select("tangle", "key").n_unique()
    assert facts["tangles"] == 20
    assert facts["mean_length"] == pytest.approx(frame.height / facts["keys"])
    assert facts["classes"] == dict(
        frame.unique(["tangle", "key"]).group_by("label").len().sort("len", "label", descending=[True, False]).rows()
    )
    assert facts["time_span"] == pytest.approx(frame["time"].max() - frame["time"].min())
    assert [field["kind"] for field in facts["fields"]] == ["categorical", "categorical"]
    assert facts["fields"][1]["guessed"] == "2 different whole numbers"


def test_inspect_as_text(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "inspect", trained.items, *FLAGS)
    for words in ("mean session length", "concurrent keys", "time span", "direction: categorical", "nothing looks"):
        assert words in text


def test_inspect_tells_what_looks_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["tangle,key,time,size,same,label", "1,a,0,5,7,x", "1,b,2,5,7,y", "1,a,1,6,7,x", "1,a,1,6,7,x", "2,a,3,5,7,"]
    (tmp_path / "items.csv").write_text("\n".join(rows))
    found = json.loads(printed(capsys, "inspect", tmp_path / "items.csv", "--json"))["findings"]
    kinds = {finding["kind"]: finding for finding in found}
    assert kinds["missing labels"]["count"] == 1
    assert kinds["out of order"]["count"] == 1
    assert kinds["duplicate items"]["count"] == 1
    assert "row 4" in kinds["duplicate items"]["text"]
    assert kinds["key in two tangles"]["count"] == 1
    assert "'same'" in kinds["field with one value"]["text"]


def test_the_way_out_of_text_among_numbers_can_be_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{i % 4},{'none' if i == 7 else i / 8},{'xy'[i % 2]}" for i in range(40)]
    (tmp_path / "mixed.csv").write_text("\n".join(["visit,amount,label", *rows]))
    asked = ["inspect", str(tmp_path / "mixed.csv"), "--key", "visit"]
    assert "if it is meant, say --kind amount=categorical" in printed(capsys, *asked)
    assert "numbers makes" not in (text := printed(capsys, *asked, "--kind", "amount=categorical"))
    assert "labels: a column named 'label'" in text, "the rest is guessed as before"


def test_train_tells_the_way_on(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", trained.items, *FLAGS, *TINY, "-o", str(tmp_path / "model")]) == 0
    out, err = capsys.readouterr()
    assert "guessed: size: categorical" in out
    assert f"next: kvec evaluate {tmp_path / 'model'} {trained.items} --split test" in out
    assert "1/1" in err.splitlines()[1], "one line per epoch where there is no terminal"
    assert not (tmp_path / "model.training").exists()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "history.csv", "kvec.json", "validation.safetensors", "vocabulary.json", "weights.safetensors",
    ]  # fmt: skip


def test_evaluate_as_json(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "evaluate", trained.model, trained.items, "--json"))
    for name in ("accuracy", "precision", "recall", "f1", "earliness", "hm", "end_accuracy"):
        assert 0 <= found[name] <= 1
    assert found["n_keys"] == 80
    assert found["n_tangles"] == 20
    assert found["intervals"]["hm"][0] <= found["hm"] <= found["intervals"]["hm"][1]
    assert found["fixed_n"]["n"] >= 1
    assert sum(each["n_keys"] for each in found["classes"].values()) == 80
    assert "columns" not in found


def test_evaluate_finds_the_test_part_again(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    parts = {
        part: json.loads(printed(capsys, "evaluate", trained.model, trained.items, "--split", part, "--json"))
        for part in ("train", "validation", "test")
    }
    assert [parts[part]["n_tangles"] for part in parts] == [16, 2, 2]
    history = pl.read_csv(f"{trained.model}/history.csv")
    assert parts["validation"]["hm"] == pytest.approx(history["hm"][0], abs=1e-4), "the part it was chosen on"
    assert parts["test"]["without_repeats"]["n_keys"] <= parts["test"]["n_keys"]
    assert "without_repeats" not in parts["train"]


def test_repeated_sequences_are_left_out(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = pl.concat([trained.frame.filter(pl.col("tangle") == 3).with_columns(tangle=pl.lit(t)) for t in range(10)])
    same.write_parquet(tmp_path / "same.parquet")
    assert run(["train", str(tmp_path / "same.parquet"), *FLAGS, *TINY, "-o", str(tmp_path / "model")]) == 0
    found = json.loads(
        printed(capsys, "evaluate", tmp_path / "model", tmp_path / "same.parquet", "--split", "test", "--json")
    )
    assert found["n_keys"] == 4
    assert "without_repeats" not in found, "there is nothing left to measure"


def test_evaluate_as_text_with_a_report(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "evaluate", trained.model, trained.items, "--report", tmp_path / "report.html")
    assert "every sequence at its end" in text
    assert "lower is better" in text
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "")


def test_decide_prints_one_object_per_sequence(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "decide", trained.model, trained.items).splitlines()
    rows = [json.loads(line) for line in lines]
    sequences = {(row["tangle"], row["key"]) for row in trained.frame.iter_rows(named=True)}
    assert {(row["tangle"], row["key"]) for row in rows} == sequences
    assert len(rows) == len(sequences)
    for row in rows:
        assert row["id"] == f"{row['tangle']}/{row['key']}/{row['sequence']}"
        assert 1 <= row["n_observed"] <= row["length"]
        assert 0 < row["probability"] <= 1
        assert row["reason"] in ("halted", "closed")
        assert row["true_label"] in ("web", "video", "chat", "backup", "scan")


def test_decide_needs_no_labels(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained.frame.drop("label").write_parquet(tmp_path / "items.parquet")
    assert run(["decide", trained.model, str(tmp_path / "items.parquet")]) == 0
    out, err = capsys.readouterr()
    assert "label" not in err
    with_labels = [json.loads(line) for line in printed(capsys, "decide", trained.model, trained.items).splitlines()]
    without = [json.loads(line) for line in out.splitlines()]
    assert without == [{k: v for k, v in row.items() if k != "true_label"} for row in with_labels]


def test_decide_writes_files(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("d.ndjson", "d.csv", "d.parquet"):
        assert printed(capsys, "decide", trained.model, trained.items, "-o", tmp_path / name) == ""
    frames = [
        pl.read_ndjson(tmp_path / "d.ndjson"), pl.read_csv(tmp_path / "d.csv"), pl.read_parquet(tmp_path / "d.parquet"),
    ]  # fmt: skip
    for frame in frames:
        assert frame.columns[:9] == [
            "id", "tangle", "key", "sequence", "label", "probability", "n_observed", "length", "reason",
        ]  # fmt: skip
        assert frame["id"].to_list() == frames[0]["id"].to_list()
        assert np.allclose(frame["probability"], frames[0]["probability"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.csv", "d.ndjson", "d.parquet"]


def test_decide_as_a_table(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "decide", trained.model, trained.items, "--format", "table")
    assert text.splitlines()[0].split()[:3] == ["tangle", "key", "label"]
    assert "… and 20 more" in text


def test_explain(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, tangle = trained.frame["key"][0], trained.frame["tangle"][0]
    asked = ["explain", trained.model, trained.items, "--key", key, "--tangle", str(tangle)]
    text = printed(capsys, *asked, "--picture", tmp_path / "why.svg")
    assert text.startswith(f"{key} in {tangle}: ")
    assert (tmp_path / "why.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    plain = json.loads(printed(capsys, *asked, "--json"))
    own = trained.frame.filter((pl.col("key") == key) & (pl.col("tangle") == tangle))
    assert len(plain["steps"]) == own.height == plain["decision"]["length"]
    for step in plain["steps"]:
        assert sum(step["probabilities"]) == pytest.approx(1, abs=1e-4)
        assert 0 <= step["halt_score"] <= 1
        assert sum(look["weight"] for look in step["looks"]) <= 1 + 1e-4


def test_explain_agrees_with_decide(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    decided = [json.loads(line) for line in printed(capsys, "decide", trained.model, trained.items).splitlines()]
    one = decided[37]
    asked = ["--key", one["key"], "--tangle", str(one["tangle"]), "--json"]
    told = json.loads(printed(capsys, "explain", trained.model, trained.items, *asked))["decision"]
    assert (told["labels"][0], told["n_observed"], told["reason"]) == (one["label"], one["n_observed"], one["reason"])
    assert told["probabilities"][0] == pytest.approx(one["probability"], abs=1e-5)


def test_schema_beside_the_data_and_flags_over_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "items.csv").write_text("who,what,kind,class\na,1,u,x\nb,2,v,y\na,3,u,x\n")
    (tmp_path / "items.toml").write_text('key = "who"\nlabel = "class"\nvalues = ["what", "kind"]\nsession = "kind"\n')
    facts = json.loads(printed(capsys, "inspect", tmp_path / "items.csv", "--json"))
    assert facts["schema"]["session"] == ["kind"]
    flagged = printed(
        capsys, "inspect", tmp_path / "items.csv", "--values", "what", "--session", "", "--kind", "what=binned"
    )
    assert f"schema from {tmp_path / 'items.toml'}" in flagged
    assert "binned" in flagged
    assert "kind" not in flagged.split("field", 1)[1].split("class", 1)[0].split("\n", 2)[2]
    (tmp_path / "other.toml").write_text('key = "who"\nlabel = "kind"\nvalues = "what"\n')
    chosen = json.loads(
        printed(capsys, "inspect", tmp_path / "items.csv", "--schema", tmp_path / "other.toml", "--json")
    )
    assert set(chosen["classes"]) == {"u", "v"}


def test_labels_in_another_file(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained.frame.drop("label").write_parquet(tmp_path / "items.parquet")
    trained.frame.unique(["tangle", "key"]).select("tangle", "key", "label").write_csv(tmp_path / "labels.csv")
    files = [str(tmp_path / "items.parquet"), "--labels", str(tmp_path / "labels.csv")]
    assert run(["train", *files, *FLAGS, *TINY, "-o", str(tmp_path / "model")]) == 0
    assert f"--labels {tmp_path / 'labels.csv'}" in capsys.readouterr().out
    joined = json.loads(printed(capsys, "evaluate", tmp_path / "model", *files, "--json"))
    beside = json.loads(printed(capsys, "evaluate", trained.model, trained.items, "--json"))
    assert joined["hm"] == pytest.approx(beside["hm"], abs=1e-6), "the same data gives the same model"


def test_several_label_columns(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    is_bulk = pl.col("label").is_in(["video", "backup"]).alias("bulk")
    trained.frame.with_columns(is_bulk).write_parquet(tmp_path / "items.parquet")
    both = [*FLAGS[:-1], "label,bulk"]
    assert run(["train", str(tmp_path / "items.parquet"), *both, *TINY, "-o", str(tmp_path / "model")]) == 0
    found = json.loads(printed(capsys, "evaluate", tmp_path / "model", tmp_path / "items.parquet", "--json"))
    assert list(found["columns"]) == ["label", "bulk"]
    assert found["accuracy"] == found["columns"]["label"]["accuracy"]
    assert set(found["columns"]["bulk"]["classes"]) == {"true", "false"}
    assert "label bulk" in printed(capsys, "evaluate", tmp_path / "model", tmp_path / "items.parquet")
    row = json.loads(printed(capsys, "decide", tmp_path / "model", tmp_path / "items.parquet").splitlines()[0])
    assert row["label.bulk"] in ("true", "false")


def test_separate_validation_and_test_files(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo_traffic(5, seed=6, keys=4).write_parquet(tmp_path / "other.parquet")
    asked = ["train", trained.items, *FLAGS, *TINY, "--quiet"]
    other = str(tmp_path / "other.parquet")
    assert run([*asked, "--validation", other, "--test", other, "-o", str(tmp_path / "model")]) == 0
    assert f"{other}, label label" in capsys.readouterr().out
    card = json.loads((tmp_path / "model" / "kvec.json").read_text())
    assert (card["about"]["train_tangles"], card["about"]["validation_tangles"]) == (20, 5)
    assert run([*asked, "--test", other, "-o", str(tmp_path / "model")]) == 0
    card = json.loads((tmp_path / "model" / "kvec.json").read_text())
    assert (card["about"]["train_tangles"], card["about"]["validation_tangles"]) == (18, 2), "9:1, for there is a test"


def test_settings_come_from_preset_file_flags_and_set(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[training]\nfloor = 0.2\nseed = 7\nepochs = 9\n")
    config = ["--config", str(tmp_path / "settings.toml"), "--seed", "3", "--class-weights", "balanced"]
    assert run(["train", trained.items, *FLAGS, *config, *TINY, "-o", str(tmp_path / "model"), "--quiet"]) == 0
    settings = json.loads((tmp_path / "model" / "kvec.json").read_text())["settings"]
    training = settings["training"]
    assert (training["floor"], training["seed"], training["epochs"]) == (0.2, 3, 1)
    assert training["class_weights"] == "balanced"
    assert settings["encoder"]["width"] == 16


def test_a_stopped_run_is_resumed_to_the_same_end(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["train", trained.items, *FLAGS, *TINY, "--epochs", "3", "--set", "training.patience=9"]
    assert run([*asked, "-o", str(tmp_path / "unbroken")]) == 0

    def stop(self: object, run: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(display.TrainingDisplay, "on_epoch", stop)
        capsys.readouterr()
        assert run([*asked, "-o", str(tmp_path / "stopped")]) == 130
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith("kvec: stopped; the run is kept in")
    assert "--resume" in error
    assert (tmp_path / "stopped.training").exists()
    assert not (tmp_path / "stopped").exists()
    assert run([*asked, "-o", str(tmp_path / "stopped"), "--resume"]) == 0
    assert not (tmp_path / "stopped.training").exists()
    for name in ("weights.safetensors", "vocabulary.json"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "unbroken" / name).read_bytes()


def test_ctrl_c_elsewhere(
    trained: Trained, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kvec.doors.sources.read_by_schema", stop)
    assert run(["decide", trained.model, trained.items]) == 130
    assert capsys.readouterr().err == "kvec: stopped\n"


def test_unexpected_errors_keep_their_traceback(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kvec.doors.sources.read_by_schema", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        run(["decide", trained.model, trained.items])


def authors_rows(seed: int) -> Any:
    """Twenty rows of two flows; their first labels are 0 or 1, their last ones 5 or 6."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((20, 4 * 8 + 4), dtype=np.int64)
    rows[:, :8] = rng.choice([-1460, -60, 60, 517], (20, 8))
    rows[:, 8:16] = np.tile([0, 1], 4)
    rows[:, -4:] = rng.integers([0, 0, 5, 5], [2, 2, 7, 7], (20, 4))
    return rows


def test_the_authors_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.npy"
    np.save(rows, authors_rows(0))
    facts = json.loads(printed(capsys, "inspect", rows, "--json"))
    assert (facts["tangles"], facts["keys"], facts["items"]) == (20, 40, 160)
    assert set(facts["classes"]) == {"0", "1"}
    assert set(json.loads(printed(capsys, "inspect", rows, "--label", "flag", "--json"))["classes"]) == {"5", "6"}
    for label in ("label", "flag"):
        assert run(["train", str(rows), *TINY, "--label", label, "-o", str(tmp_path / "model"), "--quiet"]) == 0
        found = json.loads(printed(capsys, "evaluate", tmp_path / "model", rows, "--json"))
        assert (found["n_keys"], found["label"]) == (40, label)


def test_a_folder_of_the_authors_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(3):
        np.save(tmp_path / f"part{seed}.npy", authors_rows(seed))
    facts = json.loads(printed(capsys, "inspect", tmp_path, "--json"))
    assert (facts["tangles"], facts["keys"], facts["items"]) == (60, 120, 480)
    text = printed(capsys, "inspect", tmp_path)
    assert "schema from the authors' rows in 3 .npy files; --label can be label or flag" in text
    pl.DataFrame({"key": ["a", "b"], "size": [1, 2]}).write_csv(tmp_path / "items.csv")
    assert run(["inspect", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["items"] == 2
    assert err == (
        f"kvec: warning: {tmp_path}: tables such as items.csv are read, part0.npy and other .npy files are not\n"
    )


def test_a_movielens_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    users = [f"{u}::{'FM'[u % 2]}::25::{u % 5}::00000" for u in range(1, 41)]
    movies = [f"{m}::Movie {m} (1999)::{'Drama|Comedy' if m % 2 else 'Action'}" for m in range(1, 9)]
    ratings = [f"{u}::{rng.integers(1, 9)}::{rng.integers(1, 6)}::{1000 + i}" for i in range(6) for u in range(1, 41)]
    for name, lines in (("users", users), ("movies", movies), ("ratings", ratings)):
        (tmp_path / f"{name}.dat").write_text("\n".join(lines) + "\n", encoding="latin-1")
    facts = json.loads(printed(capsys, "inspect", tmp_path, "--label", "gender", "--json"))
    assert (facts["keys"], facts["tangles"], set(facts["classes"])) == (40, 5, {"F", "M"})
    assert run(["train", str(tmp_path), *TINY, "-o", str(tmp_path / "model"), "--quiet", "--split", "6:2:2"]) == 0
    found = json.loads(printed(capsys, "evaluate", tmp_path / "model", tmp_path, "--split", "test", "--json"))
    assert found["n_keys"] == 8


def test_datasets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "datasets")
    assert "https://grouplens.org/datasets/movielens/1m/" in text
    states = {d["name"]: d["state"] for d in json.loads(printed(capsys, "datasets", tmp_path, "--json"))}
    assert set(states.values()) == {"missing"}
    assert "MovieLens-1M   missing" in printed(capsys, "datasets", tmp_path)
