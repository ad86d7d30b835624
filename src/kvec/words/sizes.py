"""How many codes each part of an item's embedding has, and where its rows lie in the one table of all parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Vocabularies:
    """How many codes each part of the embedding has; 0 leaves the part out.

    >>> sizes = Vocabularies(fields=(300, 4), slots=64, positions=256, arrivals=0, gaps=49, projected=0)
    >>> sizes.starts()
    [0, 300, 304, 368, 624, 673]
    """

    fields: tuple[int, ...]
    slots: int
    positions: int
    arrivals: int
    gaps: int  # codes of each of the two gaps
    projected: int  # numbers per item

    def sizes(self) -> list[int]:
        """All parts, in the order of their codes."""
        return [*self.fields, self.slots, self.positions, self.arrivals, self.gaps, self.gaps]

    def starts(self) -> list[int]:
        """The first row of each part that there is."""
        return [0, *accumulate(size for size in self.sizes() if size)][:-1]
