from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.read.packets.making_names import dns_answer, dns_name

from kvec.read.packets.dns import MOST_RECORDS, dns_answers
from kvec.read.packets.hellos import host_name

ANSWER = dns_answer("WWW.Example.org", "192.0.2.1", "2001:db8::1", aliases=("cdn.example.net", "edge.example.com"))


def test_addresses_have_the_name_that_was_asked_for() -> None:
    assert dns_answers(ANSWER) == [("www.example.org", "192.0.2.1"), ("www.example.org", "2001:db8::1")]
    assert dns_answers(dns_answer("a.example", "192.0.2.7")) == [("a.example", "192.0.2.7")], "by a pointer"


def test_messages_over_tcp_have_their_length_before_them() -> None:
    other = dns_answer("a.example", "192.0.2.7")
    stream = b"".join(len(m).to_bytes(2, "big") + m for m in (ANSWER, other))
    assert [name for name, _ in dns_answers(stream, over_tcp=True)] == ["www.example.org"] * 2 + ["a.example"]
    assert len(dns_answers(stream[:-3], over_tcp=True)) == 2, "the second is cut off"


def test_questions_and_other_kinds_of_message_answer_nothing() -> None:
    assert dns_answers(ANSWER[:2] + b"\x01\0" + ANSWER[4:]) == []
    assert dns_answers(ANSWER[:2] + b"\xa8\0" + ANSWER[4:]) == [], "an update"


def test_what_is_cut_off_gives_what_was_whole() -> None:
    assert [dns_answers(ANSWER[:end]) for end in (0, 12, 30)] == [[], [], []]
    assert dns_answers(ANSWER[:-1]) == [("www.example.org", "192.0.2.1")]


@pytest.mark.parametrize("pointer", [b"\xc0\x0c", b"\xc0\x0e\xc0\x0c", b"\x01a\xc0\x0c", b"\xc0"])
def test_names_that_go_in_circles(pointer: bytes) -> None:
    head = struct.pack(">HHHHHH", 7, 0x8180, 1, 1, 0, 0)
    assert dns_answers(head + pointer + bytes(4) + b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x01\x02\x03\x04") == []


def test_aliases_that_go_in_circles() -> None:
    records = [dns_name(a) + struct.pack(">HHIH", 5, 1, 60, 3) + dns_name(b) for a, b in (("a", "b"), ("b", "a"))]
    records.append(dns_name("a") + struct.pack(">HHIH", 1, 1, 60, 4) + bytes([192, 0, 2, 1]))
    found = dns_answers(struct.pack(">HHHHHH", 7, 0x8180, 0, 3, 0, 0) + b"".join(records))
    assert [address for _, address in found] == ["192.0.2.1"]


def test_a_message_of_many_records_is_read_to_a_limit() -> None:
    one = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + bytes(4)
    head = struct.pack(">HHHHHH", 7, 0x8180, 1, 5000, 0, 0) + dns_name("a.example") + bytes(4)
    assert len(dns_answers(head + 5000 * one)) == MOST_RECORDS


@given(st.binary(max_size=200), st.integers(0, len(ANSWER) - 1), st.integers(0, 255), st.booleans())
def test_nothing_raises(noise: bytes, at: int, byte: int, over_tcp: bool) -> None:
    changed = bytearray(ANSWER)
    changed[at] = byte
    for data in (noise, bytes(changed), ANSWER[:12] + noise):
        for name, _ in dns_answers(data, over_tcp):
            assert host_name(name.encode()) == name
