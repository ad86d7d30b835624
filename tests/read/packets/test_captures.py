"""Containers: what was written comes back, whatever the order of bytes, the clock, the compression or the damage."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.packets.making_packets import (
    Frame,
    block,
    enhanced,
    interface,
    old,
    option,
    pcap,
    pcapng,
    section,
    simple,
)

from kvec.read.packets import captures, unpacking
from kvec.read.packets.captures import UNREAD, Capture, Packets, open_capture, open_captures
from kvec.read.packets.records import LARGEST_PACKET
from kvec.words.errors import DataError

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
FRAMES = [Frame(b"first", 1_000_000_000), Frame(b"", 1_500_000_000, 60), Frame(bytes(range(200)), 2_000_001_000, 1500)]
SECOND = 10**9


def of(data: bytes) -> Capture:
    return open_capture(cast(BinaryIO, io.BytesIO(data)))


def frames_of(capture: Capture) -> list[Frame]:
    return [frame for packets in capture for frame in taken_apart(packets)]


def taken_apart(packets: Packets) -> list[Frame]:
    assert (packets.wire >= packets.sizes).all() and (packets.times >= 0).all()
    rows = zip(packets.starts, packets.sizes, packets.wire, packets.times, packets.links, strict=True)
    return [Frame(packets.data[s : s + n].tobytes(), int(t), int(w), int(link)) for s, n, w, t, link in rows]


def same(frames: list[Frame], expected: list[Frame]) -> bool:
    def plain(given: list[Frame]) -> list[tuple[bytes, int, int, int]]:
        return [(f.data, f.time, f.on_wire, f.link) for f in given]

    return plain(frames) == plain(expected)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
def test_pcap_of_every_kind(order: str, magic: int) -> None:
    capture = of(pcap(FRAMES, order, nano=magic == 0xA1B23C4D, magic=magic))
    assert same(frames_of(capture), FRAMES)
    assert not capture.counters


def test_nanoseconds_are_kept_and_microseconds_are_not_more_than_that() -> None:
    frame = Frame(b"x", 1_600_000_000_123_456_789)
    assert frames_of(of(pcap([frame], nano=True)))[0].time == frame.time
    assert frames_of(of(pcap([frame])))[0].time == 1_600_000_000_123_456_000


def test_the_link_type_is_the_lower_half() -> None:
    assert [f.link for f in frames_of(of(pcap(FRAMES, link=0xF400_0071)))] == [113] * 3


@given(
    st.lists(
        st.builds(Frame, st.binary(max_size=300), st.integers(0, 2**32 * SECOND), st.integers(300, 2000), st.just(1)),
        max_size=20,
    ),
    st.sampled_from("<>"),
)
def test_what_was_written_comes_back(frames: list[Frame], order: str) -> None:
    frames = [Frame(f.data, f.time % (2**32 * SECOND), f.wire, f.link) for f in frames]
    assert same(frames_of(of(pcap(frames, order, nano=True))), frames)
    assert same(frames_of(of(pcapng(frames, order))), frames)


def test_sections_and_interfaces_of_their_own() -> None:
    first = section("<") + interface(1) + interface(113, options=option(9, b"\x03"))
    second = section(">") + interface(
        101, options=option(9, b"\x8a", ">") + option(14, struct.pack(">q", 100), ">"), order=">"
    )
    a, b, c = Frame(b"aaaaa", 7_000), Frame(b"bb", 7_000_000, link=113), Frame(b"c", 101_500_000_000, link=101)
    data = (
        first
        + enhanced(a, 7)
        + enhanced(b, 7, 1, options=option(1, b"remark"))
        + second
        + enhanced(c, 1024 + 512, order=">")
    )
    assert same(frames_of(of(data)), [a, b, c])


def test_old_and_simple_packet_blocks() -> None:
    data = section() + interface(1, snap=10) + old(Frame(b"old", 0), 5_000_000) + simple(Frame(b"0123456789", 0, 99))
    assert same(frames_of(of(data)), [Frame(b"old", 5 * SECOND), Frame(b"0123456789", 5 * SECOND, 99)])


def test_blocks_that_hold_no_packets_are_passed_by() -> None:
    unknown, statistics = block(0x7777, b"what is this"), block(5, bytes(12))
    data = section() + unknown + interface() + statistics + enhanced(FRAMES[0], 1) + block(0xBAD, bytes(9)) + unknown
    capture = of(data)
    assert len(frames_of(capture)) == 1
    assert capture.counters == {"unknown block": 2}


@pytest.mark.parametrize("resolution", range(256))
def test_every_clock_gives_a_time(resolution: int) -> None:
    exponent, base = resolution & 0x7F, 2 if resolution & 0x80 else 10
    for ticks in (0, 1, 2**32 + 12345, 2**62, 2**63 - 1, 2**64 - 1):
        data = section() + interface(options=option(9, bytes([resolution]))) + enhanced(FRAMES[0], ticks)
        capture = of(data)
        (found,) = frames_of(capture)
        exact = ticks * SECOND // base**exponent
        if capture.counters:
            assert capture.counters == {"time out of range": 1}
            assert found.time == 0 and (exact >= 2**63 - 2 * SECOND or ticks >= 2**63)
        else:
            assert abs(found.time - exact) <= 1


@pytest.mark.parametrize("offset", [-(2**63), -1, 2**63 - 1, 2**40])
def test_times_beyond_all_times(offset: int) -> None:
    data = section() + interface(options=option(14, struct.pack("<q", offset)))
    data += enhanced(FRAMES[0], 0) + enhanced(FRAMES[0], 2 * 10**6)
    capture = of(data)
    times = [f.time for f in frames_of(capture)]
    assert times == ([0, SECOND] if offset == -1 else [0, 0])
    assert capture.counters == {"time out of range": 1 if offset == -1 else 2}


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_capture_cut_off_gives_what_is_whole(cut: int) -> None:
    for make in (pcap, pcapng):
        data, whole = make(FRAMES), len(make(FRAMES[:2]))
        capture = of(data[:-cut])
        assert same(frames_of(capture), FRAMES[:2])
        assert capture.counters == {"cut off at the end of the file": 1, UNREAD: len(data) - cut - whole}


@pytest.mark.parametrize("size", range(4, 24))
def test_a_header_cut_off_gives_nothing(size: int) -> None:
    for data in (pcap([]), pcapng([])):
        capture = of(data[:size])
        assert frames_of(capture) == []
        assert capture.counters == {"cut off at the end of the file": 1, UNREAD: size}


def test_lengths_beyond_all_bounds() -> None:
    for size in (LARGEST_PACKET + 1, 2**31, 2**32 - 1):
        bad = pcap([FRAMES[0]]) + struct.pack("<IIII", 0, 0, size, size) + bytes(100)
        capture = of(bad)
        assert len(frames_of(capture)) == 1
        assert capture.counters == {"bad length": 1, UNREAD: 116}
    capture = of(pcap([Frame(b"x", 0, 2**32 - 1)]))
    assert frames_of(capture)[0].wire == 2**31 - 1


@pytest.mark.parametrize("length", [0, 4, 11, 2**32 - 1])
@pytest.mark.parametrize("kind", [1, 2, 3, 6, 0x0A0D0D0A, 77])
def test_block_lengths_beyond_all_bounds(kind: int, length: int) -> None:
    data = pcapng(FRAMES) + struct.pack("<III", kind, length, 0x1A2B3C4D) + bytes(40)
    capture = of(data)
    assert len(frames_of(capture)) == 3
    expected = (
        {"cut off at the end of the file": 1, "unknown block": 1} if kind == 77 and length > 11 else {"bad length": 1}
    )
    assert capture.counters == expected | {UNREAD: 52}


def test_packets_that_contradict_their_block_are_passed_by() -> None:
    lying = block(6, struct.pack("<IIIII", 0, 0, 0, 999, 999) + b"few")
    small = block(6, b"too small")
    nowhere = enhanced(FRAMES[0], 1, number=7)
    capture = of(section() + interface() + lying + small + nowhere + enhanced(FRAMES[0], 1))
    assert len(frames_of(capture)) == 1
    assert capture.counters == {"bad length": 2, "no such interface": 1}


def test_two_lengths_that_differ_end_the_reading() -> None:
    good = pcapng(FRAMES)
    capture = of(good + enhanced(FRAMES[0], 1)[:-4] + b"\1\2\3\4" + good)
    assert len(frames_of(capture)) == 3
    assert capture.counters == {"bad length": 1, UNREAD: len(enhanced(FRAMES[0], 1)) + len(good)}


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_what_lies_behind_damage_is_counted(
    make: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvec.read.packets.captures.BLOCK", 1 << 12)
    good = make(FRAMES)
    path = tmp_path / "damaged.pcap"
    path.write_bytes(good + b"\xff" * 3000 + make(FRAMES * 300))
    with open_capture(path) as capture:
        assert len(frames_of(capture)) == 3
        assert capture.counters[UNREAD] == path.stat().st_size - len(good), "to the end of the file"


def test_more_interfaces_than_a_section_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvec.read.packets.records.Interfaces.most", 10)
    data = section() + interface() * 20 + enhanced(FRAMES[0], 1, 9) + enhanced(FRAMES[0], 1, 10)
    capture = of(data)
    assert len(frames_of(capture)) == 1
    assert capture.counters == {"no such interface": 1}


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: bytes(zstd.compress(data)),
}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("write", [pcap, pcapng])
def test_compressed_captures(pack: Callable[[bytes], bytes], write: Callable[..., bytes], tmp_path: Path) -> None:
    data = write(FRAMES * 1000)
    file = tmp_path / "no_ending_at_all"
    for packed in (pack(data), pack(data[:5000]) + pack(data[5000:])):
        file.write_bytes(packed)
        capture = open_capture(file)
        assert same(frames_of(capture), FRAMES * 1000)
        assert not capture.counters


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_compressed_captures_cut_off_or_broken(pack: Callable[[bytes], bytes]) -> None:
    noise = np.random.default_rng(0).bytes(200_000)
    frames = [Frame(noise[i : i + 100]) for i in range(0, len(noise), 100)]
    first, second = pack(pcap(frames)), pack(pcap(frames)[24:])
    capture = of(first + second[: len(second) // 2])
    assert len(frames_of(capture)) >= 2000
    assert capture.counters["compressed data cut off"] == 1
    capture = of(first + second[:20] + noise)
    assert len(frames_of(capture)) == 2000
    assert capture.counters["compressed data broken"] == 1
    with pytest.raises(DataError, match="cannot be read: compressed data"):
        of(first[:14])


def test_gzip_padding_is_no_damage() -> None:
    capture = of(gzip.compress(pcap(FRAMES)) + bytes(1000))
    assert same(frames_of(capture), FRAMES)
    assert not capture.counters


def test_a_bomb_is_read_in_bounded_blocks() -> None:
    """300 MB of empty packets in 300 kB."""
    data = gzip.compress(pcap([]) + bytes(16) * 2_000_000, compresslevel=1)
    assert len(data) < 300_000
    n = 0
    for packets in of(data):
        assert len(packets) <= captures.MOST_PACKETS and len(packets.data) <= captures.BLOCK
        n += len(packets)
    assert n == 2_000_000


def test_a_larger_bomb_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE", 1 << 20)
    capture = of(bz2.compress(pcap([]) + bytes(16) * 1_000_000))
    n = sum(map(len, capture))
    assert 1 << 16 <= n < 1_000_000
    assert capture.counters["compressed more than 1,000 times: unpack it first"] == 1


def test_compressed_twice_is_no_capture() -> None:
    with pytest.raises(DataError, match="neither pcap nor pcapng"):
        of(gzip.compress(gzip.compress(pcap(FRAMES))))


def test_a_long_unknown_block_is_not_kept() -> None:
    long = struct.pack("<II", 99, 50_000_012) + bytes(50_000_000) + struct.pack("<I", 50_000_012)
    data = gzip.compress(pcapng(FRAMES) + long, compresslevel=1) + gzip.compress(enhanced(FRAMES[0], 1))
    capture = of(data)
    assert len(frames_of(capture)) == 4
    assert capture.counters == {"unknown block": 1}


def test_a_window_beyond_all_bounds_is_refused() -> None:
    window = bytes([21 << 3])  # of 2**31 bytes
    capture_or_error = b"\x28\xb5\x2f\xfd" + b"\x00" + window + bytes(100)
    with pytest.raises(DataError, match="cannot be read"):
        of(capture_or_error)


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(captures, "BLOCK", 1 << 20)
    monkeypatch.setattr(captures, "MOST_PACKETS", 1000)
    frames = [Frame(bytes([i % 256]) * (i % 1500), i * 1000) for i in range(5000)]
    for name, write in (("a", pcap), ("b", pcapng)):
        (tmp_path / name).write_bytes(write(frames))
        blocks = list(open_capture(tmp_path / name))
        assert max(map(len, blocks)) <= 1000
        assert max(len(b.data) for b in blocks) <= 1 << 20
        assert same([f for b in blocks for f in taken_apart(b)], frames)


def test_a_pipe_gives_what_has_arrived() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb", buffering=0) as into, os.fdopen(read, "rb") as out:
        into.write(pcap(FRAMES[:1]))
        blocks = iter(open_capture(out))
        assert same(taken_apart(next(blocks)), FRAMES[:1])
        rest = pcap(FRAMES[1:])[24:]
        into.write(rest[:30])
        assert same(taken_apart(next(blocks)), FRAMES[1:2])
        thread = threading.Thread(target=lambda: into.write(rest[30:]))
        thread.start()
        assert same(taken_apart(next(blocks)), FRAMES[2:])
        thread.join()
        into.close()
        assert next(blocks, None) is None


def seven_zip(path: Path, members: dict[str, bytes]) -> Path:
    py7zr = pytest.importorskip("py7zr")
    with py7zr.SevenZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(data, name)
    return path


def test_captures_in_an_archive(tmp_path: Path) -> None:
    path = seven_zip(
        tmp_path / "two.7z",
        {"a.pcap": pcap(FRAMES), "notes.txt": b"hello there", "in/b": gzip.compress(pcapng(FRAMES[:1]))},
    )
    assert same(frames_of(open_capture(path)), FRAMES + FRAMES[:1])
    found = {capture.name: frames_of(capture) for capture in open_captures(path)}
    assert list(found) == [f"{path}/a.pcap", f"{path}/in/b"]
    assert [len(frames) for frames in found.values()] == [3, 1]
    with path.open("rb") as file:
        assert same(frames_of(open_capture(file)), FRAMES + FRAMES[:1])


def test_archives_that_cannot_be_read(tmp_path: Path) -> None:
    path = seven_zip(tmp_path / "one.7z", {"notes.txt": b"hello there"})
    with pytest.raises(DataError, match="no capture in this archive"):
        open_capture(path)
    data = path.read_bytes()
    (tmp_path / "cut.7z").write_bytes(data[:40])
    with pytest.raises(DataError, match=r"cut\.7z: this 7z archive cannot be unpacked"):
        open_capture(tmp_path / "cut.7z")
    read, write = os.pipe()
    with os.fdopen(write, "wb") as into, os.fdopen(read, "rb") as out:
        into.write(data)
        into.flush()
        with pytest.raises(DataError, match="from a pipe"):
            open_capture(out)


def test_an_archive_broken_in_the_midst_gives_what_is_whole(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    path = seven_zip(tmp_path / "two.7z", {name: pcap([Frame(chance.bytes(100_000))]) for name in ("a", "b")})
    broken = bytearray(path.read_bytes())
    broken[150_000] ^= 0xFF
    path.write_bytes(broken)
    capture = open_capture(path)
    assert len(frames_of(capture)) == 1
    assert capture.counters == {"rest of the archive not readable": 1}
    assert len(list(open_captures(path))) == 1


def test_an_archive_of_far_too_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE", 1 << 16)
    monkeypatch.setattr(unpacking, "MOST_TIMES", 100)
    bomb = pcap([Frame(bytes(200_000))])
    path = seven_zip(tmp_path / "bomb.7z", {"a": bomb})
    with pytest.raises(DataError, match=r"bomb\.7z: a is compressed more than 100 times; unpack it first"):
        open_capture(path)
    capture = open_capture(seven_zip(tmp_path / "late.7z", {"a": pcap(FRAMES), "b": bomb}))
    assert same(frames_of(capture), FRAMES)
    assert capture.counters == {"rest of the archive not readable": 1}


def test_an_ordinary_file_is_the_only_capture_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(pcap(FRAMES))
    (capture,) = open_captures(tmp_path / "a.pcap")
    assert capture.name == str(tmp_path / "a.pcap")


def test_what_is_no_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        open_capture(tmp_path / "nothing.pcap")
    with pytest.raises(DataError, match="is a folder"):
        open_capture(tmp_path)
    for name, data, message in (
        ("empty.pcap", b"", "is empty"),
        ("table.pcap", b"key,value\n1,2\n", r"table\.pcap: is neither pcap nor pcapng; it is no capture"),
        (
            "other.cap",
            b"snoop\0\0\0" + bytes(40),
            "neither pcap nor pcapng; if it is a capture, convert it with: editcap",
        ),
        ("odd.cap", b"\x54\0\0\0" + bytes(40), "if it is a capture, convert it with: editcap"),
        ("one.pcap", b"\xd4", "neither"),
        ("bad.gz", b"\x1f\x8b\x08" + bytes(50), "cannot be read"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=message):
            open_capture(tmp_path / name)
    with pytest.raises(DataError, match="cannot be the name"):
        open_capture("a\0b")


def test_the_name_is_where_it_came_from() -> None:
    assert open_capture(cast(BinaryIO, io.BytesIO(pcap([]))), "the wire").name == "the wire"
    with pytest.raises(DataError, match="the wire: the file is empty"):
        open_capture(cast(BinaryIO, io.BytesIO(b"")), "the wire")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = seven_zip(tmp_path / "a.7z", {"a.pcap": pcap(FRAMES)})
    for name in ("py7zr", "backports", "backports.zstd", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DataError, match=r'a\.7z: .* pip install "kvec\[packets\]"'):
        open_capture(archive)
    with pytest.raises(DataError, match=r"kvec\[packets\]"):
        of(zstd.compress(pcap(FRAMES)))


@given(st.binary(max_size=400), st.sampled_from([b"", pcap(FRAMES), pcapng(FRAMES), section() + interface(), pcap([])]))
def test_no_bytes_break_it(noise: bytes, begin: bytes) -> None:
    try:
        frames_of(of(begin + noise))
    except DataError:
        assert not begin


@given(st.data())
def test_no_damage_breaks_it(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([pcap(FRAMES), pcapng(FRAMES), gzip.compress(pcapng(FRAMES))])))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        frames_of(of(bytes(whole)))
    except DataError:
        assert whole[:2] == b"\x1f\x8b"


def test_pieces_of_any_size_unpack_to_the_same() -> None:
    data = pcap(FRAMES * 50)
    for pack in PACKERS.values():
        for size in (1, 7, 1000):
            source = unpacking.unpacked(unpacking.Plain(io.BytesIO(pack(data))), "it")
            assert b"".join(iter(lambda s=source, n=size: s.read1(n), b"")) == data  # type: ignore[misc]
