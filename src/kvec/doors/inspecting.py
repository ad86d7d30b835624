"""Facts about tables and data sets as text: what `kvec inspect` and `kvec datasets` print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvec.doors.messages import guesses
from kvec.read.catalogue import Dataset
from kvec.read.table import Table
from kvec.report.text import bar, clock, percent, plain, table
from kvec.tangle.findings import Finding
from kvec.tangle.inspection import Inspection, inspect_items

MOST_CLASSES = 24  # that are listed


def inspect_table(items: Table) -> Inspection:
    """The facts of a table, with what was guessed and noted while it was read."""
    found = inspect_items(items.frame, items.schema, items.source)
    notes = tuple(Finding(note.kind, note.count, note.text) for note in items.notes)
    fields = tuple(replace(field, guessed=items.guessed.get(field.name, "")) for field in found.fields)
    return replace(found, fields=fields, findings=(*notes, *found.findings))


def inspection_text(found: Inspection, items: Table, origin: str = "") -> str:
    """The facts in words and columns."""
    facts = [
        ("items", f"{found.items:,}"),
        ("keys", f"{found.keys:,}"),
        *([("sequences", f"{found.sequences:,}")] if found.sequences != found.keys else []),
        ("tangles", f"{found.tangles:,}"),
        *([("groups", f"{found.groups:,}")] if found.groups is not None else []),
        ("mean length", f"{found.mean_length:,.1f}"),
        ("lengths", f"{found.least_length:,} to {found.greatest_length:,}"),
        ("mean session length", f"{found.mean_session_length:,.1f}"),
        ("concurrent keys", f"{found.concurrent_keys:,.1f}, at most {found.most_concurrent_keys:,}"),
        ("time span", _span(found.time_span)),
        *((f"classes of {name}", f"{len(counts):,}") for name, counts in found.labels.items()),
    ]
    fields = [
        (field.name, field.kind, f"{field.values:,}", f"{field.missing:,}" if field.missing else "")
        for field in found.fields
    ]
    parts = [items.source + (f"   (schema from {origin})" if origin else ""), table(facts)]
    parts.append(table(fields, ("field", "kind", "values", "missing"), right=(2, 3)))
    parts += [_balance(name, counts) for name, counts in found.labels.items() if counts]
    if guessed := guesses(items):
        parts.append("\n".join(["guessed", *(f"  {line}" for line in guessed)]))
    if found.findings:
        parts.append("\n".join(["looks wrong", *(f"  {finding.text}" for finding in found.findings)]))
    else:
        parts.append("nothing looks wrong")
    return "\n\n".join(parts)


def datasets_text(found: Sequence[Dataset]) -> str:
    """One paragraph for each data set."""
    parts = []
    for one in found:
        state = f"   {one.state}" + (f": {one.note or one.path}" if one.note or one.path else "") if one.state else ""
        parts.append(
            f"{one.name}{state}\n  {one.what}\n  from     {one.address}\n  files    {one.files}\n"
            f"  licence  {one.licence}\n  read by  {one.road}"
        )
    return "\n\n".join(parts)


def _balance(name: str, counts: dict[str, int]) -> str:
    total, most = sum(counts.values()), max(counts.values())
    rows = [
        (plain(label, 32), f"{n:,}", percent(n / total), bar(n / most, 24))
        for label, n in list(counts.items())[:MOST_CLASSES]
    ]
    left = len(counts) - MOST_CLASSES
    return table(rows, (name, "sequences", "share", ""), right=(1, 2)) + (f"\n… and {left:,} more" if left > 0 else "")


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "no times, order only"
    days = seconds / 86_400
    exact = f"{seconds:,.0f} s" if seconds >= 1000 else f"{seconds:.6g} s"
    return exact + (f" ({days:,.1f} days)" if days >= 1 else f" ({clock(seconds)})" if seconds >= 60 else "")
