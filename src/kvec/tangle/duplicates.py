"""Items that come twice: what two items have in common that are the same, and among how many it is looked for."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from kvec.words.items import Item

MOST_ALIKE = 64  # a duplicate is looked for among so many items of its sequence, the newest
DIGEST = 8  # bytes of a fingerprint


def fingerprint(item: Item) -> bytes:
    """A few bytes that items of the same value and time share, in any process, and others do not.

    >>> one, same = (Item("link", "a", {"size": size}, 2.5) for size in (40, 40.0))
    >>> fingerprint(one) == fingerprint(same), fingerprint(one) == fingerprint(Item("link", "a", {"size": 40}, 2.6))
    (True, False)
    """
    cells = sorted([f"{_text(name)}:{_text(cell)}" for name, cell in item.value.items()])
    return blake2b("\n".join([_text(item.time), *cells]).encode(), digest_size=DIGEST).digest()


def remember(alike: bytes, digest: bytes) -> bytes:
    """The fingerprints of a sequence's newest items, one more among them.

    Whether one is `in` them may be asked of the bytes as they are: across two of them it stands as rarely as two items
    have the same by chance.
    """
    return (alike + digest)[-MOST_ALIKE * DIGEST :]


def _text(cell: Any) -> str:
    """A cell as text on one line, equal numbers alike; whole ones in base 16, in which they may have any length."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return f"{cell:x}" if isinstance(cell, int) else repr(cell)
