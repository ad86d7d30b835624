"""The lists of visible items, and how an arriving item stands to each: the relations for which attention learns a bias.

An item sees itself, own items, sessions of others that hold its value, and the newest items of whatever key. The
paper's rule is the hard case: nothing of the last kind, and no bias for the others.
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
    NEWEST,
    OWN,
    OWN_ARRIVAL,
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
BIASES = (0.0, 0.0, -5.0, -5.0)  # with which training begins: near the paper's mask, and free to leave it
_OWN, _CORRELATED, _SAME, _OTHER = range(4)


@compiled
def listed(
    start: int, first: int, last: int, window: int, own: int, others: int, recent: int,
    previous: Ints, previous_match: Ints, sequence: npt.NDArray[np.int32], session: npt.NDArray[np.int32],
    alike: npt.NDArray[np.int32], dropped: Flags,
) -> tuple[Ints, Ints, Codes]:  # fmt: skip
    """What the items `first` to `last - 1` of a tangle that begins at `start` see, and as what.

    Items that are dropped are seen by their own sequence alone.
    """
    drops = len(dropped) > 0
    origin = max(start, first - window + 1)
    low, high = session[origin], session[origin]
    for i in range(origin, last):
        low, high = min(low, session[i]), max(high, session[i])
    newest = np.full(high - low + 1, -1, np.int64)  # of each session, its newest item so far
    taken = np.full(high - low + 1, -1, np.int64)  # of each session, the last item that has listed it
    starts = np.zeros(last - first + 1, np.int64)
    most = 1 + own + others + recent
    items = np.empty((last - first) * min(window, 16) + most, np.int64)
    relation = np.empty(len(items), np.uint8)
    n = 0
    for i in range(origin, last):
        newest[session[i] - low] = i
        if i < first:
            continue
        if n + most > len(items):
            items = np.concatenate((items, np.empty(len(items) + most, np.int64)))
            relation = np.concatenate((relation, np.empty(len(relation) + most, np.uint8)))
        oldest = max(start, i - window + 1)
        items[n], relation[n] = i, _OWN
        n += 1
        j, left = previous[i], own
        while left > 0 and j >= oldest:
            items[n], relation[n] = j, _OWN
            n += 1
            left -= 1
            j = previous[j]
        m, left, cut = (
            previous_match[i],
            others,
            i,
        )  # of the session that was listed last, what is older than the cut is not
        while left > 0 and m >= oldest:
            s = session[m] - low
            if sequence[m] != sequence[i] and taken[s] != i and not (drops and dropped[m]):
                taken[s] = i
                j = newest[s]
                while left > 0 and j >= oldest and session[j] == session[m]:
                    if not (drops and dropped[j]):
                        items[n], relation[n] = j, _CORRELATED
                        n += 1
                        left -= 1
                        cut = j
                    j = previous[j]
            m = previous_match[m]
        own_left = own
        for j in range(i - 1, max(oldest, i - recent) - 1, -1):
            if sequence[j] == sequence[i]:
                own_left -= 1
                if own_left >= 0:
                    continue
                code = _OWN
            elif drops and dropped[j]:
                continue
            elif taken[session[j] - low] == i:
                if session[j] != session[cut] or j >= cut:
                    continue
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
def listed_block(
    items: Ints, sessions: Ints, added: Ints, first: int, own: int, others: int, recent: int, most: int,
    out: Rows, relation: Codes, starts: Ints,
) -> int:  # fmt: skip
    """The same for items of a stream, from the `first` on; the first one for which there is no room."""
    for i in range(first, len(added)):
        row, oldest = link(items, sessions, added[i])
        if starts[i] + min(most, items[row, ARRIVAL] - oldest + 1) > len(out):
            return i
        starts[i + 1] = _listed_rows(items, sessions, row, oldest, own, others, recent, out, relation, starts[i])
    return len(added)


@compiled
def _listed_rows(
    items: Ints, sessions: Ints, row: int, oldest: int, own: int, others: int, recent: int,
    out: Rows, relation: Codes, n: int,
) -> int:  # fmt: skip
    serial, sequence, alike = items[row, SERIAL], items[row, SEQUENCE], items[row, ALIKE]
    out[n], relation[n] = row, _OWN
    n += 1
    j, arrival, left = items[row, OWN], items[row, OWN_ARRIVAL], own
    while left > 0 and arrival >= oldest:
        out[n], relation[n] = j, _OWN
        n += 1
        left -= 1
        arrival, j = items[j, OWN_ARRIVAL], items[j, OWN]
    m, arrival, left, cut = items[row, MATCH], items[row, MATCH_ARRIVAL], others, row
    while left > 0 and arrival >= oldest:
        s = items[m, SESSION]
        if items[m, SEQUENCE] != sequence and sessions[s, LISTED] != serial:
            sessions[s, LISTED] = serial
            j = sessions[s, NEWEST]
            while left > 0 and items[j, SESSION] == s:
                out[n], relation[n] = j, _CORRELATED
                n += 1
                left -= 1
                cut = j
                if items[j, OWN_ARRIVAL] < oldest:
                    break
                j = items[j, OWN]
        arrival, m = items[m, MATCH_ARRIVAL], items[m, MATCH]
    j, own_left = row, own
    for _ in range(min(recent, items[row, ARRIVAL] - oldest)):
        j = items[j, BEFORE]
        if items[j, SEQUENCE] == sequence:
            own_left -= 1
            if own_left >= 0:
                continue
            code = _OWN
        elif sessions[items[j, SESSION], LISTED] == serial:
            if items[j, SESSION] != items[cut, SESSION] or items[j, ARRIVAL] >= items[cut, ARRIVAL]:
                continue
            code = _CORRELATED
        elif items[j, ALIKE] == alike and alike >= 0:
            code = _SAME
        else:
            code = _OTHER
        out[n], relation[n] = j, code
        n += 1
    return n
