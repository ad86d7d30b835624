"""Hostile captures for the reader: python benchmarks/packets/fuzz.py [--minutes 10] [--engine atheris|mutate].

`atheris` (pip install atheris) follows the branches of the code, which runs as plain Python for it; `mutate` changes
the seeds at random and feeds them to the compiled code. Both begin with the corpus beside this file, which
`--seeds` makes anew. An input that raises, hangs or takes too much memory is kept in --out, and the script fails.
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import os
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
LONGEST, SECONDS, MEGABYTES = 4096, 10, 1500  # of an input, and what it may cost


def seeds() -> dict[str, bytes]:
    """Small captures of every container, link, tag and tunnel, made here."""
    from tests.read.packets import making_packets as make

    talk = [
        make.ipv4("10.0.0.1", "10.0.0.2", 6, make.tcp(5000, 443, make.SYN, 7)),
        make.ipv4("10.0.0.2", "10.0.0.1", 6, make.tcp(443, 5000, make.SYN | make.ACK, 9, 8)),
        make.ipv4("10.0.0.1", "10.0.0.2", 6, make.tcp(5000, 443, make.FIN | make.ACK, 8, 10, b"hello")),
        make.ipv4("10.0.0.2", "10.0.0.1", 6, make.tcp(443, 5000, make.FIN | make.ACK, 10, 14)),
        make.ipv4("10.0.0.1", "10.0.0.2", 6, make.tcp(5000, 443, make.ACK, 14, 11)),
    ]
    four, whole = talk[0], make.udp(1, 2, bytes(64))
    six = make.ipv6("fe80::1", "fe80::2", 0, make.extension(60, make.extension(17, make.udp(5, 53, b"x"))))
    inside = make.ethernet(0x0800, four)

    def outer(protocol: int, data: bytes) -> bytes:
        return make.ipv4("10.9.9.1", "10.9.9.2", protocol, data)

    packets = {
        "talk": (101, talk),
        "ethernet": (1, [make.ethernet(0x86DD, six), inside, make.ethernet(0x0806, bytes(28))]),
        "tags": (1, [make.ethernet(0x88A8, make.vlan(7, 0x8100, make.vlan(8, 0x0800, four)))]),
        "labels": (1, [make.ethernet(0x8847, make.mpls([17, 18], four))]),
        "pppoe": (1, [make.ethernet(0x8864, make.pppoe(make.ppp(0x21, four, is_framed=False)))]),
        "llc": (1, [make.ethernet(60, make.llc(0x0800, four))]),
        "ppp": (9, [make.ppp(0x21, four), make.ppp(0x57, six, False), make.hdlc(0x0800, four)]),
        "cooked": (113, [make.cooked(0x0800, four)]),
        "cooked2": (276, [make.cooked2(0x86DD, six)]),
        "loopback": (0, [make.loopback(2, four), make.loopback(30, six, ">")]),
        "wifi": (127, [make.radiotap(make.wifi(0x0800, four)), make.radiotap(make.wifi(0x0800, four, False, 3))]),
        "ipip": (101, [outer(4, four), outer(41, six), outer(97, b"\x30\0" + inside)]),
        "gre": (101, [outer(47, make.gre(0x0800, four, 5, True, True)), outer(47, make.gre(0x6558, inside))]),
        "erspan": (101, [outer(47, make.gre(0x88BE, bytes(8) + inside, has_sequence=True))]),
        "vxlan": (101, [outer(17, make.udp(9, 4789, make.vxlan(42, inside)))]),
        "geneve": (101, [outer(17, make.udp(9, 6081, make.geneve(42, 0x0800, four, bytes(8))))]),
        "gtp": (101, [outer(17, make.udp(2152, 2152, make.gtp(1, four, [bytes(2), bytes(6)], True)))]),
        "icmp": (101, [make.ipv4("10.0.0.1", "10.0.0.2", 1, make.icmp(8, 0, 7)), outer(1, make.icmp(3, 1, 0, four))]),
        "others": (
            101,
            [outer(132, make.sctp(1, 2)), outer(50, bytes(8)), outer(51, make.authenticated(6, four[20:]))],
        ),
        "fragments": (
            101,
            [
                make.ipv4("10.0.0.1", "10.0.0.2", 17, whole[:48], identity=3, more=True),
                make.ipv4("10.0.0.1", "10.0.0.2", 17, whole[48:], identity=3, offset=48),
                make.ipv6("::1", "::2", 44, make.fragment6(17, whole[:48], 3, more=True)),
                make.ipv6("::1", "::2", 44, make.fragment6(17, whole[48:], 3, 48)),
            ],
        ),
    }
    frames = {
        name: [make.Frame(p, 10**18 + i * 10**9, link=link) for i, p in enumerate(held)]
        for name, (link, held) in packets.items()
    }
    found = {f"{name}.pcap": make.pcap(held, link=held[0].link) for name, held in frames.items()}
    some = frames["talk"]
    clock = make.option(9, b"\x8a") + make.option(14, b"\x01" + bytes(7))
    blocks = make.section() + make.interface(101, 60, clock) + make.old(some[0], 5) + make.simple(some[1])
    return found | {
        "big.pcap": make.pcap(some, ">", nano=True, link=101),
        "modified.pcap": make.pcap(some, magic=0xA1B2CD34, link=101),
        "all.pcapng": make.pcapng([frame for held in frames.values() for frame in held[:1]]),
        "big.pcapng": make.pcapng(some, ">"),
        "blocks.pcapng": blocks + make.block(5, bytes(12)) + make.block(77, b"what") + make.section(">"),
        "talk.pcap.gz": gzip.compress(make.pcap(some, link=101), mtime=0),
        "talk.pcap.xz": lzma.compress(make.pcap(some, link=101)),
    }


def feeder() -> Callable[[bytes], None]:
    """What is done with an input: everything that the reader offers, and checks of what it gives."""
    from kvec.read.packets import captures
    from kvec.read.packets.captures import open_capture
    from kvec.read.packets.flows import Flows
    from kvec.read.packets.layers import PROBLEMS, dissect
    from kvec.words.errors import DataError
    from kvec.words.flows import FlowSettings

    captures.MOST_PACKETS = 7  # so that a small input makes several blocks

    def feed(data: bytes) -> None:
        for keyed in ("inner", "outer"):
            try:
                capture = open_capture(cast(BinaryIO, io.BytesIO(data)))
            except DataError as refused:
                assert "\n" not in str(refused)
                return
            flows = Flows(FlowSettings(idle=1.0, active=2.5, keyed=keyed, max_flows=3))
            for packets in capture:
                layers = dissect(packets, keyed)
                ends = packets.starts + packets.sizes
                assert (ends <= len(packets.data)).all() and (packets.wire >= packets.sizes).all()
                assert (packets.times >= 0).all() and (layers.problem < len(PROBLEMS)).all()
                assert ((layers.payload_at < ends) & (layers.payload_at >= -1)).all() and (layers.payload >= 0).all()
                items = flows.take(packets, layers)
                assert len(items) <= len(packets) and (items.gap >= 0).all()
                assert items.key.len() == len(items) and items.key.null_count() == 0

    return feed


def with_atheris(given: argparse.Namespace) -> None:
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    import atheris

    with atheris.instrument_imports(include=["kvec.read"]):
        feed = feeder()
    words = [f"-max_total_time={round(given.minutes * 60)}", f"-max_len={LONGEST}", f"-timeout={SECONDS}"]
    words += [
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={given.out}/",
        f"-seed={given.seed}",
        "-print_final_stats=1",
    ]
    found = given.out / "found"  # inputs that reach something new are kept apart from the corpus
    found.mkdir(exist_ok=True)
    atheris.Setup([sys.argv[0], *words, str(found), str(CORPUS)], feed)
    atheris.Fuzz()


def with_mutations(given: argparse.Namespace) -> None:
    feed, chance = feeder(), random.Random(given.seed)
    known = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    for data in known:
        feed(data)
    begin, n, slowest = time.monotonic(), 0, 0.0
    while time.monotonic() - begin < given.minutes * 60:
        data = mutated(chance.choice(known), chance, known)
        started = time.monotonic()
        try:
            feed(data)
        except BaseException:
            (given.out / f"crash-{n}").write_bytes(data)
            raise
        n, slowest = n + 1, max(slowest, time.monotonic() - started)
        if slowest > SECONDS:
            (given.out / f"slow-{n}").write_bytes(data)
            raise SystemExit(f"an input took {slowest:.1f} s")
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{n:,} inputs in {given.minutes:g} minutes, the slowest took {slowest * 1000:.0f} ms, {size} MB at the most")
    if size > MEGABYTES:
        raise SystemExit("too much memory")


def mutated(data: bytes, chance: random.Random, known: list[bytes]) -> bytes:
    """A seed with some bytes changed, left out, repeated, or taken from another."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(out):
            out[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), out[at] ^ 1 << chance.randrange(8)])
        elif kind == 1:
            size = chance.choice([2, 4, 8])
            out[at : at + size] = chance.choice([0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1)]).to_bytes(
                size, "little"
            )
        elif kind == 2:
            del out[at : at + chance.randint(1, 16)]
        elif kind == 3:
            out[at:at] = out[at : at + chance.randint(1, 64)] * chance.randint(1, 20)
        elif kind == 4:
            other = chance.choice(known)
            start = chance.randrange(len(other))
            out[at:at] = other[start : start + chance.randint(1, 200)]
        elif chance.random() < 0.3:
            del out[at:]
    return bytes(out[: 16 * LONGEST])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--engine", choices=("atheris", "mutate"), default="atheris")
    parser.add_argument("--seeds", action="store_true", help="make the corpus anew, and nothing else")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("-o", "--out", type=Path, default=Path("fuzz"), help="for inputs that break something")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("error", RuntimeWarning)  # an overflow in plain Python is a silent one in compiled code
    if given.seeds:
        CORPUS.mkdir(exist_ok=True)
        for name, data in seeds().items():
            (CORPUS / name).write_bytes(data)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    (with_atheris if given.engine == "atheris" else with_mutations)(given)


if __name__ == "__main__":
    main()
