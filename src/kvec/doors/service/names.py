"""Names of tangles and keys as they may be meant: a column of names has text or whole numbers, a path only text."""

from __future__ import annotations

from kvec.words.items import Key, TangleId


def names_meant(tangle: TangleId, key: Key) -> list[tuple[TangleId, Key]]:
    """Names as they were given, and as the other type.

    >>> names_meant("a", "7")
    [('a', '7'), ('a', 7)]
    >>> names_meant(1, "007")
    [(1, '007'), ('1', '007')]
    """
    return [(t, k) for t in _meant(tangle) for k in _meant(key)]


def _meant(name: str | int) -> list[str | int]:
    if isinstance(name, int):
        return [name, str(name)]
    digits = name.removeprefix("-")
    is_whole = digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(name)) == name
    return [name, int(name)] if is_whole else [name]
