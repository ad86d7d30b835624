"""One version of a served model: what its folder holds, where on its trade-off it works, and its card."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from kvec import __version__
from kvec.decide.deployed import Deployed, deploy, validation_of
from kvec.decide.folder import as_damage, read_folder
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.promise import Promise
from kvec.decide.targets import WHEN_UNKNOWN, Target
from kvec.decide.unknown import Unknown, settle
from kvec.doors.service.wording import fields_told

POINTS = 60  # of the curve that is told


@dataclass(frozen=True)
class Version:
    """A model at an operating point, with what validation told of the others."""

    base: Deployed  # as the folder has it
    point: OperatingPoint
    unknown: Unknown  # when a decision there says that it does not know
    kept: Mapping[str, npt.NDArray[Any]]  # of the validation sequences
    held: Held  # what they told of the trade-off
    curve: list[dict[str, Any]]  # points of it, from latest to earliest

    @classmethod
    def read(cls, path: Path, target: Target | None = None) -> Version:
        """Read a model folder, at the point that meets a target; what is damaged is refused."""
        folder = read_folder(path)
        with as_damage(path):
            base = deploy(folder)
            kept = validation_of(folder, base.readiness)
            held = Held.of(kept)
            version = cls(base, base.operating_point, base.unknown, kept, held, _curve(held))
        return version.aimed(target) if target else version

    def aimed(self, target: Target) -> Version:
        """The same model at the point that meets a target best; one that none meets is refused."""
        classes = self.base.vocabulary.labels[0]
        point, unknown = settle(target, self.kept, self.point, self.unknown, classes, self.base.config)
        return replace(self, point=point, unknown=unknown)

    def at(self, point: OperatingPoint) -> Version:
        """The same model at this point."""
        return replace(self, point=point, unknown=self.unknown.settled(self.kept, point))

    @cached_property
    def model(self) -> Deployed:
        """The model as a stream runs it."""
        return replace(self.base.turned(self.point), unknown=self.unknown)

    @property
    def mark(self) -> list[Any]:
        """By what a state knows the version that it was started with."""
        words = [float(getattr(self.unknown, word)) for word in WHEN_UNKNOWN]
        promise = None if self.base.promise is None else self.base.promise.to_dict()
        made = hashlib.blake2b(json.dumps(promise, sort_keys=True).encode(), digest_size=8).hexdigest()
        return [self.base.hash, self.point.threshold, self.point.delay_cost, *words, made]

    def told(self, point: OperatingPoint) -> dict[str, Any]:
        """A point with what it gave on validation."""
        stops = self.held.stops(point)
        return _point(point, float(self.held.earliness(stops)), float(self.held.accuracy(stops)))

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """The value fields with the values that training knew."""
        return fields_told(self.base.vocabulary)

    def card(self, name: str) -> dict[str, Any]:
        """All that is to be known of the model, as plain data."""
        schema, vocabulary, model = self.base.schema, self.base.vocabulary, self.model
        return {
            "name": name, "hash": model.hash, "kvec": __version__, "labels": list(vocabulary.labels[0]),
            "label_columns": dict(zip(vocabulary.label_names, map(list, vocabulary.labels), strict=True)),
            "fields": self.fields, "key": list(schema.key), "tangle": schema.tangle, "time": schema.time,
            "end": schema.end, "session": list(schema.session), "has_time": self.base.has_time,
            "threshold": self.point.threshold, "delay_cost": self.point.delay_cost, "point": self.told(self.point),
            "curve": self.curve, "settings": self.base.config.to_dict(),
            "promise": None if model.promised is None else _promise(model.promised),
        }  # fmt: skip


def _curve(held: Held) -> list[dict[str, Any]]:
    """The trade-off on validation; it takes a while, and no dial changes it."""
    found = zip(held.path, held.earliness(held.along), held.accuracy(held.along), strict=True)
    points = [_point(one, float(late), float(right)) for one, late, right in found if one.threshold <= 1]
    step = max(len(points) // POINTS, 1)
    return points[::step]


def _promise(promise: Promise) -> dict[str, Any]:
    told = {name: value for name, value in promise.to_dict().items() if name != "reference"}  # what drift is seen by
    return {"text": promise.line(), **told}


def _point(point: OperatingPoint, earliness: float, accuracy: float) -> dict[str, Any]:
    saved = 1 - earliness
    hm = 2 * accuracy * saved / max(accuracy + saved, 1e-12)
    return {
        "threshold": point.threshold, "delay_cost": point.delay_cost, "earliness": earliness, "accuracy": accuracy,
        "hm": hm,
    }  # fmt: skip
