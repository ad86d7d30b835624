"""The items that a stream remembers as rows of arrays, linked so that compiled loops can walk from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from numba import njit

F = TypeVar("F", bound=Any)
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

ARRIVAL, SERIAL, SEQUENCE, SESSION, OWN, OWN_ARRIVAL, MATCH, MATCH_ARRIVAL, BEFORE, ALIKE = range(10)
NEWEST, REMEMBERED, LISTED = range(3)


@dataclass
class Links:
    """The items that a stream remembers, as rows of arrays.

    A link is a row and, beside it, when that row arrived: one before the oldest remembered item leads nowhere.
    """

    items: Ints  # (rows, columns above); ALIKE: equal for items of a tangle whose session fields are, -1 is like none
    sessions: Ints  # (sessions, newest item, how often remembered as of a saved state, the last item that listed it)

    @property
    def bytes(self) -> int:
        """Memory of both."""
        return self.items.nbytes + self.sessions.nbytes


def compiled(function: F) -> F:
    """The same as machine code, kept on the disk where there is a folder for it.

    The copy on the disk is made anew when the function's own file has changed, not when that of one it calls has:
    whoever edits `link` touches the files of those who call it.
    """
    try:
        return cast(F, njit(cache=True, nogil=True)(function))
    except RuntimeError:
        return cast(F, njit(nogil=True)(function))


@compiled
def link(items: Ints, sessions: Ints, added: Ints) -> tuple[int, int]:
    """Write an item's columns to its row, as its session's newest; its row and the oldest arrival that it may see."""
    row, oldest = added[0], added[1]
    for column in range(len(added) - 2):
        items[row, column] = added[2 + column]
    sessions[items[row, SESSION], NEWEST] = row
    return row, oldest
