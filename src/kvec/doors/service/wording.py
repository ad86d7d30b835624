"""The names behind the numbers of one connection; they only grow, so that numbers keep their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kvec.tangle.vocabulary import Vocabulary


class _Places(NamedTuple):
    """Where the names of one vocabulary stand here."""

    vocabulary: Vocabulary
    labels: list[int]
    fields: list[tuple[int, list[int]]]  # of each coded field: which field it is here, and where its values stand


class Wording:
    """Labels, fields and their values by numbers, in the order in which they were met."""

    def __init__(self) -> None:
        self._labels: dict[str, int] = {}
        self._kinds: dict[str, str] = {}  # by field
        self._values: dict[str, dict[Any, int]] = {}  # by field
        self._met: list[_Places] = []
        self.is_new = True  # something was met since it was told

    def meet(self, vocabulary: Vocabulary) -> _Places:
        """Learn the names of a vocabulary."""
        for known in self._met:
            if known.vocabulary is vocabulary:
                return known
        labels = [self.label(name) for name in vocabulary.labels[0]]
        fields = []
        for field in fields_told(vocabulary):
            self._kinds.setdefault(field["name"], field["kind"])
            values = self._values.setdefault(field["name"], {})
            fields.append((list(self._values).index(field["name"]), [_place(values, one) for one in field["values"]]))
        self.is_new = True
        self._met.append(_Places(vocabulary, labels, fields[: len(vocabulary.coded)]))
        return self._met[-1]

    def label(self, name: str) -> int:
        """The number of a label."""
        self.is_new |= name not in self._labels
        return _place(self._labels, name)

    def said(self, vocabulary: Vocabulary, codes: Sequence[int], label: int) -> tuple[list[int], int]:
        """An item's codes, one for each field here, and its label; codes below 0 mean no value that is known."""
        known = self.meet(vocabulary)
        found = [-1] * len(self._values)
        for (field, places), code in zip(known.fields, codes, strict=True):
            found[field] = places[code] if code >= 0 else code
        return found, known.labels[label]

    def told(self) -> dict[str, Any]:
        """All names in the order of their numbers."""
        self.is_new = False
        fields = [{"name": name, "kind": self._kinds[name], "values": list(of)} for name, of in self._values.items()]
        return {"labels": list(self._labels), "fields": fields}


def fields_told(vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """The value fields, with the values that training knew, or their bins; items tell codes by their places."""
    coded = [
        {"name": f.name, "kind": f.kind, "values": _bins(f.edges) if f.kind == "binned" else list(f.values)}
        for f in vocabulary.coded
    ]
    return coded + [{"name": f.name, "kind": f.kind, "values": []} for f in vocabulary.projected]


def _place(names: dict[Any, int], name: Any) -> int:
    return names.setdefault(name, len(names))


def _bins(edges: Sequence[float]) -> list[str]:
    """The names of bins.

    >>> _bins((10.0, 52.5))
    ['<10', '10…52.5', '52.5…']
    """
    texts = [f"{edge:g}" for edge in edges]
    between = [f"{low}…{high}" for low, high in pairwise(texts)]
    return [f"<{texts[0]}", *between, f"{texts[-1]}…"] if texts else ["any"]
