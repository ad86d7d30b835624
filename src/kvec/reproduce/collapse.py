"""When a halting policy has collapsed: it decides at the first item, or waits for the end, whatever it sees."""

from __future__ import annotations

NEAR = 0.01  # of the way from the first item to the end: closer to either, a policy has collapsed


def is_collapsed(earliness: float, first: float, may_wait: bool = False) -> bool:
    """Whether a policy halts at the first item, or waits for the end, `first` being the earliness of the first item.

    To wait for the end is no collapse where the signal is there.

    >>> is_collapsed(0.034, first=0.033), is_collapsed(0.08, first=0.033), is_collapsed(1.0, first=0.033)
    (True, False, True)
    """
    share = (earliness - first) / max(1 - first, 1e-9)
    return share < NEAR or (share > 1 - NEAR and not may_wait)
