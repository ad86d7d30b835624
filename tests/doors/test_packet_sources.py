"""Where packets come from: interfaces without a wire, paces, and captures that were named twice."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.doors.made_captures import capture
from tests.read.packets.making_packets import Frame, pcapng

from kvec.doors import packet_sources
from kvec.doors.packet_sources import Files, Interface
from kvec.read.packets.captures import Capture
from kvec.read.packets.tables import NOTHING
from kvec.words.errors import DataError

WARM = """
import importlib
from types import SimpleNamespace
from tests.read.packets.making_packets import ethernet, ipv4, ipv6, udp
from kvec.doors import packet_sources
from kvec.read.packets.compiled import MODULES
from kvec.read.packets.flows import Flows
from kvec.read.packets.layers import dissect
from kvec.read.packets.listening import _block

def made():
    found = {}
    for name in MODULES:
        for function in vars(importlib.import_module(f"kvec.read.packets.{name}")).values():
            if hasattr(function, "signatures"):
                found[function.__name__] = list(function.signatures)
    return found

before = []
packet_sources.Listener = lambda *settings: None
packet_sources.drop_rights = lambda: before.append(made()) or "as nobody"
packet_sources.Interface("eth0", "", 256, False)
frames = [ethernet(0x0800, ipv4("10.0.0.1", "10.0.0.2", 17, udp(1000 + i, 80, b"x"))) for i in range(2000)]
frames.append(ethernet(0x86DD, ipv6("fe80::1", "fe80::2", 17, udp(7, 7, b"x"))))
packets = _block([(SimpleNamespace(len=len(data), ts=7.0), data) for data in frames], 1)
flows = Flows()
for _ in range(2):
    flows.take(packets, dissect(packets))
assert before[0]["track"] and before[0]["rebuild"], before
late = {name: kinds for name, kinds in made().items() if kinds != before[0][name]}
assert not late, f"compiled after the rights were given up: {late}"
"""


def test_all_is_compiled_before_rights_are_given_up() -> None:
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


class Quiet:
    """A listener that hears nothing."""

    def __init__(self, *settings: object) -> None:
        self.n_asked = 0

    def packets(self, timeout: float) -> Any:
        return NOTHING

    def counters(self) -> None:
        self.n_asked += 1

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def test_the_counters_of_the_kernel_are_asked_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Quiet()
    monkeypatch.setattr(packet_sources, "Listener", lambda *settings: heard)
    monkeypatch.setattr(packet_sources, "drop_rights", lambda: "as nobody")
    monkeypatch.setattr(packet_sources, "TICK", 0.05)
    source = Interface("eth0", "", 256, False)
    until = time.monotonic() + 20
    for _ in source.blocks(lambda: heard.n_asked == 3 or time.monotonic() > until):
        time.sleep(0.01)
    assert heard.n_asked == 3


@pytest.mark.parametrize("first", [0, 4_000_000_000])
def test_a_replay_does_not_wait_for_a_clock_that_jumps(tmp_path: Path, first: int) -> None:
    day = 1_700_000_000
    seconds = [first, day, day + 0.2, day + 0.1, day + 100_000, day + 100_000.2]
    frames = [Frame(b"a packet that is no more than that", int(one * 10**9)) for one in seconds]
    (tmp_path / "jumps.pcapng").write_bytes(pcapng(frames))
    begin = time.monotonic()
    blocks = Files([tmp_path / "jumps.pcapng"], speed=1.0).blocks(lambda: time.monotonic() > begin + 5)
    times = np.concatenate([packets.times for _, packets in blocks])
    assert times.tolist() == [frame.time for frame in frames]
    assert 0.25 < time.monotonic() - begin < 2


def test_a_capture_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    one = capture(tmp_path / "day" / "one.pcap", "ask", seed=1, n_flows=2)
    whole = sum(len(packets) for _, packets in Files([one]).blocks())
    (tmp_path / "link.pcap").symlink_to(one)
    for given in ([one, one], [tmp_path / "day", one], [one, tmp_path / "link.pcap"]):
        found = list(Files(given).blocks())
        assert {name for name, _ in found} == {"one.pcap"} and sum(len(packets) for _, packets in found) == whole


def test_what_came_before_a_problem_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [capture(tmp_path / f"{name}.pcap", "ask", seed=1, n_flows=2) for name in "ab"]
    found = packet_sources.each_capture(given)

    def one_then_none(*settings: object) -> Iterator[tuple[str, Path, Capture]]:
        yield next(found)
        raise DataError("b.pcap: it is gone")

    monkeypatch.setattr(packet_sources, "each_capture", one_then_none)
    files = Files(given)
    assert sum(len(packets) for _, packets in files.blocks()) > 0 and str(files.problem) == "b.pcap: it is gone"


def test_a_capture_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    one = capture(tmp_path / "one.pcap", "ask", seed=1, n_flows=2)
    with pytest.raises(DataError, match=r"none\.pcap"):
        Files([one, tmp_path / "none.pcap"])
