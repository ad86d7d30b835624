"""Training on tangles that do not fit in memory: surveyed once, then read in windows, by each process what it needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.learn.material import Material, counts_of, require_known_classes
from kvec.learn.resuming import fingerprint
from kvec.learn.supply import Portion, count_classes, delay, plan_sizes
from kvec.learn.together import Together
from kvec.tangle.batch import Batch, Ints, ranges
from kvec.tangle.dealing import deal, dealt_tangles, draw_parts
from kvec.tangle.seen import seen_marks
from kvec.tangle.tally import Tally
from kvec.tangle.tangles import Tangles, encode_tangles, find_tangles
from kvec.tangle.tangling import PARTS, Split, arrange, split_units, unit_of
from kvec.tangle.vocabulary import Vocabulary
from kvec.tangle.windows import plan_windows
from kvec.words.config import Training
from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Schema


class Shards(Protocol):
    """Data of which only the places of tangles are known."""

    @property
    def schema(self) -> Schema:
        """Of the items."""
        ...

    @property
    def places(self) -> pl.DataFrame:
        """Of each tangle, and group if there are groups: how many rows, the first and the last of them."""
        ...

    def read(self, wanted: pl.DataFrame) -> pl.DataFrame:
        """The items of some tangles."""
        ...


@dataclass
class Listing:
    """What every process knows of one part of the data: its tangles, and how long each is."""

    units: pl.DataFrame  # tangles (and groups) of the part by name
    names: list[str] = field(default_factory=list)  # of the given tangles, in the order of the files
    pieces: list[int] = field(default_factory=list)  # tangles that each becomes: more than 1 where it was idle
    sizes: list[int] = field(default_factory=list)  # items of each of those
    classes: list[dict[str, int]] = field(default_factory=list)  # of each label column, sequences of each class
    keys: list[int] = field(default_factory=list)  # sequences of each of those
    lengths: list[npt.NDArray[np.int32]] = field(default_factory=list)  # items of each sequence, a part at a time

    @property
    def n_sequences(self) -> int:
        """Of the whole part."""
        return sum(self.keys)

    @property
    def about(self) -> dict[str, int]:
        """Counts, by what is counted."""
        return {"tangles": len(self.sizes), "sequences": self.n_sequences, "items": sum(self.sizes)}

    def add(self, frame: pl.DataFrame, schema: Schema) -> None:
        """Take an arranged part into account; a sequence without a label is refused."""
        found = find_tangles(frame, schema)
        starts = found.starts[:-1]
        is_new = np.diff(found.given[starts], prepend=-1) != 0
        self.names += frame["tangle"].gather(starts[is_new]).cast(pl.String).to_list()
        self.pieces += np.diff(np.append(np.flatnonzero(is_new), len(starts))).tolist()
        self.sizes += np.diff(found.starts).tolist()
        first = found.sequences.first
        self.keys += np.diff(np.searchsorted(first, found.starts)).tolist()
        self.lengths.append(found.sequences.length.astype(np.int32))
        firsts = frame[first]
        self.classes = self.classes or [{} for _ in schema.label_names]
        for name, counts in zip(schema.label_names, self.classes, strict=True):
            _require_labels(frame, name)
            for label, n in firsts[f"label.{name}"].alias("label").value_counts().iter_rows():
                counts[label] = counts.get(label, 0) + n


@dataclass(frozen=True)
class Survey:
    """All that is learned from one look at everything, before training."""

    vocabulary: Vocabulary
    has_time: bool
    parts: tuple[Listing, ...]  # training, and validation where it is a part of the same data
    split: Split | None
    seen: npt.NDArray[np.uint64]  # marks of the sequences of these parts

    def fingerprint(self) -> str:
        """A name for all that a run reads."""
        digest = hashlib.blake2b(json.dumps(self.vocabulary.to_dict()).encode(), digest_size=16)
        digest.update(self.seen.tobytes())
        for part in self.parts:
            digest.update(json.dumps([part.names, part.sizes, part.classes], sort_keys=True).encode())
        return digest.hexdigest()


def survey(
    shards: Shards, settings: Training, ratios: Sequence[float] | None, on_window: Callable[[], object] = lambda: None
) -> Survey:  # fmt: skip
    """Split the tangles as a table in memory would be, and learn from the training part; None: all of it is."""
    places, schema = shards.places, shards.schema
    named = places.select(name for name in ("tangle", "group") if name in places.columns)
    if ratios is None:
        shares = [named]
    else:
        if named["tangle"].n_unique() == 1:
            raise SettingError("streamed training needs several tangles, and there is one; leave out --stream")
        unit = unit_of(named)
        parted = split_units(named, ratios, settings.seed)
        shares = [named.filter(pl.col(unit).is_in(names.implode())) for names in parted]
    tally, listings, marks, has_time, n_items = Tally(schema, settings.seed), [], [], False, 0
    for number, units in enumerate(shares):
        listing, there = Listing(units), places.join(units, on=units.columns, how="semi")
        is_test = number == PARTS.index("test")
        if is_test and not (schema.unfold or schema.outcome):
            n_items += int(there["rows"].sum())
            continue
        for window in _stretches(there, settings.stream_items):
            frame = arrange(shards.read(units.filter(pl.col("tangle").is_in(window.implode()))))
            n_items += frame.height
            on_window()
            if is_test:  # it is only counted
                continue
            has_time = "time" in frame.columns
            listing.add(frame, schema)
            marks.append(seen_marks(frame))
            if number == 0:
                tally.add(frame)
        listings.append(listing)
    split = None
    if ratios is not None and len(ratios) == len(PARTS):
        split = Split.of(named, ratios, settings.seed, n_items=n_items)
    return Survey(tally.vocabulary(), has_time, tuple(listings[:2]), split, np.unique(np.concatenate(marks)))


def surveyed(shards: Shards, settings: Training, ratios: Sequence[float] | None, together: Together) -> Survey:
    """What the first process finds; all meet after each window, so that none waits for long without a word."""
    found: Survey | None = None
    if together.is_first:
        found = survey(shards, settings, ratios, lambda: together.agreed(None))
    while (told := together.agreed(found)) is None:
        continue
    return told


def streamed_material(shards: Shards, found: Survey, settings: Training, validation: pl.DataFrame | None) -> Material:
    """What to train on, by what the survey has found; the validation part may be in memory."""
    training = Streamed(shards, found.parts[0], found.vocabulary, settings)
    about = {f"train_{what}": n for what, n in found.parts[0].about.items()}
    if validation is None:
        listing = found.parts[1]
        held = Streamed(shards, listing, found.vocabulary, settings)
        require_known_classes(held.class_counts(), shards.schema)
        about |= {f"validation_{what}": n for what, n in listing.about.items()}
        return Material(
            training, held.windows(), found.vocabulary, found.has_time, about, found.fingerprint(), found.split
        )
    held_out = encode_tangles(validation, shards.schema, found.vocabulary)
    n_classes = tuple(len(names) for names in found.vocabulary.labels)
    require_known_classes(count_classes(held_out, n_classes), shards.schema)
    about |= {f"validation_{what}": n for what, n in counts_of(held_out).items()}
    data = found.fingerprint() + fingerprint(found.vocabulary, held_out)
    return Material(training, held_out, found.vocabulary, found.has_time, about, data, None)


def _stretches(places: pl.DataFrame, most: int) -> list[pl.Series]:
    """The names of tangles, in the order of the files, so many rows at a time."""
    tangles = places.group_by("tangle").agg(pl.col("rows").sum(), pl.col("first").min()).sort("first")
    return [tangles["tangle"].gather(window) for window in plan_windows(tangles["rows"].to_numpy(), most)]


@dataclass(frozen=True)
class Window:
    """Tangles that are in memory together, and the smaller ones that they are dealt out into."""

    tangles: Ints  # (G,) in ascending order
    owner: Ints  # (sequences,) which of these tangles each is of
    part: Ints  # (sequences,) its part of that tangle
    parent: Ints  # (dealt,) the tangle that each dealt one is from
    sizes: Ints  # (dealt,) items of each


class Streamed:
    """One part of the data, as training and validation read it."""

    def __init__(self, shards: Shards, listing: Listing, vocabulary: Vocabulary, settings: Training) -> None:
        self._shards, self._listing, self._vocabulary, self._settings = shards, listing, vocabulary, settings
        self._sizes = np.array(listing.sizes, np.int64)
        self._starts = np.concatenate([[0], np.cumsum(listing.pieces)])  # (given + 1,) of their tangles
        self._items = np.add.reduceat(self._sizes, self._starts[:-1])  # (given,)
        self._lengths = np.concatenate(listing.lengths)  # (sequences,)
        self._sequences = np.concatenate([[0], np.cumsum(listing.keys)])  # (tangles + 1,) of their sequences

    def class_counts(self) -> list[Ints]:
        """How many labelled sequences there are of each class, for each label column."""
        columns = zip(self._vocabulary.labels, self._listing.classes, strict=True)
        return [np.array([counts.get(name, 0) for name in names], np.int64) for names, counts in columns]

    def windows(self) -> list[Callable[[], Tangles]]:
        """All tangles in the order of the files, some at a time."""
        return [partial(self._load, window) for window in plan_windows(self._items, self._settings.stream_items)]

    def epoch(
        self, epoch: int, settings: Training, rng: np.random.Generator, together: Together
    ) -> tuple[int, Iterator[Portion]]:
        """The number of batches, the same for all processes, and this process's share of each."""
        drawn = np.random.default_rng([settings.seed, epoch, 1])
        windows = [
            self._window(ranges(self._starts[given], self._starts[given + 1]), settings, rng)
            for given in plan_windows(self._items, settings.stream_items, drawn)
        ]
        n_tangles = sum(len(window.sizes) for window in windows)
        plan = [(window, plan_sizes(window.sizes, n_tangles, settings, rng)) for window in windows]
        return sum(len(batches) for _, batches in plan), self._portions(plan, settings, together)

    def _window(self, tangles: Ints, settings: Training, rng: np.random.Generator) -> Window:
        """These tangles, which may be dealt out."""
        sequences = ranges(self._sequences[tangles], self._sequences[tangles + 1])
        owner = np.repeat(np.arange(len(tangles)), np.diff(self._sequences)[tangles])
        part = draw_parts(owner, rng) if settings.deal else np.zeros_like(owner)
        dealt, parent = dealt_tangles(owner, part)
        sizes = np.bincount(dealt, weights=self._lengths[sequences]).astype(np.int64)
        return Window(tangles, owner, part, tangles[parent], sizes)

    def _portions(
        self, plan: list[tuple[Window, list[Ints]]], settings: Training, together: Together
    ) -> Iterator[Portion]:
        for window, batches in plan:
            own = np.concatenate([together.mine(members) for members in batches])
            own = own if len(own) else batches[0][:1]  # even a share of nothing has a shape
            given = np.unique(np.searchsorted(self._starts, window.parent[own], side="right") - 1)
            here = ranges(self._starts[given], self._starts[given + 1])  # of tangles, as loaded
            loaded = self._load(given)
            tangles = deal(loaded, window.part[np.isin(window.tangles, here)[window.owner]])
            dealt = np.flatnonzero(np.isin(window.parent, here))
            delays = delay(tangles, settings)
            for members in batches:
                mine = together.mine(np.arange(len(members)))
                local = np.searchsorted(dealt, members[mine])
                yield Portion(Batch.of(tangles, local, window.sizes[members], mine), delays)

    def _load(self, given: Ints) -> Tangles:
        names = pl.Series("tangle", [self._listing.names[g] for g in given], pl.String)
        frame = self._shards.read(self._listing.units.filter(pl.col("tangle").is_in(names.implode())))
        tangles = encode_tangles(_in_order(frame, names), self._shards.schema, self._vocabulary)
        here = ranges(self._starts[given], self._starts[given + 1])
        lengths = self._lengths[ranges(self._sequences[here], self._sequences[here + 1])]
        is_same = np.array_equal(tangles.sizes, self._sizes[here])
        if not (is_same and np.array_equal(tangles.sequences.length, lengths)):
            raise DataError("the data has changed since training began; train again without --resume")
        return tangles


def _in_order(frame: pl.DataFrame, names: pl.Series) -> pl.DataFrame:
    """Arranged, the tangles in the order of their names."""
    arranged = arrange(frame)
    found = arranged["tangle"].cast(pl.String)
    if found.unique(maintain_order=True).equals(names, check_names=False):
        return arranged
    places = pl.DataFrame({"tangle": names}).with_row_index("place")
    order = pl.DataFrame({"tangle": found}).join(places, on="tangle", how="left", maintain_order="left")["place"]
    return arranged[np.argsort(order.to_numpy(), kind="stable")]


def _require_labels(frame: pl.DataFrame, name: str) -> None:
    labels = frame[f"label.{name}"]
    if labels.null_count():
        row: dict[str, Any] = frame.row(int(labels.is_null().arg_max() or 0), named=True)
        place = f"{row['file']}, row {row['row']}" if "file" in row else f"row {row['row']}"
        raise DataError(
            f"{place}, column {name!r}: key {row['key']} has no label; label every key, leave those keys out, or train "
            "without --stream, where they are context for the others"
        )
