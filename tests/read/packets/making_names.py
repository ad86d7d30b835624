"""Bytes that name servers: real ClientHellos, protected QUIC packets, DNS answers."""

from __future__ import annotations

import ssl
import struct
from ipaddress import ip_address
from itertools import pairwise

from tests.read.packets.making_packets import Frame

from kvec.read.packets.quic import _client_keys, _Keys


def client_hello(name: str | None) -> bytes:
    """The first bytes that Python's own TLS sends to a server of this name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        connection.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def in_records(handshake: bytes, size: int) -> bytes:
    """A handshake message cut into records of at most `size` bytes."""
    pieces = [handshake[i : i + size] for i in range(0, len(handshake), size)]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def dtls_hello(handshake: bytes) -> bytes:
    """The same message as DTLS would send it, with an empty cookie."""
    body = handshake[4:]
    after_session = 34 + 1 + body[34]
    body = body[:after_session] + b"\0" + body[after_session:]
    size = len(body).to_bytes(3, "big")
    message = b"\x01" + size + b"\0\0" + b"\0\0\0" + size + body
    return b"\x16\xfe\xfd" + bytes(8) + len(message).to_bytes(2, "big") + message


def crypto_frame(offset: int, data: bytes) -> bytes:
    return b"\x06" + struct.pack(">HH", 0x4000 | offset, 0x4000 | len(data)) + data


def quic_initial(
    frames: bytes, connection: bytes, version: int = 1, number: int = 0, keys: _Keys | None = None, size: int = 1162
) -> bytes:
    """A client's Initial packet around some frames, padded and protected (RFC 9001, section 5)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    keys = keys or _client_keys(connection, version)
    frames = frames.ljust(size, b"\0")
    first = (0xD0 if version == 0x6B3343CF else 0xC0) | 3  # four bytes of packet number
    header = bytes([first]) + version.to_bytes(4, "big") + bytes([len(connection)]) + connection + b"\0\0"
    header += struct.pack(">H", 0x4000 | (4 + len(frames) + 16))
    plain = header + number.to_bytes(4, "big")
    nonce = bytes(a ^ b for a, b in zip(keys.iv, number.to_bytes(12, "big"), strict=True))
    sealed = AESGCM(keys.key).encrypt(nonce, frames, plain)
    mask = Cipher(algorithms.AES(keys.mask), modes.ECB()).encryptor().update(sealed[:16])
    hidden = bytes(a ^ b for a, b in zip(plain[-4:], mask[1:5], strict=True))
    return bytes([first ^ mask[0] & 0x0F]) + header[1:] + hidden + sealed


def dns_name(name: str) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def dns_answer(asked: str, *addresses: str, aliases: tuple[str, ...] = ()) -> bytes:
    """An answer to a question for A or AAAA records, by way of aliases."""
    names = (asked, *aliases)
    records = [
        dns_name(owner) + struct.pack(">HHIH", 5, 1, 60, len(dns_name(alias))) + dns_name(alias)
        for owner, alias in pairwise(names)
    ]
    for address in addresses:
        packed = ip_address(address).packed
        kind = 1 if len(packed) == 4 else 28
        owner = dns_name(names[-1]) if aliases else b"\xc0\x0c"  # a pointer to the question
        records.append(owner + struct.pack(">HHIH", kind, 1, 60, len(packed)) + packed)
    head = struct.pack(">HHHHHH", 7, 0x8180, 1, len(records), 0, 0)
    return head + dns_name(asked) + struct.pack(">HH", 1, 1) + b"".join(records)


def sent(
    client: tuple[str, int],
    server: tuple[str, int],
    payload: bytes,
    time: float,
    sequence: int | None = None,
    flags: int = 24,
) -> Frame:
    """A packet in Ethernet and IPv4 or IPv6: TCP where it has a sequence number, else UDP."""
    source, target = (ip_address(host).packed for host, _ in (client, server))
    ports = struct.pack(">HH", client[1], server[1])
    if sequence is None:
        protocol, body = 17, ports + struct.pack(">HH", 8 + len(payload), 0) + payload
    else:
        protocol, body = 6, ports + struct.pack(">IIBBHHH", sequence, 1, 0x50, flags, 8192, 0, 0) + payload
    if len(source) == 4:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0)
        kind = b"\x08\0"
    else:
        head, kind = struct.pack(">IHBB", 6 << 28, len(body), protocol, 64), b"\x86\xdd"
    return Frame(bytes(12) + kind + head + source + target + body, time=round(time * 10**9))


def tls_flow(client: tuple[str, int], server: tuple[str, int], name: str | None, time: float) -> list[Frame]:
    """A connection whose hello comes in two segments, and some answers."""
    hello = client_hello(name)
    return [
        sent(client, server, b"", time, 100, flags=2),
        sent(server, client, b"", time + 0.01, 500, flags=18),
        sent(client, server, hello[:80], time + 0.02, 101),
        sent(client, server, hello[80:], time + 0.03, 181),
        sent(server, client, b"\x16\x03\x03\0\x04\x02\0\0\0", time + 0.04, 501),
        sent(server, client, b"\x17\x03\x03\0\x08" + bytes(8), time + 0.05, 510),
    ]
