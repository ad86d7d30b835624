"""The report of the experiments, from their CSV files alone: figures, one HTML page, and the same in Markdown."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from kvec.report.canvas import need, save, write_whole
from kvec.reproduce.by_items import VISIBILITY, items_rows, measured_trainings, side_by_side
from kvec.reproduce.claims import describe, has_repeats, judge
from kvec.reproduce.dials import dial_table, dials_of, judge_dial
from kvec.reproduce.gallery import Picture, not_drawn, pictures
from kvec.reproduce.looks import name_of
from kvec.reproduce.results import Results, read_results
from kvec.reproduce.tables import (
    Table,
    claims_table,
    convergence_table,
    data_table,
    left_out,
    methods_table,
    origin,
    settings_table,
    verdicts_table,
    warning,
)
from kvec.reproduce.verdicts import FAILS, HOLDS, KINDS, PARTLY, RULES, UNDECIDED, UNTESTED, Judged
from kvec.reproduce.yardsticks import paired_table
from kvec.words.errors import SettingError

TITLE = "The experiments of KVEC"
MEANING = (
    "Mean ± standard deviation over seeds. Mean accuracy is the area under the curve over its width, in the range of "
    "earliness that the methods of the paper's figures reach, for all that span it to 0.2 points; best HM is on test "
    "at the point chosen on validation. Differences are in points of accuracy, paired by seed, with the 95 % interval "
    "of their mean."
)
EXPERIMENTS = {
    "ablation": "KVEC without its parts", "sensitivity": "Sensitivity to α and β",
    "attention": "Attention inside and across sequences (RQ1)", "halting": "Halting positions (RQ2)",
    "keys": "Number of concurrent keys (RQ3)",
}  # fmt: skip

BEYOND = {
    "dial": "Beyond the paper: one model with a dial",
    "beyond": "Beyond the paper: at equal earliness, on the same test tangles",
    "visibility": "Beyond the paper: what other keys tell", "ratings": "Beyond the paper: items seen and told",
}  # fmt: skip
PAIRED = (
    "Points of accuracy (and of HM, at the point chosen on validation) by which a method lies above another on the "
    "same test units, with the 95 % interval of a bootstrap over units, mean over seeds; bold where the interval is "
    "above zero, and the word below where it is below zero. Of KVEC's own candidates the one of best HM on "
    "validation is the champion: it speaks for KVEC, and the others are shown beside it."
)
DIALS = "{}: accuracy of a model that was trained for one delay cost, and of the dial at its earliness."


@dataclass(frozen=True)
class Section:
    """A part of the report: words, pictures and tables, the last with a line above each."""

    title: str
    words: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[tuple[str, Table]]


def make_report(folder: Path, out: Path) -> Path:
    """Write figures, report.html and report.md of a folder of results into `out`; returns the HTML page."""
    results = read_results(folder)
    drawn = out / "figures"
    try:
        drawn.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"{drawn}: cannot be made: {error.strerror}; choose another place") from error
    judged, known = judge(results), list(pictures(results))
    for picture in known:
        figure = picture.draw()
        save(figure, drawn / f"{picture.name}.png")
        figure.set_layout_engine("none")  # it is laid out by now, and stays so
        save(figure, drawn / f"{picture.name}.svg")
    sections = _sections(results, judged, [picture for picture in known if picture.is_shown])
    write_whole(out / "report.md", _markdown(results, judged, sections).encode("utf-8"))
    write_whole(page := out / "report.html", _html(results, judged, sections, drawn).encode("utf-8"))
    return page


def summary(judged: Sequence[Judged]) -> str:
    """How many verdicts of each kind there are.

    >>> summary([Judged("a", "", "", "", HOLDS, ""), Judged("b", "", "", "", UNTESTED, "")])
    '2 verdicts on 2 claims: 1 holds, 0 holds partly, 0 does not hold here, 0 undecided, 1 not tested.'
    """
    n = Counter(row.verdict for row in judged)
    told = ", ".join(f"{n[verdict]} {verdict}" for verdict in KINDS)
    return f"{len(judged)} verdicts on {len({row.claim for row in judged})} claims: {told}."


def _sections(results: Results, judged: Sequence[Judged], shown: Sequence[Picture]) -> list[Section]:
    """The parts of the report, from the claims to what was left out."""

    def pictured(section: str) -> list[Picture]:
        return [picture for picture in shown if picture.section == section]

    front = [picture for picture in shown if picture.name == f"{picture.section}-accuracy"]
    parts = [
        Section("In short", [summary(judged)], [], [("", verdicts_table(judged))]),
        Section("Accuracy against earliness, data set by data set", [], front, []),
        Section("The paper's claims", [], [], [("", claims_table(judged))]),
        Section("How verdicts are reached", RULES, [], []),
    ]
    for dataset in results.datasets():
        tables = [(MEANING, methods_table(results, dataset))]
        if has_repeats(results, dataset):
            words = "The same without test sequences that occur in training."
            tables.append((words, methods_table(results, dataset, without_repeats=True)))
        facts = describe(results, dataset)
        kept = [(words, table) for words, table in tables if table.rows]
        parts.append(Section(name_of(dataset), [f"Here {facts}."] if facts else [], pictured(dataset), kept))
    for name, title in EXPERIMENTS.items():
        of_it = pictured(name)
        parts.append(Section(title, [] if of_it else ["These results hold nothing of it."], of_it, []))
    parts += [
        Section(title, [], pictured(name), [(words, Table(*rows)) for words, rows in _beyond(results, name) if rows[1]])
        for name, title in BEYOND.items()
    ]
    parts += [
        Section("The data sets", [], [], [("", data_table(results))] if results.data.height else []),
        Section("Which trainings had converged", [], [], [("", convergence_table(results))]),
        Section("What was trained, and how long it took", [], [], [("", settings_table(results))]),
        Section("What was left out", left_out(results) + not_drawn(results) or ["Nothing that was planned."], [], []),
    ]
    return [part for part in parts if part.words or part.pictures or any(table.rows for _, table in part.tables)]


def _beyond(results: Results, name: str) -> Iterator[tuple[str, tuple[list[str], list[list[str]]]]]:
    """The tables of a part beyond the paper, with a line above each."""
    told = "{}: after n items of every sequence, mean ± deviation over seeds."
    if name == "dial":
        for dataset in results.datasets():
            if dials := dials_of(results, dataset):
                verdicts = claims_table([judge_dial(results, dataset, dial) for dial in dials])
                yield "", (list(verdicts.header), [list(row) for row in verdicts.rows])
                yield DIALS.format(name_of(dataset)), dial_table(results, dataset)
    if name == "beyond":
        for dataset in results.datasets():
            yield f"{name_of(dataset)}. {PAIRED}", paired_table(results, dataset)
    if name == "ratings":
        for dataset in results.datasets():
            yield told.format(name_of(dataset)), items_rows(results, dataset, measured_trainings(results, dataset))
    if name == "visibility":
        for base, numbers in side_by_side(results).items():
            for number in numbers:
                dataset = f"{base}@{number}"
                yield told.format(name_of(dataset)), items_rows(results, dataset, VISIBILITY)


def _markdown(results: Results, judged: Sequence[Judged], sections: Sequence[Section]) -> str:
    """The report as a page of Markdown, its pictures beside it."""
    parts = [f"# {TITLE}", f"**{told}**" if (told := warning(results)) else "", origin(results)]
    for section in sections:
        parts.append(f"## {section.title}")
        is_list = len(section.words) > 1
        words = [f"- {line}" if is_list else line for line in section.words]
        parts.append("\n".join(words))
        parts += [f"![{picture.caption}](figures/{picture.name}.png)" for picture in section.pictures]
        for above, table in section.tables:
            parts += [above, table.markdown()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _html(results: Results, judged: Sequence[Judged], sections: Sequence[Section], drawn: Path) -> str:
    """The report as one page that needs no other file."""
    jinja2, markup = need("jinja2"), need("markupsafe").Markup
    text = files("kvec.reproduce").joinpath("report.html.jinja").read_text(encoding="utf-8")
    around = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    around.filters["bold"] = lambda words: markup(re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(words)))
    around.filters["svg"] = lambda picture: _inline(drawn / f"{picture.name}.svg")
    around.filters["verdict"] = _kind
    rendered: Any = around.from_string(text).render(
        title=TITLE, warning=warning(results), origin=origin(results), sections=sections, summary=summary(judged)
    )
    return str(rendered)


def _kind(words: str) -> str:
    """The class of a cell that holds a verdict, for its colour."""
    kinds = {HOLDS: "holds", PARTLY: "partly", FAILS: "fails", UNDECIDED: "undecided", UNTESTED: "untested"}
    return kinds.get(words.strip("*"), "") if words.startswith("**") else ""


def _inline(path: Path) -> str:
    """An SVG file as an address that holds it whole."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
