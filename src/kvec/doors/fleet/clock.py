"""The server's clock, as its messages tell it: items that are read again came when they came, whoever reads them."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

LAG = 1.0  # seconds that `now` is behind, so that items on their way come first


class Mark(NamedTuple):
    """What the subject for a message's acknowledgement says of it."""

    place: int  # in its stream
    delivery: int  # its number among all that its consumer has delivered
    moment: float  # when the server took it, in seconds since 1970, to the hundredth
    behind: int  # messages that wait behind it


def mark_of(reply: str) -> Mark:
    """Read such a subject, with or without a domain.

    >>> mark_of("$JS.ACK.items.kvec-0-1.1.17.3.1700000000129000000.4")
    Mark(place=17, delivery=3, moment=1700000000.12, behind=4)
    >>> mark_of("$JS.ACK._.h4sh.items.c.1.17.3.1700000000129000000.0.r4nd")
    Mark(place=17, delivery=3, moment=1700000000.12, behind=0)
    """
    words = reply.split(".")
    place, delivery, nanoseconds, behind = map(int, words[5:9] if len(words) == 9 else words[7:11])
    return Mark(place, delivery, nanoseconds // 10_000_000 / 100, behind)


class ServerClock:
    """Goes by the message that came quickest, so it is never ahead of the server's; whatever this host's clock says."""

    def __init__(self) -> None:
        self._ahead = math.inf

    def hear(self, moment: float) -> None:
        """A message of this moment has just come."""
        self._ahead = min(self._ahead, time.monotonic() - moment)

    def now(self) -> float:
        """The moment up to which all has come, as far as can be told."""
        return time.monotonic() - self._ahead - LAG
