"""The road of `kvec train`: read, split, train with a display, save, and say what comes next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from kvec.decide.checkpoint import require_model_place
from kvec.doors.doubts import flattering
from kvec.doors.flags import SchemaFlags
from kvec.doors.measuring import evaluate_model, one_for_all, validation_traces
from kvec.doors.messages import Stopped, guesses, say, warn_of
from kvec.doors.promises import held_by
from kvec.doors.sources import open_by_flags, read_by_flags, read_by_schema
from kvec.doors.summary import counted
from kvec.doors.writing import require_apart
from kvec.estimator import KVEC
from kvec.learn.run import Record, best_of, kept_of, patient_from
from kvec.learn.settling import FEWEST
from kvec.learn.together import joined
from kvec.read.shards import Shards
from kvec.read.table import Table, require_labels
from kvec.tangle.inspection import misleading
from kvec.tangle.tangling import split as split_frame
from kvec.words.config import Config, Training
from kvec.words.errors import DataError, ModelError, SettingError
from kvec.words.processes import is_one_of_many, is_restarted, may_restart, rank_here, rank_on_host

WINDOW = 2_000_000  # items in memory at a time, as --stream has it
FEW = 50  # validation sequences on which an operating point is shaky


def settings_from(
    preset: str, file: Path | None, chosen: Mapping[str, Any], settings: Iterable[str], stream: bool = False
) -> Config:
    """The preset, then the file, then the flags, then every --set; a stream of its usual window unless they say.

    >>> settings_from("small", None, {"epochs": 3, "seed": None}, ["encoder.blocks=1"]).training.epochs
    3
    """
    config = Config.preset(preset)
    if file is not None:
        config = Config.from_toml(file, base=config)
    given = {name: value for name, value in chosen.items() if value is not None}
    config = Config.from_dict({"training": given}, where="the flags", base=config).override(settings)
    is_new = stream and not config.training.stream_items
    return config.override([f"training.stream_items={WINDOW}"]) if is_new else config


def train_model(
    data: Path, output: Path, flags: SchemaFlags, config: Config, validation: Path | None, test: Path | None,
    shares: str | None, device: str, resume: bool, quiet: bool,
) -> None:  # fmt: skip
    """Train a model into the folder `output`; a run that is stopped stays in `output`.training."""
    if validation is not None and shares is not None:
        raise SettingError("--validation and --split were both given; a split makes its own validation part")
    ratios = shares_of(shares or ("8:1:1" if test is None else "9:1"))
    require_model_place(output)
    require_apart(output, (data, validation, test, flags.labels, flags.schema))
    is_first = rank_here() == 0
    quiet = quiet or not is_first
    unfinished = output.with_name(output.name + ".training")
    if resume and not is_one_of_many() and not unfinished.is_file():  # of several hosts another may have kept it
        raise ModelError(f"{unfinished}: there is no unfinished training to resume; train without --resume")
    is_left = unfinished.exists() and not (resume or is_restarted())
    if is_left and is_first:
        say(f"{unfinished} holds an unfinished run, which is begun anew; --resume would have gone on with it")
    if is_left and may_restart() and rank_on_host() == 0:
        unfinished.unlink(missing_ok=True)  # processes that die while they read must not find it when they come again
    table, origin = (open_by_flags if config.training.stream_items else read_by_flags)(data, flags)
    if is_first:
        warn_of(table, but_not=("missing labels",))
    if not table.schema.label_names:
        way_out = (
            "say --labels by-file, by-folder or FILE; kvec label makes such a file"
            if table.schema.packets
            else "name one with --label, or a second table that holds it with --labels"
        )
        raise DataError(f"{data}: no label column is named; {way_out}")
    if isinstance(table, Table):
        require_labels(table)
        if is_first:
            _tell_unlabelled(table)
            for finding in misleading(table.frame, table.schema):
                say(f"warning: {finding.text}")
    if not quiet:
        _tell_schema(table, origin)
    held_out: Table | None = None
    tested = None if test is None else read_by_schema(test, table.schema, flags.labels)
    if validation is not None:
        held_out = read_by_schema(validation, table.schema, flags.labels)
    elif len(ratios) == 2 and isinstance(table, Table):
        part, rest = split_frame(table.frame, ratios, config.training.seed)
        table, held_out = replace(table, frame=part), replace(table, frame=rest)
    if (held := held_by(output)) and is_first:
        say(f"{held}, which will be replaced when training is over")
    model = KVEC.from_config(config, schema=table.schema, device=device, verbose=not quiet)
    with joined(model.torch_device()) as together:
        try:
            model.fit(table, held_out, split=ratios, progress=unfinished, resume=resume)
        except KeyboardInterrupt:
            if not is_first:
                raise SystemExit(130) from None  # the first says it
            kept = f"the run is kept in {unfinished}; repeat the command with --resume to go on"
            raise Stopped(
                f"stopped; {kept if unfinished.exists() else 'no epoch was over, so nothing is kept'}"
            ) from None
        if is_first:
            model.save(output)
        together.gathered(None)  # nothing is thrown away before the model is there
        if together.keeps:
            unfinished.unlink(missing_ok=True)
    if not is_first:
        return
    if held:
        say(f"the model that was in {output} is replaced")
    _tell_end(model, output, data, flags, held_out is None)
    if tested is not None:
        for doubt in flattering(tested.frame, model.model_, test):
            say(doubt)
        tangles = model.tangles(tested)
        for evaluation in evaluate_model(model, tangles, model.scores(tangles)):
            print(f"\n{test}, label {evaluation.label}\n\n{evaluation.to_text()}")


def shares_of(text: str) -> tuple[float, ...]:
    """The shares of a split.

    >>> shares_of("8:1:1")
    (8.0, 1.0, 1.0)
    """
    try:
        shares = tuple(float(part) for part in text.split(":"))
    except ValueError:
        shares = ()
    if len(shares) not in (2, 3):
        raise SettingError(
            f"--split is {text!r}; write the shares of training, validation and test as in 8:1:1, or 9:1 without a test"
        )
    return shares


def early_end(history: list[Record], settings: Training) -> str:
    """Why a run ended before its epochs; nothing where it did not."""
    done, best = len(history), int(best_of(history)["epoch"])
    if done >= settings.epochs:
        return ""
    if settings.keep == "best" and done - max(best, patient_from(settings)) >= settings.patience:
        better = "loss on validation" if settings.objective == "every" else "HM"
        why = f"no better {better} for {done - best} epoch{'s' * (done - best > 1)}"
    else:
        why = f"{settings.minutes:g} minute{'s were' if settings.minutes != 1 else ' was'} over"
    return f"stopped after {done} of {settings.epochs} epochs: {why}"


def kept_line(history: list[Record], settings: Training) -> str:
    """Which epoch's weights the model has, and by what they were chosen."""
    kept = kept_of(history, settings)
    why = " (it loses least on validation)" if "unseen" in kept else " (it has the best HM on validation)"
    if settings.keep == "last":
        why = ", being the last; on validation"
    return f"epoch {kept['epoch']:.0f} of {len(history)} is kept{why}"


def _tell_unlabelled(table: Table) -> None:
    n = table.frame.select("tangle", "key").n_unique()
    for name in table.schema.label_names:
        if without := table.frame.filter(pl.col(f"label.{name}").is_null()).select("tangle", "key").n_unique():
            say(
                f"{without:,} of {n:,} keys have no label in column {name!r}; the others are learned, and may look at "
                "their items"
            )


def _tell_schema(table: Table | Shards, origin: str) -> None:
    if origin:
        print(f"schema from {origin}")
    for line in guesses(table):
        print(f"guessed: {line}")


def _tell_end(model: KVEC, output: Path, data: Path, flags: SchemaFlags, is_split: bool) -> None:
    trained = model.model_
    settings = trained.config.training
    kept = kept_of(trained.history, settings)
    if early := early_end(trained.history, settings):
        print(early)
    print(f"the model is in {output}; {kept_line(trained.history, settings)}:")
    print(
        f"accuracy {kept['accuracy']:.4f}, earliness {kept['earliness']:.4f} (lower is better), HM {kept['hm']:.4f} "
        f"at {trained.operating_point}; accuracy at the end {kept['end_accuracy']:.4f}"
    )
    for sentence in one_for_all(validation_traces(trained), trained.threshold, trained.vocabulary.labels[0]):
        say(f"warning: on validation {sentence}")
    n_chosen_on = int((trained.validation["labels"][:, 0] >= 0).sum())
    if n_chosen_on < FEW and trained.config.deciding.threshold is None:
        chosen = "θ" if trained.delay_cost is None else "λ"
        way = ", or settle it: --set deciding.threshold=0.5" if trained.readiness.trigger == "hazard" else ""
        say(
            f"warning: the best epoch and {chosen} were chosen on {counted(n_chosen_on, 'sequence')} only, so {chosen} "
            f"may be off; bring more data{way}"
        )
    if trained.readiness.trigger == "calibrated":
        say(
            f"what halts is the probability of the best class: backward induction, which turns by λ, needs {FEWEST} "
            "labelled validation sequences or more; kvec tune --trigger induction with as many others brings it"
        )
    if is_split:
        more = ["--labels", str(flags.labels)] if flags.labels else []
        print(f"next: {shlex.join(['kvec', 'evaluate', str(output), str(data), '--split', 'test', *more])}")
