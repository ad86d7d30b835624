"""When a decision says that it does not know: too unsure, or too strange for the classes that the model knows.

How strange a sequence is becomes a share: of the validation sequences that were decided after about as many items (the
same octave), how many were at least as strange? Counted with the sequence itself, that is a (cross-)conformal p-value,
its *familiarity*: of new sequences of the known classes about the share α has one of at most α.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.decide.held import some_of
from kvec.decide.operating import Held, OperatingPoint, require_turnable
from kvec.decide.targets import WHEN_UNKNOWN, Target, require_number, with_classes
from kvec.decide.triggers.base import logs_of
from kvec.decide.usual import Usual
from kvec.words.config import Config
from kvec.words.errors import SettingError

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
ENOUGH = 4.0  # expected strange ones of a group; octaves with fewer validation sequences are put together
MOST = 2000  # validation sequences of a group, where these are enough
FOLDS = 5  # of validation sequences: each is measured by the others


@dataclass(frozen=True)
class Unknown:
    """What is asked for, and what known sequences look like at the operating point."""

    abstain_below: float = 0.0  # the probability of the label below which it is not known, at a sequence's end
    abstain_at_halts: bool = False  # also where the policy halted
    unknown_below: float = 0.0  # the familiarity up to which a sequence is of no known class
    firsts: tuple[int, ...] = ()  # the least number of items of each group of octaves
    typical: tuple[Floats, ...] = ()  # strangeness of the validation sequences of each group, ascending
    usual: Usual | None = None  # by which it is measured

    @property
    def is_asked(self) -> bool:
        """Whether any decision may say that it does not know."""
        return self.abstain_below > 0 or self.unknown_below > 0

    def judged(
        self, sure: npt.NDArray[np.floating[Any]], untempered: npt.NDArray[np.floating[Any]],
        n_observed: npt.NDArray[np.int64], is_halted: Bools,
    ) -> tuple[Bools, Floats | None]:  # fmt: skip
        """(S,) whether decisions are known, and their familiarity where it was asked for.

        By the probability of the label, and by those of all classes as the network gave them, (S, C).
        """
        is_sure = sure.astype(np.float64) >= self.abstain_below
        is_known: Bools = is_sure | (is_halted & (not self.abstain_at_halts))
        if self.usual is None:
            return is_known, None
        familiarity = self._familiarity(self.usual.strangeness(logs_of(untempered)), n_observed)
        return is_known & (familiarity > self.unknown_below), familiarity

    def _familiarity(self, strange: Floats, n_observed: npt.NDArray[np.int64]) -> Floats:
        """(S,) p-values against the validation sequences that were decided after about as many items."""
        group = np.searchsorted(self.firsts, n_observed, side="right") - 1
        found = np.ones(len(strange))
        for number, known in enumerate(self.typical):
            rows = np.flatnonzero(group == number)
            at_least = len(known) - np.searchsorted(known, strange[rows], side="left")
            found[rows] = (1 + at_least) / (len(known) + 1)
        return found

    def asked(self, words: Mapping[str, Any]) -> Unknown:
        """The same with other words; what makes no sense is refused."""
        if (at_halts := words.get("abstain_at_halts", 0)) not in (0, 1):
            raise SettingError(f"abstain_at_halts is {at_halts!r:.40}; it can be 1 (yes) or 0 (no)")
        for name in [name for name in words if name != "abstain_at_halts"]:
            require_number(words[name], name)
            if not 0 <= words[name] <= 1:
                raise SettingError(f"{name} is {words[name]:g}; it must lie between 0 and 1")
        if words.get("abstain_below") == 0:
            words = {"abstain_at_halts": 0, **words}
        new = replace(self, **words)
        if new.abstain_at_halts and not new.abstain_below:
            raise SettingError("abstain_at_halts needs a confidence; say abstain_below too, as in abstain_below=0.6")
        return replace(new, abstain_at_halts=bool(new.abstain_at_halts))

    def require_enough(self, n: int, kind: str, have: str, way_out: str = "") -> None:
        """Refuse a share of strange ones that so few sequences cannot tell."""
        if self.unknown_below and (least := math.ceil(1 / self.unknown_below) - 1) > n:
            raise SettingError(
                f"unknown_below is {self.unknown_below:g}, which needs {least:,} labelled {kind}sequences; {have} "
                f"{n:,}, enough for {1 / (n + 1):.2g}{way_out}"
            )

    def settled(self, kept: Mapping[str, npt.NDArray[Any]], point: OperatingPoint) -> Unknown:
        """The same with what the kept validation sequences look like where they are decided at this point."""
        if not self.unknown_below:
            return replace(self, firsts=(), typical=(), usual=None)
        known = some_of(dict(kept), kept["labels"][:, 0] >= 0)
        held = Held.of(known)
        stops = held.stops(point)
        self.require_enough(len(stops), "validation ", "the model keeps", ", and kvec tune can give it others")
        strange, usual = _measured(logs_of(known["classes.0"]), held, stops)
        enough = math.ceil(ENOUGH / self.unknown_below)
        groups = _groups(np.frexp(stops)[1] - 1, enough)
        return replace(
            self,
            firsts=tuple(1 << first for first, _ in groups),
            typical=tuple(np.sort(_some(strange[rows], max(MOST, enough))) for _, rows in groups),
            usual=usual,
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain data for a model's card."""
        return {name: getattr(self, name) for name in WHEN_UNKNOWN} | {
            "firsts": list(self.firsts),
            "typical": [known.tolist() for known in self.typical],
            "usual": None if self.usual is None else self.usual.to_plain(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any] | None) -> Unknown:
        """Read what `to_plain` wrote; models of before have none."""
        if plain is None:
            return cls()
        typical = tuple(np.array(known, np.float64) for known in plain["typical"])
        usual = None if plain["usual"] is None else Usual.from_plain(plain["usual"])
        return cls(**{**plain, "firsts": tuple(plain["firsts"]), "typical": typical, "usual": usual})


def settle(
    target: Target, kept: Mapping[str, npt.NDArray[Any]], now: OperatingPoint, unknown: Unknown,
    classes: Sequence[str], config: Config,
) -> tuple[OperatingPoint, Unknown]:  # fmt: skip
    """The operating point that a target asks for, and when a decision there says that it does not know."""
    aims, words = parted(target)
    point = now
    if aims or not words:
        require_turnable(config)
        point = Held.of(kept).choose(with_classes(aims, classes), now)
    return point, unknown.asked(words).settled(kept, point)


def parted(target: Target) -> tuple[Target, Target]:
    """Where to work, and when to say unknown."""
    words = {name: value for name, value in target.items() if name in WHEN_UNKNOWN}
    return {name: value for name, value in target.items() if name not in WHEN_UNKNOWN}, words


def _measured(logs: Floats, held: Held, stops: npt.NDArray[np.int64]) -> tuple[Floats, Usual]:
    """How strange each sequence is where it is decided, measured by those of other folds, and what measures new ones.

    One that helped to say what is usual would seem less strange than a new one.
    """
    truth, owner = np.repeat(held.truth, held.length), np.repeat(np.arange(len(held.truth)), held.length)
    at = held.offsets[:-1] + stops - 1
    strange = np.empty(len(stops))
    for fold in range(min(FOLDS, len(stops))):
        others, own = owner % FOLDS != fold, np.arange(len(stops)) % FOLDS == fold
        strange[own] = Usual.fit(logs[others], truth[others]).strangeness(logs[at[own]])
    return strange, Usual.fit(logs, truth)


def _groups(octave: npt.NDArray[np.integer[Any]], enough: int) -> list[tuple[int, npt.NDArray[np.intp]]]:
    """Neighbouring octaves with `enough` sequences together, by the first of each; the lowest has any number of items.

    >>> [(first, len(rows)) for first, rows in _groups(np.array([1, 1, 2, 4, 4, 4, 5]), 3)]
    [(0, 3), (3, 4)]
    """
    groups: list[tuple[int, list[npt.NDArray[np.intp]]]] = [(0, [])]
    n = 0
    for each in range(int(octave.max()) + 1):
        if n >= enough and (octave >= each).sum() >= enough:
            groups.append((each, []))
            n = 0
        rows = np.flatnonzero(octave == each)
        groups[-1][1].append(rows)
        n += len(rows)
    return [(first, np.concatenate(parts)) for first, parts in groups]


def _some(strange: Floats, most: int) -> Floats:
    """Not too many, spread evenly over their order of arrival: which ones has nothing to do with how strange."""
    return strange[np.linspace(0, len(strange) - 1, min(most, len(strange))).round().astype(np.int64)]
