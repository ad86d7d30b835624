"""The words of `kvec train` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from kvec.doors.flags import SchemaFlags, with_schema_flags

Data = Annotated[
    Path,
    Argument(
        metavar="DATA",
        help="A table (.parquet, .csv, .csv.gz, .ndjson), a folder of such files of one kind, captures (.pcap, "
        ".pcapng), a MovieLens folder, or authors' .npy.",
    ),
]
Device = Annotated[str, Option("--device", metavar="auto|cpu|cuda", help="Where the network runs.")]


@with_schema_flags
def train(
    data: Data,
    output: Annotated[
        Path,
        Option(
            "-o", "--output", metavar="MODEL", help="The folder the model is written to; one that is there is replaced."
        ),
    ],
    flags: SchemaFlags,
    validation: Annotated[
        Path | None, Option(metavar="FILE", help="Choose the best epoch and what halts on these sequences.")
    ] = None,
    test: Annotated[Path | None, Option(metavar="FILE", help="Evaluate on these sequences at the end.")] = None,
    split: Annotated[
        str | None,
        Option(metavar="8:1:1", help="Shares of training, validation and test, by whole groups or tangles and --seed."),
    ] = None,
    seed: Annotated[int | None, Option(help="The same seed gives the same split and the same model.")] = None,
    preset: Annotated[str, Option(help="small, paper-traffic or paper-movielens.")] = "small",
    config: Annotated[Path | None, Option(metavar="FILE", help="Settings as TOML, over the preset.")] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="GROUP.NAME=VALUE", help="One setting, as in encoder.blocks=3; can be repeated."),
    ] = None,
    objective: Annotated[
        str | None,
        Option(
            help="every (the default: the classifier learns at every length, what halts is fitted on validation), "
            "expected (the exact expected cost of stopping) or paper (sampled halts, REINFORCE)."
        ),
    ] = None,
    epochs: Annotated[int | None, Option(help="Passes over the training sequences at the most.")] = None,
    minutes: Annotated[float | None, Option(help="Stop after the epoch that passes this many minutes.")] = None,
    class_weights: Annotated[
        str | None, Option(metavar="none|balanced", help="balanced lets rare classes count as much as others.")
    ] = None,
    stream: Annotated[
        bool,
        Option(
            "--stream",
            help="Read Parquet, 2 million items (training.stream_items) at a time: data that does not fit in memory.",
        ),
    ] = False,
    device: Device = "auto",
    resume: Annotated[bool, Option("--resume", help="Go on with a run that was stopped or killed.")] = False,
    quiet: Annotated[bool, Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train a model that names each key early.

    Without --validation and --test, the data is split 8:1:1; evaluate --split test finds its test part again.

    In several processes, on one host or many: torchrun --nproc-per-node 2 -m kvec train …, and the rest as it is.
    """
    from kvec.doors.training import settings_from, train_model
    from kvec.doors.writing import require_apart

    require_apart(output, (config,))
    chosen = {
        "seed": seed, "objective": objective, "epochs": epochs, "minutes": minutes, "class_weights": class_weights,
    }  # fmt: skip
    resolved = settings_from(preset, config, chosen, settings or (), stream)
    train_model(data, output, flags, resolved, validation, test, split, device, resume, quiet)
