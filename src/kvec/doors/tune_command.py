"""The words of `kvec tune` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kvec.doors.dialing import At, target_of
from kvec.words.errors import SettingError


def tune(
    model: Annotated[Path, Argument(metavar="MODEL", help="A folder that kvec train has written.")],
    data: Annotated[Path, Argument(metavar="DATA", help="Labelled sequences that the model was not trained on.")],
    output: Annotated[
        Path,
        Option("-o", "--output", metavar="MODEL", help="The folder of the tuned model; one that is there is replaced."),
    ],
    trigger: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="What halts: the learned score (hazard), the calibrated probability (calibrated), or backward "
            "induction on the cost of waiting (induction). Without it all are tried, and the model's own stays unless "
            "another is ahead beyond chance.",
            show_default=False,
        ),
    ] = None,
    at: At = None,
    abstain_below: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Sequences that end less sure than this probability are decided as not known.",
            show_default=False,
        ),
    ] = None,
    abstain_at_halts: Annotated[
        bool, Option("--abstain-at-halts", help="Also those that halt.", show_default=False)
    ] = False,
    abstain_at_ends: Annotated[
        bool, Option("--abstain-at-ends", help="Only those that end, where the model did otherwise.")
    ] = False,
    unknown_below: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Sequences that are stranger than all but this share of DATA are decided as not known.",
            show_default=False,
        ),
    ] = None,
    part: Annotated[
        str | None, Option("--split", metavar="test", help="The test part of the data the model was trained on.")
    ] = None,
    labels: Annotated[
        Path | None, Option(metavar="FILE", help="A second table with the labels, joined per key.", show_default=False)
    ] = None,
    device: Annotated[str, Option("--device", metavar="auto|cpu|cuda", help="Where the network runs.")] = "auto",
) -> None:
    """Fit only the trigger of a model on new data, in seconds: temperatures, way of halting, operating point."""
    from kvec.doors.tuning import tune_model

    if abstain_at_halts and abstain_at_ends:
        raise SettingError("--abstain-at-halts and --abstain-at-ends were both given; choose one of them")
    at_halts = abstain_at_halts if abstain_at_halts or abstain_at_ends else None
    words = {"abstain_below": abstain_below, "abstain_at_halts": at_halts, "unknown_below": unknown_below}
    given = {name: value for name, value in words.items() if value is not None}
    target = target_of(at)
    for name in sorted(set(target) & set(given)):
        raise SettingError(f"{name} was given twice, in --at and as --{name.replace('_', '-')}; choose one of them")
    tune_model(model, data, output, trigger, target | given, labels, device, part)
