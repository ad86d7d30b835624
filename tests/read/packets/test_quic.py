from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.packets.making_names import client_hello, crypto_frame, quic_initial

from kvec.read.packets import quic
from kvec.read.packets.hellos import Found
from kvec.read.packets.quic import SALTS, QuicHello, _client_keys, _Keys, is_closed_quic, quic_version

pytest.importorskip("cryptography")

CONNECTION = bytes.fromhex("8394c8f03e515708")
# RFC 9001, appendix A.2: the CRYPTO frame, the keys, and where the protected packet begins and ends
FRAME = bytes.fromhex(
    "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c000000010"
    "000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e00050005010000000000330026"
    "0024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e040305030603"
    "0203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901"
    "100f088394c8f03e51570806048000ffff"
)
ANSWERS = {
    1: (
        ("1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2"),
        "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11",
        "e221af44860018ab0856972e194cd934",
    ),
    0x6B3343CF: (  # RFC 9369, appendix A
        ("8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9"),
        "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485",
        "a18b2faa745b6fe189cf772a9f84cbfc",
    ),
}
HELLO = client_hello("video.example.net")[5:]


@pytest.mark.parametrize("version", ANSWERS)
def test_the_known_answers(version: int) -> None:
    keys, begins, ends = ANSWERS[version]
    given = _Keys(*map(bytes.fromhex, keys))
    assert _client_keys(CONNECTION, version) == given
    packet = quic_initial(FRAME, CONNECTION, version, number=2, keys=given)
    assert (len(packet), packet[:32].hex(), packet[-16:].hex()) == (1200, begins, ends)
    hello = QuicHello()
    hello.feed(packet)
    assert (hello.found, hello.name) == (Found.NAME, "example.com")


@pytest.mark.parametrize("version", SALTS)
def test_every_version(version: int) -> None:
    hello = QuicHello()
    hello.feed(quic_initial(crypto_frame(0, HELLO), b"12345678", version))
    assert hello.name == "video.example.net"


def test_a_hello_in_frames_out_of_order_over_two_packets() -> None:
    """As Chrome sends it; the second packet goes to the id that the server chose, under the first one's keys."""
    first = crypto_frame(100, HELLO[100:150]) + b"\x01" + crypto_frame(0, HELLO[:40])
    second = b"\x02\0\0\x01\0\0\0" + crypto_frame(150, HELLO[150:]) + crypto_frame(40, HELLO[40:100])
    hello = QuicHello()
    hello.feed(quic_initial(first, b"12345678"))
    assert hello.found is Found.MORE
    hello.feed(quic_initial(second, b"chosen", number=1, keys=_client_keys(b"12345678", 1)))
    assert hello.name == "video.example.net" and hello.is_done


def test_packets_that_share_a_datagram() -> None:
    hello = QuicHello()
    half = [quic_initial(crypto_frame(i, HELLO[i : i + 200]), b"12345678", size=300) for i in range(0, len(HELLO), 200)]
    hello.feed(b"".join(half))
    assert hello.name == "video.example.net"


def test_what_cannot_be_opened() -> None:
    packet = quic_initial(crypto_frame(0, HELLO), b"12345678")
    for broken in (packet[:-1], packet[:-1] + b"\0", packet[:30], b"\xc0" + b"\xfa\xfa\xfa\xfa" + packet[5:]):
        hello = QuicHello()
        hello.feed(broken)
        assert (hello.found, hello.name) == (Found.NOTHING, None)


def test_versions_are_told_without_opening() -> None:
    assert quic_version(quic_initial(b"", b"12345678")) == 1
    assert quic_version(b"\x40" + bytes(20)) is None
    assert quic_version(b"\xc0\0\0") is None


@pytest.mark.parametrize(
    ("version", "is_closed"), [("ff000016", True), ("51303530", True), ("00000001", False), ("ff818300", False)]
)
def test_versions_that_cannot_be_opened(version: str, is_closed: bool) -> None:
    assert is_closed_quic(b"\xc0" + bytes.fromhex(version) + bytes(20)) is is_closed
    assert not is_closed_quic(b"\x40" + bytes.fromhex(version) + bytes(20))


def test_without_the_package_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    packet = quic_initial(crypto_frame(0, HELLO), b"12345678")
    monkeypatch.setattr(quic, "_cryptography", lambda: None)
    hello = QuicHello()
    hello.feed(packet)
    assert (hello.found, quic.can_open_quic()) == (Found.NOTHING, False)


@given(st.binary(max_size=300), st.integers(0, 1300), st.integers(0, 255), st.sampled_from([1, 0x6B3343CF]))
def test_nothing_raises(noise: bytes, at: int, byte: int, version: int) -> None:
    sealed = bytearray(quic_initial(noise, b"12345678", version))  # frames that are anything
    for data in (bytes(sealed), noise, b"\xc0" + version.to_bytes(4, "big") + noise, bytes(sealed[:at])):
        QuicHello().feed(data)
    sealed[at % len(sealed)] = byte
    QuicHello().feed(bytes(sealed))
