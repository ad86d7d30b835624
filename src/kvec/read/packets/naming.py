"""Names of flows by what their own packets, and the answers to DNS questions before them, say in the clear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.read.packets.dns import dns_answers
from kvec.read.packets.hellos import Found, TlsHello, sni_of
from kvec.read.packets.quic import FAMILIES, SALTS, QuicHello, can_open_quic, is_closed_quic, quic_version
from kvec.words.errors import MissingExtra

MOST_OPEN = 20_000  # hellos that are put together at the same time
MOST_SEGMENTS = 32  # of one direction of a flow that are looked at in one block
MOST_ANSWERS = 2_000_000  # addresses with a name that are remembered
DNS_PORT = 53
NO_HELLO = "no TLS, DTLS or QUIC hello was seen"
NO_PACKAGE = 'QUIC, and the package that opens it is not here (pip install "kvec[packets]")'
OTHER_QUIC = "QUIC of a version that kvec cannot open"
NO_LOOKUP = "no DNS answer with its server's address came before it"


@dataclass(frozen=True)
class Payloads:
    """The payloads of a block of packets, as far as they were captured.

    Columns of `frame`: key, direction, protocol, time, client, client_port, server, server_port, sequence, and where
    the payload stands in `data` (at, size).
    """

    frame: pl.DataFrame
    data: npt.NDArray[np.uint8]

    def bytes_at(self, place: int) -> npt.NDArray[np.uint8]:
        """One byte of each payload; 0 where it is shorter."""
        there = np.flatnonzero(self.frame["size"].to_numpy() > place)
        found = np.zeros(self.frame.height, np.uint8)
        found[there] = self.data[self.frame["at"].to_numpy()[there] + place]
        return found

    def rows(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """One after the other, each with its payload."""
        for row in self.frame.iter_rows(named=True):
            yield row, self.data[row["at"] : row["at"] + row["size"]].tobytes()


@dataclass
class SniNames:
    """The server names in the hellos of flows."""

    names: dict[str, str] = field(default_factory=dict)  # by key of the flow
    reasons: dict[str, str] = field(default_factory=dict)  # why a flow with a hello has none
    _open: dict[tuple[str, int], TlsHello | QuicHello] = field(default_factory=dict)

    def take(self, payloads: Payloads) -> None:
        """Look at the payloads of one block."""
        frame = payloads.frame
        if not frame.height:
            return
        first, second, sixth = (pl.Series(payloads.bytes_at(place)) for place in (0, 1, 5))
        is_tcp, is_udp = frame["protocol"] == "tcp", frame["protocol"] == "udp"
        begins = is_tcp & (first == 0x16) & (second == 3) & ((sixth == 1) | (frame["size"] <= 5))
        keys = {*frame["key"].filter(begins), *(key for key, _ in self._open)}
        if keys:
            segments = is_tcp & (frame["size"] > 0) & frame["key"].is_in(list(keys))
            nth = pl.int_range(pl.len()).over("key", "direction")
            early = payloads.frame.filter(segments).filter(nth < MOST_SEGMENTS)
            for row, payload in Payloads(early, payloads.data).rows():
                self._segment(row, payload)
        is_dtls = is_udp & (first == 0x16) & (second == 0xFE)
        is_long = is_udp & (first >= 0xC0) & (frame["size"] >= 64) & second.is_in(list(FAMILIES))
        for row, payload in Payloads(frame.filter(is_dtls | is_long), payloads.data).rows():
            self._datagram(row, payload)

    def reason_of(self, key: str) -> str:
        """Why a flow has no name."""
        for direction in (0, 1):
            hello = self._open.get((key, direction))
            if hello is not None and hello.found is Found.MORE:
                return str(Found.MORE.value)
        return self.reasons.get(key, NO_HELLO)

    def _segment(self, row: dict[str, Any], payload: bytes) -> None:
        key, side = row["key"], (row["key"], row["direction"])
        if key in self.names or key in self.reasons:
            return
        hello = self._open.get(side) or self._begin(side, TlsHello())
        if isinstance(hello, TlsHello):
            hello.feed(row["sequence"], payload)
            self._book(side, hello)

    def _datagram(self, row: dict[str, Any], payload: bytes) -> None:
        key, side = row["key"], (row["key"], row["direction"])
        if key in self.names:
            return
        if payload[0] == 0x16:
            if name := sni_of(payload):
                self.names[key] = name
            else:
                self.reasons.setdefault(key, str(Found.NO_NAME.value))
            return
        if is_closed_quic(payload):
            self.reasons.setdefault(key, OTHER_QUIC)
        elif quic_version(payload) not in SALTS:
            return
        elif not can_open_quic():
            self.reasons.setdefault(key, NO_PACKAGE)
        else:
            hello = self._open.get(side) or self._begin(side, QuicHello())
            if isinstance(hello, QuicHello):
                hello.feed(payload)
                self._book(side, hello)

    def _begin(self, side: tuple[str, int], hello: TlsHello | QuicHello) -> TlsHello | QuicHello:
        if len(self._open) >= MOST_OPEN:
            del self._open[next(iter(self._open))]  # the oldest
        self._open[side] = hello
        return hello

    def _book(self, side: tuple[str, int], hello: TlsHello | QuicHello) -> None:
        if not hello.is_done:
            return
        del self._open[side]
        if hello.name:
            self.names[side[0]] = hello.name
            self.reasons.pop(side[0], None)
        elif hello.found is not Found.NOTHING:
            self.reasons.setdefault(side[0], str(hello.found.value))


@dataclass
class DnsNames:
    """The names that DNS answers gave to addresses, with who asked and when."""

    answers: list[tuple[str, str, float, str]] = field(default_factory=list)  # asker, address, time, name
    _last: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(self, payloads: Payloads) -> None:
        """Look at the payloads of one block."""
        frame = payloads.frame
        from_server = ((frame["server_port"] == DNS_PORT) & (frame["direction"] == 1)) | (
            (frame["client_port"] == DNS_PORT) & (frame["direction"] == 0)
        )
        for row, payload in Payloads(frame.filter(from_server & (frame["size"] > 12)), payloads.data).rows():
            asker = row["client"] if row["direction"] == 1 else row["server"]
            for name, address in dns_answers(payload, over_tcp=row["protocol"] == "tcp"):
                if self._last.get((asker, address)) != name and len(self.answers) < MOST_ANSWERS:
                    self._last[asker, address] = name
                    self.answers.append((asker, address, row["time"], name))

    def names_of(self, flows: pl.DataFrame) -> pl.Series:
        """The last name that the server's address was given before each flow: to its client, else to anyone."""
        schema = {"client": pl.String, "server": pl.String, "start": pl.Float64, "name": pl.String}
        answers = pl.DataFrame(self.answers, schema=schema, orient="row").sort("start", maintain_order=True)
        asked = flows.select("client", "server", "start").with_row_index("flow").sort("start", maintain_order=True)
        own = asked.join_asof(answers, on="start", by=["client", "server"], check_sortedness=False)
        anyone = asked.join_asof(answers.drop("client"), on="start", by="server", check_sortedness=False)
        return own.with_columns(own["name"].fill_null(anyone["name"])).sort("flow")["name"]


@cache
def _suffixes() -> Any:
    try:
        from publicsuffixlist import PublicSuffixList
    except ImportError:
        raise MissingExtra(
            "labels by domain need the list of public suffixes: "
            'pip install "kvec[packets]", or take whole host names with --level host'
        ) from None
    return PublicSuffixList(only_icann=True)


@lru_cache(1 << 16)
def registrable(host: str) -> str:
    """The domain under which a host's name was registered; the name itself where it is under none.

    >>> registrable("www.bbc.co.uk"), registrable("d1.cloudfront.net"), registrable("printer")
    ('bbc.co.uk', 'cloudfront.net', 'printer')
    """
    return str(_suffixes().privatesuffix(host) or host)
