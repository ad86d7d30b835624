"""What the experiments of §V are made of: cells, the sizes a profile gives them, and what comes out of a cell."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvec.words.config import PRESETS, Config
from kvec.words.errors import SettingError
from kvec.words.plain import read_toml, require_choice, require_group, require_known

if TYPE_CHECKING:
    import polars as pl

RECIPES = Path(__file__).with_name("recipes")
PROFILES = ("smoke", "small", "paper")


@dataclass(frozen=True)
class Sizes:
    """How much data and time a cell gets, the same for every training."""

    train: int = 0  # units at the most (whole tangles or groups, before any re-tangling); 0: all
    validation: int = 0
    test: int = 0
    length: int = 0  # first items of each sequence at the most; 0: all
    train_seconds: float = 0.0  # CPU time of a training; 0: until the epochs are over
    epochs: int = 1000  # at the most
    preset: str = "small"
    folds: int = 0  # the seed is the fold that is tested, of so many; 0: the seed makes a split 8:1:1


@dataclass(frozen=True)
class Cell:
    """One training: a data set, what is trained on it, the value of a swept setting, and a seed."""

    dataset: str  # "traffic-fg@8" is traffic-fg with eight keys in each tangle
    training: str
    setting: str  # the swept one by its dotted name, such as "training.beta" or "training.beta/alpha"; or nothing
    value: float | None  # of the swept setting, or of its ratio to another
    seed: int
    profile: str
    overrides: tuple[str, ...] = ()  # "group.name=value", sorted; the swept one is among them
    is_paired: bool = field(default=False, compare=False)  # what comes of each test unit is kept too, to compare by
    time: float = 1.0  # times the profile's; with more it is a control: would the training have gone on to learn?
    digest: str = field(default="", compare=False)  # of all that it is made of, see `kvec.reproduce.resolved`

    @property
    def id(self) -> str:
        """The name of the cell in all tables.

        >>> Cell("traffic-fg", "kvec-paper", "training.beta", 0.02, 0, "small").id
        'traffic-fg/kvec-paper beta=0.02/0'
        """
        swept = "" if self.value is None else f" {self.setting.rpartition('.')[2]}={self.value:g}"
        control = "" if self.time == 1 else f" x{self.time:g}"
        return f"{self.dataset}/{self.training}{swept}{control}/{self.seed}"

    @property
    def base(self) -> str:
        """The data set as it is stored, without the number of keys."""
        return self.dataset.partition("@")[0]


@dataclass(frozen=True)
class Outcome:
    """The rows that a cell adds to the tables."""

    cell: dict[str, str | int | float]  # the row of cells.csv
    points: list[dict[str, Any]] = field(default_factory=list)
    attention: list[dict[str, Any]] = field(default_factory=list)
    halts: list[dict[str, Any]] = field(default_factory=list)
    prefixes: list[dict[str, Any]] = field(default_factory=list)
    units: pl.DataFrame | None = None  # of a paired cell, see `kvec.reproduce.units`


@dataclass(frozen=True)
class Profile:
    """How large the experiments are: data sets in their order, seeds, and the sizes of cells."""

    name: str
    datasets: tuple[str, ...]  # the main ones first
    seeds: Mapping[str, tuple[int, ...]]  # of each data set
    sizes: Mapping[str, Sizes]
    settings: Mapping[str, tuple[str, ...]]  # of every training on a data set, "group.name=value"
    is_tuned: bool  # whether trainings take the settings that tuning has found

    def rank(self, dataset: str) -> int:
        """The place of a data set in the order."""
        return self.datasets.index(dataset.partition("@")[0])

    def sizes_of(self, dataset: str) -> Sizes:
        """The sizes of cells of a data set, with any number of keys."""
        return self.sizes[dataset.partition("@")[0]]

    def sizes_for(self, cell: Cell) -> Sizes:
        """The sizes of a cell: those of its data set, with as much more time as it is to have."""
        sizes = self.sizes_of(cell.dataset)
        if sizes.train_seconds:
            return replace(sizes, train_seconds=cell.time * sizes.train_seconds)
        return replace(sizes, epochs=round(cell.time * sizes.epochs))


def start(preset: str = "small") -> Config:
    """What all trainings begin with, whatever kvec's own defaults are: finished cells stay as they were."""
    return Config.preset(preset).override([
        "visibility.rule=paper", "training.objective=expected", "training.lengths=even", "training.ends=0",
        "training.batch=64", "training.deal=false", "encoder.use_membership=true", "encoder.time=auto",
    ])  # fmt: skip


def short(facts: Any) -> str:
    """A digest of plain facts in a few letters."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]


def read_profile(name: str, path: Path = RECIPES / "profiles.toml") -> Profile:
    """A profile by its name; what is said of one data set goes before what is said of all."""
    profiles = read_toml(path, "profiles")
    require_choice(name, profiles, "--profile")
    where = f"{path.name}, [{name}]"
    common = require_group(profiles[name], name, path.name)
    sets = require_group(common.pop("datasets", {}), f"{name}.datasets", path.name)
    is_tuned = bool(common.pop("tuned", True))
    seeds, sizes, settings = {}, {}, {}
    for dataset, own in sets.items():
        entries = common | require_group(own, f"{name}.datasets.{dataset}", path.name)
        require_known(entries, ["seeds", "settings", *(f.name for f in fields(Sizes))], "entry", where)
        seeds[dataset] = tuple(entries.pop("seeds", (0,)))
        given = require_group(entries.pop("settings", {}), "settings", where)
        settings[dataset] = tuple(f"{name}={value}" for name, value in given.items())
        start().override(settings[dataset])
        sizes[dataset] = Sizes(**entries)
        require_choice(sizes[dataset].preset, PRESETS, f"preset of {dataset} in {where}")
        if sizes[dataset].folds and not set(seeds[dataset]) <= set(range(sizes[dataset].folds)):
            raise SettingError(f"seeds of {dataset} in {where} are folds, from 0 to {sizes[dataset].folds - 1}")
    return Profile(name, tuple(sets), seeds, sizes, settings, is_tuned)
