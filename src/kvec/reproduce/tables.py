"""Tables of the report, as words: data, methods, differences, convergence, settings and times, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from kvec.reproduce.convergence import convergence
from kvec.reproduce.curves import (
    SAME,
    Lines,
    Spread,
    area,
    best_hm,
    chosen_points,
    common_range,
    compare,
    drawn_methods,
    lines_of,
    spread,
)
from kvec.reproduce.discussions import key_counts, sweep
from kvec.reproduce.looks import ABLATION, DATA_SETS, LOOKS, SWEPT, YARDSTICKS, in_order, look_of, name_of
from kvec.reproduce.results import Results, main_cells
from kvec.reproduce.verdicts import EARLY, KINDS, Judged

COLUMNS = {
    "dataset": "data set", "keys": "keys", "tangles": "tangles", "items": "items", "mean_length": "mean length",
    "mean_session": "mean session", "classes": "classes", "keys_per_tangle": "keys per tangle",
    "concurrent_keys": "keys at once", "related_keys": "keys with one of their class in the tangle",
    "seeing_items": "items that see others", "same_class_seen": "of their class among what is seen",
}  # fmt: skip
SHARES = ("related_keys", "seeing_items", "same_class_seen")
NOT_RUN = "(none: experiments that were not run)"  # where other rows name a data set
SMOKE = (
    "This is a smoke test: tiny made data and seconds of training, to see whether everything runs. Its figures and "
    "verdicts mean nothing; for results, kvec reproduce all --profile small --data FOLDER."
)
MADE = ("planted", "made-early", "made-late")


@dataclass(frozen=True)
class Table:
    """A header and rows of words."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(word.replace("|", "\\|") for word in line) + " |" for line in lines)


def claims_table(judged: Sequence[Judged]) -> Table:
    """Claim by claim: where, what was measured, the verdict and why."""
    header = ("claim", "data set", "method", "measured", "verdict", "why")
    return Table(
        header,
        [
            (
                row.claim,
                name_of(row.dataset),
                look_of(row.method).label if row.method else "",
                row.measured or "–",
                f"**{row.verdict}**",
                row.reason,
            )
            for row in judged
        ],
    )


def data_table(results: Results) -> Table:
    """Table I of the paper, and what may explain where value correlation helps."""
    names = [name for name in results.data.columns if name != "digest"]
    rows = [[_cell(name, row[name]) for name in names] for row in results.data.iter_rows(named=True)]
    return Table([COLUMNS.get(name, name.replace("_", " ")) for name in names], rows)


def methods_table(results: Results, dataset: str, without_repeats: bool = False) -> Table:
    """All methods of a data set over the earliness that the paper's reach; others that do not span it have no mean."""
    lines = {name: lines_of(results, dataset, name, "accuracy", without_repeats) for name in LOOKS}
    lines |= {name: lines_of(results, dataset, name, "accuracy", without_repeats) for name in results.methods(dataset)}
    drawn = {name for name in drawn_methods(results, dataset) if not name.startswith(YARDSTICKS)}
    lines = {name: found for name, found in lines.items() if found and name in drawn}
    lines = {name: found for name, found in lines.items() if all(line.earliness.size > 1 for line in found.values())}
    main = [found for name, found in lines.items() if look_of(name).is_main] or list(lines.values())
    reach = common_range(main)
    if reach is None:
        return Table((), ())
    span = f"{100 * reach[0]:.3g}–{100 * reach[1]:.3g} %"
    early = common_range(main, 0.0, EARLY)
    header = [
        "method", "seeds", f"mean accuracy, {span}", "below 10 %", "best HM", "its accuracy", "its earliness",
        "KVEC above it", "below 10 %",
    ]  # fmt: skip
    rows = []
    for name in in_order(set(lines)):
        hm = best_hm(results, dataset, name, without_repeats)
        chosen = chosen_points(results, dataset, name)
        new = "new_" * without_repeats
        at = [chosen.drop_nulls(f"{new}{part}")[f"{new}{part}"].to_list() for part in ("accuracy", "earliness")]
        rows.append([
            look_of(name).label,
            str(len(lines[name])),
            _mean_height(lines[name], reach),
            _mean_height(lines[name], early),
            _number(spread(list(hm.values()))) if hm else "–",
            *(percent(spread(values)) if values else "–" for values in at),
            *(_difference(lines, name, 0.0, high) for high in (1.0, EARLY)),
        ])  # fmt: skip
    return Table(header, rows)


def verdicts_table(judged: Sequence[Judged]) -> Table:
    """Which data sets have a verdict of which kind, claim by claim, and how many there are in all."""
    claims: dict[str, dict[str, list[str]]] = {}
    for row in judged:
        of_claim = claims.setdefault(row.claim, {kind: [] for kind in KINDS})
        where = name_of(row.dataset) if row.dataset else NOT_RUN
        where += {"kvec": "", "earliest": ""}.get(row.method, f", {look_of(row.method).label}") if row.method else ""
        of_claim[row.verdict].append(where)
    rows = [(claim, *("; ".join(found[kind]) or "–" for kind in KINDS)) for claim, found in claims.items()]
    total = Counter(row.verdict for row in judged)
    return Table(("claim", *KINDS), [*rows, ("all", *(str(total[kind]) for kind in KINDS))])


def convergence_table(results: Results) -> Table:
    """Which trainings had converged on validation."""
    pairs = main_cells(results.cells).select("dataset", "training").unique(maintain_order=True).rows()
    rows = [
        (name_of(dataset), look_of(training).label, found.words(), "yes" if found.is_converged else "no")
        for dataset, training in pairs
        for found in [convergence(results, dataset, training)]
    ]
    return Table(("data set", "training", "cells", "converged"), rows)


def settings_table(results: Results) -> Table:
    """What was trained, with which settings, and how long it took."""
    header = (
        "data set", "training", "seeds", "values", "processor seconds", "seconds in all", "epochs",
        "sequences: train, validation, test (new)", "settings",
    )  # fmt: skip
    rows = []
    for (dataset, training, swept), own in results.cells.group_by("dataset", "training", "swept", maintain_order=True):
        values = sorted(set(own["value"].to_list()), key=_as_number)
        sizes = [f"{_mean(own, name):,.0f}" for name in ("n_train", "n_validation", "n_test", "n_new")]
        common = set.intersection(*(set(text.split()) for text in own["settings"].to_list()))
        rows.append((
            name_of(str(dataset)), str(training), str(own["seed"].n_unique()),
            f"{SWEPT.get(str(swept), swept)} = {', '.join(values)}" if swept else "–",
            f"{_mean(own, 'train_seconds'):.0f}", f"{_mean(own, 'seconds'):.0f}", f"{_mean(own, 'epochs'):.1f}",
            f"{sizes[0]}, {sizes[1]}, {sizes[2]} ({sizes[3]})", " ".join(sorted(common)) or "–",
        ))  # fmt: skip
    return Table(header, rows)


def left_out(results: Results) -> list[str]:
    """What the paper or the experiments have and these results have not."""
    told = []
    there = set(results.datasets())
    is_smoke = bool(there) and there <= set(MADE)
    missing = [name_of(name) for name in DATA_SETS if name not in there and (name in MADE) == is_smoke]
    if missing:
        told.append(f"Data sets without results: {', '.join(missing)}.")
    experiments = {
        "data (table I)": results.data.height,
        "curves": results.points.height,
        "sensitivity (α and β)": sum(sweep(results, name, "alpha").height for name in there),
        "ablation": sum(len(set(ABLATION[1:]) & results.methods(name)) for name in there),
        "attention (RQ1)": results.attention.height,
        "halting positions (RQ2)": results.halts.height,
        "number of keys (RQ3)": len(key_counts(results)),
    }
    if absent := [name for name, n in experiments.items() if not n]:
        told.append(f"Experiments that were not run: {', '.join(absent)}.")
    for dataset in results.datasets():
        methods = drawn_methods(results, dataset)
        lacking = [look.label for name, look in LOOKS.items() if look.is_main and name not in methods]
        if lacking:
            told.append(f"{name_of(dataset)} is without {', '.join(lacking)}.")
        few = {name: len(lines_of(results, dataset, name)) for name in methods}
        behind = [f"{look_of(name).label} ({n})" for name, n in few.items() if n < few.get("kvec", 0)]
        if behind:
            told.append(f"{name_of(dataset)}: fewer seeds than KVEC's {few['kvec']}: {', '.join(sorted(behind))}.")
    alone = [name_of(name) for name in there if results.cells.filter(pl.col("dataset") == name)["seed"].n_unique() == 1]
    if alone:
        told.append(f"One seed only, so no bands and no intervals: {', '.join(sorted(alone))}.")
    return told


def origin(results: Results) -> str:
    """Which versions and profiles the results come from, and when they were made."""
    cells = results.cells
    if not cells.height:
        return ""
    parts = {name: ", ".join(sorted(set(cells[name].to_list()) - {""})) for name in ("profile", "version", "commit")}
    days = sorted({text[:10] for text in cells["started"].to_list()} - {""})
    lasted = _lasted(float(cells["seconds"].sum()))
    when = "" if not days else f", {days[0]}" if len(days) == 1 else f", {days[0]} to {days[-1]}"
    return (
        f"{cells.height} cells of the profile {parts['profile']}, {lasted} in all, kvec {parts['version']}, "
        f"commit {parts['commit'] or 'unknown'}{when}."
    )


def warning(results: Results) -> str:
    """What a reader must know before all else: that results of the profile smoke say nothing."""
    return SMOKE if "smoke" in results.cells["profile"].to_list() else ""


def _lasted(seconds: float) -> str:
    """How long all cells took, in hours, or in minutes where that would be a part of one.

    >>> _lasted(9000), _lasted(95), _lasted(20)
    ('2.5 hours', '2 minutes', 'less than a minute')
    """
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} hours"
    minutes = round(seconds / 60)
    return "less than a minute" if seconds < 60 else f"{minutes} minute{'s' * (minutes > 1)}"


def _difference(lines: Mapping[str, Lines], name: str, low: float, high: float) -> str:
    """KVEC minus a method, with its 95 % interval."""
    found = compare(lines["kvec"], lines[name], low, high) if "kvec" in lines and name != "kvec" else None
    if found is None:
        return "–"
    gain = found.spread
    interval = f" ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})" if gain.n > 1 else ""
    return f"{100 * gain.mean:+.1f}{interval}"


def _mean_height(lines: Lines, reach: tuple[float, float] | None) -> str:
    """The mean height of lines that span a range, or miss no more of it than is told as nothing."""
    own = reach and common_range([lines], *reach)
    if not reach or not own or own[0] - reach[0] > SAME or reach[1] - own[1] > SAME:
        return "–"
    return percent(area(lines, *own))


def percent(found: Spread) -> str:
    """A share over seeds in percent, with its deviation.

    >>> percent(Spread(0.5, 0.012, 0.49, 0.51, 0.47, 0.53, 3))
    '50.0 % ± 1.2'
    """
    return f"{100 * found.mean:.1f} %" + f" ± {100 * found.sd:.1f}" * (found.n > 1)


def _number(found: Spread) -> str:
    return f"{found.mean:.3f}" + f" ± {found.sd:.3f}" * (found.n > 1)


def _cell(name: str, value: object) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{100 * value:.0f} %" if name in SHARES else f"{value:,.0f}" if value.is_integer() else f"{value:,.1f}"
    return name_of(str(value)) if name == "dataset" else str(value)


def _mean(own: pl.DataFrame, name: str) -> float:
    known = own[name].drop_nulls().to_list()
    return sum(known) / len(known) if known else 0.0


def _as_number(text: str) -> tuple[float, str]:
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
