"""From rows to a stream: items as the schema makes them, and what cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvec.decide.deployed import Deployed
from kvec.decide.stream import Stream
from kvec.doors.service.bodies import Row
from kvec.read.arriving import RowReader
from kvec.words.errors import DataError
from kvec.words.items import Decision, Item

WARM = 64  # items of a block that is large enough for every way through the network

Numbered = tuple[int, Item]


def items_of(rows: Sequence[Row], reader: RowReader, most_text: int) -> tuple[list[Numbered], list[dict[str, Any]]]:
    """The items of rows with the numbers of these, and the rows that cannot be used."""
    items: list[Numbered] = []
    refused: list[dict[str, Any]] = []
    names = reader.names
    for number, cells, problem in rows:
        try:
            if cells is None:
                raise DataError(problem)
            for name in names:
                _require_short(cells.get(name), most_text)
            item = reader.item(cells)
            if item is None:  # an outcome cuts it away: it is taken, and is no item
                continue
            for text in (item.tangle, item.key, *item.value.values()):
                _require_short(text, most_text)
        except DataError as wrong:
            refused.append({"row": number, "detail": str(wrong)})
            continue
        items.append((number, item))
    return items, refused


def _require_short(cell: Any, most_text: int) -> None:
    if cell.__class__ is str and len(cell) > most_text:
        raise DataError(f"has a name or a text of more than {most_text:,} characters")


def feed_all(stream: Stream, items: Sequence[Numbered], wall: float) -> tuple[list[Decision], dict[int, str]]:
    """Feed items at once; where the stream refuses one, the others all the same. Why, by the number of the row."""
    try:
        return stream.feed_many([item for _, item in items], wall), {}
    except DataError:  # none of them was taken
        pass
    decisions: list[Decision] = []
    unfit: dict[int, str] = {}
    for number, item in items:
        try:
            decisions += stream.feed(item, wall)
        except DataError as wrong:
            unfit[number] = str(wrong)
    return decisions, unfit


def warm(model: Deployed) -> None:
    """Let what is compiled when it is first used be compiled before anybody waits for it."""
    stream = Stream(model)
    for n in (1, 1, WARM):
        stream.feed_many([Item(0, i % 2, {}, float(i)) for i in range(n)])
