"""What kvec says beside its results, one line at a time, on the standard error output."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvec.read.shards import Shards
    from kvec.read.table import Table

PLAIN_FACTS = ("labelled flows", "short flows", "flows without a label")  # of captures; told, but no trouble

TOLD = 5  # of a kind that are told one by one

KINDS = {"integer": "whole number", "number": "number"}
_NO_NUMBER = re.compile(r"Input should be a valid (integer|number)(, .*)?")


class Stopped(Exception):
    """The user stopped a command that can be gone on with; the message says how."""


def say(message: str, code: int = 0) -> int:
    """Say one line that is safe in a terminal, and hand back the exit code that goes with it."""
    safe = "".join([sign if sign.isprintable() else "·" for sign in one_line(message)])
    print(f"kvec: {safe}", file=sys.stderr)
    return code


def flush() -> None:
    """Have all of it out while it can still be said that it is not."""
    try:
        if sys.stdout is not None:  # closed by who started it
            sys.stdout.flush()
    except BrokenPipeError:  # nobody reads it any more
        let_go()
        raise SystemExit(1) from None


def let_go() -> None:
    """Have what the standard output did not take go nowhere, so that the end of the process does not complain of it."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_told(n: int) -> bool:
    """Whether the n-th of a kind is told: the first few, then the tenth, the hundredth and so on.

    >>> [n for n in range(1, 2000) if is_told(n)]
    [1, 2, 3, 4, 5, 10, 100, 1000]
    """
    return n <= TOLD or str(n).strip("0") == "1"


def wording(complaint: str) -> str:
    """A complaint of the command line's library as one sentence in our words.

    >>> wording("Invalid value for '--port': Input should be a valid integer, unable to parse string as an integer")
    "Invalid value for '--port': it must be a whole number."
    """
    text = _NO_NUMBER.sub(lambda found: f"it must be a {KINDS[found[1]]}", one_line(complaint)).rstrip(".")
    return text if text.endswith("?") else f"{text}."


def one_line(text: object) -> str:
    """Any text without line breaks."""
    return " ".join(str(text).split())


def warn_of(table: Table | Shards, but_not: tuple[str, ...] = ()) -> None:
    """Say what was odd in the rows of a table."""
    for note in table.notes:
        if note.kind not in but_not:
            say(note.text if note.kind in PLAIN_FACTS else f"warning: {note.text}")


def guesses(table: Table | Shards) -> list[str]:
    """What was guessed about a table, in words."""
    kinds = {field.name: f"{field.kind}, " for field in table.schema.values}
    return [f"{name.removeprefix('schema.')}: {kinds.get(name, '')}{why}" for name, why in table.guessed.items()]
