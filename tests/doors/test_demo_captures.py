"""The captures that `kvec demo --captures` makes: right to the bit, labelled, and tried as docs/packets.md has it."""

from __future__ import annotations

import json
import re
import shlex
import struct
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.doors.made import TINY
from tests.doors.test_splitting import packets_in

from kvec.doors import demo_captures
from kvec.doors.cli import run
from kvec.read.packets.flow_labels import read_flow_labels
from kvec.read.packets.hellos import sni_of
from kvec.read.packets.tables import read_packets
from kvec.read.synthetic import demo_traffic
from kvec.words.flows import FlowSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "packets.md"
TITLE = "Try it without a capture of your own"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_captures, "TRAIN", ["link-01", "link-02"])
    monkeypatch.setattr(demo_captures, "FLOWS", {"train": 6, "unseen": 8})


def is_summed(data: bytes) -> bool:
    """Whether a checksum in the data fits it."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    return total % 0xFFFF == 0


def test_every_flow_is_read_whole_with_its_label(few: None, tmp_path: Path) -> None:
    demo_captures.make_captures(tmp_path / "made")
    for part, seed, n in (("train", 1, 12), ("unseen.pcapng", 2, 8)):
        fields = ("size", "direction", "flags")
        found = read_packets([tmp_path / "made" / part], FlowSettings(), fields)
        assert not found.counters
        assert found.flows.height == n and found.flows["is_over"].all()
        made = demo_traffic(n, seed, keys=1)
        joined = read_flow_labels(tmp_path / "made" / "labels.csv").join(found.flows)
        assert joined.matched == n
        wanted = {row[0]: row[1:] for row in made.group_by("key").agg("label", "size", "direction").rows()}
        by_port = {key.rpartition(":")[2]: of for key, of in wanted.items()}
        for flow, label in zip(found.flows.iter_rows(named=True), joined.labels, strict=True):
            items = found.items.filter(capture=flow["capture"], key=flow["key"])
            labels, sizes, directions = by_port[str(flow["client_port"])]
            assert label == labels[0]
            assert items["size"].to_list() == [54, 54, 54, 571, *(size + 14 for size in sizes), 54, 54, 54]
            assert items["direction"].to_list() == [0, 1, 0, 0, *(1 - by for by in directions), 0, 1, 0]
            assert items["flags"].to_list()[:4] == [2, 18, 16, 24] and items["flags"].to_list()[-3:] == [17, 17, 16]
            assert flow["client"].startswith("192.0.2.") and flow["server"].startswith("198.51.100.")


def test_frames_are_right_to_the_bit_and_cut_off(few: None, tmp_path: Path) -> None:
    demo_captures.make_captures(tmp_path)
    found = packets_in(tmp_path / "unseen.pcapng")
    assert [time for _, time, _, _ in found] == sorted(time for _, time, _, _ in found)
    names = set()
    for _, _, wire, frame in found:
        assert len(frame) == min(wire, 160)
        whole = frame + bytes(wire - len(frame))  # what was cut off is zero
        head, segment = whole[14:34], whole[34:]
        assert struct.unpack(">H", head[2:4])[0] == wire - 14
        assert is_summed(head)
        padded = segment + bytes(len(segment) % 2)
        assert is_summed(head[12:20] + struct.pack(">HH", 6, len(segment)) + padded)
        names.add(sni_of(frame[54:]))
    assert len(names - {None}) > 1
    assert all(re.fullmatch(r"s\d+\.(web|video|chat|backup|scan)\.example", name) for name in names if name)


def test_they_are_the_same_each_time(few: None, tmp_path: Path) -> None:
    for name in ("one", "other"):
        demo_captures.make_captures(tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    assert [str(file) for file in files] == [
        "labels.csv", "train/link-01.pcapng", "train/link-02.pcapng", "unseen.pcapng",
    ]  # fmt: skip
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes() for file in files)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "mine").write_text("mine")
    assert "holds something already" in refused("demo", "--captures", tmp_path)
    assert "--web" in refused("demo", "--captures", tmp_path / "new", "--web")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As they stand on it, but for a smaller network and one epoch; what does not hang on those, they print."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {TITLE}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    commands = [line.partition("  #")[0] for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    assert [command.split()[1] for command in commands] == ["demo", "flows", "train", "evaluate", "watch", "label"]
    monkeypatch.chdir(tmp_path)
    said = {}
    for command in commands:
        _, name, *words = shlex.split(command)
        assert run([name, *words, *(TINY if name == "train" else ())]) == 0
        said[name] = "".join(capfd.readouterr())
    texts = [block for kind, block in blocks if kind == "text"]
    assert texts[0] in said["demo"]
    assert texts[-1] in said["label"]
    assert texts[2].partition(" in ")[0] in said["watch"]
    proposed = [line.strip() for line in said["demo"].splitlines() if line.startswith("  kvec ")]
    assert proposed == [command.partition(" -o made/decisions")[0].strip() for command in commands[1:5]]
    rows = [json.loads(line) for line in Path("made/decisions.ndjson").read_text().splitlines()]
    unseen = pl.read_csv("made/labels.csv").filter(capture="unseen.pcapng")
    assert {row["client"] for row in rows} == {
        f"{host}:{port}" for host, port in unseen["client", "client_port"].rows()
    }
    assert "100 sequences in one tangle" in said["evaluate"]
