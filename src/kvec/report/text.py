"""Numbers and explanations as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import combining, east_asian_width

from kvec.words.explanation import Explanation, Look, Step
from kvec.words.plain import shown_point

_BLOCKS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
AFTER_HALT = 3  # items that are still shown after the decision


def plain(given: object, width: int = 0) -> str:
    """Text that is safe in a terminal or a picture: no control characters, at most `width` columns if given.

    >>> plain("10.0.0.1:51234 → 93.184.216.34:443", 21)
    '10.0.0.1:5…216.34:443'
    """
    text = "".join(sign if sign.isprintable() else "·" for sign in str(given))
    if not width or columns(text) <= width:
        return text
    while columns(text) > width - 1 > 0:
        middle = len(text) // 2
        text = text[:middle] + text[middle + 1 :]
    middle = (len(text) + 1) // 2
    return text[:middle] + "…" + text[middle:]


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if combining(sign) else 1 + (east_asian_width(sign) in "WF") for sign in text)


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.8563)
    '85.6 %'
    """
    return f"{100 * share:.1f} %"


def clock(seconds: float) -> str:
    """Seconds as people write them.

    >>> clock(71), clock(4000)
    ('1:11', '1:06:40')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def amount(n_bytes: int) -> str:
    """Bytes as people write them, in three digits.

    >>> amount(574), amount(57_300), amount(999_999), amount(4_560_000_000)
    ('574 B', '57.3 kB', '1.00 MB', '4.56 GB')
    """
    if n_bytes < 1000:
        return f"{n_bytes} B"
    size, units = float(n_bytes), iter(("kB", "MB", "GB", "TB", "PB"))
    while size >= 999.5:
        size, unit = size / 1000, next(units)
    return f"{size:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f} {unit}"


def bar(share: float, width: int = 8) -> str:
    """A share between 0 and 1 as a horizontal bar, padded to `width` columns.

    >>> bar(0.55, 4)
    '██▎ '
    """
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    return ("█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()).ljust(width)


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 1.0) -> str:
    """Values as a row of small columns.

    >>> sparkline([0, 0.2, 0.5, 1])
    '▁▂▅█'
    """
    steps = len(_SPARKS) - 1
    return "".join(_SPARKS[round(steps * min(max((v - low) / (high - low), 0.0), 1.0))] for v in values)


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), right: Sequence[int] = ()) -> str:
    """Rows in aligned columns; those named in `right` are flush right."""
    lines = [*([header] if header else []), *rows]
    widths = [max(columns(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []

    def cell(text: str, i: int) -> str:
        space = " " * (widths[i] - columns(text))
        return space + text if i in right else text + space

    texts = ["  ".join(cell(text, i) for i, text in enumerate(line)).rstrip() for line in lines]
    if header:
        rules = ("─" * width if name else " " * width for name, width in zip(header, widths, strict=True))
        texts.insert(1, "  ".join(rules).rstrip())
    return "\n".join(texts)


def explanation_headline(explanation: Explanation) -> str:
    """One sentence: which label, how sure, after how many items, and why then."""
    decision, steps = explanation.decision, explanation.steps
    name = plain(decision.label) if decision.is_known else f"{decision.shown_label}, at best {plain(decision.label)}"
    text = f"{plain(decision.key)} in {plain(decision.tangle)}: {name} "
    text += f"({percent(decision.probability)}) after {decision.n_observed} of {len(steps)} items, {decision.reason}"
    if decision.true_labels and decision.true_labels[0] is not None:
        truth = plain(decision.true_labels[0])
        is_right = decision.is_known and truth == plain(decision.label)
        text += ", correct" if is_right else f", but its true label is {truth}"
    return text


def explanation_text(explanation: Explanation, most: int = 40, own: int = 2, others: int = 1) -> str:
    """What the model saw of one sequence, one line per item until it halted and a few beyond."""
    n_observed, classes = explanation.decision.n_observed, explanation.classes
    steps = explanation.steps[: n_observed + AFTER_HALT]
    rows: list[tuple[str, ...]] = []
    skipped = max(0, len(steps) - most)
    for i, step in enumerate(steps[skipped:], start=skipped):
        best = max(range(len(classes)), key=step.probabilities.__getitem__)
        rows.append((
            "▶" if i + 1 == n_observed else "",
            str(i + 1),
            plain(step.value, 24),
            bar(step.halt_score) + f" {step.halt_score:.2f}",
            plain(classes[best], 18),
            f"{100 * step.probabilities[best]:.0f} %",
            ", ".join(f"{look.position + 1} ({100 * look.weight:.0f} %)" for look in _heaviest(step, True, own)),
            ", ".join(_other(look) for look in _heaviest(step, False, others)),
        ))  # fmt: skip
    header = (
        "",
        "item",
        "value",
        f"halt, {shown_point(explanation.threshold, explanation.delay_cost)}",
        "best class",
        "",
        "looks at own",
        "others",
    )
    parts = [explanation_headline(explanation), ""]
    if skipped:
        parts.append(f"(the first {skipped} items are left out)")
    parts.append(table(rows, header, right=(1, 5)))
    left = len(explanation.steps) - len(steps)
    return "\n".join([*parts, *([f"({left} later items are left out)"] if left else [])])


@dataclass(frozen=True, slots=True)
class Explained(Explanation):
    """An explanation that prints as people read it."""

    def __str__(self) -> str:
        """What the model saw of the sequence, one line per item."""
        return explanation_text(self)


def _heaviest(step: Step, is_own: bool, most: int) -> list[Look]:
    looks = [look for look in step.looks if look.is_own == is_own]
    return sorted(looks, key=lambda look: -look.weight)[:most]


def _other(look: Look) -> str:
    relation = f", {look.relation}" if look.relation else ""
    return f"{plain(look.key, 18)} #{look.position + 1} [{plain(look.value, 16)}] ({100 * look.weight:.0f} %{relation})"
