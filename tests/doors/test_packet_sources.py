"""Where packets come from: interfaces without a wire, paces, and captures that were named twice."""

from __future__ import annotations

import subprocess
import sys

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
