"""The words of `kvec reproduce` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def reproduce(
    experiment: Annotated[
        str,
        Argument(
            metavar="NAME|all|tune|FILE.toml",
            help="data (table I), curves (figures 3 to 7), sensitivity, ablation, attention, halting, keys, all of "
            "them; beyond the paper dial (one model against many), beyond (against rivals and yardsticks), visibility, "
            "ratings; an experiment of your own; or tune: search the settings that the paper leaves open.",
        ),
    ],
    profile: Annotated[
        str,
        Option(
            metavar="smoke|small|paper",
            help="Made data and a minute; real data, two cores and a night; or the paper's sizes.",
        ),
    ] = "smoke",
    data: Annotated[
        list[str] | None,
        Option(
            metavar="FOLDER|NAME=PATH",
            help="Where the data sets are; kvec datasets tells where they can be had. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Where the results are kept.", show_default="reproduced/PROFILE"),
    ] = None,
    jobs: Annotated[int | None, Option(metavar="N", help="Cells at a time.", show_default="all cores")] = None,
    seeds: Annotated[
        str, Option(metavar="0,1", help="Run each cell with these, not the profile's.", show_default=False)
    ] = "",
    only: Annotated[str, Option(metavar="TEXT", help="Only cells with this in their names.", show_default=False)] = "",
    minutes: Annotated[
        float | None, Option(metavar="M", help="Start no cell that would end later than this.", show_default=False)
    ] = None,
    tuned: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Settings that tune has found, in place of those that kvec brings along.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, Option(metavar="N", help="Settings that tune tries for each training.")] = 12,
    storage: Annotated[
        str | None,
        Option(
            metavar="URL|FILE",
            help="Where tune keeps its trials: a data base (postgresql://…) or a file on a folder that machines share, "
            "each of which runs the same command.",
            show_default="OUT/tuning.journal",
        ),
    ] = None,
    list_cells: Annotated[
        bool, Option("--list", help="Show the cells, done and to do, and how long they take; run nothing.")
    ] = False,
    report_only: Annotated[
        bool, Option("--report-only", help="Make figures and report anew from the results that are there.")
    ] = False,
) -> None:
    """Run the paper's experiments, or your own, on KVEC and its rivals, and report them.

    An experiment is made of cells: a data set, a training, a value of what is swept, and a seed.

    Each cell is kept when it is over, as rows of CSV files: stop at any time, and repeat the command to go on.
    """
    from kvec.doors.reproducing import Wishes, reproduce_experiments

    code = reproduce_experiments(Wishes(
        experiment, profile, tuple(data or ()), out, jobs, seeds, only, minutes, tuned, trials, storage,
        list_cells, report_only,
    ))  # fmt: skip
    raise typer.Exit(code)
