"""Filters on the packets of captures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.read.packets.making_packets import ACK, Frame, ethernet, ipv4, pcapng, tcp, udp

from kvec.read.packets.captures import Packets, open_capture
from kvec.read.packets.filtering import UNFIT, Filter
from kvec.words.errors import MissingExtra, SettingError

pytest.importorskip("cypcap")
ETHERNET, RAW, USB = 1, 101, 189


def block(tmp_path: Path) -> Packets:
    """Packets of three link types in turns, odd ones TCP."""
    frames = []
    for i in range(12):
        segment = tcp(4000, 80 + i, ACK, 1, 1, data=bytes(i)) if i % 2 else udp(4000, 53, bytes(100 * i))
        packet = ipv4("10.0.0.1", "10.0.0.2", 6 if i % 2 else 17, segment)
        link = (ETHERNET, RAW, USB)[i % 3]
        frames.append(Frame(ethernet(0x0800, packet) if link == ETHERNET else packet, i, link=link))
    (tmp_path / "some.pcapng").write_bytes(pcapng(frames))
    (found,) = open_capture(tmp_path / "some.pcapng")
    return found


def passed(filter: Filter, packets: Packets) -> list[int]:
    return filter.passing(packets).times.tolist()


def test_packets_pass_by_what_their_link_is(tmp_path: Path) -> None:
    packets = block(tmp_path)
    assert passed(Filter("tcp"), packets) == [1, 3, 7, 9]
    assert passed(Filter("udp port 53"), packets) == [0, 4, 6, 10]
    assert passed(Filter("tcp dst port 87 or greater 900"), packets) == [7, 10]
    assert passed(Filter("ether host 02:00:00:00:00:09"), packets) == []
    some = Filter("tcp port 83").passing(packets)
    assert len(some) == 1 and some.links.tolist() == [ETHERNET]
    assert some.data[some.starts[0] :][: some.sizes[0]].tobytes()[-3:] == bytes(3)


def test_what_a_filter_cannot_look_into_is_counted(tmp_path: Path) -> None:
    filter, packets = Filter("tcp"), block(tmp_path)
    for _ in range(2):
        filter.passing(packets)
    assert filter.lost == {f"{UNFIT} {USB}": 8}


def test_a_filter_must_make_sense_somewhere() -> None:
    Filter("wlan type mgt subtype beacon")
    with pytest.raises(SettingError, match=r"^filter 'tcp prt 80': .*syntax error; its language: man pcap-filter$"):
        Filter("tcp prt 80")
    with pytest.raises(SettingError, match=r"unknown host"):
        Filter("host no.such.host.invalid")


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cypcap", None)
    with pytest.raises(MissingExtra, match=r"pip install 'kvec\[packets\]'"):
        Filter("tcp")
