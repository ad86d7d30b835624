"""A promise on labelled data at hand: which share is lost there, by the promise's own measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvec.decide.guarantee import Calibration
from kvec.decide.promise import Promise, first_of


@dataclass(frozen=True)
class PromiseHere:
    """The share of sequences that are lost, of those of which something is promised."""

    alpha: float  # the share that is promised at the most
    lost: float | None  # None where there are no such sequences
    n_sequences: int
    classes: Mapping[str, tuple[float, int]] | None = None  # share and sequences of each, where each is promised
    missing: tuple[str, ...] = ()  # promised classes without a sequence

    @property
    def is_within(self) -> bool:
        """Whether no more are lost than promised; of each class, where each is promised."""
        return not self._exceeding and (self.classes is not None or (self.lost or 0.0) <= self.alpha)

    @property
    def _exceeding(self) -> list[str]:
        """The classes of which more are lost, with their shares."""
        return [
            f"{name!r} ({100 * lost:.3g}% of {n:,})"
            for name, (lost, n) in (self.classes or {}).items()
            if lost > self.alpha
        ]

    def line(self) -> str:
        """What is lost on this data, on one line."""
        of = "" if self.classes is None else " of these classes"
        if self.lost is None:
            return f"on this data: no sequence{of}"
        s = "s" * (self.n_sequences != 1)
        text = f"on this data: {100 * self.lost:.3g}% of {self.n_sequences:,} sequence{s}{of}"
        if self.is_within:
            text += f", {'each ' * (self.classes is not None)}within the promise"
        else:
            text += f"; more than promised of {first_of(self._exceeding)}" if of else ", more than promised"
        return text + (f"; there are none of {first_of([repr(name) for name in self.missing])}" if self.missing else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain: dict[str, Any] = {"lost": self.lost, "n_keys": self.n_sequences, "is_within": self.is_within}
        if self.classes is not None:
            plain["classes"] = {name: {"lost": lost, "n_keys": n} for name, (lost, n) in self.classes.items()}
        return plain


def promise_here(promise: Promise, found: Calibration, classes: Sequence[str]) -> PromiseHere:
    """Count what is lost at the first point of `found`; `classes` are the names of its true classes."""
    lost = found.lost(promise.kind)[0]
    if not promise.classes:
        return PromiseHere(promise.alpha, float(lost.mean()) if lost.size else None, lost.size)
    promised = [each.name for each in promise.classes if each.is_promised]
    of = {name: lost[found.truth == classes.index(name)] for name in promised}
    n = sum(each.size for each in of.values())
    return PromiseHere(
        promise.alpha, sum(int(each.sum()) for each in of.values()) / n if n else None, n,
        {name: (float(each.mean()), each.size) for name, each in of.items() if each.size},
        tuple(name for name, each in of.items() if not each.size) if n else (),
    )  # fmt: skip
