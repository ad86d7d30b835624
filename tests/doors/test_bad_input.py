"""Bad input through the command line: exit code 2, one line that names the place, nothing left as if whole."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tests.doors.made import FLAGS, TINY, Trained

from kvec.doors.cli import run
from kvec.learn import display, trainer
from kvec.read.rows import read_table
from kvec.words.errors import DataError

Refused = Callable[..., str]
HEADER = "tangle,key,time,size,label"
ROWS = [f"{t},{t}{k},{i},{40 + (i * 7 + k) % 5},{'xy'[k % 2]}" for t in range(10) for i in range(3) for k in range(2)]


def table(folder: Path, *rows: str, header: str = HEADER, name: str = "items.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("items.csv", b"", "is empty"),
        ("items.csv", b"\n\n", "empty"),
        ("items.csv", b"tangle,key,time,size,direction,label\n", "no rows"),
        ("items.csv.gz", gzip.compress(b"", mtime=0), "empty"),
        ("items.ndjson", b"", "is empty"),
        ("items.parquet", b"", "is empty"),
        ("items.parquet", b"PAR1 and then nothing", "not a whole Parquet file"),
        ("items.csv", b"tangle,key,time,size,direction,label\n1,a,0,1,0,x\n1,b\xff,1,2,0,y\n", "line 3 is not UTF-8"),
        ("items.ndjson", b'{"key": 1}\nnothing\n', "line 2 is not JSON"),
        ("items.xlsx", b"PK", "cannot read this kind of file"),
        ("items.npy", b"no array", "not a plain .npy array"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "train", "decide"])
def test_unreadable_files(
    command: str, name: str, content: bytes, words: str, trained: Trained, tmp_path: Path, refused: Refused
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    asked = {"inspect": [path], "train": [path, "-o", tmp_path / "model"], "decide": [trained.model, path]}[command]
    line = refused(command, *asked)
    assert words in line
    assert str(path) in line
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_missing_files_and_columns(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    assert "no such file" in refused("inspect", tmp_path / "nothing.csv")
    items = table(tmp_path, *ROWS)
    assert "'sice' (schema.values); did you mean 'size'?" in refused("inspect", items, "--values", "sice")
    assert "'labl' (schema.labels)" in refused("train", items, "--label", "labl", "-o", tmp_path / "model")
    line = refused("decide", trained.model, items, "-o", tmp_path / "out.ndjson")
    assert "'direction'" in line
    assert str(items) in line
    assert [p.name for p in tmp_path.iterdir()] == ["items.csv"]


def test_missing_keys_and_labels_tell_the_way_out(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    cases = table(tmp_path, "1,5,x", "2,6,y", header="case,size,class", name="cases.csv")
    line = refused("inspect", cases)
    assert "say which column tells sequences apart, as in --key case_id, or key = … in a TOML beside the data" in line
    assert "columns: case, size, class" in line
    assert "--key" not in refused("decide", trained.model, cases), "there, the model says it"
    line = refused("inspect", cases, "--key", "case", "--label", "outcome")
    assert "name another with --label, or a second table that holds it with --labels" in line
    line = refused("inspect", cases, "--key", "case", "--labels", cases)
    assert "name it with --label" in line
    empty = table(tmp_path, "a,5,x", ",6,y", header="key,size,label", name="empty.csv")
    line = refused("inspect", empty)
    assert "row 2" in line
    assert "--empty-key NAME" in line
    assert run(["inspect", str(empty), "--empty-key", "nobody"]) == 0


def test_unknown_columns_and_entries_in_the_toml(tmp_path: Path, refused: Refused) -> None:
    items = table(tmp_path, *ROWS)
    beside = tmp_path / "items.toml"
    beside.write_text('key = "key"\nvalues = ["size", "weight"]\n')
    line = refused("inspect", items)
    assert "no column 'weight'" in line and line.endswith(f"; the schema is from {beside}")
    with pytest.raises(DataError, match=r"no column 'weight'.*; the schema is from") as told:
        read_table(items)
    assert str(told.value).endswith(str(beside)) and str(told.value).count(str(beside)) == 1
    assert "the schema is from" not in refused("inspect", items, "--values", "heft"), "that was said by a flag"
    (tmp_path / "kvec.toml").write_text('key = "key"\nvalues = ["size", "weight"]\n')
    beside.unlink()
    assert refused("inspect", items).endswith(f"; the schema is from {tmp_path / 'kvec.toml'}")
    beside.write_text('key = "key"\nkeys = "key"\n')
    assert "unknown entry 'keys'" in refused("inspect", items)
    assert str(beside) in refused("inspect", items)
    beside.write_text('key = "key\n')
    assert "not a TOML file" in refused("inspect", items)
    assert "no such schema file" in refused("inspect", items, "--schema", tmp_path / "nothing.toml")


def test_measuring_without_labels_tells_where_they_may_be(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    unlabelled, empty = tmp_path / "unlabelled.parquet", tmp_path / "empty.csv"
    trained.frame.drop("label").write_parquet(unlabelled)
    trained.frame.with_columns(label=pl.lit(None, pl.String)).write_csv(empty)
    for path in (unlabelled, empty):
        line = refused("evaluate", trained.model, path)
        assert line == (
            f"kvec: {path}: there are no labels in it to measure by, in a column 'label' (schema.labels of the model); "
            "add that column, or name a second table that holds it per key with --labels FILE"
        )


def test_a_key_with_two_labels(tmp_path: Path, refused: Refused) -> None:
    items = table(tmp_path, "1,a,0,5,x", "1,b,1,5,y", "1,a,2,5,y")
    line = refused("inspect", items)
    assert "row 3" in line
    assert f"two labels, 'x' in {items}, row 1 and 'y' here" in line


@pytest.mark.parametrize("column", ["key", "tangle"])
@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_an_empty_name_is_refused_in_every_form(
    column: str, ending: str, lively: Trained, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / f"items.{ending}"
    named = lively.frame.head(9).with_columns(pl.col("key", "tangle").cast(pl.String))
    empty = pl.when(pl.int_range(pl.len()) == 4).then(pl.lit("")).otherwise(column).alias(column)
    getattr(named.with_columns(empty), f"write_{ending}")(items)
    place = f"{items}, row 5, column {column!r}: is empty; every item needs a name here"
    assert place in refused("inspect", items, "--key", "key")
    assert place in refused("decide", lively.model, items)
    assert run(["stream", lively.model, str(items), "--strict"]) == 2
    assert f"column {column!r}: is empty or not there; every item needs a name here" in capsys.readouterr().err


def test_missing_labels_in_training(tmp_path: Path, refused: Refused) -> None:
    items = table(tmp_path, *ROWS[:-6], *[row[:-1] for row in ROWS[-6:]])
    line = refused("train", items, *TINY, "-o", tmp_path / "model", "--quiet", "--expiry", "100")
    assert f"{items}, row 55, column 'label'" in line
    assert "2 of 20 keys" in line
    empty = table(tmp_path, *[row[:-1] for row in ROWS])
    line = refused("train", empty, *TINY, "-o", tmp_path / "model", "--quiet")
    assert "no key has a label; training needs at least two classes" in line
    bare = table(tmp_path, *[row.rsplit(",", 1)[0] for row in ROWS], header=HEADER.rsplit(",", 1)[0])
    line = refused("train", bare, "-o", tmp_path / "model", "--quiet")
    assert "no label column is named" in line
    assert "--label," in line
    assert "--labels" in line


def test_one_class_only(tmp_path: Path, refused: Refused) -> None:
    items = table(tmp_path, *[row[:-1] + "x" for row in ROWS])
    assert "two classes" in refused("train", items, "-o", tmp_path / "model", "--quiet")
    assert not (tmp_path / "model").exists()


def test_numbers_that_are_none(tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [*ROWS[:-3], "9,90,2,NaN,x", "9,91,2,inf,y", "9,91,3,41.5,y"]
    items = table(tmp_path, *odd)
    assert run(["train", str(items), *TINY, "-o", str(tmp_path / "model"), "--quiet"]) == 0
    warning = capsys.readouterr().err
    assert f"kvec: warning: {items}, row 58, column 'size': 2 value(s) are NaN or infinite" in warning
    broken = table(tmp_path, *ROWS[:4], "2,20,NaN,40,x", name="broken.csv")
    line = refused("inspect", broken)
    assert f"{broken}, row 5, column 'time'" in line
    words = table(tmp_path, *ROWS[:4], "2,20,4,many,x", name="words.csv")
    assert "--kind names 'colour', which is no value field; fields: size" in refused(
        "inspect", words, "--kind", "colour=binned"
    )
    assert "row 5, column 'size': 'many' is no number" in refused("inspect", words, "--kind", "size=binned")
    assert "row 5, column 'size': 'many' is no number" in refused(
        "inspect", words, "--values", "size", "--kind", "size=binned"
    )


def test_times_out_of_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = table(tmp_path, *reversed(ROWS))
    assert run(["train", str(items), *TINY, "-o", str(tmp_path / "model"), "--quiet"]) == 0
    assert "lie before the item above them" in capsys.readouterr().err


def test_a_tangle_with_one_item(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = table(tmp_path, *ROWS, "99,990,0,41,x")
    assert run(["train", str(items), *TINY, "-o", str(tmp_path / "model"), "--quiet"]) == 0
    capsys.readouterr()
    alone = table(tmp_path, "99,990,0,41,x", name="alone.csv")
    assert run(["decide", str(tmp_path / "model"), str(alone)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["n_observed"], json.loads(line)["length"]) == (1, 1)


def test_a_tangle_of_100_000_items(trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n, rng = 100_000, np.random.default_rng(0)
    pl.DataFrame({
        "tangle": np.zeros(n, np.int64), "key": rng.integers(0, 50, n), "time": np.arange(n) / 10,
        "size": rng.integers(40, 80, n), "direction": rng.integers(0, 2, n),
    }).write_parquet(tmp_path / "long.parquet")  # fmt: skip
    assert run(["decide", trained.model, str(tmp_path / "long.parquet")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(row["length"] for row in rows) == n


def test_values_and_labels_that_training_has_not_seen(
    trained: Trained, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    new = trained.frame.with_columns(size=pl.col("size") + 100_000, label=pl.lit("new"))
    new.write_parquet(tmp_path / "new.parquet")
    assert run(["decide", trained.model, str(tmp_path / "new.parquet")]) == 0
    assert "nothing to compare with" in refused("evaluate", trained.model, tmp_path / "new.parquet")
    half = pl.concat([trained.frame, new.with_columns(tangle=pl.col("tangle") + 100)])
    half.write_parquet(tmp_path / "half.parquet")
    assert run(["evaluate", trained.model, str(tmp_path / "half.parquet")]) == 0
    assert "left out: 80 sequences of classes new to the model ('new')" in capsys.readouterr().out


@pytest.fixture
def copied(trained: Trained, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained.model, tmp_path / "model"))


def test_damaged_foreign_and_newer_models(trained: Trained, copied: Path, tmp_path: Path, refused: Refused) -> None:
    def asked() -> str:
        return refused("evaluate", copied, trained.items, "--json")

    weights = copied / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "weights.safetensors is damaged" in asked()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in asked()
    weights.unlink()
    assert "weights.safetensors is missing" in asked()
    weights.write_bytes(whole)
    card = json.loads((copied / "kvec.json").read_text())
    (copied / "kvec.json").write_text(json.dumps(card | {"format": 99, "kvec": "9.9.0"}))
    assert "written by kvec 9.9.0 in format 99" in asked()
    (copied / "kvec.json").write_text(json.dumps(card | {"settings": {"encoder": {"width": 20}}}))
    assert "damaged" in asked()
    (copied / "kvec.json").write_text("{")
    assert "not JSON" in asked()
    (copied / "kvec.json").unlink()
    assert "is not a kvec model" in asked()
    assert "no such model folder" in refused("evaluate", tmp_path / "nothing", trained.items)


def test_places_that_cannot_be_written(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    missing = tmp_path / "missing" / "out"
    data = [trained.model, trained.items]
    assert f"there is no folder {missing.parent}" in refused("decide", *data, "-o", missing.with_suffix(".ndjson"))
    assert f"there is no folder {missing.parent}" in refused(
        "evaluate", *data, "--report", missing.with_suffix(".html")
    )
    key = trained.frame["key"][0]
    assert "no folder" in refused("explain", *data, "--key", key, "--picture", missing.with_suffix(".png"))
    assert "may end in .svg, .png" in refused("explain", *data, "--key", key, "--picture", tmp_path / "why.gif")
    assert "may end in .ndjson" in refused("decide", *data, "-o", tmp_path / "decisions.xls")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused("decide", *data, "-o", tmp_path / "folder.csv")
    (tmp_path / "taken").write_text("a file")
    assert "exists and is not a kvec model" in refused("train", trained.items, "-o", tmp_path / "taken")
    assert "no folder that may be written to" in refused("train", trained.items, "-o", tmp_path / "taken" / "model")
    if Path("/proc").is_dir():
        assert "no folder that may be written to" in refused("train", trained.items, "-o", "/proc/model")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep me")
    assert "exists and is not a kvec model" in refused("train", trained.items, "-o", tmp_path / "notes")
    assert (tmp_path / "notes" / "mine.txt").read_text() == "keep me"


def test_no_command_writes_over_what_it_reads(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    for ending in (".csv", ".ndjson", ".parquet"):
        items = tmp_path / f"items{ending}"
        getattr(trained.frame, f"write_{ending[1:]}")(items)
        before = items.read_bytes()
        assert f"{items} is what is read" in refused("decide", trained.model, items, "-o", items)
        assert items.read_bytes() == before
    inside = Path(trained.model)
    written = sorted(inside.iterdir())
    for words in (
        ("decide", trained.model, items, "-o", inside / "vocabulary.ndjson"),
        ("evaluate", trained.model, items, "--report", inside / "report.html"),
        ("explain", trained.model, items, "--key", "1", "--picture", inside / "why.svg"),
        ("stream", trained.model, items, "-o", inside / "decisions.ndjson"),
        ("stream", trained.model, items, "--dead-letters", inside / "letters.ndjson"),
        ("watch", trained.model, items, "-o", inside / "decisions.ndjson"),
        ("flows", items, "-o", inside / "items.parquet"),
        ("label", items, "--by", "sni", "-o", inside / "labels.csv"),
    ):
        assert f"{inside} is a model, and nothing else is kept in it" in refused(*words)
    assert sorted(inside.iterdir()) == written


def test_no_model_replaces_the_data_it_is_made_from(
    trained: Trained, copied: Path, tmp_path: Path, refused: Refused
) -> None:
    (copied / "mine.toml").touch()
    line = refused("train", trained.items, *FLAGS, "--config", copied / "mine.toml", "-o", copied)
    assert f"{copied / 'mine.toml'}, which is read, lies in it" in line
    items = copied / "items.parquet"
    trained.frame.write_parquet(items)
    for words in (
        ("train", items, *FLAGS, *TINY, "-o", copied),
        ("train", trained.items, *FLAGS, *TINY, "--test", items, "-o", copied),
        ("tune", trained.model, items, "-o", copied),
        ("guarantee", trained.model, items, "--max-error", "0.5", "-o", copied),
    ):
        assert f"{copied} would be replaced, and {items}, which is read, lies in it" in refused(*words)
    assert items.is_file()


def test_decide_does_not_write_over_the_labels_of_its_schema(
    trained: Trained, copied: Path, tmp_path: Path, refused: Refused
) -> None:
    items, labels = tmp_path / "items.csv", tmp_path / "labels.csv"
    trained.frame.drop("label").write_csv(items)
    trained.frame.select("tangle", "key", "label").unique().write_csv(labels)
    card = json.loads((copied / "kvec.json").read_text())
    card["schema"]["labels_file"] = "labels.csv"
    (copied / "kvec.json").write_text(json.dumps(card))
    assert f"{labels} is what is read" in refused("decide", copied, items, "-o", labels)


def test_nothing_is_promised_where_there_is_nothing_to_resume(copied: Path, trained: Trained, refused: Refused) -> None:
    line = refused("train", trained.items, *FLAGS, *TINY, "-o", copied, "--resume")
    assert f"{copied}.training: there is no unfinished training to resume; train without --resume" in line


def test_a_model_one_folder_below_is_hinted_at(copied: Path, trained: Trained, refused: Refused) -> None:
    for command in (["decide", copied.parent, trained.items], ["serve", copied.parent]):
        assert f"it holds no kvec.json; did you mean {copied}?" in refused(*command)


def test_the_disk_says_no(trained: Trained, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    known = tmp_path / "known.parquet"
    often = pl.col("size").is_in(trained.frame["size"].mode().implode())
    trained.frame.filter(often).write_parquet(known)
    monkeypatch.setattr(Path, "write_bytes", fail)
    line = refused("decide", trained.model, known, "-o", tmp_path / "out.parquet")
    assert "out.parquet: cannot be written: No space left on device" in line
    assert "cannot keep the unfinished run: No space left" in refused(
        "train", trained.items, *FLAGS, *TINY, "--quiet", "-o", tmp_path / "model"
    )
    assert list(tmp_path.iterdir()) == [known]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--set", "encoder.depth=2"], "unknown setting 'encoder.depth' in --set"),
        (["--set", "network.width=2"], "unknown group 'network'"),
        (["--set", "encoder.width"], "write it as group.name=value"),
        (["--set", "encoder.width=15"], "multiple of encoder.heads"),
        (["--set", "encoder.width=1000000"], "make encoder.width (1000000) smaller"),
        (["--set", "encoder.slots=1e30"], "encoder.slots is 1000000000000000019884624838656; it must be at most"),
        (["--preset", "huge"], "unknown preset 'huge'"),
        (["--objective", "best"], "training.objective is 'best'"),
        (["--epochs", "0"], "training.epochs is 0"),
        (["--epochs", "few"], "Invalid value for '--epochs'"),
        (["--class-weights", "fair"], "training.class_weights is 'fair'"),
        (["--config", "nothing.toml"], "nothing.toml: no such settings file"),
        (["--split", "much"], "--split is 'much'"),
        (["--split", "8:1:1:1"], "--split is '8:1:1:1'"),
        (["--split", "1:0:1"], "split.ratios is 1:0:1"),
        (["--split", "98:1:1"], "leaves a part empty"),
        (["--device", "tpu"], "device is 'tpu'"),
        (["--session", "colour"], "'colour', which is no value field"),
        (["--kind", "size"], "write it as field=kind"),
        (["--kind", "colour=binned"], "'colour', which is no value field"),
        (["--kind", "size=round"], "values.size.kind is 'round'"),
        (["--values", "size,direction,label"], "'label' is both a value and the label"),
        (["--labels", "nothing.csv"], "nothing.csv: no such file"),
        (["--validation", "nothing.csv"], "nothing.csv: no such file"),
        (["--validation", "nothing.csv", "--split", "8:1:1"], "both given"),
        (["--resume"], "no unfinished training to resume"),
        (["--colour", "red"], "No such option: --colour"),
    ],
)  # fmt: skip
def test_wrong_flags(flags: list[str], words: str, trained: Trained, tmp_path: Path, refused: Refused) -> None:
    line = refused("train", trained.items, *FLAGS, *TINY, "--quiet", "-o", tmp_path / "model", *flags)
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_wrong_questions(trained: Trained, tmp_path: Path, refused: Refused) -> None:
    data = [trained.model, trained.items]
    assert "unknown part 'exam'" in refused("evaluate", *data, "--split", "exam")
    trained.frame.filter(pl.col("tangle") < 15).write_parquet(tmp_path / "less.parquet")
    assert "does not hold the tangles" in refused(
        "evaluate", trained.model, tmp_path / "less.parquet", "--split", "test"
    )
    assert "there is no key 'nobody'" in refused("explain", *data, "--key", "nobody")
    key = trained.frame["key"][0]
    assert "no sequence number 3" in refused("explain", *data, "--key", key, "--tangle", 0, "--sequence", 3)
    line = refused("explain", *data, "--key", key, "--tangle", "elsewhere")
    assert line.endswith(f"key {key} is not in tangle elsewhere, but in tangle 0")
    assert "it can be table or ndjson" in refused("decide", *data, "--format", "yaml")
    assert "Missing argument 'DATA'" in refused("evaluate", trained.model)
    assert "Missing option '--key'" in refused("explain", *data)
    assert "No such command 'guess'" in refused("guess")
    assert "no such folder" in refused("datasets", tmp_path / "nothing")
    assert "it must lie between" in refused("demo", "--tangles", "1000", "--out", tmp_path / "demo")


def test_a_run_with_other_settings_is_not_resumed(
    trained: Trained, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: object, run: object) -> None:
        raise KeyboardInterrupt

    asked = ["train", trained.items, *FLAGS, *TINY, "--epochs", "2", "-o", str(tmp_path / "model")]
    with monkeypatch.context() as patch:
        patch.setattr(display.TrainingDisplay, "on_epoch", stop)
        assert run(asked) == 130
    line = refused(*asked, "--quiet", "--resume", "--seed", "8")
    assert "other settings: training.seed was 0 and is now 8;" in line
    line = refused(*asked, "--quiet", "--resume", "--session", "size")
    assert "other schema: session was" in line
    assert "'direction'" in line
    kept = tmp_path / "model.training"
    kept.write_bytes(kept.read_bytes()[:100])
    assert "is damaged" in refused(*asked, "--quiet", "--resume")


def test_a_batch_that_does_not_fit_leaves_the_epochs_before(
    trained: Trained, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = trainer.train_batch

    def starve(run: Any, *given: Any) -> Any:
        return learn(run, *given) if run.epoch == 0 else torch.empty(2**59)

    asked = ["train", trained.items, *FLAGS, *TINY, "--epochs", "2", "--quiet", "-o", str(tmp_path / "model")]
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_batch", starve)
        line = refused(*asked)
    assert "make training.batch_items (8192), training.batch (16), training.block (4096) smaller; " in line
    assert f"kept in {tmp_path / 'model.training'}" in line
    assert [path.name for path in tmp_path.iterdir()] == ["model.training"]
    assert run([*asked, "--resume"]) == 0
    assert len((tmp_path / "model" / "history.csv").read_text().splitlines()) == 3
