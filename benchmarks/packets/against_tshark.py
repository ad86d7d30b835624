"""Packets and bytes per five-tuple beside tshark's, capture by capture: every difference is listed with its reason.

python benchmarks/packets/against_tshark.py FOLDER [-o RESULTS]

Once by the innermost IP packet of each frame, once by the outermost. tshark's reassembly is switched off, so that it
shows each packet as it lies in the capture. A difference without a known reason makes the script fail.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvec.read.packets.captures import open_capture
from kvec.read.packets.flow_names import BY_NUMBER
from kvec.read.packets.flows import Flows
from kvec.read.packets.layers import PROBLEMS, dissect
from kvec.words.flows import FlowSettings

FIELDS = (
    "frame.number", "frame.len", "frame.protocols", "ip.src", "ip.dst", "ip.proto", "ip.frag_offset",
    "ipv6.src", "ipv6.dst", "ipv6.nxt", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport",
    "sctp.srcport", "sctp.dstport", "_ws.malformed", "ipv6.fraghdr.offset",
)  # fmt: skip
OPTIONS = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
)
PORTED = {"tcp": 6, "udp": 17, "sctp": 132}
OTHERS = {"icmp": 1, "igmp": 2, "gre": 47, "esp": 50, "icmpv6": 58, "ospf": 89, "pim": 103, "vrrp": 112}
QUOTING = ("icmp", "icmpv6")  # what follows is a quotation of another packet

UNOPENED = ("capwap.data", "teredo", "l2tp")  # tunnels that kvec does not look into
REASONS = {
    "after the end": "after the end of their connection (a RST, or both FINs acknowledged): no items",
    "fragment without a first": "fragments whose first is missing: no ports, no items; tshark shows addresses alone",
    "tied to the first fragment": "later fragments: kvec ties them to the first, tshark shows no ports",
    "malformed": "malformed headers (contradictory lengths): no items; tshark shows the ports all the same",
    "headers cut off": "headers cut off before the ports: no items",
}
COLUMNS = ("capture", "five_tuple", "tshark_packets", "tshark_bytes", "kvec_packets", "kvec_bytes", "why")

Tuple = tuple[tuple[str, int], tuple[str, int], int]  # both ends, the lower first, and the protocol


@dataclass(frozen=True)
class Seen:
    """What one reader makes of a frame."""

    ends: Tuple | None
    size: int
    note: str  # tshark: its protocols; kvec: why there is no item


def tuple_of(source: str, target: str, first: int, second: int, protocol: int) -> Tuple:
    low, high = sorted(((source, first), (target, second)))
    return low, high, protocol


def tshark(path: Path, keyed: str) -> list[Seen]:
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=;"]
    for option in OPTIONS:
        command += ["-o", option]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seen = []
    for line in done.stdout.splitlines():
        cells = line.split("\t") + [""] * len(FIELDS)
        each = {name: [c for c in cell.split(";") if c] for name, cell in zip(FIELDS, cells, strict=False)}
        note = ":".join(each["frame.protocols"]) + (" malformed" if each["_ws.malformed"] else "")
        later = any(int(n, 0) for n in each["ip.frag_offset"] + each["ipv6.fraghdr.offset"])
        note += " later-fragment" if later else ""
        seen.append(Seen(_by_protocols(each, keyed), int(each["frame.len"][0]), note))
    return seen


def _by_protocols(each: dict[str, list[str]], keyed: str) -> Tuple | None:
    """Walk the protocols of a frame, and take the fields of each as they come."""
    taken: Counter[str] = Counter()
    found: list[Tuple] = []
    names = each["frame.protocols"][0].split(":") if each["frame.protocols"] else []
    for name in names:
        at = taken[name]
        taken[name] += 1
        if name in ("ip", "ipv6"):
            if at >= len(each[f"{name}.src"]) or at >= len(each[f"{name}.dst"]):
                break  # the header is not whole
            next_ = each["ip.proto" if name == "ip" else "ipv6.nxt"]
            protocol = int(next_[at], 0) if at < len(next_) else -1
            found.append(tuple_of(each[f"{name}.src"][at], each[f"{name}.dst"][at], 0, 0, protocol))
        elif found and name in PORTED and found[-1][0][1] == found[-1][1][1] == 0:
            if at < len(each[f"{name}.srcport"]) and at < len(each[f"{name}.dstport"]):
                # the ends were sorted: ask the packet again which of them sent it
                ip = "ipv6" if ":" in found[-1][0][0] else "ip"
                index = taken[ip] - 1
                ports = int(each[f"{name}.srcport"][at]), int(each[f"{name}.dstport"][at])
                ends = each[f"{ip}.src"][index], each[f"{ip}.dst"][index]
                found[-1] = tuple_of(*ends, *ports, PORTED[name])
        elif found and name in OTHERS:
            found[-1] = (*found[-1][:2], OTHERS[name])
        if name in QUOTING:
            break
    if not found:
        return None
    return found[0] if keyed == "outer" else found[-1]


def ours(path: Path, keyed: str) -> list[Seen]:
    flows = Flows(FlowSettings(keyed=keyed))
    seen: list[Seen] = []
    for packets in open_capture(path):
        layers = dissect(packets, keyed)
        arrived = flows.take(packets, layers).frame()
        by_row = {row["row"]: row for row in arrived.iter_rows(named=True)}
        for i in range(len(packets)):
            size = int(packets.wire[i])
            if layers.problem[i]:
                seen.append(Seen(None, size, PROBLEMS[layers.problem[i]]))
            elif i not in by_row:
                seen.append(Seen(None, size, "fragment without a first" if layers.is_later[i] else "after the end"))
            else:
                row = by_row[i]
                protocol = BY_NUMBER.index(row["protocol"])
                ports = (row["client_port"], row["server_port"]) if protocol in PORTED.values() else (0, 0)
                note = "tied to the first fragment" if layers.is_later[i] else ""
                seen.append(Seen(tuple_of(row["client"], row["server"], *ports, protocol), size, note))
    return seen


def reason_of(theirs: Seen, mine: Seen) -> str:
    """Why a frame counts for different five-tuples; empty where nobody knows."""
    if mine.note in REASONS:
        return REASONS[mine.note]
    if mine.ends and (tunnel := next((name for name in UNOPENED if name in theirs.note.split(":")), "")):
        return f"{tunnel}: kvec stays with the outer packet"
    return ""


def compare(path: Path, keyed: str) -> tuple[dict[str, int], list[dict[str, Any]], Counter[str]]:
    """The sums of a capture, a row for each five-tuple that differs, and the packets that differ by reason."""
    theirs, mine = tshark(path, keyed), ours(path, keyed)
    if len(theirs) != len(mine):
        raise SystemExit(f"{path.name}: tshark finds {len(theirs)} packets, kvec {len(mine)}")
    sums: dict[Tuple, list[int]] = defaultdict(lambda: [0, 0, 0, 0])  # packets and bytes of tshark, and of kvec
    reasons: dict[Tuple, Counter[str]] = defaultdict(Counter)
    why: Counter[str] = Counter()
    for a, b in zip(theirs, mine, strict=True):
        for seen, at in ((a, 0), (b, 2)):
            if seen.ends:
                sums[seen.ends][at] += 1
                sums[seen.ends][at + 1] += seen.size
        if (a.ends, a.size) != (b.ends, b.size):
            reason = reason_of(a, b) or "UNEXPLAINED"
            why[reason] += 1
            for ends in (a.ends, b.ends):
                if ends:
                    reasons[ends][reason] += 1
    rows = []
    for ends, counted in sums.items():
        if counted[:2] != counted[2:] or reasons[ends]:
            (low, first), (high, second), protocol = ends
            told = "; ".join(f"{n} x {reason}" for reason, n in reasons[ends].most_common())
            name = f"{low} {first} {high} {second} {BY_NUMBER[protocol] if protocol >= 0 else '-'}"
            rows.append(dict(zip(COLUMNS, (path.name, name, *counted, told), strict=True)))
    found = {"packets": len(theirs), "five_tuples": len(sums), "different_five_tuples": len(rows)}
    return found, rows, why


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    if not shutil.which("tshark"):
        raise SystemExit("tshark is needed, from the package of that name")
    version = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    text = [f"# Packets and bytes per five-tuple, beside tshark {version}", ""]
    for keyed in ("inner", "outer"):
        rows: list[dict[str, Any]] = []
        sums: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        captures = sorted(path for path in given.folder.iterdir() if path.is_file())
        for path in captures:
            found, different, why = compare(path, keyed)
            reasons += why
            sums.update(found)
            rows += different
        with (given.out / f"against_tshark-{keyed}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        equal = sums["five_tuples"] - sums["different_five_tuples"]
        text += [
            f"## By the {keyed}most IP packet", "",
            f"{len(captures)} captures, {sums['packets']:,} packets, {sums['five_tuples']:,} five-tuples, of which "
            f"{equal:,} have the same packets and bytes. The others are in `against_tshark-{keyed}.csv`:", "",
            "| packets | why they count differently |", "|---:|---|",
            *(f"| {n} | {reason} |" for reason, n in reasons.most_common()), "",
        ]  # fmt: skip
        if "UNEXPLAINED" in reasons:
            print(f"{reasons['UNEXPLAINED']} packets differ for no known reason", file=sys.stderr)
    (given.out / "against_tshark.md").write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))
    if any("UNEXPLAINED" in line for line in text):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
