"""True labels that come later: compared with the decisions, and kept with the items' values for training again."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from kvec.doors.service.bodies import Row
from kvec.doors.service.label_store import LabelStore, Said
from kvec.doors.service.names import names_meant
from kvec.doors.service.traces import Trace
from kvec.words.items import Decision, Key, TangleId
from kvec.words.schema import Schema

MOST_PENDING = 100_000  # labels of sequences that are not decided yet, the newest
MOST_SEQUENCE = 2**63 - 1  # that the store can hold

Judge = Callable[[str, str, str], None]  # id of a decision, what it said, what is true
Find = Callable[[TangleId, Key], Trace | None]
Name = tuple[TangleId, Key, int]


class Truths:
    """Joins labels and decisions, whichever comes first."""

    def __init__(self, keep: int, path: Path | None, schema: Schema) -> None:
        self._keep = keep
        self._store = None if path is None else LabelStore(path, schema)
        self._said: OrderedDict[Name, Said] = OrderedDict()
        self._newest: dict[tuple[TangleId, Key], int] = {}  # the newest decided sequence of a key
        self._pending: OrderedDict[Name, str] = OrderedDict()
        self._judged: OrderedDict[Name, str] = OrderedDict()  # that were counted, by which label
        self.n_right = self.n_labelled = 0  # of the decisions since the newest model took over
        self._since = 0  # the newest decision before that
        self._up_to = 0  # the newest row of the store that was counted

    @property
    def accuracy(self) -> float | None:
        """The share of labelled decisions that were right."""
        n = self.n_labelled  # read once: another thread may begin anew
        return self.n_right / n if n else None

    def restore(self, lines: Iterable[bytes], plain: Mapping[str, Any] | None) -> None:
        """Know the decisions of a log again, and what was counted by then."""
        for line in lines:
            one = orjson.loads(line)
            said = Said(*(one[name] for name in ("id", "label", "probability", "n_observed", "reason", "n", "at")))
            self._note((one["tangle"], one["key"], one["sequence"]), said)
        if plain is not None:
            self.n_right, self.n_labelled, self._up_to = plain["n_right"], plain["n_labelled"], plain["up_to"]
            self._since = plain["since"]
            self._judged = OrderedDict(((t, k, s), label) for t, k, s, label in plain["judged"])
            self._pending = OrderedDict(((t, k, s), label) for t, k, s, label in plain["pending"])

    def catch_up(self, judge: Judge) -> None:
        """Count labels that were stored since the snapshot, once the journal has brought the decisions back."""
        if self._store is not None:
            for number, name, label in self._store.since(self._up_to):
                self._join(name, label, judge)
                self._up_to = number

    def to_plain(self) -> dict[str, Any]:
        """Plain data, as `restore` reads it."""
        return {
            "n_right": self.n_right, "n_labelled": self.n_labelled, "up_to": self._up_to, "since": self._since,
            "judged": [[*name, label] for name, label in self._judged.items()],
            "pending": [[*name, label] for name, label in self._pending.items()],
        }  # fmt: skip

    def begin_anew(self, newest: int) -> None:
        """Another model decides: what it has right is counted from behind this decision on."""
        self.n_right, self.n_labelled, self._since = 0, 0, newest

    def decided(self, decisions: Sequence[Decision], first: int, wall: float, judge: Judge) -> None:
        """Take note of decisions; the label of one may be there already."""
        awaited: list[tuple[Name, Said]] = []
        for n, one in enumerate(decisions, first):
            name = (one.tangle, one.key, one.sequence)
            said = Said(one.id, one.label, one.probability, one.n_observed, one.reason.value, n, wall)
            self._note(name, said)
            if self._pending and name in self._pending:
                self._count(name, said, self._pending.pop(name), judge)
                awaited.append((name, said))
        if awaited and self._store is not None:
            self._store.add_said(awaited)

    def take(self, rows: Sequence[Row], classes: set[str], find: Find, judge: Judge, most_text: int) -> dict[str, Any]:
        """Take labels; how many, of how many the decision is known, which are no classes yet, and which are of no use.

        A label that the model does not know counts as well: a decision on such a sequence is wrong.
        """
        taken: list[tuple[Name, str]] = []
        refused = []
        for row in rows:
            try:
                taken.append(self._read(row, find, most_text))
            except ValueError as wrong:
                refused.append({"row": row.number, "detail": str(wrong)})
        n_known = sum(name in self._said for name, _ in taken)
        if self._store is not None:
            traces = [_its(find(*name[:2]), name) for name, _ in taken]
            self._up_to = self._store.add(
                (name, label, self._said.get(name), trace, time.time())
                for (name, label), trace in zip(taken, traces, strict=True)
            )
            for trace in traces:
                if trace is not None:
                    trace.is_awaited = True
        for name, label in taken:
            self._join(name, label, judge)
        new = dict(Counter(label for _, label in taken if label not in classes))
        return {"taken": len(taken), "decided": n_known, "new": new, "refused": refused, "accuracy": self.accuracy}

    def ended(self, traces: Sequence[Trace]) -> None:
        """Sequences are over whose labels came before all of their items."""
        if self._store is not None:
            self._store.complete(traces)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()

    # -- parts --------------------------------------------------------------------------------------------------

    def _read(self, row: Row, find: Find, most_text: int) -> tuple[Name, str]:
        cells = row.cells
        if cells is None:
            raise ValueError(row.problem)
        tangle, key = _name(cells, "tangle", most_text, 0), _name(cells, "key", most_text)
        label, sequence = cells.get("label"), cells.get("sequence")
        if not isinstance(label, str) or not 0 < len(label) <= most_text:
            what = "is missing; it" if label is None else f"is {str(label)[:40]!r}; it"
            raise ValueError(f"'label' {what} must be text of at most {most_text:,} characters")
        is_whole = isinstance(sequence, int) and not isinstance(sequence, bool)
        if sequence is not None and not (is_whole and 0 <= sequence <= MOST_SEQUENCE):
            raise ValueError(f"'sequence' must be a whole number from 0 to {MOST_SEQUENCE}")
        name = next((name for name in names_meant(tangle, key) if self._knows(*name, find)), (tangle, key))
        if sequence is None:
            trace = find(*name)
            sequence = self._newest.get(name, 0 if trace is None else trace.sequence)
        return (*name, sequence), label

    def _knows(self, tangle: TangleId, key: Key, find: Find) -> bool:
        return (tangle, key) in self._newest or find(tangle, key) is not None

    def _join(self, name: Name, label: str, judge: Judge) -> None:
        said = self._said.get(name)
        if said is not None:
            self._count(name, said, label, judge)
            return
        self._pending[name] = label
        if len(self._pending) > MOST_PENDING:
            self._pending.popitem(last=False)

    def _count(self, name: Name, said: Said, label: str, judge: Judge) -> None:
        """Count a labelled decision: by its newest label, and to the judge by its first."""
        before = self._judged.get(name)
        if before is not None:
            self._judged[name] = label
            if said.n > self._since:
                self.n_right += (said.label == label) - (said.label == before)
            return
        self._judged[name] = label
        if len(self._judged) > self._keep:
            self._judged.popitem(last=False)
        if said.n > self._since:
            self.n_labelled += 1
            self.n_right += said.label == label
        judge(said.id, said.label, label)

    def _note(self, name: Name, said: Said) -> None:
        self._said[name] = said
        self._newest[name[:2]] = name[2]
        if len(self._said) > self._keep:
            gone, _ = self._said.popitem(last=False)
            if self._newest.get(gone[:2]) == gone[2]:
                del self._newest[gone[:2]]


def _name(cells: Mapping[str, Any], what: str, most_text: int, otherwise: Any = None) -> str | int:
    given = cells.get(what, otherwise)
    if not isinstance(given, str | int) or isinstance(given, bool):
        raise ValueError(f"{what!r} must be text or a whole number")
    if isinstance(given, str) and len(given) > most_text:
        raise ValueError(f"{what!r} has more than {most_text:,} characters")
    return given


def _its(trace: Trace | None, name: Name) -> Trace | None:
    return trace if trace is not None and trace.sequence == name[2] else None
