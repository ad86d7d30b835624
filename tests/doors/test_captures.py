"""Captures from the outside: flows, training by file and folder names, and flows that are named while they run."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.doors.made import TINY
from tests.doors.made_captures import capture, flow, folder
from tests.doors.streamed import assert_same, decided
from tests.doors.test_splitting import packets_in
from tests.read.packets.making_packets import pcap

from kvec.doors.cli import run
from kvec.doors.flowing import flows_text
from kvec.doors.packet_sources import Files
from kvec.estimator import load
from kvec.read.packets.captures import open_capture
from kvec.read.packets.tables import read_packets, table_of
from kvec.words.flows import FlowSettings
from kvec.words.schema import Schema

CLOCK = ("--tangling", "group:2:common")
LEARN = (
    *TINY,
    "--epochs",
    "12",
    "--set",
    "training.learning_rate=0.01",
    "--set",
    "encoder.dropout=0",
    "--quiet",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that tells both kinds of flows apart, and the captures it was trained on."""
    made = tmp_path_factory.mktemp("captures")
    captures = folder(made / "captures")
    assert run(["train", str(captures), "--labels", "by-folder", *CLOCK, "-o", str(made / "model"), *LEARN]) == 0
    return made / "model"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return capture(tmp_path / "mixed.pcap", "ask send", seed=99, n_flows=12)


# -- flows --------------------------------------------------------------------------------------------------------


def test_every_column_of_flows_has_a_heading(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flows", str(mixed)]) == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert heading.split() == ["client", "server", "protocol", "packets", "bytes", "lasted"]


def test_flows_are_shown_with_sums(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flows", str(mixed)]) == 0
    said = capsys.readouterr().out
    assert "10.0.0.7:20000  192.0.2.1:443  tcp            38" in said
    assert "456 packets" in said and "12 flows in 1 capture; 12 flows ended" in said


def test_items_are_written_with_the_fields_that_were_chosen(mixed: Path, tmp_path: Path) -> None:
    fields = "size,direction,gap,flags,payload,ttl,client_port,server_port"
    for ending in ("parquet", "ndjson"):
        assert run(["flows", str(mixed), "-o", str(tmp_path / f"items.{ending}"), "--fields", fields]) == 0
    items = pl.read_parquet(tmp_path / "items.parquet")
    assert items.columns == ["capture", "key", "time", *fields.split(","), "end"]
    assert items.rows() == pl.read_ndjson(tmp_path / "items.ndjson").rows()
    one = items.filter(pl.col("client_port") == 20_003)
    assert one["size"].to_list()[:3] == [54, 54, 54] and one["flags"].to_list()[:3] == [2, 18, 16]
    assert one["end"].to_list() == [False] * 37 + [True]
    assert one["gap"][0] == 0 and (one["gap"][1:] > 0).all() and one["ttl"].unique().to_list() == [64]
    assert set(one["key"]) == {"10.0.0.7:20003-192.0.2.1:443/tcp"}


def test_flows_as_json(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["flows", str(mixed), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["flows"]) == 12 and said["not_in_a_flow"] == {}
    assert run(["flows", str(mixed), "--format", "ndjson"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 456


def test_a_table_of_items_brings_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captures, output = folder(tmp_path / "captures", n_each=3), tmp_path / "items.parquet"
    assert run(["flows", str(captures), "--labels", "by-folder", "-o", str(output)]) == 0
    assert Schema.from_toml(tmp_path / "items.toml").tangle == "capture"
    command = ["train", str(output), "-o", str(tmp_path / "model"), *TINY, "--quiet"]
    assert run(command) == 0
    assert load(tmp_path / "model").model_.schema.value_names == ("size", "direction")
    decisions = tmp_path / "d.ndjson"
    assert run(["watch", str(tmp_path / "model"), str(captures), "-o", str(decisions)]) == 0
    assert len(decided(decisions)) == 36
    (tmp_path / "items.toml").write_text("key = 'key'\n")
    capsys.readouterr()
    assert run(["flows", str(captures), "-o", str(output)]) == 0
    assert "is there already and stays as it is" in capsys.readouterr().err


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_any_number_of_captures_can_be_trained_on(tmp_path: Path, n: int) -> None:
    for i in range(n):
        capture(tmp_path / "captures" / f"day {i}.pcap", "ask send", seed=i, n_flows=20)
    head = "client,client_port,server,server_port,protocol,label"
    rows = [f"10.0.0.7,{20_000 + i},192.0.2.1,443,tcp,{'send' if i % 2 else 'ask'}" for i in range(20)]
    (tmp_path / "labels.csv").write_text("\n".join([head, *rows]))
    command = ["train", str(tmp_path / "captures"), "--labels", str(tmp_path / "labels.csv"), *TINY, "--quiet"]
    assert run([*command, "-o", str(tmp_path / "model")]) == 0


def test_what_is_no_capture_among_others_is_passed_over(
    mixed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    (tmp_path / "empty.pcap").touch()
    assert run(["flows", str(tmp_path / "empty.pcap"), str(mixed)]) == 0
    out, err = capsys.readouterr()
    assert "456 packets" in out and "passed over" in err
    assert "no such file" in refused("flows", mixed, tmp_path / "none.pcap")


def test_items_are_given_away_a_block_at_a_time(mixed: Path) -> None:
    settings, given = FlowSettings(), list[pl.DataFrame]()
    whole = read_packets([mixed], settings)
    with open_capture(mixed) as all_packets:
        parts = [block.some(slice(at, at + 50)) for block in all_packets for at in range(0, len(block), 50)]
    found = table_of([("mixed.pcap", mixed, parts, Counter())], settings, given_away=given.append)
    assert len(given) == 10 and pl.concat(given).equals(whole.items)
    assert found.items.height == 0 and found.flows.equals(whole.flows)


def test_where_flows_are_shown_items_are_not_kept(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights: list[int] = []
    monkeypatch.setattr("kvec.doors.flowing.flows_text", lambda found: heights.append(found.items.height) or "")
    for more in ((), ("-o", str(mixed.parent / "items.parquet")), ("--labels", "by-file")):
        assert run(["flows", str(mixed), *more]) == 0
    assert heights == [0, 456, 456]


def test_of_too_many_flows_the_largest_are_kept(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvec.read.packets.tables.LARGEST", 3)
    with open_capture(mixed) as all_packets:
        parts = [block.some(slice(at, at + 50)) for block in all_packets for at in range(0, len(block), 50)]
    source = ("mixed.pcap", mixed, parts, Counter[str]())
    found, whole = (table_of([source], FlowSettings(), most=most) for most in (8, None))
    assert found.flows.height <= 8 and not whole.left_out and found.left_out["flows"] == 12 - found.flows.height
    assert flows_text(found).splitlines()[-1] == flows_text(whole).splitlines()[-1]
    assert "456 packets" in flows_text(found)


def test_what_cannot_be_is_refused(mixed: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "no such file" in refused("flows", tmp_path / "none.pcap")
    assert "'colour' is no field of a packet" in refused("flows", mixed, "--fields", "size,colour")
    assert "name captures, or an interface with -i" in refused("flows")
    (tmp_path / "text.pcap").write_text("no capture at all")
    assert "neither pcap nor pcapng" in refused("flows", tmp_path / "text.pcap")
    (tmp_path / "packed.pcap").write_bytes(b"PK\x03\x04 and so on")
    assert "unpack it first" in refused("flows", tmp_path / "packed.pcap")
    (tmp_path / "nothing.pcap").write_bytes(pcap([]))
    assert "no packet of it belongs to a flow" in refused("flows", tmp_path / "nothing.pcap")
    (tmp_path / "empty").mkdir()
    assert "there is no capture in this folder" in refused("flows", tmp_path / "empty")
    for seconds in ("0", "-1", "nan"):
        assert "it must be more than 0" in refused("flows", "-i", "lo", "--seconds", seconds)


def test_what_lies_behind_damage_is_told(
    model: Path, mixed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, damaged = mixed.read_bytes(), tmp_path / "damaged.pcap"
    damaged.write_bytes(data[: len(data) // 2] + b"\xff" * 3000 + data[len(data) // 2 :])
    for words in (["flows"], ["watch", str(model)], ["inspect"]):
        assert run([*words, str(damaged)]) == 0
        told = "".join(capfd.readouterr())
        n = int(told.partition(" bytes were not read")[0].rpartition(" ")[2].replace(",", ""))
        assert len(data) // 2 + 3000 - 1600 < n < len(data) // 2 + 3000 + 1600, "but for the packet that is hit"
        assert "captures are damaged or cut off" in told


def test_captures_without_a_flow_are_refused_by_all(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stub.pcap").write_bytes(pcap([])[:30])
    for words in (["flows"], ["watch", str(model)]):
        assert run([*words, str(tmp_path / "stub.pcap")]) == 2
        assert "stub.pcap: no packet of it belongs to a flow" in capfd.readouterr().err.splitlines()[-1]


# -- learning -----------------------------------------------------------------------------------------------------


def test_a_folder_per_class_is_split_by_capture(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = json.loads((model / "kvec.json").read_text())
    assert card["schema"]["group"] == "capture" and card["schema"]["tangling"]["of"] == "group"
    assert card["schema"]["packets"]["min_packets"] == 10 and card["schema"]["expiry"] == 120
    arguments = ["evaluate", str(model), str(model.parent / "captures"), "--split", "test"]
    assert run(arguments) == 2
    assert "say --labels by-file, by-folder or FILE" in capsys.readouterr().err
    arguments += ["--labels", "by-folder"]
    assert run([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    measured = json.loads(said.out)
    assert measured["accuracy"] > 0.7, "very few flows, and half of them would be chance"
    assert "groups side by side at random, as in training; --as-it-is measures items as they come" in said.err
    assert run([*arguments, "--json", "--as-it-is"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["n_tangles"] > measured["n_tangles"], "each capture is a tangle"
    assert "side by side" not in said.err


def test_a_file_per_class_is_split_by_flow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind, name in (("ask", "Benign/Gmail.pcap"), ("send", "Malware/Zeus-1.pcap"), ("send", "Malware/Zeus-2.pcap")):
        capture(tmp_path / "set" / name, kind, seed=len(name), n_flows=20)
    command = ["train", str(tmp_path / "set"), "--labels", "by-file", "-o", str(tmp_path / "model"), *TINY, "--quiet"]
    assert run(command) == 0
    assert "the best epoch and θ were chosen on 6 sequences only" in capsys.readouterr().err
    card = json.loads((tmp_path / "model" / "kvec.json").read_text())
    assert card["schema"]["tangling"] == {"number": 8, "of": "key", "clock": "common"}
    assert card["schema"]["group"] == "capture, key"
    assert load(tmp_path / "model").classes_.tolist() == ["Gmail", "Zeus"]
    capsys.readouterr()
    assert run(["inspect", str(tmp_path / "set"), "--labels", "by-file", "--tangling", "none"]) == 0
    assert "tangles              3" in capsys.readouterr().out


def test_labels_by_five_tuple_and_time(mixed: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    rows = [f"10.0.0.7,{20_000 + i},192.0.2.1,443,tcp,{'ask' if i % 2 else 'send'},port" for i in range(12)]
    head = "client,client_port,server,server_port,protocol,label,by"
    (tmp_path / "labels.csv").write_text("\n".join([head, *rows]))
    output = tmp_path / "items.parquet"
    assert run(["flows", str(mixed), "--labels", str(tmp_path / "labels.csv"), "-o", str(output)]) == 0
    items = pl.read_parquet(output)
    assert dict(items.group_by("label").agg(pl.col("key").n_unique()).iter_rows()) == {"ask": 6, "send": 6}
    fields = "size,direction,server_port"
    said = refused("flows", mixed, "--labels", tmp_path / "labels.csv", "--fields", fields, "-o", output)
    assert "the labels were made from server_port, which the model would see" in said


def test_captures_without_labels_cannot_be_trained_on(mixed: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    said = refused("train", mixed, "-o", tmp_path / "model", "--quiet")
    assert "--labels by-file, by-folder or FILE; kvec label makes such a file" in said


def test_short_flows_are_left_out_as_the_schema_says(tmp_path: Path, refused: Callable[..., str]) -> None:
    captures = folder(tmp_path / "captures", n_each=3)
    (tmp_path / "long.toml").write_text("[packets]\nmin_packets = 39\n")
    said = refused("inspect", captures, "--labels", "by-folder", "--schema", tmp_path / "long.toml")
    assert "no labelled flow has 39 packets; the longest has 38" in said
    assert "no labelled flow has 40 packets" in refused(
        "inspect", captures, "--labels", "by-folder", "--schema", tmp_path / "long.toml", "--min-packets", "40"
    )
    assert run(["inspect", str(captures), "--labels", "by-folder", "--min-packets", "38"]) == 0
    table = tmp_path / "table.csv"
    table.write_text("key,size\na,1\n")
    assert "--min-packets is for captures" in refused("inspect", table, "--min-packets", "2")


def test_where_short_flows_leave_one_class_the_way_out_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    for kind, n in (("ask", 2), ("send", 16)):
        path = tmp_path / "captures" / f"{kind}.pcap"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pcap([f for i in range(30) for f in flow(kind, "10.0.0.7", 20_000 + i, 1e9 + i, rng, n)]))
    words = ("train", tmp_path / "captures", "--labels", "by-file", "-o", tmp_path / "model", "--quiet")
    assert run([*map(str, words), "--min-packets", "11"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "every key has the label 'send'; training needs at least two classes; 30 of 60 labelled flows" in said
    assert said.endswith("fewer than 11 packets and are left out; kvec train --min-packets 1 keeps them")
    flags = ["--min-packets", "1", "--values", "size,server_port", *TINY]
    assert run([*map(str, words), *flags]) == 0
    schema = json.loads((tmp_path / "model" / "kvec.json").read_text())["schema"]
    assert schema["packets"]["min_packets"] == 1
    assert "session" not in schema or not schema["session"], "no direction is told, so none makes a session"


# -- watching -----------------------------------------------------------------------------------------------------


def decided_by_tables(model: Path, mixed: Path, tmp_path: Path, *more: str) -> dict[str, Any]:
    assert run(["flows", str(mixed), "-o", str(tmp_path / "items.parquet")]) == 0
    output = tmp_path / "decided.ndjson"
    assert run(["decide", str(model), str(tmp_path / "items.parquet"), "--as-it-is", "-o", str(output), *more]) == 0
    return decided(output)


@pytest.mark.parametrize("form", ["pcap", "late", "pcap.gz"])
def test_watch_decides_as_decide_does(model: Path, mixed: Path, tmp_path: Path, form: str) -> None:
    if form == "late":  # a clock that steps back now and then
        frames = [f for seed in (3, 5, 4) for f in flow("ask", "10.0.0.8", 30_000 + seed, seed, random.Random(seed))]
        mixed.write_bytes(pcap(frames))
    elif form == "pcap.gz":
        packed = mixed.with_name("mixed.pcap.gz")
        packed.write_bytes(gzip.compress(mixed.read_bytes()))
        mixed = packed
    output = tmp_path / "watched.ndjson"
    assert run(["watch", str(model), str(mixed), "-o", str(output)]) == 0
    watched = decided(output)
    assert_same(watched, decided_by_tables(model, mixed, tmp_path))
    one = watched[f"{mixed.name}/{next(iter(watched.values()))['key']}/0"]
    assert one["client"].startswith("10.0.0.") and one["server"] == "192.0.2.1:443" and one["protocol"] == "tcp"
    halted = [row for row in watched.values() if row["reason"] == "halted"]
    assert halted and all(row["packets"] == row["n_observed"] for row in halted)
    items = pl.read_parquet(tmp_path / "items.parquet").filter(pl.col("key") == halted[-1]["key"])
    then = items.head(halted[-1]["n_observed"])
    assert (halted[-1]["bytes"], halted[-1]["time"]) == (then["size"].sum(), then["time"][-1])


def test_watch_can_be_told_where_to_work(model: Path, mixed: Path, tmp_path: Path) -> None:
    output, found = tmp_path / "watched.ndjson", []
    for at in ("threshold=0", "cost_per_error=1,cost_per_second=0.001", "earliness=1"):
        assert run(["watch", str(model), str(mixed), "-o", str(output), "--at", at]) == 0
        assert_same(decided(output), decided_by_tables(model, mixed, tmp_path, "--at", at))
        found.append(sum(row["n_observed"] for row in decided(output).values()))
    assert found[0] == 12 and found[0] < found[2] and found == sorted(found)


def test_a_silence_is_as_long_as_the_model_says(model: Path, mixed: Path, tmp_path: Path) -> None:
    """A model's own expiry, shorter than the silence that ends a flow, cuts sequences here as `kvec decide` does."""
    restless = tmp_path / "model"
    shutil.copytree(model, restless)
    card = json.loads((restless / "kvec.json").read_text())
    card["schema"]["expiry"] = 5.0
    (restless / "kvec.json").write_text(json.dumps(card))
    frames = flow("ask", "10.0.0.8", 30_000, 0.0, random.Random(1))
    mixed.write_bytes(pcap([replace(f, time=f.time + 30 * 10**9 * (i >= 20)) for i, f in enumerate(frames)]))
    output = tmp_path / "watched.ndjson"
    assert run(["watch", str(restless), str(mixed), "-o", str(output)]) == 0
    watched = decided(output)
    assert len(watched) == 2 and card["schema"]["packets"]["idle"] == 120.0
    assert_same(watched, decided_by_tables(restless, mixed, tmp_path))


def test_watch_tells_what_it_saw(model: Path, mixed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", str(model), str(mixed)]) == 0
    out, err = capfd.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 12
    right = {f"10.0.0.7:{20_000 + i}": "send" if i % 2 else "ask" for i in range(12)}
    assert sum(right[row["client"]] == row["label"] for row in rows) >= 8
    assert "456 packets" in err and "12 flows named" in err and "packets needed" in err


def test_packets_go_to_the_file_of_their_label(model: Path, mixed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "by label"
    assert run(["watch", str(model), str(mixed), "-o", str(tmp_path / "d.ndjson"), "--pcap-out", str(folder)]) == 0
    sorted_out = {path.stem: packets_in(path) for path in folder.iterdir()}
    assert sum(map(len, sorted_out.values())) == 456
    for label, packets in sorted_out.items():
        keys = {row["key"] for row in decided(tmp_path / "d.ndjson").values() if row["label"] == label}
        assert len(packets) == 38 * len(keys)
    with open_capture(folder / f"{next(iter(sorted_out))}.pcapng") as again:
        assert sum(len(block) for block in again) == len(next(iter(sorted_out.values())))


def test_a_capture_is_replayed_at_its_own_speed(mixed: Path) -> None:
    begin = time.monotonic()
    n = sum(len(packets) for _, packets in Files([mixed], speed=4.0).blocks())
    with open_capture(mixed) as whole:
        times = [time for block in whole for time in block.times.tolist()]
    assert n == 456
    assert (times[-1] - times[0]) / 4e9 * 0.9 < time.monotonic() - begin < 5


def test_a_filter_lets_some_packets_through(model: Path, mixed: Path, tmp_path: Path) -> None:
    some = tmp_path / "some" / mixed.name  # what a filter leaves, as a capture of its own
    some.parent.mkdir()
    frames = [f for i in (3, 7) for f in flow("ask", "10.0.0.7", 20_000 + i, i / 100, random.Random(i))]
    others = [f for i in (4, 8) for f in flow("send", "10.0.0.7", 20_000 + i, i / 100, random.Random(i))]
    some.write_bytes(pcap(sorted(frames, key=lambda f: f.time)))
    mixed.write_bytes(pcap(sorted(frames + others, key=lambda f: f.time)))
    only = ("--filter", "tcp port 20003 or tcp port 20007")
    for name, given in (("whole", (str(some),)), ("filtered", (str(mixed), *only))):
        assert run(["flows", *given, "-o", str(tmp_path / f"{name}.parquet")]) == 0
        assert run(["watch", str(model), *given, "-o", str(tmp_path / f"{name}.ndjson")]) == 0
    assert pl.read_parquet(tmp_path / "filtered.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))
    assert_same(decided(tmp_path / "filtered.ndjson"), decided(tmp_path / "whole.ndjson"))
    assert len(decided(tmp_path / "whole.ndjson")) == 2


def test_filters_that_cannot_be(model: Path, mixed: Path, refused: Callable[..., str]) -> None:
    wrong = "filter 'tcp portt 80': can't parse filter expression: syntax error; its language: man pcap-filter"
    assert wrong in refused("watch", model, mixed, "--filter", "tcp portt 80")
    assert wrong in refused("flows", mixed, "--filter", "tcp portt 80")
    assert "no packet of it belongs to a flow" in refused("flows", mixed, "--filter", "udp")
    assert "cannot be used on link type 1" in refused("flows", mixed, "--filter", "wlan type data")


def test_wishes_that_cannot_be(model: Path, mixed: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "--speed is 'fast'" in refused("watch", model, mixed, "--speed", "fast")
    assert "not both" in refused("watch", model)
    assert "not both" in refused("watch", model, mixed, "-i", "lo")
    assert "--format is 'xml'" in refused("watch", model, mixed, "--format", "xml")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "holds something already" in refused("watch", model, mixed, "--pcap-out", tmp_path / "full")


def test_a_refused_watch_leaves_files_alone(
    model: Path, mixed: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    before = tmp_path / "d.ndjson"
    before.write_text("of yesterday\n")
    assert "holds something" in refused("watch", model, mixed, "-o", before, "--pcap-out", mixed.parent)
    assert "no such file" in refused("watch", model, tmp_path / "none.pcap", "-o", before, "--pcap-out", tmp_path / "p")
    assert before.read_text() == "of yesterday\n" and not (tmp_path / "p").exists()


def test_a_model_of_other_things_is_refused(
    model: Path, mixed: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    other = tmp_path / "model"
    shutil.copytree(model, other)
    card = json.loads((other / "kvec.json").read_text())
    card["schema"]["key"] = ["user"]
    (other / "kvec.json").write_text(json.dumps(card))
    assert "was not trained on packets: no packet has the key user" in refused("watch", other, mixed)
