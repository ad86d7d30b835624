"""Packets sorted into one capture file per label."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kvec.doors.splitting import AROUND, Splitter, _File
from kvec.words.errors import SettingError

ETHERNET, RAW = 1, 101


def packets_in(path: Path) -> list[tuple[int, int, int, bytes]]:
    """Read a little-endian pcapng file the slow way: link type, time in ns, bytes on the wire, bytes."""
    content, links, found, at = path.read_bytes(), [], [], 0
    while at < len(content):
        kind, length = struct.unpack_from("<II", content, at)
        assert struct.unpack_from("<I", content, at + length - 4)[0] == length
        body = content[at + 8 : at + length - 4]
        if kind == 1:
            links.append(struct.unpack_from("<H", body)[0])
        elif kind == 6:
            interface, high, low, size, wire = struct.unpack_from("<IIIII", body)
            found.append((links[interface], high << 32 | low, wire, body[20 : 20 + size]))
        at += length
    return found


def test_packets_wait_for_their_label_and_keep_their_order(tmp_path: Path) -> None:
    splitter = Splitter(tmp_path / "out")
    early = [(ETHERNET, 1_700_000_000_000_000_001 + i, 1500, bytes([i]) * (i + 1)) for i in range(3)]
    for packet in early:
        splitter.take("a", packet)
    splitter.take(None, (ETHERNET, 5, 4, b"arp!"))
    splitter.decided("a", "web")
    late = (RAW, 1_700_000_000_000_000_009, 40, b"later")
    splitter.take("a", late)
    splitter.take("b", (RAW, 7, 1, b"b"))  # never decided
    splitter.close()
    assert packets_in(tmp_path / "out" / "web.pcapng") == [*early, late]
    assert packets_in(tmp_path / "out" / "unnamed.pcapng") == [(ETHERNET, 5, 4, b"arp!"), (RAW, 7, 1, b"b")]
    assert splitter.counts() == {"unnamed.pcapng": 2, "web.pcapng": 4}


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    splitter = Splitter(tmp_path, most_waiting=2 * (4 + AROUND) + 2)
    for i in range(5):
        splitter.take(f"flow {i}", (ETHERNET, i, 4, b"1234"))
    splitter.decided("flow 0", "web")
    splitter.decided("flow 4", "web")
    splitter.close()
    assert splitter.n_early == 3
    assert [time for _, time, _, _ in packets_in(tmp_path / "web.pcapng")] == [4]
    assert [time for _, time, _, _ in packets_in(tmp_path / "unnamed.pcapng")] == [0, 1, 2, 3]


def test_labels_become_file_names_of_their_own(tmp_path: Path) -> None:
    splitter = Splitter(tmp_path)
    for i, label in enumerate(["a/b", "a b", "../../etc", "", "unnamed"]):
        splitter.take(str(i), (ETHERNET, 0, 1, b"x"))
        splitter.decided(str(i), label)
    splitter.close()
    files = ["a_b.pcapng", "a_b-2.pcapng", "etc.pcapng", "label.pcapng", "unnamed-2.pcapng"]
    assert splitter.counts() == dict.fromkeys(files, 1)
    assert {path.parent for path in tmp_path.rglob("*.pcapng")} == {tmp_path}


def test_long_labels_fit_into_a_file_name(tmp_path: Path) -> None:
    splitter = Splitter(tmp_path)
    for i, label in enumerate(["界" * 100 + "a", "界" * 100 + "b", "x" * 1000]):
        splitter.take(str(i), (ETHERNET, 0, 1, b"x"))
        splitter.decided(str(i), label)
    splitter.close()
    assert set(splitter.counts()) == {"界" * 60 + ".pcapng", "界" * 60 + "-2.pcapng", "x" * 180 + ".pcapng"}
    assert all(len(path.name.encode()) <= 200 for path in tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.pcapng").write_bytes(b"")
    with pytest.raises(SettingError, match="holds something already"):
        Splitter(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk here that is always full")
def test_a_file_that_cannot_be_written_is_named() -> None:
    file = _File(Path("/dev/full"))
    file.add((ETHERNET, 0, 1, b"x"))
    with pytest.raises(SettingError, match="/dev/full: cannot be written: No space left on device"):
        file.close()
