"""Labels that flows get from the names of files and folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.read.packets.making_packets import Frame, ethernet, ipv4, pcap, udp

from kvec.read.packets.learning import labelled
from kvec.read.packets.tables import read_packets
from kvec.words.errors import DataError
from kvec.words.flows import FlowSettings

PACKET = Frame(ethernet(0x0800, ipv4("10.0.0.1", "10.0.0.2", 17, udp(1000, 53, b"ask"))))


def made(folder: Path, *names: str) -> list[Path]:
    """Captures of one packet each."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(pcap([PACKET]))
    return [folder / name for name in names]


def labels(given: list[Path], by: str) -> dict[str, str]:
    found, _ = labelled(read_packets(given, FlowSettings()), by, ("size",), 1)
    return dict(found.flows.select("capture", "label").iter_rows())


def test_only_parts_that_count_up_share_a_label(tmp_path: Path) -> None:
    ports, parts = ["http-80.pcap", "http-443.pcap"], ["Weibo-1.pcap", "Weibo-2.pcap", "Weibo-3.pcap"]
    gap, zero = ["day-1.pcap", "day-3.pcap"], ["x_00.pcap", "x_01.pcap"]
    made(tmp_path, *ports, *parts, *gap, *zero, "alone-1.pcap")
    found = labels([tmp_path], "by-file")
    assert {name: found[name] for name in (*ports, *gap)} == {n: n.removesuffix(".pcap") for n in (*ports, *gap)}
    assert {found[name] for name in parts} == {"Weibo"} and {found[name] for name in zero} == {"x"}
    assert found["alone-1.pcap"] == "alone-1"


def test_files_that_are_named_have_the_label_of_their_folder(tmp_path: Path) -> None:
    given = made(tmp_path, "good/a.pcap", "bad/b.pcap")
    assert labels(given, "by-folder") == {"a.pcap": "good", "b.pcap": "bad"}
    assert labels(given[:1], "by-folder") == {"a.pcap": "good"}
    assert labels([tmp_path], "by-folder") == {"good/a.pcap": "good", "bad/b.pcap": "bad"}


def test_a_folder_that_holds_all_captures_is_no_label(tmp_path: Path) -> None:
    made(tmp_path, "a.pcap", "bad/b.pcap")
    with pytest.raises(DataError, match="lies in no folder that could be its label"):
        labels([tmp_path], "by-folder")
