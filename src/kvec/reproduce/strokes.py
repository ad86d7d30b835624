"""How lines of methods are drawn and named: a band over seeds, sparse markers, and names where the lines leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvec.report.canvas import INK, LETTERS, MUTED, PAPER, as_percent, need
from kvec.report.metrics import Floats
from kvec.reproduce.curves import GRID, Band, Lines, band
from kvec.reproduce.looks import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER_SIZE = 9.5
SMALLEST = 0.05  # of a vertical axis, so that little looks like little
SAMPLE = (14, 44, 74)  # points right of the axes: long enough to tell all dashes apart
ROOM = 0.015  # of an axis beyond its last possible value, so that marks there are whole
LOG_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LATE, LATE_TICKS = 0.2, (0.3, 0.4, 0.5, 0.7, 1.0)  # of an axis that begins later than this
EARLINESS = "earliness (lower is better)"


def draw_line(axes: Axes, lines: Lines, look: Look, width: float = 1.8) -> Band:
    """Draw mean and deviation over seeds, with the method's dashes and a few of its markers."""
    found = band(lines)
    is_there = np.isfinite(found.mean)
    x, y, sd = GRID[is_there], found.mean[is_there], found.sd[is_there]
    if found.n > 1:
        axes.fill_between(x, y - sd, y + sd, color=look.colour, alpha=0.16, lw=0)
    (line,) = axes.plot(x, y, color=look.colour, lw=width, marker=look.marker, ms=mark_size(look), mec=PAPER, mew=0.6)
    if look.dashes:
        line.set_dashes(look.dashes)
    line.set_markevery(_sparse(axes, x))
    return found


def name_lines(axes: Axes, found: Sequence[tuple[Band, Look]], gap: float = 0.085) -> None:
    """Name lines right of the axes in the order in which they leave, each with a sample of its line."""
    low, high = axes.get_ylim()
    edge = axes.get_xlim()[1]
    gap = min(gap, 1 / max(len(found) - 1, 1))
    ends = sorted(((_height(drawn, edge), look) for drawn, look in found), key=lambda end: end[0])
    places = [float(np.clip((height - low) / (high - low), 0, 1)) for height, _ in ends]
    beside = _beside(axes)
    for (_, look), at, place in zip(ends, places, spaced(places, gap), strict=True):
        axes.plot((1, 12), (at, place), color=look.colour, lw=0.8, transform=beside, clip_on=False)
        draw_sample(axes, look, SAMPLE, place, beside)
        axes.text(
            80, place, look.label, color=LETTERS.get(look.colour, INK), va="center", fontsize=LETTER_SIZE,
            transform=beside,
        )  # fmt: skip


def draw_sample(axes: Axes, look: Look, x: tuple[float, float, float], y: float, place: Any) -> None:
    """A short piece of a method's line, its marker in the middle."""
    (sample,) = axes.plot(x, (y,) * 3, color=look.colour, lw=1.8, transform=place, clip_on=False)
    if look.dashes:
        sample.set_dashes(look.dashes)
    size = mark_size(look)
    axes.plot(x[1], y, look.marker, color=look.colour, ms=size, mec=PAPER, mew=0.6, transform=place, clip_on=False)


def mark_size(look: Look) -> float:
    """Stars are mostly points, and need more room than other marks to be seen."""
    return 9.0 if look.marker == "*" else 5.5


def spaced(places: Sequence[float], gap: float) -> list[float]:
    """Places in ascending order pushed at least a gap apart, as little as it takes, kept between bottom and top.

    >>> spaced([0.5, 0.5, 0.9], 0.1)
    [0.45, 0.55, 0.9]
    >>> spaced([0.0, 0.0, 0.9], 0.1)
    [0.0, 0.1, 0.9]
    """
    groups = [[at, 1.0] for at in places]  # centre and number of members
    i = 0
    while i + 1 < len(groups):
        (here, n), (after, m) = groups[i], groups[i + 1]
        if after - here < gap * (n + m) / 2 - 1e-12:
            half = gap * (n + m - 1) / 2
            centre = (here * n + after * m) / (n + m)
            groups[i : i + 2] = [[max(min(centre, 1 - half), half), n + m]]
            i = max(i - 1, 0)
        else:
            i += 1
    return [round(centre + gap * (k - (n - 1) / 2), 6) for centre, n in groups for k in range(int(n))]


def set_earliness(axes: Axes, low: float, high: float, is_log: bool = False) -> None:
    """Make earliness the horizontal axis."""
    if is_log:
        axes.set_xscale("log")
        known = LATE_TICKS if low > LATE else LOG_TICKS
        ticks = [tick for tick in known if low <= tick * 1.001 and tick <= high * 1.001]
        axes.set_xticks(ticks, [f"{100 * tick:g} %" for tick in ticks])
        axes.set_xticks([], minor=True)
    room = (high / low) ** ROOM if is_log else 1 + ROOM
    axes.set_xlim(low, high * room if high == 1 else high)
    if not is_log:
        axes.xaxis.set_major_locator(need("matplotlib.ticker").MaxNLocator(6, steps=[1, 2, 5, 10]))
        as_percent(axes.xaxis)
    axes.set_xlabel(EARLINESS)


def fit_heights(axes: Axes, found: Sequence[Band], low: float, high: float, is_percent: bool = True) -> None:
    """Fit the vertical axis to what the bands show between two earlinesses."""
    shown = np.concatenate([_heights(each, low, high) for each in found]) if found else np.zeros(0)
    if shown.size:
        margin = max(0.06 * float(np.ptp(shown)), (SMALLEST - float(np.ptp(shown))) / 2)
        bottom, top = float(shown.min()) - margin, float(shown.max()) + margin
        room = ROOM * (top - bottom)
        axes.set_ylim(max(-room, bottom), min(1 + room, top))
    if is_percent:
        as_percent(axes.yaxis)


def shade_range(axes: Axes, low: float, high: float) -> None:
    """Mark the range of earliness that the paper speaks of."""
    if high > low:
        axes.axvspan(low, high, color=MUTED, alpha=0.09, lw=0, zorder=0)


def empty(axes: Axes, words: str) -> None:
    """Say that there is nothing to draw."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED, fontsize=LETTER_SIZE)


def colours(n: int) -> list[str]:
    """Colours from light to dark for an ascending number, apart for every kind of colour vision."""
    chart = need("matplotlib").colormaps["viridis"]
    to_hex = need("matplotlib.colors").to_hex
    return [to_hex(chart(0.9 - 0.85 * i / max(n - 1, 1))) for i in range(n)]


def _beside(axes: Axes) -> Any:
    """Coordinates right of the axes: points from its edge, and shares of its height."""
    transforms = need("matplotlib.transforms")
    points = transforms.Affine2D().scale(1 / 72) + axes.figure.dpi_scale_trans
    across = points + transforms.ScaledTranslation(1, 0, axes.transAxes)
    return transforms.blended_transform_factory(across, axes.transAxes)


def _height(drawn: Band, edge: float) -> float:
    """Where a line leaves the picture: at its edge, or else at its own last place before."""
    is_there = np.isfinite(drawn.mean)
    x, y = drawn.grid[is_there], drawn.mean[is_there]
    return float(np.interp(edge, x, y)) if x.size and x[0] <= edge else 0.0


def _heights(drawn: Band, low: float, high: float) -> Floats:
    """The bounds of a band between two earlinesses, at both of them too where it goes on."""
    is_there = np.isfinite(drawn.mean)
    x, mean, sd = drawn.grid[is_there], drawn.mean[is_there], drawn.sd[is_there]
    if not x.size:
        return x
    at = np.union1d(x, (low, high))
    at = at[(at >= max(low, x[0])) & (at <= min(high, x[-1]))]
    return np.concatenate([np.interp(at, x, mean - sd), np.interp(at, x, mean + sd)])


def _sparse(axes: Axes, x: Floats) -> list[int]:
    """Some places along a line: about eight, evenly apart on the axis as it is scaled, none where the line is cut."""
    if x.size < 2:
        return list(range(x.size))
    low, high = (max(value, 1e-3) if axes.get_xscale() == "log" else value for value in axes.get_xlim())
    goes_on = float(x[-1]) > high
    low, high = max(low, float(x[0])), min(high, float(x[-1]))
    at = np.geomspace(low, high, 9) if axes.get_xscale() == "log" else np.linspace(low, high, 9)
    return [int(i) for i in np.unique(np.searchsorted(x, at[: 9 - goes_on] + 1e-9, "right") - 1)]
