"""What each packet library hears of some datagrams on the loopback interface. Run by libraries.py, in a process apart.

`python live.py NAME PORT N` says "ready", listens until N datagrams to PORT were heard or five seconds went by, and
answers with a line of JSON. Each datagram carries the time of its sending; only its first 96 bytes are asked for.
"""

from __future__ import annotations

import json
import select
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

SNAP, PATIENCE = 96, 5.0
AT = 14 + 20 + 8  # where the payload begins behind Ethernet, IPv4 and UDP


class Heard:
    """Counts datagrams, how long they took, and whether their length on the wire was known."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.until = time.monotonic() + PATIENCE
        self.late: list[float] = []
        self.lengths: set[int] = set()

    def take(self, data: bytes, wire: int) -> None:
        """Count one datagram."""
        self.late.append(time.time() - struct.unpack_from("<d", data, AT)[0])
        self.lengths.add(wire)

    @property
    def is_over(self) -> bool:
        """Whether all were heard, or time is up."""
        return len(self.late) >= self.wanted or time.monotonic() > self.until


def ready() -> None:
    sys.__stdout__.write("ready\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def cypcap(port: int, heard: Heard) -> dict[str, Any]:
    import cypcap

    with cypcap.create("lo") as handle:
        handle.set_snaplen(SNAP)
        handle.set_immediate_mode(True)
        handle.set_timeout(10)
        handle.activate()
        handle.setfilter(f"udp dst port {port}")
        handle.setnonblock(True)
        ready()
        while not heard.is_over:
            select.select([handle.get_selectable_fd()], [], [], 0.1)
            handle.dispatch(-1, lambda head, data: heard.take(data, head.len))
        stats = handle.stats()
    return {"descriptor": True, "drops": stats.drop, "non-blocking": True}


def pcapy_ng(port: int, heard: Heard) -> dict[str, Any]:
    import pcapy

    handle = pcapy.create("lo")
    handle.set_snaplen(SNAP)
    handle.set_timeout(10)
    handle.activate()
    handle.setfilter(f"udp dst port {port}")
    handle.setnonblock(1)
    ready()
    while not heard.is_over:
        select.select([handle.getfd()], [], [], 0.1)
        handle.dispatch(-1, lambda head, data: heard.take(data, head.getlen()))
    return {"descriptor": True, "drops": handle.stats()[1], "non-blocking": True}


def pypcap(port: int, heard: Heard) -> dict[str, Any]:
    import pcap

    handle = pcap.pcap("lo", snaplen=SNAP, promisc=False, timeout_ms=10, immediate=True)
    handle.setfilter(f"udp dst port {port}")
    handle.setnonblock(True)
    ready()
    while not heard.is_over:
        select.select([handle.fileno()], [], [], 0.1)
        handle.dispatch(-1, lambda _, data: heard.take(data, len(data)))
    return {"descriptor": True, "drops": handle.stats()[1], "non-blocking": True}


def python_libpcap(port: int, heard: Heard) -> dict[str, Any]:
    from pylibpcap.base import Sniff

    handle = Sniff("lo", filters=f"udp dst port {port}", count=-1, promisc=0, snaplen=SNAP, timeout=10)
    ready()
    for wire, _, data in handle.capture():
        heard.take(data, wire)
        if heard.is_over:
            break
    return {"descriptor": False, "drops": handle.stats().get("capture_cnt") and None, "non-blocking": False}


def scapy(port: int, heard: Heard) -> dict[str, Any]:
    from scapy.all import conf, sniff

    conf.use_pcap = False
    sniff(
        iface="lo", filter=f"udp dst port {port}", store=False, timeout=PATIENCE, started_callback=ready,
        prn=lambda packet: heard.take(bytes(packet), packet.wirelen or len(packet)),
        stop_filter=lambda packet: heard.is_over,
    )  # fmt: skip
    return {"descriptor": True, "drops": None, "non-blocking": True}


def nfstream(port: int, heard: Heard) -> dict[str, Any]:
    """Its hook runs in a process of its own; the flow comes back when it has expired."""
    from nfstream import NFPlugin, NFStreamer

    class Late(NFPlugin):
        """Keeps the delay of each packet with its flow."""

        def on_init(self, packet: Any, flow: Any) -> None:
            flow.udps.late, flow.udps.lengths = [], []
            self.on_update(packet, flow)

        def on_update(self, packet: Any, flow: Any) -> None:
            start = len(packet.ip_packet) - packet.payload_size if packet.payload_size <= len(packet.ip_packet) else 28
            flow.udps.late.append(time.time() - struct.unpack_from("<d", packet.ip_packet, min(start, 28))[0])
            flow.udps.lengths.append(packet.raw_size)

    streamer = NFStreamer(
        source="lo", bpf_filter=f"udp dst port {port}", snapshot_length=SNAP, promiscuous_mode=False, udps=Late(),
        n_dissections=0, n_meters=1, idle_timeout=1, max_nflows=1,
    )  # fmt: skip
    found: Iterator[Any] = iter(streamer)
    ready()  # it cannot say when it listens: libraries.py sends some datagrams before the counted ones
    flow = next(found, None)
    if flow is not None:
        heard.late, heard.lengths = list(flow.udps.late), set(flow.udps.lengths)
    return {"descriptor": False, "drops": None, "non-blocking": False}


def tshark(port: int, heard: Heard) -> dict[str, Any]:
    words = ["tshark", "-i", "lo", "-l", "-n", "-s", str(SNAP), "-p", "-f", f"udp dst port {port}", "-T", "fields"]
    words += ["-e", "udp.payload", "-e", "frame.len", "-c", str(heard.wanted)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stderr:
            if "Capturing" in line:
                break
        time.sleep(0.5)
        ready()
        for line in process.stdout:
            payload, wire = line.split("\t")
            heard.take(bytes(AT) + bytes.fromhex(payload or "00" * 8), int(wire))
            if heard.is_over:
                process.terminate()
                break
    return {"descriptor": True, "drops": None, "non-blocking": True}


def kvec(port: int, heard: Heard) -> dict[str, Any]:
    from kvec.read.packets.listening import Listener

    with Listener("lo", f"udp dst port {port}", snap=SNAP) as listener:
        ready()
        while not heard.is_over:
            packets = listener.packets(0.1)
            for start, size, wire in zip(packets.starts, packets.sizes, packets.wire, strict=True):
                heard.take(packets.data[start : start + size].tobytes(), int(wire))
        drops = listener.counters().dropped
    return {"descriptor": True, "drops": drops, "non-blocking": True}


LISTENERS: dict[str, Callable[[int, Heard], dict[str, Any]]] = {
    "kvec": kvec,
    "nfstream": nfstream,
    "scapy": scapy,
    "pcapy-ng": pcapy_ng,
    "cypcap": cypcap,
    "pypcap": pypcap,
    "python-libpcap": python_libpcap,
    "tshark": tshark,
}


def main() -> None:
    name, port, wanted = sys.argv[1:]
    sys.stdout = sys.stderr
    heard = Heard(int(wanted))
    told = LISTENERS[name](int(port), heard)
    told |= {"heard": len(heard.late), "wire lengths known": bool(heard.lengths) and min(heard.lengths) > SNAP}
    told["median_ms"] = round(1000 * statistics.median(heard.late), 3) if heard.late else None
    sys.__stdout__.write(json.dumps(told) + "\n")  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
