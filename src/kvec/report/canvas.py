"""The sheet that pictures are drawn on: colours, letters, and the way to SVG text or to a file."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvec.words import extras
from kvec.words.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#17212b", "#5b6875", "#dfe5ea", "#fefefe"
# The colours of Okabe and Ito, which stay apart for every kind of colour vision; yellow is too pale for a line.
BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
SERIES = (BLUE, VERMILLION, GREEN, PINK, ORANGE, SKY)
LETTERS = {  # the same hues, dark enough for small letters on white
    BLUE: "#00609a", VERMILLION: "#b34f00", GREEN: "#007a59", PINK: "#a34f7e", ORANGE: "#8f6300", SKY: "#23759f",
    MUTED: MUTED, INK: INK,
}  # fmt: skip

_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"], "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "kvec",
    "text.parse_math": False, "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": GRID,
    "axes.titlesize": 10, "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.titlecolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "axes.facecolor": "none", "grid.color": GRID, "grid.linewidth": 0.6, "xtick.color": MUTED, "ytick.color": MUTED,
    "xtick.major.size": 0, "ytick.major.size": 0, "xtick.minor.size": 0, "ytick.minor.size": 0,
    "xtick.major.pad": 6, "ytick.major.pad": 6,
    "lines.linewidth": 1.8, "lines.solid_capstyle": "round", "legend.frameon": False, "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER, "savefig.dpi": 160,
}  # fmt: skip


def need(module: str) -> Any:
    """A module of the extra `report`, or a word on how to install it."""
    return extras.need(module, "reports and pictures need", "report")


@contextmanager
def styled() -> Iterator[None]:
    """Draw in our style, whatever the user's own settings of matplotlib are."""
    style = need("matplotlib.style")
    with warnings.catch_warnings(), style.context(["default", _STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def sheet(width: float, height: float) -> Figure:
    """An empty figure of a size in inches, laid out by itself."""
    figure: Figure = need("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    return figure


def to_svg(figure: Figure) -> str:
    """A picture as SVG text; its letters stay letters, and the same picture gives the same text."""
    return _rendered(figure, "svg").decode("utf-8")


def save(figure: Figure, path: str | Path) -> None:
    """Write a picture to an .svg or .png file."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("svg", "png"):
        raise SettingError(f"{path}: a picture is written as .svg or .png; give it one of these endings")
    content = _rendered(figure, kind)
    write_whole(path, content if kind == "svg" else _in_few_colours(content))


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SettingError(f"{path}: cannot be written: {error.strerror}; choose another place") from error


def label_ends(axes: Axes, labels: list[tuple[float, str, str]], x: float, gap: float = 0.07) -> None:
    """Write names right of `x` at the ends of lines: (height, text, colour), pushed apart where they would overlap."""
    low, high = axes.get_ylim()
    ordered = sorted(labels)
    heights = [(y - low) / (high - low) for y, _, _ in ordered]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    for i in range(len(heights)):
        heights[i] = min(heights[i], 1.0 - gap * (len(heights) - 1 - i))
    for (_, text, colour), height in zip(ordered, heights, strict=True):
        axes.annotate(
            text, (x, low + height * (high - low)), (6, 0), textcoords="offset points", va="center",
            color=LETTERS[colour], annotation_clip=False,
        )  # fmt: skip


def count_by_integers(axis: Any, most: int = 7) -> None:
    """Put the numbers of an axis at integers, however few there are."""
    axis.set_major_locator(need("matplotlib.ticker").MaxNLocator(most, integer=True, min_n_ticks=1))


def as_percent(axis: Any) -> None:
    """Show the shares along an axis as percentages, none of them rounded to another's."""
    axis.set_major_formatter(need("matplotlib.ticker").FuncFormatter(lambda share, _: f"{round(100 * share, 4):g} %"))


def shade(axes: Axes, shares: NDArray[np.float64], colour: str, extent: tuple[float, float, float, float]) -> None:
    """Shares as one colour of growing strength, clear where they are zero, so that any background serves."""
    axes.grid(visible=False)
    image = np.zeros((*shares.shape, 4))
    image[..., :3] = need("matplotlib.colors").to_rgb(colour)
    image[..., 3] = np.clip(shares, 0, 1) ** 0.8
    axes.imshow(image, interpolation="none", aspect="auto", extent=extent)


def _in_few_colours(content: bytes) -> bytes:
    """A PNG in a palette of 256 colours, all of ours among them: a third of the bytes."""
    pillow, buffer = need("PIL.Image"), io.BytesIO()
    drawn = pillow.open(io.BytesIO(content)).convert("RGB")
    drawn = drawn.quantize(256, method=pillow.Quantize.MAXCOVERAGE, kmeans=1, dither=0)  # medians mix letters' hues
    drawn.save(buffer, "png", optimize=True)
    return buffer.getvalue()


def _rendered(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
