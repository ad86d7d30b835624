from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.packets.making_names import client_hello, dtls_hello, in_records

from kvec.read.packets.hellos import MOST_BYTES, MOST_PIECES, Found, TlsHello, host_name, sni_of, tls_hello

HELLO = client_hello("www.example.org")
MUTATIONS = st.lists(st.tuples(st.integers(0, len(HELLO) - 1), st.integers(0, 255)), max_size=12)


def mutated(data: bytes, changes: list[tuple[int, int]], end: int) -> bytes:
    changed = bytearray(data)
    for at, byte in changes:
        changed[at % len(changed)] = byte
    return bytes(changed[:end])


def test_a_real_hello_gives_its_name() -> None:
    assert sni_of(HELLO) == "www.example.org"
    assert tls_hello(HELLO) == (Found.NAME, "www.example.org")


def test_a_hello_without_a_name_says_so() -> None:
    assert tls_hello(client_hello(None)) == (Found.NO_NAME, None)


@pytest.mark.parametrize("size", [1, 7, 100, 16_000])
def test_a_hello_in_many_records(size: int) -> None:
    assert sni_of(in_records(HELLO[5:], size)) == "www.example.org"


def test_a_hello_over_dtls() -> None:
    assert sni_of(dtls_hello(HELLO[5:])) == "www.example.org"


def test_every_beginning_of_a_hello_asks_for_more_until_the_name_is_there() -> None:
    found = [tls_hello(HELLO[:end]) for end in range(len(HELLO) + 1)]
    named = [result == (Found.NAME, "www.example.org") for result in found]
    first = named.index(True)
    assert all(result == (Found.MORE, None) for result in found[:first]) and all(named[first:])
    assert first < len(HELLO)


@pytest.mark.parametrize("other", [b"GET / HTTP", b"\x16\x03\x03\0\x04\x02\0\0\0", b"\x17\x03\x03\0\x02ab", b""])
def test_other_bytes_have_no_name(other: bytes) -> None:
    assert sni_of(other) is None
    assert tls_hello(other)[0] is (Found.NOTHING if other else Found.MORE)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"Example.ORG", "example.org"), (b"example.org.", "example.org"), (b"_x.a-b.c", "_x.a-b.c"),
        (b"192.0.2.1", None), (b"", None), (b"a..b", None), (b"caf\xc3\xa9.org", None), (b"a b", None),
        (b"x" * 64 + b".org", None), (b"a." * 128, None), (b"a." * 126 + b"a", "a." * 126 + "a"), (b"a\n", None),
    ],
)  # fmt: skip
def test_host_names(raw: bytes, name: str | None) -> None:
    assert host_name(raw) == name


@pytest.mark.parametrize("seed", range(5))
def test_segments_in_any_order_repeated_and_around_the_end_of_the_numbers(seed: int) -> None:
    dice = random.Random(seed)
    start = (1 << 32) - 100
    cuts = sorted(dice.sample(range(1, len(HELLO)), 4))
    pieces = list(zip([0, *cuts], [*cuts, len(HELLO)], strict=True))
    pieces += [(0, cuts[1])]  # sent again, and longer
    dice.shuffle(pieces)
    hello = TlsHello()
    for begin, end in pieces:
        hello.feed((start + begin) % (1 << 32), HELLO[begin:end])
    assert (hello.name, hello.is_done) == ("www.example.org", True)


def test_a_hello_after_other_bytes_of_the_flow() -> None:
    hello = TlsHello()
    hello.feed(1, b"STARTTLS\r\n")
    hello.feed(11, HELLO[:200])
    hello.feed(211, HELLO[200:])
    assert hello.name == "www.example.org"


def test_a_missing_segment_leaves_it_open_in_bounded_memory() -> None:
    hello = TlsHello()
    hello.feed(0, HELLO[:20])
    assert hello.found is Found.MORE and not hello.is_done
    for i in range(1000):
        hello.feed(5000 + 1400 * i, b"x" * 1400)
    assert hello.is_done and hello.name is None
    assert len(hello._pieces) <= MOST_PIECES and sum(map(len, hello._pieces.values())) <= MOST_BYTES + 1400


@given(st.binary(max_size=400), MUTATIONS, st.integers(0, len(HELLO)))
def test_nothing_raises(noise: bytes, changes: list[tuple[int, int]], end: int) -> None:
    for data in (noise, b"\x16\x03\x01" + noise, b"\x16\xfe\xfd" + noise, mutated(HELLO, changes, end)):
        name = sni_of(data)
        assert name is None or host_name(name.encode()) == name
        hello = TlsHello()
        hello.feed(len(noise), data)
    assert sni_of(dtls_hello(HELLO[5:])[: end + 12]) in (None, "www.example.org")
