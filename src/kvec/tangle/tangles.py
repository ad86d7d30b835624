"""Tangles as arrays: everything about the items that the network and the visibility rules need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.tangle.sessions import Sequences, find_sequences, find_sessions
from kvec.tangle.vocabulary import MISSING, Vocabulary
from kvec.words.config import Encoder
from kvec.words.errors import DataError
from kvec.words.items import Reason
from kvec.words.schema import Schema
from kvec.words.sizes import Vocabularies

GAP_STEPS = 48  # log2 steps of a gap from a microsecond up; one more code stands for 'no item before'


@dataclass(frozen=True)
class Tangles:
    """N items of G tangles in order of arrival, tangle by tangle, and their S sequences."""

    starts: npt.NDArray[np.int64]  # (G + 1,) tangle g holds the items starts[g]:starts[g + 1]
    sequences: Sequences
    session: npt.NDArray[np.int32]  # (N,)
    alike: npt.NDArray[np.int32]  # (N,) equal where all session fields are; -1 where there are none
    match: npt.NDArray[np.int32]  # (N,) equal where value correlation matches; -1 matches nothing
    codes: npt.NDArray[np.int32]  # (N, embedded fields)
    numbers: npt.NDArray[np.float32]  # (N, 2 × projected fields)
    gaps: npt.NDArray[np.int8] | None  # (N, 2) log-scaled gaps to the item before in the sequence, in the tangle
    time: npt.NDArray[np.float64] | None  # (N,)
    labels: npt.NDArray[np.int32]  # (S, label columns); -1 unknown
    tangle_of: npt.NDArray[np.int32]  # (S,) the tangle of each sequence
    given: npt.NDArray[np.int32]  # (G,) which of the given tangles each is: one that was idle for too long starts anew
    reason: npt.NDArray[np.str_]  # (S,) why a sequence that never halts is decided
    frame: pl.DataFrame  # (N rows) what was given, arranged: names of tangles and keys, values as text

    @property
    def n_tangles(self) -> int:
        """G."""
        return len(self.starts) - 1

    @property
    def n_items(self) -> int:
        """N."""
        return int(self.starts[-1])

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.tangle_of)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(G,) items of each tangle."""
        return np.diff(self.starts)

    @cached_property
    def sequence_starts(self) -> npt.NDArray[np.int64]:
        """(G + 1,) tangle g holds the sequences sequence_starts[g]:sequence_starts[g + 1]."""
        return np.searchsorted(self.tangle_of, np.arange(self.n_tangles + 1))

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """(S + 1,) where each sequence starts when items are laid out sequence by sequence."""
        return np.concatenate([[0], np.cumsum(self.sequences.length, dtype=np.int64)])

    @cached_property
    def previous(self) -> npt.NDArray[np.int64]:
        """(N,) the item before in the same sequence; -1 for the first."""
        return _previous(self.sequences.by_sequence, self.sequences.sequence)

    @cached_property
    def previous_match(self) -> npt.NDArray[np.int64]:
        """(N,) the newest earlier item of the same tangle that matches; -1 where there is none."""
        found = _previous(np.argsort(self.match, kind="stable"), self.match)
        return np.where(self.match >= 0, found, -1)

    def names(self) -> pl.DataFrame:
        """The tangle and key of every sequence by name, S rows."""
        return self.frame.select("tangle", "key")[self.sequences.first]


@dataclass(frozen=True)
class Found:
    """Where the tangles and sequences of an arranged frame are."""

    starts: npt.NDArray[np.int64]  # (G + 1,) of tangles, as they are run
    given: npt.NDArray[np.int64]  # (N,) which of the given tangles each item is of
    sequences: Sequences


def find_tangles(frame: pl.DataFrame, schema: Schema) -> Found:
    """The tangles and sequences of an arranged canonical frame; a tangle that was idle for too long starts anew."""
    given = frame["tangle"].rle_id().to_numpy().astype(np.int64)
    time = frame["time"].to_numpy() if "time" in frame.columns else None
    is_end = frame["end"].to_numpy().astype(bool) if "end" in frame.columns else None
    sequences = find_sequences(given, factor(frame["key"]), time, is_end, schema.expiry)
    begins = np.diff(given, prepend=-1) != 0
    if schema.expiry is not None and time is not None:
        begins[1:] |= np.diff(time) > schema.expiry  # nothing of the tangle is live any more: it was released
    return Found(np.append(np.flatnonzero(begins), len(frame)).astype(np.int64), given, sequences)


def encode_tangles(frame: pl.DataFrame, schema: Schema, vocabulary: Vocabulary) -> Tangles:
    """Turn an arranged canonical frame into arrays."""
    found = find_tangles(frame, schema)
    starts, given, sequences = found.starts, found.given, found.sequences
    time = frame["time"].to_numpy() if "time" in frame.columns else None
    is_end = frame["end"].to_numpy().astype(bool) if "end" in frame.columns else None
    tangle = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    codes = vocabulary.codes(frame)
    matchable = {
        field.name: factor(frame[f"value.{field.name}"])
        if field.kind == "categorical"
        else codes[:, vocabulary.first_code(field.name)].astype(np.int64)
        for field in vocabulary.coded
    }
    session_fields = [matchable[name] for name in schema.session]
    session = find_sessions(sequences, session_fields, time, schema.session_gap)
    labels = vocabulary.label_codes(frame[sequences.first])
    if is_end is not None or schema.expiry is not None:
        _refuse_two_labels(frame, sequences, schema)
    return Tangles(
        starts, sequences, session,
        alike=numbered(tangle, session_fields),
        match=_match(tangle, [matchable[name] for name in schema.match_names if name in matchable]),
        codes=codes,
        numbers=vocabulary.numbers(frame),
        gaps=None if time is None else gaps_of(time, starts, sequences),
        time=time,
        labels=labels,
        tangle_of=tangle[sequences.first].astype(np.int32),
        given=given[starts[:-1]].astype(np.int32),
        reason=_reasons(sequences, given, time, is_end, schema.expiry),
        frame=frame,
    )  # fmt: skip


def embedded_sizes(vocabulary: Vocabulary, settings: Encoder, has_time: bool) -> Vocabularies:
    """The codes of every part of an item's embedding that the settings switch on."""
    mode = settings.time if settings.time != "auto" else ("both" if has_time else "order")
    return Vocabularies(
        fields=tuple(size for field in vocabulary.coded for size in field.sizes),
        slots=settings.slots if settings.use_membership else 0,
        positions=settings.positions if settings.use_position else 0,
        arrivals=settings.time_modulus if settings.use_time and mode in ("order", "both") else 0,
        gaps=GAP_STEPS + 1 if settings.use_time and has_time and mode in ("gaps", "both") else 0,
        projected=2 * len(vocabulary.projected),
    )


def factor(column: pl.Series) -> npt.NDArray[np.int64]:
    """Small numbers for the different values of a column: 0 for missing, then from 1 on."""
    if column.dtype == pl.String:
        numbers = column.cast(pl.Categorical).to_physical()
    else:
        least, most = column.min(), column.max()
        is_dense = isinstance(least, int) and isinstance(most, int) and most - least <= 4 * len(column) + 1024
        numbers = column - least if is_dense else column.rank("dense")
    return (numbers.cast(pl.Int64) + 1).fill_null(MISSING).to_numpy()


def _refuse_two_labels(frame: pl.DataFrame, sequences: Sequences, schema: Schema) -> None:
    """Where keys return as new sequences, each sequence must keep the label of its first item."""
    for name in schema.label_names:
        if (column := f"label.{name}") in frame.columns:
            given = frame[column]
            wrong = (given != given.gather(sequences.first).gather(sequences.sequence)).fill_null(False)
            if wrong.any():
                row = frame.row(int(wrong.arg_true()[0]), named=True)
                raise DataError(
                    f"row {row.get('row')}, column {name!r}: the label becomes {row[column]!r} inside a sequence of "
                    f"key {row['key']}; a sequence has one label, from its first item to its end"
                )


def _match(tangle: npt.NDArray[np.int64], fields: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int32]:
    """One number for each different (tangle, match fields); -1 where a field is missing or there is none."""
    numbers = numbered(tangle, fields)
    for field in fields:
        numbers[field == MISSING] = -1
    return numbers


def numbered(tangle: npt.NDArray[np.int64], fields: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int32]:
    """One number for each different (tangle, fields); -1 where there are no fields."""
    if not fields:
        return np.full(len(tangle), -1, np.int32)
    combined = tangle
    for field in fields:
        radix = int(field.max(initial=0)) + 1
        if int(combined.max(initial=0)) > (2**62) // radix:
            combined = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        combined = combined * radix + field
    if int(combined.max(initial=0)) >= 2**31:
        combined = np.unique(combined, return_inverse=True)[1]
    return combined.astype(np.int32)


def gaps_of(time: npt.NDArray[np.float64], starts: npt.NDArray[np.int64], sequences: Sequences) -> npt.NDArray[np.int8]:
    """(N, 2) steps of time since the item before: in the own sequence, and in the tangle."""
    in_tangle = np.diff(time, prepend=time[:1])
    ordered = time[sequences.by_sequence]
    in_sequence = np.empty_like(in_tangle)
    in_sequence[sequences.by_sequence] = np.diff(ordered, prepend=ordered[:1])
    codes = np.stack([log_gap(in_sequence), log_gap(in_tangle)], axis=1)
    codes[sequences.position == 0, 0] = GAP_STEPS
    codes[starts[:-1], 1] = GAP_STEPS
    return codes


def log_gap(seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    """The log2 step of a gap, from 0 (a microsecond or less) to GAP_STEPS - 1.

    >>> log_gap(np.array([0.0, 1e-6, 1.0, 3600.0])).tolist()
    [0, 0, 19, 31]
    """
    exponent = np.frexp(np.maximum(seconds, 1e-6) * 1e6)[1] - 1  # exactly the whole part of log2
    steps: npt.NDArray[np.int8] = np.clip(exponent, 0, GAP_STEPS - 1).astype(np.int8)
    return steps


def gap_step(seconds: float | None) -> int:
    """`log_gap` of one gap; None is no item before."""
    if seconds is None:
        return GAP_STEPS
    step = math.frexp(seconds * 1e6)[1] - 1 if seconds > 1e-6 else 0
    return step if 0 <= step < GAP_STEPS else min(max(step, 0), GAP_STEPS - 1)


def _reasons(
    sequences: Sequences, tangle: npt.NDArray[np.int64], time: npt.NDArray[np.float64] | None,
    is_end: npt.NDArray[np.bool_] | None, expiry: float | None,
) -> npt.NDArray[np.str_]:  # fmt: skip
    reason = np.full(len(sequences.last), Reason.CLOSED.value, dtype="<U8")
    if expiry is not None and time is not None:
        newest = np.append(np.flatnonzero(np.diff(tangle)), len(tangle) - 1)  # the last item of each tangle
        final = time[newest[tangle[sequences.last]]]
        reason[final - time[sequences.last] > expiry] = Reason.EXPIRED.value
    if is_end is not None:
        reason[is_end[sequences.last]] = Reason.ENDED.value
    return reason


def _previous(order: npt.NDArray[np.int64], owner: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    previous = np.full(len(order), -1, np.int64)
    same = owner[order[1:]] == owner[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def describe_items(tangles: Tangles, items: Iterable[int]) -> list[str]:
    """The values of items as short text, for people: 1448/0 for a size and a direction."""
    columns = [c for c in tangles.frame.columns if c.startswith("value.")]
    rows = tangles.frame.select(columns)[list(items)].rows()
    return ["/".join("–" if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in row) for row in rows]
