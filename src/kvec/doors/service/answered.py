"""What was answered to requests with an idempotency key: the same key again gets the same answer, and takes nothing."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

MOST_BYTES = 64 << 20  # of all that is kept
YOUNG = 150.0  # seconds for which every key is kept: longer than a client tries again
MOST = 10  # times as many keys as are kept at least; more young ones are refused


class Answer(NamedTuple):
    """What a request was answered: its decisions by number, the rest as it was."""

    taken: int
    first: int  # number of the first decision
    n: int  # decisions
    refused: bytes = b"[]"  # JSON

    def body(self, decisions: Sequence[bytes]) -> bytes:
        """The answer as JSON; of decisions that the log has let go of, only how many they were is told."""
        forgotten = b',"forgotten":%d' % (self.n - len(decisions)) if len(decisions) < self.n else b""
        return b'{"taken":%d,"decisions":[%b],"refused":%b%b}' % (
            self.taken, b",".join(decisions), self.refused, forgotten,
        )  # fmt: skip


class Answered:
    """The answers to the newest keys, and to all that are young; bounded in number and in bytes.

    Ages are told by a clock that is never set; the time for which a service was down does not count.
    """

    def __init__(self, keep: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep, self._clock = keep, clock
        self._answers: OrderedDict[str, tuple[Answer, float]] = OrderedDict()  # and when each was given
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Answer:
        return self._answers[key][0]

    def is_full(self) -> bool:
        """Whether a new key would drive out one that is young, so that a request tried again could be taken twice."""
        self._make_room()
        return len(self._answers) >= MOST * self._keep or self._bytes >= MOST_BYTES

    def add(self, key: str, answer: Answer, age: float = 0.0) -> None:
        """Keep an answer that was given so many seconds ago; old ones make room."""
        self._answers[key] = answer, self._clock() - age
        self._bytes += _size(key, answer)
        self._make_room()

    def _make_room(self) -> None:
        now = self._clock()
        while len(self._answers) > self._keep or self._bytes > MOST_BYTES // 2:
            if now - next(iter(self._answers.values()))[1] <= YOUNG:
                break
            key, (answer, _) = self._answers.popitem(last=False)
            self._bytes -= _size(key, answer)

    def to_plain(self) -> list[list[Any]]:
        """Plain data, as `restore` reads it."""
        now = self._clock()
        return [
            [key, answer.taken, answer.first, answer.n, answer.refused.decode(), now - at]
            for key, (answer, at) in self._answers.items()
        ]

    def restore(self, plain: Iterable[Sequence[Any]]) -> None:
        """Keep what `to_plain` told, and nothing else."""
        self._answers.clear()
        self._bytes = 0
        for key, taken, first, n, refused, age in plain:
            self.add(key, Answer(taken, first, n, refused.encode()), age)


def _size(key: str, answer: Answer) -> int:
    return 200 + len(key) + len(answer.refused)
