"""Experiments as TOML files, and the plan that some of them make together: distinct cells in a fair order."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from kvec.reproduce.plan import RECIPES, Cell, Profile, start
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.plain import read_toml, require_group, require_known

EXPERIMENTS = ("data", "curves", "sensitivity", "ablation", "attention", "halting", "keys")  # as in §V
BEYOND = ("dial", "beyond", "ratings", "visibility")  # the paper; not among all
_ENTRIES = ("title", "reproduces", "statistics", "runs", "compare", "against")
_RUN_ENTRIES = ("trainings", "datasets", "setting", "values", "relative_to", "settings", "seeds", "profiles", "time")


@dataclass(frozen=True)
class Names:
    """What an experiment may speak of."""

    trainings: Collection[str]
    datasets: Collection[str]
    profiles: Collection[str]


@dataclass(frozen=True)
class Run:
    """Trainings on data sets, for each value of a setting if one is swept."""

    trainings: tuple[str, ...]
    datasets: tuple[str, ...]
    setting: str = ""
    values: tuple[float | None, ...] = (None,)
    relative_to: str = ""  # values are those of the setting over this one's, as the training has it
    overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()  # the profile's where there are none
    profiles: tuple[str, ...] = ()  # in which it is run; all where there are none
    time: float = 1.0  # times the profile's; with more its cells are controls


@dataclass(frozen=True)
class Experiment:
    """What is run for one table or figure of the paper."""

    name: str
    title: str
    reproduces: str  # tables and figures of the paper
    statistics: tuple[str, ...]  # data sets whose statistics are told
    runs: tuple[Run, ...]
    path: Path
    compare: tuple[str, ...] = ()  # methods that are compared, pair by pair on the same test units
    against: tuple[str, ...] = ()  # with each of these


@dataclass(frozen=True)
class Plan:
    """What is to be done, in this order."""

    cells: tuple[Cell, ...]
    statistics: tuple[str, ...]
    missing: tuple[str, ...]  # data sets that were asked for and not found


def read_experiments(wish: str, names: Names) -> list[Experiment]:
    """The experiments that are wished for: one by its name, all of them, or a TOML file."""
    if wish == "all":
        return [read_experiment(RECIPES / f"{name}.toml", names) for name in EXPERIMENTS]
    if wish.endswith(".toml"):
        return [read_experiment(Path(wish), names)]
    if wish not in (*EXPERIMENTS, *BEYOND):
        raise SettingError(
            f"unknown experiment {wish!r}; known: {', '.join(EXPERIMENTS)}, all of these by all, {', '.join(BEYOND)}, "
            "or a file that ends in .toml"
        )
    return [read_experiment(RECIPES / f"{wish}.toml", names)]


def read_experiment(path: Path, names: Names) -> Experiment:
    """One experiment from a TOML file; what is not known in it is refused by its name."""
    plain = read_toml(path, "experiment")
    require_known(plain, _ENTRIES, "entry", path.name)
    runs = plain.get("runs", [])
    if not isinstance(runs, list):
        raise SettingError(f"{path.name}: runs is {runs!r}; write [[runs]] above the entries of each")
    statistics = _names(plain, "statistics", names.datasets, "data set", path.name)
    read = [_run(run, names, f"{path.name}, runs {number}") for number, run in enumerate(runs, 1)]
    title, reproduces = (_text(plain, name, path.name) for name in ("title", "reproduces"))
    compare, against = (tuple(map(str, _list(plain, name, path.name))) for name in ("compare", "against"))
    if not runs and not statistics:
        raise SettingError(f"{path.name}: has no [[runs]]; begin with a copy of {RECIPES / 'curves.toml'}")
    if bool(compare) != bool(against):
        raise SettingError(f"{path.name}: compare and against go together: methods, and those they are compared with")
    return Experiment(path.stem, title or path.stem, reproduces, statistics, tuple(read), path, compare, against)


def plan_cells(
    experiments: Iterable[Experiment],
    profile: Profile,
    found: Collection[str],
    settings_of: Callable[[str], Iterable[str]],
    seeds: Sequence[int] = (),
) -> Plan:
    """All distinct cells of the experiments: seed by seed, main data sets first, so that every part of it is fair.

    `settings_of` a training are its own; what an experiment sets goes before them.
    """
    cells: dict[str, tuple[Cell, Experiment]] = {}
    statistics: dict[str, None] = {}
    for experiment in experiments:
        statistics |= dict.fromkeys(name for name in experiment.statistics if name in profile.datasets)
        for run in experiment.runs:
            for cell in _cells(run, profile, settings_of, seeds):
                known, first = cells.setdefault(cell.id, (cell, experiment))
                if experiment.compare and not known.is_paired:
                    cells[cell.id] = replace(known, is_paired=True), first
                if known != cell:
                    ways = " and ".join(" ".join(way.overrides) or "no settings" for way in (known, cell))
                    raise SettingError(
                        f"{first.path.name} and {experiment.path.name} differ in the cell {cell.id}: {ways}; run them "
                        "apart, with an --out for each"
                    )
    ordered = sorted((cell for cell, _ in cells.values()), key=lambda cell: (cell.seed, profile.rank(cell.dataset)))
    asked = {*statistics, *(cell.base for cell in ordered)}
    return Plan(
        tuple(cell for cell in ordered if cell.base in found),
        tuple(sorted((name for name in statistics if name in found), key=profile.rank)),
        tuple(sorted(asked.difference(found), key=profile.rank)),
    )


def _cells(
    run: Run, profile: Profile, settings_of: Callable[[str], Iterable[str]], seeds: Sequence[int]
) -> Iterable[Cell]:
    if run.profiles and profile.name not in run.profiles:
        return
    for dataset, training, value in product(run.datasets, run.trainings, run.values):
        base = dataset.partition("@")[0]
        if base not in profile.datasets:
            continue
        given = [*settings_of(training), *profile.settings[base], *run.overrides]
        named = run.setting
        if value is not None and run.relative_to:
            named = f"{run.setting}/{run.relative_to.rpartition('.')[2]}"
            stands = start(profile.sizes[base].preset).override(given).get(run.relative_to)
            given.append(f"{run.setting}={_plain(value * stands)}")
        elif value is not None:
            given.append(f"{run.setting}={_plain(value)}")
        last = {setting.partition("=")[0]: setting for setting in given}
        overrides = tuple(sorted(last.values()))
        for seed in seeds or run.seeds or profile.seeds[base]:
            yield Cell(dataset, training, named, value, seed, profile.name, overrides, time=run.time)


def _run(given: Any, names: Names, where: str) -> Run:
    plain = require_group(given, "runs", where)
    require_known(plain, _RUN_ENTRIES, "entry", where)
    for needed in ("trainings", "datasets"):
        if not plain.get(needed):
            raise SettingError(f"{where}: {needed} are missing; name at least one")
    setting, values = _text(plain, "setting", where), _list(plain, "values", where)
    if bool(setting) != bool(values):
        raise SettingError(f"{where}: setting and values go together, such as setting = 'training.beta', values = [1]")
    relative_to = _text(plain, "relative_to", where)
    if relative_to and not values:
        raise SettingError(
            f"{where}: relative_to needs a setting and values, which are those of the one over the other"
        )
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise SettingError(f"{where}: values are finite numbers, not {value!r}")
        for name in (setting, relative_to):
            group, _, entry = name.partition(".")
            Config.from_dict({group: {entry: value}} if name else {}, where, start())
    settings = require_group(plain.get("settings", {}), "settings", where)
    Config.from_dict(settings, where, start())
    seeds = _list(plain, "seeds", where)
    if not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise SettingError(f"{where}: seeds are whole numbers from 0, not {seeds}")
    time = plain.get("time", 1.0)
    if isinstance(time, bool) or not isinstance(time, int | float) or not time >= 1:
        raise SettingError(f"{where}: time is {time!r}; write how often the profile's it is, such as 2.0")
    return Run(
        _names(plain, "trainings", names.trainings, "training", where),
        _names(plain, "datasets", names.datasets, "data set", where),
        setting,
        tuple(float(value) for value in values) or (None,),
        relative_to,
        tuple(f"{group}.{name}={_plain(v)}" for group, entries in settings.items() for name, v in entries.items()),
        tuple(seeds),
        _names(plain, "profiles", names.profiles, "profile", where),
        float(time),
    )


def _names(plain: dict[str, Any], entry: str, known: Collection[str], what: str, where: str) -> tuple[str, ...]:
    """Known names; those of data sets may end in a number of keys, as in traffic-fg@8."""
    given = _list(plain, entry, where)
    for name in given:
        base, at, keys = str(name).partition("@") if what == "data set" else (name, "", "")
        require_known([base], known, what, where)
        if at and not (keys.isdecimal() and int(keys) > 0):
            raise SettingError(f"{where}: {name} has {keys!r} keys; write a number of them, as in {base}@8")
    return tuple(given)


def _list(plain: dict[str, Any], entry: str, where: str) -> list[Any]:
    given = plain.get(entry, [])
    if not isinstance(given, list):
        raise SettingError(f"{where}: {entry} is {given!r}; write a list, such as [{given!r}]")
    return given


def _text(plain: dict[str, Any], entry: str, where: str) -> str:
    given = plain.get(entry, "")
    if not isinstance(given, str):
        raise SettingError(f"{where}: {entry} is {given!r}; write it in quotes")
    return given


def _plain(value: Any) -> str:
    """A value as it is written on the command line.

    >>> _plain(5.0), _plain(0.0001), _plain(True), _plain("final")
    ('5', '0.0001', 'true', 'final')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, int | float) else str(value)
