"""Draws the pictures of the README from what `make demo` leaves behind.

python docs/images/draw.py demo
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

import kvec
from kvec.doors.measuring import dial_of, evaluate_model
from kvec.doors.replay import Stage
from kvec.read.rows import read_table
from kvec.report.canvas import save
from kvec.report.curves import dial_curve, fixed_curve, threshold_curve
from kvec.report.pictures import draw_curves

HERE = Path(__file__).parent
TANGLE, ARRIVED = 1, 120  # the unseen tangle that is shown, and how many of its items have arrived by then


def main(demo: Path) -> None:
    """Draw the replay as a terminal shows it, and accuracy against earliness."""
    model = kvec.load(demo / "model")
    tangles = model.tangles(read_table(demo / "unseen.parquet"))
    scores = model.scores(tangles)

    stage = Stage(model, tangles, scores, TANGLE)
    for _, _lane in zip(range(ARRIVED), stage.play(), strict=False):
        pass
    screen = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, highlight=False)
    screen.print(stage.picture(f"{ARRIVED} of {stage.title} have arrived", screen.width))
    svg = screen.export_svg(title="kvec demo", theme=MONOKAI, code_format=_terminal())
    (HERE / "replay.svg").write_text(svg, encoding="utf-8")

    (found,) = evaluate_model(model, tangles, scores)
    chosen = (str(model.model_.operating_point), found.halting.earliness, found.halting.accuracy)
    fixed = (found.fixed_n, found.fixed.earliness, found.fixed.accuracy)
    dial = dial_of(model, tangles, scores)
    curve = threshold_curve(found.traces) if dial is None else dial_curve(found.traces, dial)
    save(draw_curves(curve, fixed_curve(found.traces), chosen, fixed), HERE / "curves.svg")


def _terminal() -> str:
    """Rich's picture of a terminal, in whatever monospaced letters the reader has."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    start, end = CONSOLE_SVG_FORMAT.index("@font-face"), CONSOLE_SVG_FORMAT.index(".{unique_id}-matrix")
    return CONSOLE_SVG_FORMAT[:start] + CONSOLE_SVG_FORMAT[end:]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
