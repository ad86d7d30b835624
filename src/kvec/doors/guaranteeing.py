"""The road of `kvec guarantee`: unseen labelled data, the operating points, their losses, and the promise."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.decide.calibrating import calibration, halts_at
from kvec.decide.checkpoint import Trained, require_model_place, save_model
from kvec.decide.drift import reference
from kvec.decide.folder import rewrite_card
from kvec.decide.guarantee import KNOWN_BEFORE, Wish, guarantee
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.scores import Scores
from kvec.decide.spent import noted, spent
from kvec.doors.doubts import require_unused, used
from kvec.doors.measuring import require_truth
from kvec.doors.messages import say, warn_of
from kvec.doors.promises import held_by, left_out, promise_text
from kvec.doors.show import scoring
from kvec.doors.sources import read_by_schema, take_part
from kvec.doors.writing import require_apart
from kvec.estimator import KVEC, load
from kvec.read.table import Table
from kvec.tangle.seen import seen_marks
from kvec.tangle.tangles import Tangles
from kvec.words.errors import DataError, ModelError, SettingError

MOST_BLOCKS = 2**62  # that can be numbered


@dataclass(frozen=True)
class Wishes:
    """What was asked for on the command line."""

    model: Path
    data: Path
    max_early_error: float | None = None
    max_error: float | None = None
    per_class: bool = False
    confidence: float = 0.95
    max_keys: int | None = None
    block: float | None = None
    bound: str = "betting"
    part: str | None = None
    labels: Path | None = None
    unchecked: bool = False
    as_json: bool = False
    device: str = "auto"
    output: Path | None = None  # where the model with the promise goes; None: where it is
    again: bool = False


def guarantee_model(wishes: Wishes) -> str:
    """Make a promise, write it into the model folder with its operating point, and tell of it."""
    wish = _wish(wishes)
    if wishes.output is not None:
        require_model_place(wishes.output)
        require_apart(wishes.output, (wishes.data, wishes.labels))
    model = load(wishes.model, wishes.device)
    trained = model.model_
    if trained.config.deciding.after_halt == "drop":
        raise ModelError(
            f"{wishes.model} drops the items of decided sequences, so that its scores depend on its operating point; a "
            "promise needs a model with deciding.after_halt = 'keep'"
        )
    table = _unseen(wishes, trained)
    marks = seen_marks(table.frame)
    deployed = model.deployed()
    wished = asdict(wish) | {"max_keys": wishes.max_keys, "block": wishes.block, "model": deployed.hash}
    earlier = spent(trained.calibrated, wished, marks)
    if earlier is not None and not wishes.again:
        raise DataError(
            f"{wishes.data}: these sequences gave the promise of {earlier['made']}, {_named(earlier['wish'])}; the "
            "confidence does not cover a second one of another wish, of a model that was tuned since, or on more or "
            "fewer of them, so use other data, or go on with --again"
        )
    require_truth(table)
    warn_of(table)
    tangles = model.tangles(table)
    with scoring() as on_items:
        scores = model.scores(tangles, on_items)
    known = _labelled(tangles, trained, wishes.data)
    unit = units(tangles, wishes.block)
    _warn_of_groups(tangles, unit)
    most_keys = _most_keys(wishes, trained)
    _require_few_keys(tangles, unit, known, most_keys, wishes)
    found = calibration(tangles, scores, known, unit, Held.of(trained.validation).grid(), wishes.block)
    promise = guarantee(
        found, wish, most_keys, trained.vocabulary.label_names[0], _most_of_classes(wishes, trained, most_keys)
    )
    point = OperatingPoint.from_dict(promise.operating_point)
    if earlier is not None:
        more = "these sequences gave another promise before, and this one was not chosen for being the nicer"
        promise = replace(promise, assumption=f"{promise.assumption}; {more}")
    promise = replace(
        promise, made=date.today().isoformat(), model=deployed.turned(point).hash,
        calibration=hashlib.blake2b(marks.tobytes(), digest_size=16).hexdigest(),
        reference=_reference(model, tangles, scores, point, wishes.block),
    )  # fmt: skip
    unknown = trained.unknown.settled(trained.validation, point)
    calibrated = noted(trained.calibrated, wished, marks, promise.made)
    if wishes.output is None:
        if trained.promise is not None:
            say(f"the promise of {trained.promise.made} in {wishes.model} is replaced")
        also = {"unknown": unknown.to_plain()} if unknown.is_asked else {}
        entries = {"operating_point": promise.operating_point, "promise": promise.to_dict(), "calibrated": calibrated}
        rewrite_card(wishes.model, **entries, **also)
    else:
        if held := held_by(wishes.output):
            say(f"{held}, which is replaced")
        save_model(
            replace(trained.turned(point), promise=promise, unknown=unknown, calibrated=calibrated), wishes.output
        )
        try:
            rewrite_card(wishes.model, calibrated=calibrated)
        except ModelError as problem:
            say(f"warning: {problem}, so it does not remember that these sequences gave a promise")
    if warning := left_out(promise):
        say(warning)
    if wishes.as_json:
        before = {"operating_point_before": trained.operating_point.to_dict()}
        return json.dumps(promise.to_dict() | before, allow_nan=False)
    return promise_text(promise, trained.operating_point, wishes.output or wishes.model)


def units(tangles: Tangles, block: float | None) -> npt.NDArray[np.int64]:
    """(S,) the unit of each sequence: its tangle as given, and the block of time in which its first item lies."""
    given = tangles.given[tangles.tangle_of].astype(np.int64)
    if block is None:
        return given
    if not 0 < block < math.inf:
        raise SettingError(f"--block is {block:g}; it must be a time in seconds above 0")
    if tangles.time is None:
        raise SettingError("--block needs times, and this data has no time column")
    if np.abs(tangles.time).max(initial=0.0) / block >= MOST_BLOCKS:
        raise SettingError(f"--block is {block:g} seconds, too short for times as large as those of this data")
    return _blocks(given, tangles.time[tangles.sequences.first], block)


def _blocks(given: npt.NDArray[np.int64], time: npt.NDArray[np.float64], block: float) -> npt.NDArray[np.int64]:
    pairs = np.stack([given, np.floor_divide(time, block).astype(np.int64)])
    return np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _wish(wishes: Wishes) -> Wish:
    given = {"early error": wishes.max_early_error, "error": wishes.max_error}
    chosen = {kind: alpha for kind, alpha in given.items() if alpha is not None}
    if len(chosen) != 1:
        raise SettingError("say what is promised: either --max-early-error SHARE or --max-error SHARE")
    ((kind, alpha),) = chosen.items()
    return Wish(kind, alpha, wishes.confidence, wishes.bound, wishes.per_class)


def _named(wish: Mapping[str, object]) -> str:
    """The wish of an earlier promise as flags."""
    return f"--max-{str(wish['kind']).replace(' ', '-')} {wish['alpha']:g}{' --per-class' * bool(wish['per_class'])}"


def _unseen(wishes: Wishes, trained: Trained) -> Table:
    """The calibration data, which the model must not have seen."""
    table = read_by_schema(wishes.data, trained.schema, wishes.labels)
    if wishes.part is not None:
        if wishes.part != "test":
            raise SettingError(
                f"--split is {wishes.part!r}; of the parts of the data only test was not used in training"
            )
        table, _ = take_part(table, trained.split, wishes.part, wishes.model)
    if trained.seen is None:
        if not wishes.unchecked:
            raise ModelError(
                f"{wishes.model} was trained by an older kvec and does not know which sequences it has seen, so it "
                "cannot be checked that these are others; train it again, or vouch for it with --unchecked"
            )
        return table
    so = "training, validation or tuning, so nothing can be promised on them"
    require_unused(table.frame, trained, used(trained), wishes.data, wishes.part, so)
    return table


def _labelled(tangles: Tangles, trained: Trained, data: Path) -> npt.NDArray[np.bool_]:
    """(S,) which sequences have a label; one that the model does not know counts as wrong."""
    name = trained.vocabulary.label_names[0]
    given = tangles.frame[f"label.{name}"][tangles.sequences.first]
    known: npt.NDArray[np.bool_] = given.is_not_null().to_numpy()
    if n := int((tangles.labels[known, 0] < 0).sum()):
        if n == known.sum():
            raise DataError(
                f"{data}, column {name!r}: the model knows none of the classes, such as {given.drop_nulls()[0]!r}, but "
                f"{', '.join(map(repr, trained.vocabulary.labels[0][:3]))} for example; of these sequences nothing can "
                "be promised"
            )
        say(f"warning: {n:,} sequences have a class that the model does not know; they are always wrong")
    if n := int((~known).sum()):
        say(f"{n:,} sequences without a label are left out; the promise is about labelled ones")
    return known


def _validation_keys(trained: Trained, of: int | None = None) -> int:
    """The most labelled sequences of a validation tangle; of one class, if it is named."""
    kept = trained.validation
    labels = kept["labels"][:, 0]
    tangle = kept["tangle"][labels >= 0 if of is None else labels == of]
    return int(np.bincount(tangle).max()) if tangle.size else 1


def _most_keys(wishes: Wishes, trained: Trained) -> int:
    if wishes.max_keys is not None:
        if wishes.max_keys < 1:
            raise SettingError(f"--max-keys is {wishes.max_keys}; at least 1 is needed")
        return wishes.max_keys
    if wishes.block is not None:
        raise SettingError("--block needs --max-keys, the most labelled sequences that can ever begin in a block")
    tangling = trained.schema.tangling
    return tangling.number if tangling and tangling.of == "key" else 2 * _validation_keys(trained)


def _most_of_classes(wishes: Wishes, trained: Trained, most_keys: int) -> Mapping[str, int]:
    names = trained.vocabulary.labels[0]
    if wishes.max_keys is not None:
        return dict.fromkeys(names, most_keys)
    return {name: min(2 * _validation_keys(trained, number), most_keys) for number, name in enumerate(names)}


def _require_few_keys(
    tangles: Tangles, unit: npt.NDArray[np.int64], known: npt.NDArray[np.bool_], most_keys: int, wishes: Wishes
) -> None:
    counts = np.bincount(unit[known])
    if counts.size and counts.max() > most_keys:
        first = int(np.flatnonzero((unit == counts.argmax()) & known)[0])
        is_endless = wishes.block is None and np.count_nonzero(counts) == 1
        endless = "; one endless tangle is one unit alone, and needs --block SECONDS" if is_endless else ""
        where = "said" if wishes.max_keys is not None else "of the tangling, or twice the most of validation"
        raise DataError(
            f"tangle {tangles.names()['tangle'][first]!r} holds more labelled sequences"
            f"{' in one block' if wishes.block else ''} than {most_keys:,}, the number {where}; {KNOWN_BEFORE}{endless}"
        )


def _warn_of_groups(tangles: Tangles, unit: npt.NDArray[np.int64]) -> None:
    if "group" in tangles.frame.columns:
        group = tangles.frame["group"][tangles.sequences.first]
        spread = pl.DataFrame({"group": group, "unit": unit}).group_by("group").agg(pl.col("unit").n_unique())
        if n := int((spread["unit"] > 1).sum()):
            say(
                f"warning: {n:,} groups lie in several units, which are taken to be independent; if groups depend on "
                "themselves, the promise is too bold"
            )


def _reference(
    model: KVEC, tangles: Tangles, scores: Scores, point: OperatingPoint, block: float | None
) -> dict[str, str]:
    """What decisions look like at the promised point, unit by unit, as a stream would tell them.

    A tangle that was idle for too long begins anew, and is another unit then: a stream has let go of it, and cannot
    know whether it comes again. The units of the promise are tangles as given, since their parts depend on each other.
    """
    halts = halts_at(scores, point)
    stops = np.where(halts > 0, halts, tangles.sequences.length)
    at = scores.offsets[:-1] + stops - 1
    shares = scores.classes[0][at]
    unit = tangles.tangle_of.astype(np.int64)
    if block is not None and tangles.time is not None:
        unit = _blocks(tangles.given[unit].astype(np.int64), tangles.time[tangles.sequences.by_sequence[at]], block)
    classes = model.model_.vocabulary.labels[0]
    return reference(unit, shares.max(axis=1).astype(np.float64), stops, shares.argmax(axis=1), classes)
