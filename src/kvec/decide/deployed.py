"""A trained model as streams need it: plain arrays and words, without PyTorch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load as load_arrays

from kvec.decide.dial import mixture
from kvec.decide.folder import Folder, as_damage, read_folder
from kvec.decide.operating import OperatingPoint
from kvec.decide.promise import Promise
from kvec.decide.readiness import Readiness, heard
from kvec.decide.ready import Ready
from kvec.decide.targets import Target
from kvec.decide.unknown import Unknown, settle
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.schema import Schema


@dataclass(frozen=True)
class Deployed:
    """A trained model as streams need it: plain arrays and words, no PyTorch."""

    weights: Mapping[str, npt.NDArray[Any]]  # of the network, and what the readiness keeps beside them
    vocabulary: Vocabulary
    schema: Schema
    config: Config
    has_time: bool
    threshold: float
    readiness: Readiness = field(default_factory=Readiness)
    promise: Promise | None = None  # as it was made, perhaps for another operating point
    delay_cost: float | None = None  # where its dial stands, if it has one; of a policy, in the weights as well
    unknown: Unknown = field(default_factory=Unknown)

    @property
    def operating_point(self) -> OperatingPoint:
        """Where on the trade-off it decides."""
        return OperatingPoint(self.threshold, self.delay_cost)

    @cached_property
    def ready(self) -> Ready:
        """How ready sequences are after arriving items, with the dial where it stands."""
        return Ready(self.readiness, len(self.vocabulary.labels[0]), self.delay_cost)

    @cached_property
    def promised(self) -> Promise | None:
        """The promise, where it is about this model as it is now."""
        made = self.promise
        return made if made is not None and made.is_about(self.operating_point.to_dict(), self.hash) else None

    @cached_property
    def hash(self) -> str:
        """Of everything that scores depend on but the operating point."""
        found = hashlib.blake2b(digest_size=16)
        for name in sorted(set(self.weights) - ({"dial"} if self.delay_cost is not None else set())):
            found.update(name.encode() + np.ascontiguousarray(self.weights[name]).tobytes())
        settings = {k: v for k, v in self.config.to_dict().items() if k in ("visibility", "encoder")}
        after_halt = self.config.deciding.after_halt
        plain = [self.vocabulary.to_dict(), self.schema.to_dict(), settings, after_halt, self.has_time]
        if (readiness := self.readiness.to_plain()) != Readiness().to_plain():
            plain.append(readiness)
        found.update(json.dumps(plain, sort_keys=True).encode())
        return found.hexdigest()

    def deployed(self) -> Deployed:
        """This model itself."""
        return self

    def turned(self, point: OperatingPoint) -> Deployed:
        """The same model at another operating point."""
        weights = _dialled(self.weights, self.readiness, point.delay_cost)
        return replace(self, weights=weights, threshold=point.threshold, delay_cost=point.delay_cost)

    def to_plain(self) -> dict[str, Any]:
        """All but the weights as plain data."""
        return {
            "vocabulary": self.vocabulary.to_dict(), "schema": self.schema.to_dict(), "config": self.config.to_dict(),
            "has_time": self.has_time, "threshold": self.threshold, "readiness": self.readiness.to_plain(),
            "promise": self.promise.to_dict() if self.promise else None, "delay_cost": self.delay_cost,
            "unknown": self.unknown.to_plain(),
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], weights: Mapping[str, npt.NDArray[Any]]) -> Deployed:
        """Read what `to_plain` wrote."""
        return cls(
            weights, Vocabulary.from_dict(plain["vocabulary"]), Schema.from_dict(plain["schema"]),
            Config.from_dict(plain["config"]), plain["has_time"], plain["threshold"],
            Readiness.from_plain(plain.get("readiness"), weights), _promise(plain.get("promise")),
            plain.get("delay_cost"), Unknown.from_plain(plain.get("unknown")),
        )  # fmt: skip


class Deployable(Protocol):
    """A model that streams can use: a fitted KVEC, as `kvec.load` reads one, or what it gave before."""

    def deployed(self) -> Deployed:
        """The model as streams need it."""
        ...


def deployed(given: Deployable) -> Deployed:
    """A model as streams need it; what is none is refused."""
    if not hasattr(given, "deployed"):
        raise SettingError(f"{given!r:.80} is no model; give a fitted KVEC, such as kvec.load(path) reads")
    return given.deployed()


def deploy(folder: Folder) -> Deployed:
    """The model in a folder that was read."""
    where = str(folder.path / "kvec.json")
    point = OperatingPoint.from_dict(folder.card["operating_point"])
    weights = load_arrays(folder.files["weights.safetensors"])
    readiness = Readiness.from_plain(folder.card.get("readiness"), weights)
    return Deployed(
        _dialled(weights, readiness, point.delay_cost),
        Vocabulary.from_dict(json.loads(folder.files["vocabulary.json"])),
        Schema.from_dict(folder.card["schema"], where=where),
        Config.from_dict(folder.card["settings"], where=where),
        folder.card["has_time"],
        point.threshold,
        readiness,
        _promise(folder.card.get("promise")),
        point.delay_cost,
        Unknown.from_plain(folder.card.get("unknown")),
    )


def _dialled(
    weights: Mapping[str, npt.NDArray[Any]], readiness: Readiness, delay_cost: float | None
) -> dict[str, npt.NDArray[Any]]:
    """The weights with the dial of the policy at a delay cost, where it has one and halts."""
    if delay_cost is None or readiness.trigger != "hazard":
        return dict(weights)
    dial = weights["dial"]
    return {**weights, "dial": mixture(delay_cost, len(dial))[0].astype(dial.dtype)}


def _promise(plain: Mapping[str, Any] | None) -> Promise | None:
    return None if plain is None else Promise.from_dict(plain)


def load_deployed(path: str | Path, target: Target | None = None) -> Deployed:
    """Read a model folder without PyTorch, at the operating point that meets a target; what is damaged is refused."""
    folder = read_folder(path)
    with as_damage(path):
        model = deploy(folder)
        if not target:
            return model
        kept = validation_of(folder, model.readiness)
    point, unknown = settle(
        target, kept, model.operating_point, model.unknown, model.vocabulary.labels[0], model.config
    )
    return replace(model.turned(point), unknown=unknown)


def validation_of(folder: Folder, readiness: Readiness) -> dict[str, npt.NDArray[Any]]:
    """What was kept of the validation sequences, with the scores of what halts."""
    kept = load_arrays(folder.files["validation.safetensors"])
    for marks in ("seen", "tuned"):  # of sequences that it knows, which are others
        kept.pop(marks, None)
    return heard(readiness, kept)
