"""The names that a DNS answer gives to addresses, from bytes that may be anything."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_ntop

from kvec.read.packets.hellos import host_name

MOST_RECORDS = 256  # of one message that are read
MOST_ALIASES = 16  # CNAMEs that are followed
MOST_JUMPS = 32  # compression pointers in one name
A, CNAME, AAAA = 1, 5, 28


def dns_answers(payload: bytes, over_tcp: bool = False) -> list[tuple[str, str]]:
    r"""(name, address) for each A and AAAA record of an answer: the name that was asked for, not its aliases.

    >>> question = b"\x07example\x03org\0" + b"\0\x01\0\x01"
    >>> answer = b"\xc0\x0c" + b"\0\x01\0\x01" + b"\0\0\0\x3c" + b"\0\x04" + bytes([192, 0, 2, 1])
    >>> dns_answers(b"\0\x07\x81\x80\0\x01\0\x01\0\0\0\0" + question + answer)
    [('example.org', '192.0.2.1')]
    """
    if not over_tcp:
        return _answers(payload)
    found: list[tuple[str, str]] = []
    at = 0
    while at + 2 < len(payload):  # messages with their length before them
        begin, at = at + 2, at + 2 + int.from_bytes(payload[at : at + 2], "big")
        found += _answers(payload[begin:at])
    return found


def _answers(message: bytes) -> list[tuple[str, str]]:
    if len(message) < 12 or not message[2] & 0x80 or message[2] & 0x78:  # an answer to a plain question
        return []
    questions, answers = int.from_bytes(message[4:6], "big"), int.from_bytes(message[6:8], "big")
    at = 12
    for _ in range(min(questions, MOST_RECORDS)):
        _, at = _name(message, at)
        at += 4
    aliases: dict[bytes, bytes] = {}
    addresses: list[tuple[bytes, str]] = []
    for _ in range(min(answers, MOST_RECORDS)):
        owner, at = _name(message, at)
        kind, size = int.from_bytes(message[at : at + 2], "big"), int.from_bytes(message[at + 8 : at + 10], "big")
        data, at = at + 10, at + 10 + size
        if at > len(message):
            break
        if kind == CNAME:
            aliases.setdefault(_name(message, data)[0], owner)
        elif kind == A and size == 4:
            addresses.append((owner, inet_ntop(AF_INET, message[data:at])))
        elif kind == AAAA and size == 16:
            addresses.append((owner, inet_ntop(AF_INET6, message[data:at])))
    asked = ((_first_asked(owner, aliases), address) for owner, address in addresses)
    return [(name, address) for owner, address in asked if (name := host_name(owner))]


def _first_asked(owner: bytes, aliases: dict[bytes, bytes]) -> bytes:
    for _ in range(MOST_ALIASES):
        if owner not in aliases:
            break
        owner = aliases[owner]
    return owner


def _name(message: bytes, at: int) -> tuple[bytes, int]:
    """A name in lower case, and where what follows it begins; beyond the message when it is broken."""
    parts: list[bytes] = []
    beyond, after, jumps, length = len(message) + 1, 0, 0, 0
    while at < len(message):
        size = message[at]
        if size >= 0xC0:
            after = after or at + 2
            at = (size & 0x3F) << 8 | (message[at + 1] if at + 1 < len(message) else 0xFF)
            jumps += 1
            if jumps > MOST_JUMPS:
                break
        elif size == 0:
            return b".".join(parts).lower(), after or at + 1
        elif size > 63 or (length := length + size + 1) > 255:
            break
        else:
            parts.append(message[at + 1 : at + 1 + size])
            at += 1 + size
    return b"", beyond
