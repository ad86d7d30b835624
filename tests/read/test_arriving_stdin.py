"""Rows of the standard input."""

from __future__ import annotations

import json
import os

from kvec.read.arriving_forms import CsvLines, JsonLines
from kvec.read.arriving_sources import Arrived
from kvec.read.arriving_stdin import StandardInput


def numbers(arrived: list[Arrived]) -> list[int]:
    return [json.loads(one.content)["n"] for one in arrived]  # type: ignore[arg-type]


def test_the_standard_input() -> None:
    out, into = os.pipe()
    source = StandardInput(JsonLines(), file=out)
    source.start({"line": 10})
    assert source.read(10, 0.01) == []
    os.write(into, b'{"n": 1}\n{"n": 2}\n{"n"')
    arrived: list[Arrived] = []
    while len(arrived) < 2:
        arrived += source.read(1, 1) or []
    assert numbers(arrived) == [1, 2] and [one.number for one in arrived] == [11, 12]
    source.take(arrived[:1])
    assert source.position() == {"line": 11}
    os.write(into, b": 3}")
    os.close(into)
    last = None
    while (some := source.read(10, 1)) is not None:
        last = some or last
    assert last is not None and numbers(last) == [3]
    os.close(out)


def test_the_header_of_the_standard_input_is_kept() -> None:
    def reader() -> CsvLines:
        return CsvLines(["key"], "", lambda columns: None)

    first = StandardInput(reader())
    assert first.cells(Arrived(1, b"key,x")) is None
    second = StandardInput(reader(), file=os.open(os.devnull, os.O_RDONLY))
    second.start(first.position())
    assert second.cells(Arrived(2, b"a,1")) == {"key": "a"}
