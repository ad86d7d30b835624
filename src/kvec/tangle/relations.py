"""How an item stands to each earlier one of its window: the relations for which attention learns a bias.

Of two items exactly one holds; the first that fits. The paper's mask is the hard case: no bias for the first two,
minus infinity for the others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvec.tangle.links import (
    ALIKE,
    ARRIVAL,
    BEFORE,
    LISTED,
    MATCH,
    MATCH_ARRIVAL,
    SEQUENCE,
    SERIAL,
    SESSION,
    Codes,
    Flags,
    Ints,
    Rows,
    compiled,
    link,
)

RELATIONS = ("own", "value-correlated", "same session value", "other")
_OWN, _CORRELATED, _SAME, _OTHER = range(4)


@compiled
def typed_lists(
    start: int, first: int, last: int, window: int, previous_match: Ints, sequence: npt.NDArray[np.int32],
    session: npt.NDArray[np.int32], alike: npt.NDArray[np.int32], dropped: Flags,
) -> tuple[Ints, Ints, Codes]:  # fmt: skip
    """What the items `first` to `last - 1` of a tangle that begins at `start` see, newest first, and as what."""
    drops = len(dropped) > 0
    origin = max(start, first - window + 1)
    low, high, n = session[origin], session[origin], 0
    for i in range(origin, last):
        low, high = min(low, session[i]), max(high, session[i])
    for i in range(first, last):
        n += i - max(start, i - window + 1) + 1
    taken = np.full(high - low + 1, -1, np.int64)  # of each session, the last item that is correlated with it
    starts = np.zeros(last - first + 1, np.int64)
    items, relation = np.empty(n, np.int64), np.empty(n, np.uint8)
    n = 0
    for i in range(first, last):
        oldest = max(start, i - window + 1)
        m = previous_match[i]
        while m >= oldest:
            if not (drops and dropped[m]):
                taken[session[m] - low] = i
            m = previous_match[m]
        for j in range(i, oldest - 1, -1):
            if sequence[j] == sequence[i]:
                code = _OWN
            elif drops and dropped[j]:
                continue
            elif taken[session[j] - low] == i:
                code = _CORRELATED
            elif alike[j] == alike[i] and alike[i] >= 0:
                code = _SAME
            else:
                code = _OTHER
            items[n], relation[n] = j, code
            n += 1
        starts[i - first + 1] = n
    return starts, items[:n], relation[:n]


@compiled
def typed_block(
    items: Ints, sessions: Ints, added: Ints, first: int, out: Rows, relation: Codes, starts: Ints
) -> int:  # fmt: skip
    """The same for items of a stream, from the `first` on; the first one for which there is no room."""
    for i in range(first, len(added)):
        row, oldest = link(items, sessions, added[i])
        if starts[i] + items[row, ARRIVAL] - oldest + 1 > len(out):
            return i
        starts[i + 1] = _typed_rows(items, sessions, row, oldest, out, relation, starts[i])
    return len(added)


@compiled
def _typed_rows(items: Ints, sessions: Ints, row: int, oldest: int, out: Rows, relation: Codes, n: int) -> int:
    serial, sequence, alike = items[row, SERIAL], items[row, SEQUENCE], items[row, ALIKE]
    m, arrival = items[row, MATCH], items[row, MATCH_ARRIVAL]
    while arrival >= oldest:
        sessions[items[m, SESSION], LISTED] = serial
        arrival, m = items[m, MATCH_ARRIVAL], items[m, MATCH]
    for _ in range(items[row, ARRIVAL] - oldest + 1):
        if items[row, SEQUENCE] == sequence:
            code = _OWN
        elif sessions[items[row, SESSION], LISTED] == serial:
            code = _CORRELATED
        elif items[row, ALIKE] == alike and alike >= 0:
            code = _SAME
        else:
            code = _OTHER
        out[n], relation[n] = row, code
        n += 1
        row = items[row, BEFORE]
    return n
