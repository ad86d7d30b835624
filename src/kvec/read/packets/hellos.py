"""The server name in the first message of TLS and DTLS, read from bytes that may be cut off or anything at all."""

from __future__ import annotations

import re
from enum import Enum

MOST_BYTES = 1 << 16  # of one hello that are kept
MOST_PIECES = 32  # segments of one hello that are kept
HANDSHAKE, CLIENT_HELLO = 22, 1
SERVER_NAME = 0  # the extension
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,62})?(\.[a-z0-9_]([a-z0-9_-]{0,62})?)*")
_ADDRESS = re.compile(r"[0-9.]+")


class Found(Enum):
    """What bytes say about a server's name."""

    NAME = "a name"
    NO_NAME = "a hello without a server name"
    MORE = "a hello cut off"
    NOTHING = "no hello"


class _CutOff(Exception):
    """The bytes end before the message does."""


class _Reader:
    """Takes bytes from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        if self.at + n > len(self.data):
            raise _CutOff
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        return self.take(self.number(width))


def host_name(raw: bytes) -> str | None:
    """A host name in lower case without its last dot; None for addresses and for what is no name.

    >>> host_name(b"WWW.Example.org.")
    'www.example.org'
    """
    name = raw.decode("latin-1").lower().removesuffix(".")
    return name if _HOST.fullmatch(name) and not _ADDRESS.fullmatch(name) else None


def sni_of(payload: bytes) -> str | None:
    """The server name in a TLS or DTLS ClientHello at the start of one segment's payload."""
    is_dtls = payload[:2] == b"\x16\xfe"
    return (_dtls_hello(payload) if is_dtls else tls_hello(payload))[1]


def tls_hello(data: bytes) -> tuple[Found, str | None]:
    """What a stream of TLS records that begins here says."""
    if (len(data) > 5 and data[5] != CLIENT_HELLO) or data[:2] not in (b"", b"\x16", b"\x16\x03"):
        return Found.NOTHING, None
    records = _Reader(data)
    handshake = bytearray()
    try:
        while True:
            kind, version, size = records.number(1), records.number(2), records.number(2)
            if kind != HANDSHAKE or version >> 8 != 3 or not size:
                break
            held = min(size, len(data) - records.at)
            handshake += records.take(held)
            if held < size or len(handshake) >= MOST_BYTES:
                break
    except _CutOff:
        pass
    return read_hello(bytes(handshake))


def read_hello(handshake: bytes) -> tuple[Found, str | None]:
    """What a handshake message says, from its type on."""
    if handshake[:1] not in (b"", b"\x01"):
        return Found.NOTHING, None
    if len(handshake) < 4:
        return Found.MORE, None
    size = int.from_bytes(handshake[1:4], "big")
    return _body(handshake[4 : 4 + size], is_whole=len(handshake) >= 4 + size)


def _dtls_hello(data: bytes) -> tuple[Found, str | None]:
    """What a DTLS record says; only a hello's first fragment is looked at."""
    if len(data) < 25 or data[13] != CLIENT_HELLO or data[19:22] != b"\0\0\0":
        return Found.NOTHING, None
    size, held = int.from_bytes(data[14:17], "big"), int.from_bytes(data[22:25], "big")
    body = data[25 : 25 + held]
    return _body(body, is_whole=len(body) >= size, has_cookie=True)


def _body(body: bytes, is_whole: bool, has_cookie: bool = False) -> tuple[Found, str | None]:
    hello = _Reader(body)
    try:
        hello.take(2 + 32)  # version, random
        hello.vector(1)  # session
        if has_cookie:
            hello.vector(1)
        hello.vector(2)  # ciphers
        hello.vector(1)  # compression
        hello.take(2)  # length of the extensions: they end where the bytes end
        while True:
            kind, size = hello.number(2), hello.number(2)
            extension = hello.take(size)
            if kind == SERVER_NAME:
                name = _listed_name(extension)
                return (Found.NAME, name) if name else (Found.NO_NAME, None)
    except _CutOff:
        return (Found.NO_NAME if is_whole else Found.MORE), None


def _listed_name(extension: bytes) -> str | None:
    names = _Reader(extension)
    try:
        names.take(2)  # length of the list
        return host_name(names.vector(2)) if names.number(1) == 0 else None
    except _CutOff:
        return None


class TlsHello:
    """One direction of a TCP flow, put together until its ClientHello is read: in bounded memory, in any order."""

    def __init__(self) -> None:
        self.found, self.name = Found.NOTHING, None  # type: Found, str | None
        self._pieces: dict[int, bytes] = {}
        self._start: int | None = None
        self._size = 0

    @property
    def is_done(self) -> bool:
        """Whether more bytes would not change what was found."""
        full = self._size >= MOST_BYTES or len(self._pieces) >= MOST_PIECES
        return full or self.found in (Found.NAME, Found.NO_NAME)

    def feed(self, sequence: int, payload: bytes) -> None:
        """Take the payload of one segment with its sequence number."""
        if self.is_done or not payload:
            return
        if len(payload) > len(self._pieces.get(sequence, b"")):
            self._size += len(payload)
            self._pieces[sequence] = payload
        if self._start is None and payload[:2] == b"\x16\x03" and payload[5:6] in (b"", b"\x01"):
            self._start = sequence
        if self._start is not None:
            self.found, self.name = tls_hello(self._together(self._start))
            if self.found is Found.NOTHING:
                self._start = None

    def _together(self, start: int) -> bytes:
        whole = b""
        for sequence in sorted(self._pieces, key=lambda s: (s - start) & 0xFFFFFFFF):  # numbers wrap around
            piece, gap = self._pieces[sequence], (sequence - start) & 0xFFFFFFFF
            if gap > len(whole):
                break
            whole += piece[len(whole) - gap :]
        return whole
