"""A promise about errors: what was promised of which operating point, on what evidence, and under which assumption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kvec.words.errors import ModelError

KINDS = {
    "early error": "wrong when decided early, though right at their end",
    "error": "wrong",
}


@dataclass(frozen=True)
class ClassPromise:
    """What is promised of the sequences of one true class; where nothing is, why."""

    name: str
    is_promised: bool
    why_not: str  # empty where it is promised
    n_units: int  # units that hold the class
    n_sequences: int
    most_keys: int  # of the class in one unit
    observed: float  # share of losses at the operating point
    upper: float  # confidence bound of that point alone, at this class's share of δ


@dataclass(frozen=True)
class Promise:
    """Of future sequences at most the share `alpha` is lost: E[losses of a unit] / E[sequences of a unit] ≤ α.

    The confidence is over the draw of the calibration units.
    """

    kind: str  # early error, or error
    label: str  # the label column
    alpha: float
    confidence: float  # 1 − δ
    bound: str
    operating_point: dict[str, float]
    n_points: int  # operating points of the grid, fixed before calibration
    n_passed: int  # of these, before the first that failed
    most_keys: int  # K_max, fixed before calibration
    n_units: int
    n_sequences: int
    observed: float  # share of losses at the operating point
    upper: float  # confidence bound of that point alone
    earliness: float  # of the calibration sequences at the operating point; lower is better
    block: float | None  # seconds of a unit, where units are blocks of time
    assumption: str
    classes: tuple[ClassPromise, ...] = ()  # where it holds for each true class by itself
    made: str = ""  # date
    model: str = ""  # hash of what scores depend on
    calibration: str = ""  # hash of the calibration data
    reference: dict[str, str] | None = None  # what decisions looked like, for those who watch

    @property
    def delta(self) -> float:
        """The chance that calibration misled."""
        return 1 - self.confidence

    @property
    def unit(self) -> str:
        """What is counted as independent."""
        return "tangles" if self.block is None else f"blocks of {self.block:g} s"

    def line(self) -> str:
        """The promise on one line."""
        of = f"sequences of each of {self._n_promised} classes" if self.classes else "sequences"
        left_out = len(self.classes) - self._n_promised
        but = f"; nothing is promised of {left_out} other{'s' * (left_out > 1)}" if left_out else ""
        return (
            f"promised: at most {100 * self.alpha:g}% of {of} are {KINDS[self.kind]} ({100 * self.confidence:g}% "
            f"confidence, from {self.n_units:,} {self.unit}, {self.made}){but}"
        )

    def is_about(self, operating_point: Mapping[str, float], model: str) -> bool:
        """Whether it speaks of this operating point of this model."""
        return dict(operating_point) == self.operating_point and model == self.model

    @property
    def _n_promised(self) -> int:
        return sum(each.is_promised for each in self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        plain = asdict(self) | {"classes": [asdict(each) for each in self.classes]}
        return {name: value for name, value in plain.items() if value is not None}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Promise:
        """Read what `to_dict` wrote."""
        known = {f.name for f in fields(cls)}
        given = {"block": None} | dict(plain)
        if unknown := given.keys() - known:
            raise ModelError(f"the promise has an entry {min(unknown)!r} that this kvec does not know: upgrade kvec")
        classes = tuple(ClassPromise(**each) for each in given.pop("classes", ()))
        return cls(**given, classes=classes)
