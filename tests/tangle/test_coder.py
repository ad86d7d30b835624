"""One value at a time gets the codes that whole columns get, and matches where they do."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvec.read.rows import read_table
from kvec.read.table import iterate
from kvec.tangle.coder import MOST_KEPT, Coder, cell_text
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.vocabulary import FIRST_KNOWN, MISSING, UNKNOWN, FieldVocabulary, Vocabulary
from kvec.words.errors import DataError
from kvec.words.schema import Field, Schema

NUMBERS = (0, 7, 40, 1448)
TEXTS = ("", "007", "40", "7.5", "GET", "true", "0.00001", "1e-7", "9007199254740992")
VOCABULARY = Vocabulary(
    fields=(
        FieldVocabulary("plain", "categorical", values=NUMBERS),
        FieldVocabulary("near", "categorical", values=NUMBERS, edges=(1.0, 7.0, 39.5, 40.0)),
        FieldVocabulary("word", "categorical", values=TEXTS),
        FieldVocabulary("empty", "categorical"),
        FieldVocabulary("load", "binned", edges=(0.0, 0.5, 7.0)),
        FieldVocabulary("rate", "projected", mean=0.5, scale=2.0),
    ),
    labels=(("a", "b"),),
    label_names=("label",),
)
FIELDS = {field.name: field.kind for field in VOCABULARY.fields}
SCHEMA = Schema(
    values=tuple(Field(name, kind=kind) for name, kind in FIELDS.items()),
    session=("near", "load"),
    match=("plain", "word", "load", "rate"),
)
COLUMNS: dict[str, list[Any]] = {  # as one column of a table holds them
    "whole": [0, 7, 40, 8, -3, 2**60, None],
    "large": [2**63 + 5, 2**64 - 1, 40, 7, None],
    "whole, with a point": [0.0, -0.0, 7.0, 40.0, 8.0, 2.0**52, None],
    "fractions": [7.0, 7.5, 40.0, 0.1, 0.1 + 0.2, 1e-5, 2.5e-5, 1e-7, -1.5e-9, 1e15 + 0.5, 2.0**53, 1e16, 1e300, None],
    "not finite": [0.5, math.nan, math.inf, -math.inf, 40.0, None],
    "text": ["40", "40.0", "GET", "", "007", "7", "nan", "inf", "1e3", "-0", " 7", "1_0", "true", None],
    "truths": [True, False, None],
}
NUMERIC = ("whole", "large", "whole, with a point", "fractions", "not finite", "truths")
COLUMN = st.sampled_from(sorted(COLUMNS))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """A column of cells for every field, each of one type."""
    n = draw(st.integers(1, 12))
    found = {}
    for name, kind in FIELDS.items():
        which = draw(COLUMN if kind == "categorical" else st.sampled_from(NUMERIC))
        found[name] = draw(st.lists(st.sampled_from(COLUMNS[which]), min_size=n, max_size=n))
    return found


def rows_of(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def same(values: list[Any]) -> list[list[bool]]:
    """Which pairs are equal; None is equal to nothing."""
    return [[a is not None and a == b for b in values] for a in values]


@given(columns=tables(), is_kept=st.booleans())
def test_one_value_at_a_time_is_coded_as_whole_columns_are(columns: dict[str, list[Any]], is_kept: bool) -> None:
    """Codes are kept at hand where no field is projected."""
    vocabulary, schema = VOCABULARY, SCHEMA
    if is_kept:
        vocabulary = replace(vocabulary, fields=vocabulary.coded)
        schema = replace(schema, values=schema.values[:-1], match=schema.match[:-1])
    frame = pl.DataFrame([pl.Series("key", [1] * len(columns["plain"]))] + [
        pl.Series(name, cells, strict=False) for name, cells in columns.items()
    ])  # fmt: skip
    table = read_table(frame, schema)
    tangles = encode_tangles(table.frame, schema, vocabulary)
    numbers = vocabulary.numbers(table.frame)
    coder = Coder(vocabulary, schema)
    as_given = [coder.code(value) for value in rows_of(columns)]
    as_read = [coder.code(item.value) for item in iterate(table)]
    for coded in (as_given, as_read):
        assert [one.codes for one in coded] == tangles.codes.tolist()
        np.testing.assert_array_equal(np.array([one.numbers for one in coded], np.float32), numbers)
        assert same([one.match for one in coded]) == same([m if m >= 0 else None for m in tangles.match.tolist()])
        opens = [a.session != b.session for a, b in pairwise(coded)]
        assert opens == (np.diff(tangles.session) > 0).tolist()
        firsts = [[one.codes[i] for i in (0, 1, 3, 4, 5)] for one in coded]
        assert [one.unknown for one in coded] == [row.count(UNKNOWN) for row in firsts]
        gone = [row.count(MISSING) + (n[1:] == [1]) for row, n in zip(firsts, numbers.tolist(), strict=True)]
        assert [one.missing for one in coded] == gone


class Size(IntEnum):
    SMALL = 40


class Word(StrEnum):
    GET = "GET"


def codes(name: str, cell: Any) -> tuple[int, ...]:
    """The codes of one field, the others being missing."""
    start = VOCABULARY.first_code(name)
    size = next(len(field.sizes) for field in VOCABULARY.coded if field.name == name)
    return tuple(Coder(VOCABULARY, SCHEMA).code({name: cell}).codes[start : start + size])


@pytest.mark.parametrize(
    "alike",
    [
        (40, 40.0, "40", np.int64(40), np.float32(40), np.str_("40"), Decimal("40.0"), Size.SMALL),
        (True, "true", np.bool_(True)),
        ("GET", Word.GET, np.str_("GET")),
        (7.5, "7.5", np.float32(7.5), Decimal("7.50")),
        (0, -0.0, False + 0, np.float64(-0.0)),
        (None, math.nan, -math.inf, np.float32("nan"), Decimal("NaN")),
    ],
)
def test_cells_of_unusual_types_are_the_plain_ones(alike: tuple[Any, ...]) -> None:
    coder = Coder(VOCABULARY, SCHEMA.changed(match=("word",), session=("word",)))
    found = [coder.code({"word": cell}) for cell in (*alike, *alike)]
    assert all(one == found[0] for one in found)
    assert found[0].match == (None if alike[0] is None else (cell_text(alike[0]),))


def test_a_truth_is_no_number_but_counts_as_one() -> None:
    coder = Coder(VOCABULARY, SCHEMA)
    for cell, text in ((1, "1"), (True, "true"), (1.0, "1"), (False, "false"), (0, "0")):
        coded = coder.code({"word": cell, "load": cell, "rate": cell, "plain": 0})
        assert coded.match == ("0", text, FIRST_KNOWN + (2 if cell else 1))
        assert coded.numbers == [(float(cell) - 0.5) / 2, 0.0]


def test_near_numbers_of_a_categorical_field() -> None:
    cells = (7, 39, 40.0, "40", 10**30, -5, "nan", "inf", "GET", "1_0", " 7", None, True)
    wanted = [
        (FIRST_KNOWN + 1, 4), (UNKNOWN, 4), (FIRST_KNOWN + 2, 6), (FIRST_KNOWN + 2, 6), (UNKNOWN, 6), (UNKNOWN, 2),
        (UNKNOWN, MISSING), (UNKNOWN, 6), (UNKNOWN, MISSING), (UNKNOWN, MISSING), (UNKNOWN, MISSING),
        (MISSING, MISSING), (UNKNOWN, MISSING),
    ]  # fmt: skip
    assert [codes("near", cell) for cell in cells] == wanted


def test_numbers_may_come_as_text() -> None:
    assert [codes("load", cell) for cell in ("0.25", " 7 ", "1e3", "nan", -1)] == [(3,), (5,), (5,), (MISSING,), (2,)]
    far = Coder(VOCABULARY, SCHEMA).code({"rate": "-1e9"})
    assert far.numbers == [-1000.0, 0.0]
    assert Coder(VOCABULARY, SCHEMA).code({"rate": "inf"}).numbers == [0.0, 1.0]


@pytest.mark.parametrize("name", ["load", "rate"])
@pytest.mark.parametrize("cell", ["", "many", "1_0", "٣", "0x10", 10**400, "x" * 500])
def test_what_is_no_number_is_refused_where_numbers_are_needed(name: str, cell: Any) -> None:
    with pytest.raises(DataError, match=f"^field '{name}': .{{1,90}} is no number$"):
        Coder(VOCABULARY, SCHEMA).code({name: cell})


@pytest.mark.parametrize("name", ["word", "load", "rate"])
@pytest.mark.parametrize("cell", [[], ["GET"], {}, {"GET": 1}, ("GET",), {1}, b"GET", datetime(2024, 5, 1), object()])
def test_what_is_no_single_value_is_refused(name: str, cell: Any) -> None:
    with pytest.raises(DataError, match=f"^field '{name}': {type(cell).__name__} is no single value; give text or"):
        Coder(VOCABULARY, SCHEMA).code({name: cell})


def test_fields_that_are_not_there_are_missing_and_others_are_ignored() -> None:
    coder = Coder(VOCABULARY, SCHEMA)
    coded = coder.code({"unheard of": ["anything"]})
    assert coded == coder.code(dict.fromkeys(FIELDS))
    assert (coded.codes, coded.numbers, coded.match) == ([0] * 6, [0.0, 1.0], None)
    assert (coded.unknown, coded.missing) == (0, 6)


def test_a_single_missing_match_field_matches_nothing() -> None:
    coder = Coder(VOCABULARY, SCHEMA)
    whole = {"plain": 3, "word": "new", "load": 1.0}
    assert coder.code(whole).match == ("3", "new", 4)  # raw, though never seen
    assert coder.code({**whole, "load": None}).match is None
    assert coder.code({**whole, "load": 6.0}).match == coder.code(whole).match  # the same bin


def test_numbers_alone_match_nothing_and_keep_one_session() -> None:
    vocabulary = Vocabulary((FieldVocabulary("rate", "projected"),), (("a", "b"),), ("label",))
    coded = Coder(vocabulary, Schema(values=(Field("rate", kind="projected"),))).code({"rate": 2})
    assert coded == ([], [2.0, 0.0], (), None, 0, 0, None)


WORDS = Vocabulary((FieldVocabulary("word", "categorical", values=TEXTS),), (("a", "b"),), ("label",))
WORD_SCHEMA = Schema(values=(Field("word", kind="categorical"),))


def test_values_at_hand_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_KEPT >= 1024
    monkeypatch.setattr("kvec.tangle.coder.MOST_KEPT", 4)
    coder = Coder(WORDS, WORD_SCHEMA)
    assert [coder.code({"word": i}).match for i in range(50)] == [(cell_text(i),) for i in range(50)]
    assert coder.code({"word": 49}) is coder.code({"word": 49})
    assert 1 <= len(coder._kept) <= 4


def test_a_truth_is_not_taken_for_the_number_at_hand() -> None:
    coder = Coder(WORDS, WORD_SCHEMA)
    assert [coder.code({"word": given}).match for given in (1, True, 1.0, False, 0)] == [
        ("1",), ("true",), ("1",), ("false",), ("0",),
    ]  # fmt: skip
