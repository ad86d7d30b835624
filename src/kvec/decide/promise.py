"""A promise about errors: what was promised of which operating point, on what evidence, and under which assumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from kvec.words.errors import ModelError

SHOWN = 3  # names of classes in a line
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
    observed: float  # share of losses at the operating point; where classes are promised, of theirs alone
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
        of = f"sequences{self._of_classes()}"
        left_out = [each.name for each in self.classes if not each.is_promised]
        but = f"; nothing is promised of {_some(left_out)}" if left_out else ""
        return (
            f"promised: at most {100 * self.alpha:g}% of {of} are {KINDS[self.kind]} ({100 * self.confidence:g}% "
            f"confidence, from {self.n_units:,} {self.unit}, {self.made}){but}"
        )

    def is_about(self, operating_point: Mapping[str, float], model: str) -> bool:
        """Whether it speaks of this operating point of this model."""
        return dict(operating_point) == self.operating_point and model == self.model

    @property
    def n_observed(self) -> int:
        """The calibration sequences of which something is promised."""
        kept = [each.n_sequences for each in self.classes if each.is_promised]
        return sum(kept) if self.classes else self.n_sequences

    def _of_classes(self) -> str:
        """Of which classes it holds, each by itself; by name where others are left out."""
        kept = [each.name for each in self.classes if each.is_promised]
        if not kept:
            return ""
        if len(kept) == len(self.classes) > 1:
            return f" of each of {len(kept)} classes"
        return f" of {'class' if len(kept) == 1 else 'each of the classes'} {_some(kept)}"

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


def _some(names: Sequence[str]) -> str:
    """The first few of some names.

    >>> _some(["a", "b", "c", "d", "e"])
    "'a', 'b', 'c' and 2 more"
    """
    return first_of([repr(name) for name in names])


def first_of(texts: Sequence[str]) -> str:
    """The first few of some texts, and how many more there are."""
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")
