"""The server name in QUIC's first packets (RFC 9001, 9369), which everyone can open: their key is in the packet."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any

from kvec.read.packets.hellos import MOST_BYTES, MOST_PIECES, Found, read_hello

_V1_SALT = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
_V2, _V2_SALT = 0x6B3343CF, bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9")
_DRAFT_29_SALT = bytes.fromhex("afbfec289993d24c9e9786f19c6111e04390a899")
_DRAFT_23_SALT = bytes.fromhex("c3eef712c72ebb5a11a7d2432bb46365bef9f502")
SALTS = {
    1: _V1_SALT,
    _V2: _V2_SALT,
    **{0xFF000000 + n: _V1_SALT for n in (33, 34)},
    **{0xFF000000 + n: _DRAFT_29_SALT for n in range(29, 33)},
    **{0xFF000000 + n: _DRAFT_23_SALT for n in range(23, 29)},
    **{n: _DRAFT_23_SALT for n in (0xFACEB002, 0xFACEB00E)},  # Facebook's mvfst
}
_RELATIVES = (0xFF000000, 0xFACEB000, 0x51303000, 0x54303000)  # drafts, mvfst, Google's Q0.. and T0..
FAMILIES = {version >> 24 for version in (*SALTS, *_RELATIVES)}  # first bytes of versions
MOST_PACKETS = 8  # in one datagram


def can_open_quic() -> bool:
    """Whether the package that opens QUIC's first packets is there."""
    return _cryptography() is not None


def _cryptography() -> Any:
    try:
        from cryptography.hazmat.primitives import ciphers
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError:
        return None
    return ciphers, aead


@dataclass(frozen=True)
class _Initial:
    """One Initial packet as it came: still protected."""

    version: int
    connection: bytes  # the destination's id
    packet: bytes
    number_at: int


@dataclass(frozen=True)
class _Keys:
    key: bytes
    iv: bytes
    mask: bytes


class QuicHello:
    """One direction of a UDP flow: its Initial packets opened and put together until the ClientHello is read."""

    def __init__(self) -> None:
        self.found, self.name = Found.NOTHING, None  # type: Found, str | None
        self._keys: list[_Keys] = []
        self._pieces: dict[int, bytes] = {}
        self._size = 0

    @property
    def is_done(self) -> bool:
        """Whether more datagrams would not change what was found."""
        full = self._size >= MOST_BYTES or len(self._pieces) >= MOST_PIECES
        return full or self.found in (Found.NAME, Found.NO_NAME)

    def feed(self, datagram: bytes) -> None:
        """Take one datagram."""
        for initial in [] if self.is_done else _initials(datagram):
            frames = self._open(initial)
            for offset, piece in _crypto_frames(frames):
                if len(piece) > len(self._pieces.get(offset, b"")) and not self.is_done:
                    self._size += len(piece)
                    self._pieces[offset] = piece
        if self._pieces:
            whole = b""
            for offset in sorted(self._pieces):
                if offset <= len(whole):
                    whole += self._pieces[offset][len(whole) - offset :]
            self.found, self.name = read_hello(whole)

    def _open(self, initial: _Initial) -> bytes:
        """The frames of a packet; empty when no key fits. A later packet is opened by the first one's key."""
        for keys in self._keys:
            if frames := _unprotect(initial, keys):
                return frames
        keys = _client_keys(initial.connection, initial.version)
        frames = _unprotect(initial, keys)
        if frames and len(self._keys) < 4:
            self._keys.append(keys)
        return frames


def quic_version(datagram: bytes) -> int | None:
    """The version in a long header; None when the datagram has none."""
    if len(datagram) < 7 or datagram[0] & 0xC0 != 0xC0:
        return None
    return int.from_bytes(datagram[1:5], "big")


def is_closed_quic(datagram: bytes) -> bool:
    """Whether it is QUIC of a version that cannot be opened here: an early draft, or one of Google's or Facebook's."""
    version = quic_version(datagram)
    return version is not None and version not in SALTS and version & ~0xFFF in _RELATIVES


def _initials(datagram: bytes) -> list[_Initial]:
    """The Initial packets in a datagram; what is no QUIC of a known version has none."""
    found: list[_Initial] = []
    at = 0
    for _ in range(MOST_PACKETS):
        rest = datagram[at:]
        version = quic_version(rest)
        if version not in SALTS:
            break
        kind = rest[0] >> 4 & 3
        is_initial = kind == (1 if version == _V2 else 0)
        if kind == (0 if version == _V2 else 3):  # a Retry has no length
            break
        size, here = rest[5], 6
        connection, here = rest[here : here + size], here + size
        here += 1 + (rest[here] if here < len(rest) else len(rest))  # the source's id
        if is_initial:
            token, here = _varint(rest, here)
            here += token
        length, here = _varint(rest, here)
        if size > 20 or here + length > len(rest) or length < 20:
            break
        if is_initial:
            found.append(_Initial(version, connection, rest[: here + length], here))
        at += here + length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length and where it ends; one far beyond the data when it is cut off."""
    if at >= len(data):
        return 1 << 62, at
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        return 1 << 62, at
    return int.from_bytes(data[at : at + size], "big") & ((1 << (8 * size - 2)) - 1), at + size


def _client_keys(connection: bytes, version: int) -> _Keys:
    label = b"quicv2" if version == _V2 else b"quic"
    first = hmac.digest(SALTS[version], connection, hashlib.sha256)
    secret = _expand(first, b"client in", 32)
    return _Keys(
        _expand(secret, label + b" key", 16), _expand(secret, label + b" iv", 12), _expand(secret, label + b" hp", 16)
    )


def _expand(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3, for at most one block."""
    named = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(named)]) + named + b"\0"
    return hmac.digest(secret, info + b"\x01", hashlib.sha256)[:size]


def _unprotect(initial: _Initial, keys: _Keys) -> bytes:
    packages = _cryptography()
    if packages is None:
        return b""
    ciphers, aead = packages
    packet, at = initial.packet, initial.number_at
    sample = packet[at + 4 : at + 20]
    mask = ciphers.Cipher(ciphers.algorithms.AES(keys.mask), ciphers.modes.ECB()).encryptor().update(sample)
    first = packet[0] ^ mask[0] & 0x0F
    size = (first & 3) + 1
    number = bytes(a ^ b for a, b in zip(packet[at : at + size], mask[1 : 1 + size], strict=True))
    nonce = bytes(a ^ b for a, b in zip(keys.iv, number.rjust(12, b"\0"), strict=True))
    header = bytes([first]) + packet[1:at] + number
    try:
        return bytes(aead.AESGCM(keys.key).decrypt(nonce, packet[at + size :], header))
    except Exception as error:  # the package's own InvalidTag, or a ValueError for too few bytes
        if type(error).__name__ not in ("InvalidTag", "ValueError"):
            raise
        return b""


def _crypto_frames(frames: bytes) -> list[tuple[int, bytes]]:
    """The CRYPTO frames (offset, bytes) among PADDING, PING and ACK frames; any other frame ends the walk."""
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(frames):
        kind = frames[at]
        at += 1
        if kind in (0x00, 0x01):
            continue
        if kind == 0x06:
            offset, at = _varint(frames, at)
            size, at = _varint(frames, at)
            if offset > MOST_BYTES or at + size > len(frames):
                break
            found.append((offset, frames[at : at + size]))
            at += size
        elif kind in (0x02, 0x03):
            for field in range(4):
                n, at = _varint(frames, at)
                if field == 2:
                    ranges = n
            if ranges > len(frames):
                break
            for _ in range(2 * ranges + (3 if kind == 0x03 else 0)):
                _, at = _varint(frames, at)
        else:
            break
    return found
