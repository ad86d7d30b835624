"""What a model saw of one sequence until it halted: plain values that a text or a picture can show."""

from __future__ import annotations

from dataclasses import dataclass

from kvec.words.items import Decision


@dataclass(frozen=True, slots=True)
class Look:
    """One earlier item that was looked at, and the share of attention it received."""

    arrival: int  # index of the looked-at item in the tangle's order of arrival, from 0
    key: str
    value: str  # its value fields as text
    position: int  # its index in its own sequence, from 0
    weight: float
    is_own: bool  # of the same sequence (key correlation), or of another (value correlation)
    relation: str = ""  # how the rule of visibility calls it; empty where the rule tells no relations apart


@dataclass(frozen=True, slots=True)
class Step:
    """One item of the explained sequence, and what the network made of it."""

    arrival: int
    value: str
    halt_score: float
    probabilities: tuple[float, ...]  # by class of the first label column
    looks: tuple[Look, ...]  # heaviest first; the item itself is one of the visible


@dataclass(frozen=True, slots=True)
class Explanation:
    """The items of one sequence in order, up to its end; the decision says where it stopped."""

    decision: Decision
    classes: tuple[str, ...]
    threshold: float
    steps: tuple[Step, ...]
    delay_cost: float | None = None  # where the model's dial stands, if it has one
