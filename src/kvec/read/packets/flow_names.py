"""What flows are called: their keys and addresses as text, written for a whole block at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.read.packets.compiled import compiled
from kvec.read.packets.headers import PORTS as HAS_PORTS
from kvec.read.packets.headers import TYPE
from kvec.read.packets.layers import (
    ADDRESSES,
    KIND,
    NUMBER,
    OUTER,
    OUTER_VERSION,
    PORTS,
    PROTOCOL,
    TAGS,
    TUNNEL,
    VERSION,
)
from kvec.read.packets.records import u16, u32
from kvec.read.packets.tunnels import KINDS

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

PROTOCOLS = {
    1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 17: "udp", 33: "dccp", 41: "ipv6", 46: "rsvp", 47: "gre", 50: "esp",
    51: "ah", 58: "icmp6", 88: "eigrp", 89: "ospf", 97: "etherip", 103: "pim", 112: "vrrp", 115: "l2tp", 132: "sctp",
    136: "udplite", 137: "mpls",
}  # fmt: skip
BY_NUMBER = [PROTOCOLS.get(number, str(number)) for number in range(256)]
FEW = 1000  # items, for which polars takes longer than Python
LONGEST_KEY, LONGEST_ADDRESS = 320, 48  # bytes
NEW_LINE, SPACE, DASH, COLON, SLASH, HASH, DOT, OPENING, CLOSING = b"\n -:/#.[]"
ZERO, LETTER_A = b"0a"


def _words(texts: list[str]) -> Bytes:
    """Texts as rows of bytes, filled up with zeros."""
    return np.array([text.encode().ljust(8, b"\0") for text in texts], "S8").view(np.uint8).reshape(len(texts), 8)


_PROTOCOL_WORDS, _TUNNEL_WORDS = _words(BY_NUMBER), _words(list(KINDS))
_VLAN = np.frombuffer(b"vlan", np.uint8)


def names_of(endpoints: Bytes, generations: Ints, clients: Ints) -> tuple[list[str], list[str], list[str]]:
    """The keys, clients and servers of flows."""
    n = len(endpoints)
    keys = np.empty(n * LONGEST_KEY, np.uint8)
    ends = np.empty((2, n * LONGEST_ADDRESS), np.uint8)
    sizes = _write(endpoints, generations, clients, keys, ends[0], ends[1], _PROTOCOL_WORDS, _TUNNEL_WORDS, _VLAN)
    texts = (
        column[:size].tobytes().decode("ascii").split("\n")[:-1]
        for column, size in zip((keys, *ends), sizes, strict=True)
    )
    key, client, server = texts
    return key, client, server


def spread(texts: Sequence[str], of: npt.NDArray[np.integer[Any]]) -> pl.Series:
    """The text of each item, from those of its flow or protocol."""
    if len(of) < FEW:
        return pl.Series([texts[i] for i in of.tolist()], dtype=pl.String)
    return pl.Series(texts, dtype=pl.String).gather(of)


@compiled
def _write(
    endpoints: Bytes, generations: Ints, clients: Ints, keys: Bytes, client: Bytes, server: Bytes,
    protocol_words: Bytes, tunnel_words: Bytes, vlan: Bytes,
) -> tuple[int, int, int]:  # fmt: skip
    at = at_client = at_server = 0
    for i in range(len(endpoints)):
        row = endpoints[i]
        version, kind, is_back = row[VERSION], row[KIND], clients[i] == 1
        at_client = _address(client, at_client, row, ADDRESSES[1] if is_back else ADDRESSES[0], version)
        at_server = _address(server, at_server, row, ADDRESSES[0] if is_back else ADDRESSES[1], version)
        client[at_client], server[at_server] = NEW_LINE, NEW_LINE
        at_client += 1
        at_server += 1
        at = _end(keys, at, row, ADDRESSES[0], PORTS[0])
        keys[at] = DASH
        at = _end(keys, at + 1, row, ADDRESSES[1], PORTS[1])
        keys[at] = SLASH
        at = _word(keys, at + 1, protocol_words[row[PROTOCOL]])
        if kind == TYPE:
            keys[at] = SPACE
            at = _number(keys, at + 1, int(np.int64(row[PORTS[0]])))
            keys[at] = SLASH
            at = _number(keys, at + 1, int(np.int64(row[PORTS[0] + 1])))
        for tag_at in TAGS:
            tag = u16(row, tag_at, True)
            if tag:
                keys[at] = SPACE
                at = _word(keys, at + 1, vlan)
                keys[at] = SPACE
                at = _number(keys, at + 1, tag)
        if row[TUNNEL]:
            keys[at] = SPACE
            at = _word(keys, at + 1, tunnel_words[row[TUNNEL]])
            number = u32(row, NUMBER, True)
            if number:
                keys[at] = SPACE
                at = _number(keys, at + 1, number)
            keys[at] = SPACE
            at = _address(keys, at + 1, row, OUTER[0], row[OUTER_VERSION])
            keys[at] = DASH
            at = _address(keys, at + 1, row, OUTER[1], row[OUTER_VERSION])
        if generations[i] > 1:
            keys[at], keys[at + 1] = SPACE, HASH
            at = _number(keys, at + 2, int(generations[i]))
        keys[at] = NEW_LINE
        at += 1
    return at, at_client, at_server


@compiled
def _end(out: Bytes, at: int, row: Bytes, address: int, port: int) -> int:
    if row[KIND] != HAS_PORTS:
        return _address(out, at, row, address, row[VERSION])
    if row[VERSION] == 4:
        at = _address(out, at, row, address, row[VERSION])
    else:
        out[at] = OPENING
        at = _address(out, at + 1, row, address, row[VERSION])
        out[at] = CLOSING
        at += 1
    out[at] = COLON
    return _number(out, at + 1, u16(row, port, True))


@compiled
def _word(out: Bytes, at: int, word: Bytes) -> int:
    for i in range(len(word)):
        if word[i]:
            out[at] = word[i]
            at += 1
    return at


@compiled
def _number(out: Bytes, at: int, number: int) -> int:
    size, left = 1, number // 10
    while left:
        size, left = size + 1, left // 10
    for i in range(size):
        out[at + size - 1 - i] = ZERO + number % 10
        number //= 10
    return at + size


@compiled
def _address(out: Bytes, at: int, row: Bytes, start: int, version: int) -> int:
    if version == 4:
        return _dotted(out, at, row, start)
    best, longest, run = 8, 1, 0  # the longest run of zero groups is left out, the first of them where several are
    for i in range(8):
        run = 0 if u16(row, start + 2 * i, True) else run + 1
        if run > longest:
            best, longest = i - run + 1, run
    is_mapped = best == 0 and (longest == 6 or (longest == 5 and u16(row, start + 10, True) == 0xFFFF))
    i = 0
    while i < (6 if is_mapped else 8):
        if i == best:
            out[at], out[at + 1] = COLON, COLON
            at += 2
            i += longest
            continue
        if i and i != best + longest:
            out[at] = COLON
            at += 1
        at = _hex(out, at, u16(row, start + 2 * i, True))
        i += 1
    if not is_mapped:
        return at
    if longest == 5:
        out[at] = COLON
        at += 1
    return _dotted(out, at, row, start + 12)


@compiled
def _dotted(out: Bytes, at: int, row: Bytes, start: int) -> int:
    for i in range(4):
        if i:
            out[at] = DOT
            at += 1
        at = _number(out, at, int(np.int64(row[start + i])))
    return at


@compiled
def _hex(out: Bytes, at: int, number: int) -> int:
    is_begun = False
    for shift in (12, 8, 4, 0):
        digit = (number >> shift) & 15
        if digit or is_begun or shift == 0:
            out[at] = ZERO + digit if digit < 10 else LETTER_A + digit - 10
            at += 1
            is_begun = True
    return at
