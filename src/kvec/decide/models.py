"""Models that many streams share: known by their hash, and each network is there once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.deployed import Deployed
from kvec.decide.engine import Engine
from kvec.decide.operating import OperatingPoint
from kvec.words.errors import ModelError
from kvec.words.limits import Limits


class Models:
    """The models that streams of one thread may have: the newest, and older ones that still decide."""

    def __init__(self, newest: Deployed, older: Iterable[Deployed] = ()) -> None:
        self.newest = newest
        self._given = (newest, *older)
        self._found: dict[str, Deployed] = {repr(named(model)): model for model in reversed(self._given)}
        self._moulds: dict[tuple[int, Limits, str], Engine] = {}

    def find(self, name: Mapping[str, Any]) -> Deployed:
        """The model that `named` named; one that nobody gave is refused."""
        found = self._found.get(repr(dict(name)))
        if found is None:
            found = self._found[repr(dict(name))] = self._turned(name)
        return found

    def _turned(self, name: Mapping[str, Any]) -> Deployed:
        """A given model, turned to where it stood."""
        for model in self._given:
            if model.hash == name["hash"] and named(model)["unknown"] == name["unknown"]:
                return model.turned(OperatingPoint.from_dict(name["point"]))
        raise ModelError(
            f"the state was made by another model (hash {name['hash']}); name its folder too, so that it can decide "
            "what it has begun"
        )

    def is_newest(self, model: Deployed) -> bool:
        """Whether decisions of a model are those of the newest."""
        return model is self.newest or named(model) == named(self.newest)

    def like(self, model: Deployed, limits: Limits, dtype: npt.DTypeLike) -> Engine:
        """An engine of a model, to share its network with."""
        which = (id(model), limits, np.dtype(dtype).name)
        if which not in self._moulds:
            self._moulds[which] = Engine(model, limits, model.threshold, dtype)
        return self._moulds[which]


def is_newly_promised(has: Deployed, had: Deployed) -> bool:
    """Whether a model that decides alike promises something now that it did not before, whenever that was made."""
    new, old = has.promised, had.promised
    return new is not None and (old is None or replace(new, made="") != replace(old, made=""))


def named(model: Deployed) -> dict[str, Any]:
    """All that decisions of a model depend on, in a few words."""
    unknown = ""
    if model.unknown.is_asked:
        plain = json.dumps(model.unknown.to_plain(), sort_keys=True).encode()
        unknown = hashlib.blake2b(plain, digest_size=16).hexdigest()
    return {"hash": model.hash, "point": model.operating_point.to_dict(), "unknown": unknown}
