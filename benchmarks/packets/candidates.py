"""What packet libraries make of a capture, packets and bytes per five-tuple: run by libraries.py in a process apart.

`python candidates.py NAME count` reads paths of captures, one per line, and answers each with a line of JSON.
With `speed` or `deliver` it answers with the seconds that counting, or reading alone, has taken: by the clock, and of
the processor with all processes that took part.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

Counted = dict[Any, list[int]]  # (address, port, address, port, protocol), as the library gives them: packets, bytes
PORTED = {6, 17, 132}
SET_ASIDE: dict[str, int] = {}  # packets of the last capture that kvec makes no items of, by reason


def add(counted: Counted, key: Any, size: int) -> None:
    found = counted.get(key)
    if found is None:
        counted[key] = [1, size]
    else:
        found[0] += 1
        found[1] += size


# --- dissectors in Python -----------------------------------------------------------------------------------------


def by_dpkt() -> Callable[[int, bytes], Any]:
    """The innermost five-tuple of a packet, as dpkt sees it."""
    import dpkt

    heads = {
        0: dpkt.loopback.Loopback, 1: dpkt.ethernet.Ethernet, 9: dpkt.ppp.PPP, 101: dpkt.ip.IP, 12: dpkt.ip.IP,
        14: dpkt.ip.IP, 108: dpkt.loopback.Loopback, 113: dpkt.sll.SLL, 228: dpkt.ip.IP, 229: dpkt.ip6.IP6,
        276: dpkt.sll2.SLL2, 127: dpkt.radiotap.Radiotap, 105: dpkt.ieee80211.IEEE80211,
    }  # fmt: skip
    kinds = (dpkt.ip.IP, dpkt.ip6.IP6)
    ported = (dpkt.tcp.TCP, dpkt.udp.UDP, dpkt.sctp.SCTP)

    def dissect(link: int, data: bytes) -> Any:
        layer, found, head = None, None, heads[link]
        if head is dpkt.ip.IP and data and data[0] >> 4 == 6:
            head = dpkt.ip6.IP6
        layer = head(data)
        while isinstance(layer, dpkt.Packet):
            if isinstance(layer, kinds):
                found = (layer.src, 0, layer.dst, 0, layer.p)
            elif isinstance(layer, ported) and found is not None:
                return (found[0], layer.sport, found[2], layer.dport, found[4])
            elif isinstance(layer, (dpkt.icmp.ICMP, dpkt.icmp6.ICMP6)):
                break
            layer = layer.data
        return found

    return dissect


class Tally:
    """Counts packets by their five-tuple; what cannot be dissected is left out, as a careful user would write it."""

    def __init__(self) -> None:
        self.counted: Counted = {}
        self.raised = 0
        self.dissect = by_dpkt()

    def take(self, link: int, data: bytes, wire: int) -> None:
        """Count one packet."""
        try:
            key = self.dissect(link, data)
        except Exception:
            self.raised += 1
            return
        if key is not None:
            add(self.counted, key, wire)


# --- the candidates: path -> what was counted ---------------------------------------------------------------------


def dpkt(path: str) -> Counted:
    import dpkt

    tally = Tally()
    with open(path, "rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        link = reader.datalink()
        for _, data in reader:
            tally.take(link, data, len(data))  # the length on the wire is not given
    return tally.counted


def scapy(path: str) -> Counted:
    from scapy.layers.all import IP, TCP, UDP, ICMPv6Unknown, IPv6  # noqa: F401
    from scapy.layers.inet import ICMP
    from scapy.layers.inet6 import _ICMPv6
    from scapy.layers.sctp import SCTP
    from scapy.packet import NoPayload
    from scapy.utils import PcapReader

    counted: Counted = {}
    with PcapReader(path) as reader:
        for packet in reader:
            key, layer = None, packet
            while not isinstance(layer, NoPayload):
                if isinstance(layer, IP):
                    key = (layer.src, 0, layer.dst, 0, layer.proto)
                elif isinstance(layer, IPv6):
                    key = (layer.src, 0, layer.dst, 0, layer.nh)
                elif isinstance(layer, (TCP, UDP, SCTP)) and key is not None:
                    protocol = 6 if isinstance(layer, TCP) else 17 if isinstance(layer, UDP) else 132
                    key = (key[0], layer.sport, key[2], layer.dport, protocol)
                elif isinstance(layer, (ICMP, _ICMPv6)):
                    if key is not None:
                        key = (*key[:4], 1 if isinstance(layer, ICMP) else 58)
                    break
                layer = layer.payload
            if key is not None:
                add(counted, key, packet.wirelen or len(packet))
    return counted


def pcapy_ng(path: str) -> Counted:
    import pcapy

    tally, reader = Tally(), pcapy.open_offline(path)
    link = reader.datalink()
    reader.loop(-1, lambda head, data: tally.take(link, data, head.getlen()))
    return tally.counted


def cypcap(path: str) -> Counted:
    import cypcap

    tally = Tally()
    with cypcap.open_offline(path) as reader:
        link = int(reader.datalink())
        for head, data in reader:
            tally.take(link, data, head.len)
    return tally.counted


def pypcap(path: str) -> Counted:
    import pcap

    tally, reader = Tally(), pcap.pcap(path)
    link = reader.datalink()
    for _, data in reader:
        tally.take(link, data, len(data))  # the length on the wire is not given
    return tally.counted


def python_libpcap(path: str) -> Counted:
    from pylibpcap.pcap import rpcap

    tally = Tally()
    for wire, _, data in rpcap(path):
        tally.take(1, data, wire)  # the link type is not given
    return tally.counted


def python_pcapng(path: str) -> Counted:
    from pcapng import FileScanner, blocks

    tally = Tally()
    with open(path, "rb") as file:
        for block in FileScanner(file):
            if isinstance(block, blocks.EnhancedPacket | blocks.SimplePacket):
                tally.take(block.interface.link_type, block.packet_data, block.packet_len)
    return tally.counted


def nfstream(path: str) -> Counted:
    from nfstream import NFPlugin, NFStreamer

    class Items(NFPlugin):
        """What kvec would need of each packet, at the hook that NFStream offers for that."""

        def on_init(self, packet: Any, flow: Any) -> None:
            flow.udps.packets, flow.udps.bytes = 1, packet.raw_size

        def on_update(self, packet: Any, flow: Any) -> None:
            flow.udps.packets += 1
            flow.udps.bytes += packet.raw_size

    counted: Counted = {}
    for flow in NFStreamer(source=path, udps=Items(), n_dissections=0, n_meters=1):
        key = (flow.src_ip, flow.src_port, flow.dst_ip, flow.dst_port, flow.protocol)
        found = counted.setdefault(key, [0, 0])
        found[0] += flow.udps.packets
        found[1] += flow.udps.bytes
    return counted


FIELDS = (
    "frame.protocols frame.len ip.src ip.dst ip.proto ip.id ip.frag_offset ipv6.src ipv6.dst ipv6.nxt"
    " ipv6.fraghdr.ident ipv6.fraghdr.offset ipv6.fraghdr.nxt ipv6.dstopts.nxt ipv6.hopopts.nxt ipv6.routing.nxt"
    " ah.next_header tcp.srcport tcp.dstport udp.srcport udp.dstport sctp.srcport sctp.dstport"
).split()
EXTENDED = ("ipv6.hopopts.nxt", "ipv6.routing.nxt", "ipv6.fraghdr.nxt", "ipv6.dstopts.nxt", "ah.next_header")
NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132}


def layers_of(row: dict[str, list[str]]) -> list[tuple[Any, Any]]:
    """The five-tuple of every IP layer of a packet, outermost first, each with what ties it to its fragments."""
    seen = dict.fromkeys(("ip", "ipv6", "tcp", "udp", "sctp"), 0)
    found: list[Any] = []
    for protocol in row["frame.protocols"][0].split(":"):
        if protocol in ("icmp", "icmpv6"):
            if found:
                found[-1][4] = 1 if protocol == "icmp" else 58
            break  # what follows is quoted, not carried
        if protocol not in seen:
            continue
        at = seen[protocol]
        seen[protocol] += 1
        try:
            if protocol == "ip":
                part = (row["ip.id"][at], int(row["ip.frag_offset"][at]) > 0)
                found.append([row["ip.src"][at], 0, row["ip.dst"][at], 0, int(row["ip.proto"][at]), part])
            elif protocol == "ipv6":
                ends = [name for name in EXTENDED if row[name]]
                last = row["ipv6.nxt"][at] if not ends else row[ends[-1]][-1]
                part = ("", False)
                if row["ipv6.fraghdr.ident"]:
                    part = (row["ipv6.fraghdr.ident"][-1], int(row["ipv6.fraghdr.offset"][-1]) > 0)
                found.append([row["ipv6.src"][at], 0, row["ipv6.dst"][at], 0, int(last), part])
            elif found and found[-1][1] == found[-1][3] == 0:
                found[-1][1] = int(row[f"{protocol}.srcport"][at])
                found[-1][3] = int(row[f"{protocol}.dstport"][at])
                found[-1][4] = NUMBERS[protocol]
        except (IndexError, ValueError):
            break  # cut off
    return [(tuple(layer[:5]), layer[5]) for layer in found]


def both_by_tshark(path: str) -> tuple[Counted, Counted]:
    """Packets by their inner, and by their outer five-tuple; the first fragment gives the others its ports."""
    words = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,"]
    words += ["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"]
    words += [word for name in FIELDS for word in ("-e", name)]
    both: tuple[Counted, Counted] = ({}, {})
    firsts: dict[Any, Any] = {}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            cells = line.rstrip("\n").split("\t")
            row = {name: cell.split(",") if cell else [] for name, cell in zip(FIELDS, cells, strict=True)}
            layers = layers_of(row) if row["frame.protocols"] else []
            if not layers:
                continue
            for counted, (key, (part, is_later)) in zip(both, (layers[-1], layers[0]), strict=True):
                if part and is_later:
                    key = firsts.get((key[0], key[2], key[4], part), key)
                elif part:
                    firsts[key[0], key[2], key[4], part] = key
                add(counted, key, int(row["frame.len"][0]))
        said = process.stderr.read()
    if process.returncode and "cut short" not in said:
        raise ValueError(said.strip().splitlines()[-1])
    return both


def tshark(path: str) -> Counted:
    return both_by_tshark(path)[0]


def kvec(path: str) -> Counted:
    """All that an item needs: direction, gap, flags, payload, ends and a key for each flow, then the count."""
    import numpy as np

    from kvec.read.packets.captures import open_capture
    from kvec.read.packets.flow_names import BY_NUMBER
    from kvec.read.packets.flows import Flows
    from kvec.read.packets.layers import dissect
    from kvec.words.flows import FlowSettings

    counted: Counted = {}
    flows = Flows(FlowSettings())
    for packets in open_capture(path):
        arrived = flows.take(packets, dissect(packets))
        first, which = np.unique(arrived.flow, return_index=True, return_inverse=True)[1:]
        n, size = np.bincount(which), np.bincount(which, arrived.size)
        names = zip(
            arrived.client[first], arrived.client_port[first].tolist(), arrived.server[first],
            arrived.server_port[first].tolist(), map(BY_NUMBER.index, arrived.protocol[first]), strict=True,
        )  # fmt: skip
        for name, some, much in zip(names, n.tolist(), size.tolist(), strict=True):
            found = counted.setdefault(name, [0, 0])
            found[0] += some
            found[1] += int(much)
    SET_ASIDE.clear()
    SET_ASIDE.update(flows.counters)
    return counted


# --- the same bytes brought to Python, without looking into them --------------------------------------------------


def delivered(name: str, path: str) -> int:
    """How many packets a library brings to Python with their time, without any dissecting."""
    n = 0
    if name == "dpkt":
        import dpkt

        with open(path, "rb") as file:
            for _ in dpkt.pcap.UniversalReader(file):
                n += 1
    elif name == "scapy":
        from scapy.utils import RawPcapReader

        with RawPcapReader(path) as reader:
            for _ in reader:
                n += 1
    elif name == "pcapy-ng":
        import pcapy

        kept: list[Any] = []
        pcapy.open_offline(path).loop(-1, lambda head, data: kept.append((head.getts(), head.getlen(), data)))
        n = len(kept)
    elif name == "cypcap":
        import cypcap

        with cypcap.open_offline(path) as reader:
            for head, _ in reader:
                n += head.ts > 0
    elif name == "pypcap":
        import pcap

        for _ in pcap.pcap(path):
            n += 1
    elif name == "python-libpcap":
        from pylibpcap.pcap import rpcap

        for _ in rpcap(path):
            n += 1
    elif name == "python-pcapng":
        from pcapng import FileScanner

        with open(path, "rb") as file:
            for block in FileScanner(file):
                n += hasattr(block, "packet_data")
    elif name == "kvec":
        from kvec.read.packets.captures import open_capture

        n = sum(len(packets.times) for packets in open_capture(path))
    return n


CANDIDATES: dict[str, Callable[[str], Counted]] = {
    "kvec": kvec,
    "nfstream": nfstream,
    "dpkt": dpkt,
    "scapy": scapy,
    "pcapy-ng": pcapy_ng,
    "cypcap": cypcap,
    "pypcap": pypcap,
    "python-libpcap": python_libpcap,
    "python-pcapng": python_pcapng,
    "tshark": tshark,
}


def plain(address: Any) -> bytes:
    return ipaddress.ip_address(address).packed


def canonical(counted: Counted) -> dict[str, list[int]]:
    """The same five-tuples in the same words, whoever gave them."""
    told: dict[str, list[int]] = {}
    for (one, port, other, other_port, protocol), (packets, size) in counted.items():
        if protocol not in PORTED:
            port = other_port = 0
        low, high = sorted([(plain(one), port), (plain(other), other_port)])
        word = f"{low[0].hex()}:{low[1]} {high[0].hex()}:{high[1]} {protocol}"
        found = told.setdefault(word, [0, 0])
        found[0] += packets
        found[1] += size
    return told


def version(name: str) -> str:
    if name == "tshark":
        return subprocess.run(["tshark", "--version"], capture_output=True, text=True).stdout.split()[2].rstrip(".")
    return metadata.version(name)


def answer(word: Any) -> None:
    sys.__stdout__.write(json.dumps(word) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def main() -> None:
    name, what = sys.argv[1:]
    sys.stdout = sys.stderr  # libraries that print must not speak for us
    run = CANDIDATES[name]
    if what == "version":
        return answer(version(name))
    if what == "count":
        for line in sys.stdin:
            try:
                path = line.rstrip("\n")
                found = both_by_tshark(path) if name == "tshark" else [run(path)]
                told = dict(zip(("counted", "outer"), map(canonical, found), strict=False))
                answer(told | {"set_aside": SET_ASIDE})
            except Exception as error:
                answer({"error": f"{type(error).__name__}: {error}"[:120]})
        return None
    for line in sys.stdin:
        path = line.rstrip("\n")
        clock, cpu = time.perf_counter(), sum(os.times()[:4])
        if what == "deliver":
            delivered(name, path)
        else:
            run(path)
        answer({"seconds": time.perf_counter() - clock, "cpu": sum(os.times()[:4]) - cpu})
    return None


if __name__ == "__main__":
    main()
