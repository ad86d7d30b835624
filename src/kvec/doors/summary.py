"""What `kvec stream` says when it stops: what came, what was decided, what was odd, and how to go on."""

from __future__ import annotations

import time
from pathlib import Path

from kvec.doors.running import Loop
from kvec.words.items import UNKNOWN


def summary(loop: Loop, state: Path | None, is_over: bool, is_decided: bool) -> list[str]:
    """A few lines; `is_decided` says that nothing was left open."""
    tally, letters = loop.tally, loop.letters
    reasons = loop.stream.reasons
    n_items = loop.stream.counters.items
    n_now = n_items - tally.items_before
    rate = n_now / max(time.monotonic() - tally.started, 1e-9)
    now = f" ({n_now:,} of them now)" if tally.items_before else ""
    why = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items() if n)
    decisions = counted(sum(reasons.values()), "decision") + (f" ({why})" if why else "")
    if n_unknown := tally.classes[UNKNOWN]:
        decisions += f", {n_unknown:,} of them unknown"
    lines = [f"{counted(n_items, 'item')}{now}, {decisions}; {rate:,.0f} items/s"]
    if odd := _odd(loop):
        lines.append(f"noticed: {', '.join(odd)}")
    if n_items and loop.reader.unseen:
        names = ", ".join(map(repr, sorted(loop.reader.unseen)))
        lines.append(
            f"field {names} was in no row" if len(loop.reader.unseen) == 1 else f"fields {names} were in no row"
        )
    if is_useless(loop):
        anew = "; then begin with a new --state" if state is not None else ""
        n = letters.count - letters.before
        which = f"none of the {n:,} rows could" if n > 1 else "the only row could not"
        lines.append(f"{which} be used; {letters.first}{anew}")
    elif letters.count:
        where = letters.outlet.path
        lines.append(
            f"{counted(letters.count, 'row')} could not be used; "
            + ("--dead-letters FILE keeps them" if where is None else f"see {where}")
        )
    elif not n_now and is_over:
        lines.append(f"{loop.source.name}: no rows came")
    if loop.watcher is not None:
        lines.append(loop.watcher.line())
    if state is not None and not is_over:
        kept = "all sequences are decided; the stream is kept in" if is_decided else "open sequences are kept in"
        lines.append(f"{kept} {state}; the same command goes on")
    return lines


def is_useless(loop: Loop) -> bool:
    """Whether rows came, and none of them could be used."""
    return loop.stream.counters.items == loop.tally.items_before and loop.letters.count > loop.letters.before


def counted(n: int, thing: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(7614, "row")
    ('1 row', '7,614 rows')
    """
    return f"{n:,} {thing}{'s' * (n != 1)}"


def _odd(loop: Loop) -> list[str]:
    """What was counted beside the items, in words."""
    c = loop.stream.counters
    backwards = f" ({c.backwards:,} of them after a newer one of the same key)" if c.backwards else ""
    said = [
        (c.late, counted(c.late, "late item") + backwards),
        (c.duplicates, counted(c.duplicates, "duplicate item")),
        (c.dropped, f"{c.dropped:,} of these dropped"),
        (c.after_halt, f"{counted(c.after_halt, 'item')} of decided sequences left out"),
        (c.unknown_values, f"{counted(c.unknown_values, 'value')} unknown to the model"),
        (c.missing_values, counted(c.missing_values, "missing value")),
        (c.evicted_items, f"{counted(c.evicted_items, 'item')} forgotten early (--max-cached-items)"),
    ]
    return [text for n, text in said if n]
