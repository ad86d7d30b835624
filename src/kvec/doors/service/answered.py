"""What was answered to requests with an idempotency key: the same key again gets the same answer, and takes nothing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

MOST_BYTES = 16 << 20  # of all that is kept


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
    """The answers to the newest keys, bounded in number and in bytes."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._bytes = 0

    def __contains__(self, key: str) -> bool:
        return key in self._answers

    def __getitem__(self, key: str) -> Answer:
        return self._answers[key]

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer; the oldest ones make room."""
        self._answers[key] = answer
        self._bytes += _size(key, answer)
        while len(self._answers) > self._keep or (self._bytes > MOST_BYTES and len(self._answers) > 1):
            self._bytes -= _size(*self._answers.popitem(last=False))

    def to_plain(self) -> list[list[Any]]:
        """Plain data, as `restore` reads it."""
        return [[key, *answer[:3], answer.refused.decode()] for key, answer in self._answers.items()]

    def restore(self, plain: Iterable[Sequence[Any]]) -> None:
        """Keep what `to_plain` told, and nothing else."""
        self._answers.clear()
        self._bytes = 0
        for key, taken, first, n, refused in plain:
            self.add(key, Answer(taken, first, n, refused.encode()))


def _size(key: str, answer: Answer) -> int:
    return 200 + len(key) + len(answer.refused)
