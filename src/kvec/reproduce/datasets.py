"""The data sets of the experiments: found by path, read by their schemas, drawn and split, the same for every rival."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.read.authors import read_authors
from kvec.read.catalogue import datasets as known_datasets
from kvec.read.fgnet import ENDING as FGNET
from kvec.read.fgnet import read_fgnet
from kvec.read.packets.learning import read_captures
from kvec.read.packets.tables import holds_captures
from kvec.read.ratings import read_movielens
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles, synthetic_traffic
from kvec.read.table import Table
from kvec.reproduce.plan import Sizes, short
from kvec.tangle.inspection import inspect_items
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.tangling import arrange, folds, split_units, tangled, unit_of
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Visibility
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings
from kvec.words.schema import Field, Schema, Tangling

SCHEMAS = Path(read_table.__code__.co_filename).with_name("schemas")
NAMES = {  # as `kvec datasets` calls them, and the schema that reads their table
    "traffic-fg": ("Traffic-FG", "traffic_fg.toml"),
    "fgnet-d1": ("FG-Net D1", "fgnet_d1.toml"),
    "movielens-1m": ("MovieLens-1M", ""),
    "iot-sentinel": ("IoT Sentinel", "iot_sentinel.toml"),
    "sepsis": ("Sepsis", "sepsis.toml"),
    "traffic-fines": ("Traffic fines", "traffic_fines.toml"),
    "ustc-tfc2016": ("USTC-TFC2016", ""),
    "traffic-app": ("Traffic-App", "traffic_fg.toml"),
}
IOT_CAPTURES = Schema(  # what iot_sentinel.toml says of the same packets as a table
    values=tuple(Field(name, kind="categorical") for name in ("size", "direction", "server_port")),
    match=("size", "direction", "server_port"),
    packets=FlowSettings(min_packets=1),
    tangling=Tangling(3, "group", "common"),
)
MADE = {  # kind of Synthetic-Traffic, tangles, length, signal; the paper's are 5,000 tangles of two flows of 100
    "synthetic-early": ("early", 5000, 100, 10),
    "synthetic-late": ("late", 5000, 100, 10),
    "made-early": ("early", 150, 24, 6),
    "made-late": ("late", 150, 24, 6),
}
PLANTED = "planted"
HALVES = ("benign", "malware")  # the folders of USTC-TFC2016
LOOKED_AT = 200  # tangles in which it is counted what items see


@dataclass(frozen=True)
class Parts:
    """The training, validation and test items of a data set, not yet tangled."""

    train: pl.DataFrame
    validation: pl.DataFrame
    test: pl.DataFrame
    schema: Schema
    true_halt: int | None = None  # items that complete the signal, where that is known

    def arranged(self, seed: int, is_alone: bool) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """Each part in its tangles; or every sequence as a tangle of its own, so that it can see no other."""
        tangling = self.schema.tangling
        if is_alone:
            by_time = "time" in self.train.columns and not (tangling and tangling.clock == "order")
            tangling = Tangling(1, "key", "common" if by_time else "order")
        train, validation, test = (tangled(part, tangling, seed) for part in (self.train, self.validation, self.test))
        return train, validation, test

    @property
    def keys_per_tangle(self) -> float:
        """Sequences of a training tangle, on average."""
        n_sequences = self.train.select("tangle", "key").n_unique()
        tangling = self.schema.tangling
        if tangling is None:
            return n_sequences / self.train["tangle"].n_unique()
        n_units = n_sequences if tangling.of == "key" else self.train["group"].n_unique()
        return n_sequences / math.ceil(n_units / tangling.number)


def find_datasets(given: Iterable[str]) -> dict[str, str]:
    """The data sets that folders hold, and those given as NAME=PATH; made ones are always there, without a path."""
    found, named = dict.fromkeys([*MADE, PLANTED], ""), {}
    for entry in given:
        name, equals, path = entry.partition("=")
        if equals and name in NAMES:
            if not Path(path).exists():
                raise DataError(f"{path}: no such file or folder, given as {name}")
            named[name] = path
        elif equals and not Path(entry).exists():
            raise SettingError(f"unknown data set {name!r} in --data {entry}; known: {', '.join(NAMES)}")
        else:
            there = {each.name: Path(each.path) for each in known_datasets(entry) if each.state == "present"}
            found |= {name: str(_whole(there[called])) for name, (called, _) in NAMES.items() if called in there}
    return found | named


def read_parts(dataset: str, data: Mapping[str, str], sizes: Sizes, seed: int) -> Parts:
    """Read a data set, split it by the seed (or take the seed's fold), and draw as many whole units as wanted."""
    base, _, keys = dataset.partition("@")
    parts = _drawn(base, data.get(base, ""), sizes, seed)
    if keys:
        clock = "common" if "time" in parts.train.columns else "order"
        own = parts.schema.tangling
        tangling = Tangling(int(keys), "group" if own and own.of == "group" else "key", clock)
        parts = replace(parts, schema=replace(parts.schema, tangling=tangling))
    return parts


def statistics(dataset: str, path: str, sizes: Sizes) -> dict[str, Any]:
    """A row of the paper's table I, and what may explain where value correlation helps."""
    base, _, _ = dataset.partition("@")
    parts = read_parts(dataset, {base: path}, replace(sizes, folds=0), seed=0)
    whole = _read(base, path)
    facts = inspect_items(whole.frame, parts.schema)
    return {
        "dataset": dataset, "keys": facts.sequences, "tangles": facts.tangles, "items": facts.items,
        "mean_length": round(facts.mean_length, 2), "mean_session": round(facts.mean_session_length, 2),
        "classes": len(next(iter(facts.labels.values()))),
        "keys_per_tangle": round(facts.sequences / facts.tangles, 2),
        "concurrent_keys": round(facts.concurrent_keys, 2),
        **_relations(parts), "digest": digest_of(sizes),
    }  # fmt: skip


def digest_of(sizes: Sizes) -> str:
    """The part of a data set that is taken, in a few letters: its statistics are of that part."""
    return short([sizes.train, sizes.length])


def _relations(parts: Parts) -> dict[str, float]:
    """How often keys share their tangle with one of their class, and what value correlation lets items see."""
    frame = parts.arranged(0, is_alone=False)[0]
    tangles = encode_tangles(frame, parts.schema, Vocabulary.fit(frame, parts.schema))
    labels = tangles.labels[:, 0].astype(np.int64)
    pairs = tangles.tangle_of * (labels.max() + 2) + labels + 1
    _, where, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    rule = make_rule(Visibility(rule="paper", use_key_correlation=False))
    sequence = tangles.sequences.sequence
    n_items = n_seeing = n_seen = n_same = 0
    for tangle in evenly(tangles.n_tangles, LOOKED_AT):
        first, last = int(tangles.starts[tangle]), int(tangles.starts[tangle + 1])
        seen = rule.look(tangles, int(tangle), first, last)
        looking = np.repeat(sequence[first:last], np.diff(seen.starts))
        is_other = sequence[seen.items] != looking
        n_items += last - first
        n_seeing += int((np.diff(seen.starts) > 1).sum())
        n_seen += int(is_other.sum())
        n_same += int((labels[sequence[seen.items]] == labels[looking])[is_other].sum())
    return {
        "related_keys": round(float((counts[where] > 1).mean()), 4),
        "seeing_items": round(n_seeing / n_items, 4),
        "same_class_seen": round(n_same / max(n_seen, 1), 4),
    }


def evenly(n: int, most: int) -> npt.NDArray[np.int64]:
    """Up to so many of n places, evenly apart: tables are often sorted, so that the first ones are unlike the rest.

    >>> evenly(10, 4).tolist(), evenly(3, 4).tolist()
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return np.arange(min(n, most)) * n // min(n, most)


@lru_cache(maxsize=1)
def _drawn(base: str, path: str, sizes: Sizes, seed: int) -> Parts:
    table = _read(base, path)
    frame, unit = _first_items(table.frame, sizes.length), unit_of(table.frame)
    wanted = sizes.train, sizes.validation, sizes.test
    if sizes.folds:
        of_fold = list(folds(frame, 0, sizes.folds))[seed]
        units = [part[unit].unique(maintain_order=True) for part in of_fold]
    else:
        units = list(split_units(frame, (8, 1, 1), seed))
    drawn = [part.head(n) if n else part for part, n in zip(units, wanted, strict=True)]
    train, validation, test = (frame.filter(pl.col(unit).is_in(part.implode())) for part in drawn)
    true_halt = None
    if base in MADE and not sizes.length:
        kind, _, length, signal = MADE[base]
        true_halt = signal if kind == "early" else length
    return Parts(train, validation, test, table.schema, true_halt)


def _first_items(frame: pl.DataFrame, length: int) -> pl.DataFrame:
    """The first items of each key, in order of arrival; all of them where length is 0."""
    if not length:
        return frame
    return arrange(frame).filter(pl.int_range(pl.len()).over("tangle", "key") < length)


def _read(base: str, path: str) -> Table:
    """The whole table of a data set."""
    if base == PLANTED:
        return read_table(planted_tangles(200), SYNTHETIC_SCHEMA)
    if base in MADE:
        kind, n, length, signal = MADE[base]
        return read_table(synthetic_traffic(n, kind, length=length, signal=signal), SYNTHETIC_SCHEMA)
    if not path:
        raise DataError(f"there is no data for {base}; give it with --data FOLDER, or --data {base}=PATH")
    place = Path(path)
    folder = place if place.is_dir() else place.parent
    schema = Schema.from_toml(SCHEMAS / NAMES[base][1]) if NAMES[base][1] else None
    if base == "movielens-1m":
        return read_table(*read_movielens(folder))
    if base == "ustc-tfc2016":
        return read_captures(_halves(folder), labels="by-file", passed_by=_refuse)
    if base == "iot-sentinel" and holds_captures(place):
        devices = place if place.is_dir() else folder.parent
        return read_captures(devices, IOT_CAPTURES, labels="by-folder", passed_by=_refuse)
    if base == "fgnet-d1" and (place.name.endswith(FGNET) or any(place.glob(f"*/*/*{FGNET}"))):
        return read_table(read_fgnet(place if place.is_dir() else place.parents[2]), schema)
    if place.suffix == ".npy" or any(place.glob("*.npy")):
        return read_table(*read_authors(place))
    return read_table(place, schema)


def _whole(file: Path) -> Path:
    """All of a data set of which one file was found: rows of the authors in several files are one set."""
    is_part = file.suffix == ".npy" and not file.stem.lower().startswith("traffic")
    return file.parent if is_part else file


def _halves(folder: Path) -> list[Path]:
    """The folders Benign and Malware, given either or what holds them, else the folder itself."""
    top = folder.parent if folder.name.lower() in HALVES else folder
    found = sorted(each for each in top.iterdir() if each.is_dir() and each.name.lower() in HALVES)
    return found or [folder]


def _refuse(why: str) -> None:
    """Experiments on a part of the captures would be taken for experiments on all."""
    raise DataError(why)
