"""The report of an evaluation: one HTML file that needs no network, in light and dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvec.report import canvas, curves, metrics, pictures
from kvec.report.canvas import need, to_svg, write_whole
from kvec.report.curves import Dial, Traces
from kvec.report.metrics import NAMES, Ints, Summary, harmonic_mean
from kvec.report.portrait import draw_explanation
from kvec.report.text import percent
from kvec.report.trust import trust
from kvec.words.errors import DataError
from kvec.words.explanation import Explanation
from kvec.words.plain import shown_point, shown_theta

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bools = NDArray[np.bool_]
STOPS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75)  # earliness of the rows in the table of operating points
_COLOURS = {  # each colour of the pictures is a variable of the page, so that dark pages can brighten it
    canvas.INK: "ink", canvas.MUTED: "muted", canvas.GRID: "grid", canvas.PAPER: "card", canvas.BLUE: "blue",
    canvas.VERMILLION: "vermillion", canvas.GREEN: "green", canvas.PINK: "pink", canvas.ORANGE: "orange",
    canvas.SKY: "sky",
}  # fmt: skip


def write_report(
    path: str | Path,
    *,
    title: str,
    summary: Summary,
    traces: Traces,
    threshold: float,
    delay_cost: float | None = None,
    dial: Dial | None = None,
    classes: Sequence[str],
    fixed_n: int | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    kept: float | None = None,
    settings: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    explanations: Sequence[Explanation] = (),
    notes: Sequence[str] = (),
    command: str = "",
    version: str = "",
    draws: int = 1000,
    is_known: Bools | None = None,
    costs: Sequence[float] | None = None,
) -> None:
    """Write the report of a model whose sequences halt at `threshold`, and whose dial, if any, is at `delay_cost`.

    The curve is that of `dial`, or of thresholds where there is none.
    `fixed_n` is the rival rule if it was chosen elsewhere (on validation data); else the best on these very sequences.
    Where there are `costs`, it was chosen by them.
    `kept` is the epoch of the history whose weights the model has.
    `is_known` tells which decisions say that they know, where some do not.
    `costs` are those of a sequence by halting, by the fixed rule and at the end, where it is known what costs.
    """
    if not traces.truth.size:
        raise DataError("there is no sequence to report on; give data with at least one labelled sequence")
    n_classes = len(classes)
    n_observed = curves.stop_at_threshold(traces, threshold)
    predicted, _ = traces.decided(n_observed)
    known = np.ones(len(predicted), bool) if is_known is None else is_known
    is_right = (predicted == traces.truth) & known
    trusted = trust(traces, threshold)
    ratios = n_observed / traces.length
    n = fixed_n or curves.best_fixed(traces)[0]
    chosen = shown_point(threshold, delay_cost)
    by_model = curves.threshold_curve(traces) if dial is None else curves.dial_curve(traces, dial)
    by_fixed = curves.fixed_curve(traces)
    cheapest = "" if costs is None else ", the cheapest on validation"
    rules = [
        _rule(traces, n_observed, f"the model, {chosen}", is_known),
        _rule(traces, curves.stop_at_fixed(traces, n), f"every sequence after {n} item{'s' * (n > 1)}{cheapest}"),
        _rule(traces, traces.length, "every sequence at its end"),
    ]
    drawn = {
        "curves": pictures.draw_curves(
            by_model, by_fixed,
            (chosen, rules[0]["earliness"], _rule(traces, n_observed, "")["accuracy"]),
            (n, rules[1]["earliness"], rules[1]["accuracy"]), "best" if costs is None else "cheapest",
        ),
        "earliness": pictures.draw_earliness(ratios, is_right),
        "confusion": pictures.draw_confusion(
            metrics.confusion_matrix(traces.truth[known], predicted[known], n_classes), classes
        ),
        "reliability": pictures.draw_reliability(trusted.after, trusted.before),
        "coverage": pictures.draw_coverage(
            trusted.coverage, None if is_known is None else (summary.coverage, summary.known_accuracy)
        ),
    } | ({"history": pictures.draw_history(history, kept=kept)} if history else {})  # fmt: skip
    scores = metrics.per_class(traces.truth, predicted, n_observed, traces.length, n_classes, is_known)
    occurring = [(classes[c], score) for c, score in enumerate(scores) if score.support or score.n_predicted]
    page = _template().render(
        title=title,
        summary=summary,
        cards=[
            _card(summary, name, is_known is not None)
            for name in ("hm", "accuracy", "earliness", "f1", "precision", "recall")
        ]
        + ([] if is_known is None else [_card(summary, name) for name in metrics.ABSTAINING]),
        n_unknown=int((~known).sum()),
        hm_of_best=_rule(traces, n_observed, "")["hm"],
        trusted=trusted,
        rules=rules,
        costs=costs,
        gain=None if costs else _gain(traces, n_observed, curves.stop_at_fixed(traces, n), n_classes, draws, is_known),
        is_fixed_given=fixed_n is not None,
        points=_points(traces, by_model, by_fixed, (chosen, n_observed), dial),
        has_dial=dial is not None,
        by_class=sorted(occurring, key=lambda row: -row[1].support),
        pictures={name: _inline(figure, name) for name, figure in drawn.items()},
        portraits=[_inline(draw_explanation(one), f"explanation-{i}") for i, one in enumerate(explanations, start=1)],
        settings=_flat(settings or {}),
        data=_flat(data or {}),
        notes=notes,
        command=command,
        version=version,
        percent=percent,
    )
    write_whole(path, page.encode("utf-8", "replace"))


def _card(summary: Summary, name: str, has_unknown: bool = False) -> dict[str, Any]:
    """One headline number: HM and F1 as numbers, shares as percentages."""
    show = (lambda value: f"{value:.3f}") if name in ("hm", "f1") else percent
    value: float = getattr(summary, name)
    low, high = summary.intervals.get(name, (value, value))
    notes = {
        "earliness": "lower is better", "hm": "accuracy and items saved" + "; unknown is wrong" * has_unknown,
        "accuracy": "unknown is wrong" * has_unknown,
        "coverage": "decisions that are known", "known_accuracy": "",
    }  # fmt: skip
    return {
        "name": NAMES.get(name, name), "value": show(value), "note": notes.get(name, "macro"),
        "has_interval": name in summary.intervals,
        "interval": f"{show(low).removesuffix(' %')} – {show(high)}",
        "left": 100 * low, "width": 100 * (high - low), "at": 100 * value,
    }  # fmt: skip


def _rule(traces: Traces, n_observed: Ints, name: str, is_known: Bools | None = None) -> dict[str, Any]:
    """What a way of stopping achieves."""
    is_right = traces.truth == traces.decided(n_observed)[0]
    right = float(np.mean(is_right if is_known is None else is_right & is_known))
    late = metrics.earliness(n_observed, traces.length)
    items = float(np.mean(n_observed))
    return {"name": name, "accuracy": right, "earliness": late, "hm": harmonic_mean(right, late), "items": items}


def _gain(
    traces: Traces, first: Ints, second: Ints, n_classes: int, draws: int, is_known: Bools | None
) -> dict[str, float]:
    """By how much the HM of one way of stopping exceeds another's, on the same resampled tangles."""
    hm = [
        metrics.bootstrap(
            traces.truth, traces.decided(stop)[0], stop, traces.length, traces.tangle, n_classes, max(draws, 1),
            is_known=known,
        )["hm"]
        for stop, known in ((first, is_known), (second, None))
    ]  # fmt: skip
    point = _rule(traces, first, "", is_known)["hm"] - _rule(traces, second, "")["hm"]
    low, high = metrics.interval(hm[0] - hm[1], point)
    return {"point": point, "low": low, "high": high}


def _points(
    traces: Traces, by_model: curves.Curve, by_fixed: curves.Curve, chosen: tuple[str, Ints], dial: Dial | None
) -> list[dict[str, Any]]:
    """Rows of the table of operating points: the chosen one, and the latest within each of a few limits."""
    stops = dict([chosen])
    for limit in STOPS:
        for place in np.flatnonzero(by_model.earliness <= limit)[-1:]:
            theta = float(by_model.setting[place])
            name, stop = (
                (shown_theta(theta), curves.stop_at_threshold(traces, theta))
                if dial is None
                else (dial.names[place], dial.stops[place])
            )
            stops.setdefault(name, stop)
    rows = []
    for name, stop in stops.items():
        row = _rule(traces, stop, name)
        fixed = by_fixed.accuracy_at(row["earliness"])
        rows.append(row | {"is_chosen": name == chosen[0], "fixed": None if np.isnan(fixed) else fixed})
    return sorted(rows, key=lambda row: row["earliness"])


def _inline(figure: Figure, name: str) -> Any:
    """A picture as SVG inside a page: no declarations, no ids shared between pictures, colours as variables."""
    svg = to_svg(figure)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    width = float(figure.get_size_inches()[0]) * 120
    box = re.search(r'viewBox="[^"]*"', svg)
    opening = f'<svg {box.group() if box else ""} role="img" aria-label="{name}" style="max-width: {width:.0f}px">'
    svg = re.sub(r"<svg[^>]*>", opening, svg, count=1)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
        letters = canvas.LETTERS.get(colour, colour)
        svg = svg.replace(letters, f"var(--{variable}-letters)")
    return need("markupsafe").Markup(svg)


def _flat(nested: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names and texts."""
    rows: list[tuple[str, str]] = []
    for name, value in nested.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, float):
            rows.append((f"{prefix}{name}", f"{value:.6g}"))
        elif isinstance(value, int) and not isinstance(value, bool):
            rows.append((f"{prefix}{name}", f"{value:,}"))
        else:
            words = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            rows.append((f"{prefix}{name}", words))
    return rows


def _template() -> Any:
    jinja2 = need("jinja2")
    text = files("kvec.report").joinpath("report.html.jinja").read_text(encoding="utf-8")
    around = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return around.from_string(text)
