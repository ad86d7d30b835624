"""The road of `kvec reproduce`: plan the cells, run those that are not done, keep each at once, and make the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvec.doors.messages import Stopped, say
from kvec.doors.reproduce_view import CellsView
from kvec.doors.summary import counted
from kvec.report.text import clock
from kvec.reproduce.datasets import MADE, NAMES, PLANTED, digest_of, find_datasets, statistics
from kvec.reproduce.experiments import Experiment, Names, Plan, plan_cells, read_experiments
from kvec.reproduce.paces import PLACE
from kvec.reproduce.page import make_report
from kvec.reproduce.paired import paired_rows
from kvec.reproduce.plan import PROFILES, Cell, Profile, read_profile
from kvec.reproduce.pool import WORK, Finished, Started, default_jobs, run_cells
from kvec.reproduce.resolved import digest
from kvec.reproduce.results import read_results
from kvec.reproduce.store import Store, look
from kvec.reproduce.timing import Timing, Took, time_left
from kvec.reproduce.trainings import TRAININGS, TUNED, read_tuned, settings_of
from kvec.reproduce.tuning import SPACES, tune_all, write_tuning
from kvec.words.errors import DataError, MissingExtra, SettingError

TUNING_SHARE = 4  # a trial of tuning trains for one such part of the time of a cell


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    experiment: str
    profile: str = "smoke"
    data: tuple[str, ...] = ()
    out: Path | None = None
    jobs: int | None = None
    seeds: str = ""
    only: str = ""
    minutes: float | None = None
    tuned: Path | None = None
    trials: int = 6
    storage: str | None = None
    is_list: bool = False
    is_report: bool = False

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.out or Path("reproduced") / self.profile


def reproduce_experiments(wishes: Wishes) -> int:
    """Run what was asked for; 1 if a cell failed."""
    profile = read_profile(wishes.profile)
    jobs = _jobs(wishes.jobs)
    if wishes.experiment == "tune":
        return _tune(wishes, profile, jobs)
    if wishes.storage:
        raise SettingError("--storage is for kvec reproduce tune; experiments are kept in the folder --out")
    names = Names(TRAININGS, (*NAMES, *MADE, PLANTED), PROFILES)
    experiments = read_experiments(wishes.experiment, names)
    if wishes.is_report:
        return _report(wishes.folder)
    data = find_datasets(wishes.data)
    seeds = _seeds(wishes.seeds, profile)
    tuned = read_tuned(wishes.tuned or TUNED) if wishes.tuned or profile.is_tuned else {}
    plan = _plan(experiments, profile, data, seeds, wishes.only, tuned)
    if wishes.only and not plan.cells and not plan.missing:
        _refuse_only(wishes.only, _plan(experiments, profile, {**dict.fromkeys(NAMES, ""), **data}, seeds, "", tuned))
    _require_something(plan, profile, wishes)
    if plan.missing:
        say(f"left out: {_not_found(plan)}")
    if wishes.is_list:
        parts = {each.name: _plan([each], profile, data, seeds, wishes.only, tuned) for each in experiments}
        print(plan_text(plan, parts, profile, wishes.folder, jobs))
        return 0
    for package in ("matplotlib", "jinja2", "sklearn"):
        if find_spec(package) is None:
            raise MissingExtra(f"kvec reproduce needs {package}; pip install 'kvec[reproduce]'")
    with Store(wishes.folder) as store:
        for name in plan.statistics:
            sizes = profile.sizes_of(name)
            if store.known_data().get(name) != digest_of(sizes):
                say(f"counting {name}")
                store.add_data(statistics(name, data[name], sizes))
        later = _plan(read_experiments("beyond", names), profile, data, seeds, "", tuned)
        compared = {cell.id for cell in later.cells if cell.is_paired}
        failed = _run(plan, profile, data, store, jobs, wishes.minutes, compared)
        if failed:
            say(f"{counted(len(failed), 'cell')} failed, and will be tried again when the command is repeated:")
            for finished in failed:
                say(f"{finished.cell.id}: {finished.error}")
        for each in experiments:
            if each.compare and plan.cells:
                results = read_results(wishes.folder)
                store.keep_paired(paired_rows(results, wishes.folder, each.compare, each.against))
        if store.has_results:
            _report(wishes.folder)
    return 1 if failed else 0


def _tune(wishes: Wishes, profile: Profile, jobs: int) -> int:
    """Search settings for every training, on validation, and write what was found beside what was tried."""
    if wishes.trials < 1:
        raise SettingError(f"--trials is {wishes.trials}; at least one is needed")
    others = {
        "--only": wishes.only, "--seeds": wishes.seeds, "--minutes": wishes.minutes, "--tuned": wishes.tuned,
        "--list": wishes.is_list, "--report-only": wishes.is_report,
    }  # fmt: skip
    if meant := [name for name, wish in others.items() if wish not in ("", None, False)]:
        raise SettingError(f"{meant[0]} is for experiments; kvec reproduce tune takes --trials")
    if (wishes.storage or "").startswith("sqlite"):
        raise SettingError(
            "--storage is SQLite, in which two machines may take the same trial; give a file, which becomes a journal, "
            "or another data base"
        )
    data = find_datasets(wishes.data)
    dataset = next((name for name in profile.datasets if name in data), "")
    if not dataset:
        raise DataError(f"nothing can be tuned: --data names none of {', '.join(profile.datasets)}")
    sizes = profile.sizes_of(dataset)
    sizes = replace(sizes, train_seconds=sizes.train_seconds / TUNING_SHARE)
    folder = wishes.folder
    folder.mkdir(parents=True, exist_ok=True)
    say(f"tuning on the validation part of {dataset}, {wishes.trials} settings of each of {', '.join(SPACES)}")
    try:
        storage = wishes.storage or folder / "tuning.journal"
        told = {**data, PLACE: str(folder.absolute())}
        tried = tune_all(dataset, told, sizes, wishes.trials, storage, jobs, say)
    except KeyboardInterrupt:
        raise Stopped(f"stopped; what was tried is kept in {folder}; repeat the command to go on") from None
    write_tuning(tried, folder)
    say(f"what was tried is in {folder / 'tuning.csv'}; --tuned {folder / 'tuned.toml'} takes what was best")
    return 0


def plan_text(plan: Plan, parts: dict[str, Plan], profile: Profile, folder: Path, jobs: int) -> str:
    """The plan as --list shows it: cells that are done and to do, with the time they took or may take."""
    looked = look(folder, plan.cells)
    done, timing = looked.done, Timing(looked.took)
    expected = {cell.id: timing.expected(cell, profile.sizes_for(cell)) for cell in plan.cells}
    lines = [f"{'experiment':<14}{'cells':>6}{'done':>6}"]
    for name, part in parts.items():
        ids = {cell.id for cell in part.cells}
        lines.append(f"{name:<14}{len(ids):>6}{len(ids & done):>6}")
    lines.append("")
    for cell in plan.cells:
        took, guess = looked.took.get(cell.id), expected[cell.id]
        if cell.id in done:
            lines.append(f"done   {cell.id}  {'' if took is None else clock(took.seconds)}".rstrip())
        else:
            lines.append(f"to do  {cell.id}  {'' if guess is None else f'about {clock(guess)}'}".rstrip())
    waiting = [cell for cell in plan.cells if cell.id not in done]
    known = [guess for cell in _distinct(waiting) if (guess := expected[cell.id]) is not None]
    time_needed = f", about {clock(time_left([], known, jobs))} with {counted(jobs, 'job')}" if known else ""
    lines += ["", f"{counted(len(plan.cells), 'cell')}: {len(done)} done, {len(waiting)} to do{time_needed}"]
    if reasons := Counter(looked.stale.values()):
        told = ", ".join(f"{n}: {why}" for why, n in reasons.most_common())
        lines.append(f"{counted(len(looked.stale), 'cell')} to do again, stale ({told})")
    return "\n".join(lines)


def _distinct(cells: Sequence[Cell]) -> dict[Cell, list[Cell]]:
    """Cells that are trainings of their own, each with those that are the same training under another name."""
    first: dict[tuple[str, str, int, str], Cell] = {}
    found: dict[Cell, list[Cell]] = {}
    for cell in cells:
        one = first.setdefault((cell.dataset, cell.training, cell.seed, cell.digest), cell)
        found.setdefault(one, []).extend([] if one is cell else [cell])
    return found


def _plan(
    experiments: Sequence[Experiment], profile: Profile, data: dict[str, str], seeds: Sequence[int], only: str,
    tuned: Mapping[str, Mapping[str, Any]],
) -> Plan:  # fmt: skip
    """The plan of experiments; `only` takes the cells with it in their names, without any statistics."""
    plan = plan_cells(experiments, profile, data, lambda training: settings_of(training, tuned), seeds)
    plan = replace(plan, cells=tuple(replace(c, digest=digest(c, profile.sizes_for(c))) for c in plan.cells))
    if not only:
        return plan
    cells = tuple(cell for cell in plan.cells if only in cell.id)
    if cells:
        return Plan(cells, (), ())
    whole = plan_cells(experiments, profile, plan.missing, lambda training: settings_of(training, tuned), seeds)
    wanted = {cell.base for cell in whole.cells if only in cell.id}
    return Plan((), (), tuple(name for name in plan.missing if name in wanted))


def _require_something(plan: Plan, profile: Profile, wishes: Wishes) -> None:
    """Refuse a plan that has nothing in it, saying why."""
    if plan.cells or plan.statistics:
        _require_real(plan, profile, wishes)
        return
    if plan.missing:
        raise DataError(f"nothing can be run: {_not_found(plan)}")
    raise SettingError(
        f"{wishes.experiment} has nothing for the profile {profile.name}, whose data sets are "
        f"{', '.join(profile.datasets)}; choose another --profile"
    )


def _refuse_only(only: str, plan: Plan) -> None:
    """Say that no cell of a plan has a word in its name, and a few names that there are."""
    names = [cell.id for cell in plan.cells]
    known = f"; there are {', '.join(names[:: max(len(names) // 3, 1)][:3])} and others" if names else ""
    raise SettingError(f"no cell has {only!r} in its name{known}; --list without --only shows them")


def _require_real(plan: Plan, profile: Profile, wishes: Wishes) -> None:
    """Refuse to train on made data alone, for hours maybe, where real data is wanted and none is given."""
    wanted = [name for name in plan.missing if name in NAMES]
    made = sorted({cell.base for cell in plan.cells})
    if wishes.is_list or not wanted or not made or set(made) & set(NAMES):
        return
    raise DataError(
        f"the profile {profile.name} wants real data, and none of {', '.join(wanted)} is given; name the folder that "
        f"holds them with --data FOLDER, or run {' and '.join(made)} alone: --only {made[0].partition('-')[0]}"
    )


def _not_found(plan: Plan) -> str:
    return (
        f"{', '.join(plan.missing)} not found, or not whole; give the folder that holds them with --data FOLDER, or "
        f"each as --data {plan.missing[0]}=PATH; kvec datasets FOLDER tells what is there and what looks wrong"
    )


def _run(
    plan: Plan, profile: Profile, data: dict[str, str], store: Store, jobs: int, minutes: float | None,
    compared: Collection[str],
) -> list[Finished]:  # fmt: skip
    """Run the cells that are not done, and keep each as soon as it is; returns those that failed.

    Those that another experiment compares keep what came of their units, so that it need not run them again.
    """
    todo = [cell for cell in plan.cells if not store.is_done(cell)]
    for cell in todo:
        if twin := store.twin_of(cell):
            store.add(cell, store.outcome_of(twin))
    todo = [cell for cell in todo if not store.is_done(cell)]
    if n_done := len(plan.cells) - len(todo):
        say(f"{n_done} of {counted(len(plan.cells), 'cell')} {'is' if n_done == 1 else 'are'} done already")
    timing = Timing(store.took())
    end = None if minutes is None else time.monotonic() + 60 * minutes
    started, failed = 0, []
    twins = _distinct(todo)
    once = [
        replace(cell, is_paired=any(one.is_paired or one.id in compared for one in (cell, *same)))
        for cell, same in twins.items()
    ]

    def may_start(cell: Cell) -> bool:
        return end is None or time.monotonic() + (timing.expected(cell, profile.sizes_for(cell)) or 0) <= end

    told = {**data, PLACE: str(store.folder.absolute())}
    events = run_cells([(cell, profile.sizes_for(cell)) for cell in once], told, jobs, may_start, WORK)
    try:
        with CellsView(once, profile, timing, jobs) as view, closing(events):
            for event in events:
                if isinstance(event, Started):
                    started += 1
                    view.started(event.cell)
                    continue
                if event.outcome is None:
                    failed.append(event)
                else:
                    for each in (event.cell, *twins[event.cell]):
                        store.add(each, event.outcome)
                    spent = float(event.outcome.cell.get("train_seconds", 0.0))
                    timing.add(event.cell.dataset, Took(event.seconds, spent))
                view.finished(event)
    except KeyboardInterrupt:
        n_kept = len(look(store.folder, plan.cells).done)
        kept = f"{n_kept} of {counted(len(plan.cells), 'cell')} are kept in {store.folder}"
        raise Stopped(f"stopped; {kept}; repeat the command to go on") from None
    if started < len(once):
        say(f"{counted(len(once) - started, 'cell')} would have ended too late; repeat the command to go on")
    return failed


def _report(folder: Path) -> int:
    say(f"the report is in {make_report(folder, folder / 'report')}")
    return 0


def _jobs(wished: int | None) -> int:
    if wished is not None and wished < 1:
        raise SettingError(f"--jobs is {wished}; at least one process is needed")
    return wished or default_jobs()


def _seeds(text: str, profile: Profile) -> list[int]:
    """The seeds that were given; none where the profile's are meant."""
    words = text.split(",") if text else []
    if not all(word.strip().isdecimal() for word in words):
        raise SettingError(f"--seeds is {text!r}; write whole numbers with commas between them, as in 0,1,2")
    seeds = [int(word) for word in words]
    folds = min((sizes.folds for sizes in profile.sizes.values() if sizes.folds), default=0)
    if folds and any(seed >= folds for seed in seeds):
        raise SettingError(f"--seeds is {text!r}; the profile {profile.name} has the folds 0 to {folds - 1}")
    return seeds
