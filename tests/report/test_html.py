import re
import sys
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from tests.report import made

from kvec.report import curves, html
from kvec.report.curves import Traces
from kvec.words.errors import DataError, MissingExtra, SettingError

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def write(path: Path, traces: Traces | None = None, **more: object) -> str:
    traces = traces or made.traces()
    theta, _ = curves.best_threshold(traces)
    summary = curves.summarise_stops(traces, curves.stop_at_threshold(traces, theta), len(made.CLASSES), draws=50)
    given = {"title": "A <i>title</i>", "classes": made.CLASSES, "draws": 50} | more
    html.write_report(path, summary=summary, traces=traces, threshold=theta, **given)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(
        tmp_path_factory.mktemp("report") / "full.html",
        history=made.HISTORY,
        settings={"encoder": {"blocks": 2, "dropout": 0.1}, "name": "<u>"},
        data={"items": 1234567, "fields": ["size", "direction"]},
        explanations=[made.explanation(12, 5), made.explanation(3, 3)],
        notes=["a <note>"],
        command="kvec evaluate model 'a&b.parquet' --report out.html",
        version="1.2.3",
    )


def test_page_is_whole_and_needs_no_network(full: str) -> None:
    page = Page(full)
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    assert not re.search(r"https?://|@import|url\((?!#)", full)
    for name, value in page.attributes:
        if name in ("src", "href", "xlink:href"):
            assert value.startswith(("#", "data:image/png;base64,"))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:url\(#|href="#)([^)"]+)', full)
    assert targets and set(targets) <= set(ids)


def test_page_holds_every_section(full: str) -> None:
    shown = " ".join(" ".join(Page(full).words).split())
    for heading in (
        "Against the best fixed rule", "Accuracy against earliness", "When sequences were decided", "Classes",
        "Confusion", "How far its probabilities can be trusted", "Training", "Examples", "Data", "Settings", "Made by",
    ):  # fmt: skip
        assert heading in shown
    for words in ("lower is better", "encoder.blocks", "1,234,567", "size, direction", "kvec 1.2.3", "(chosen)"):
        assert words in shown


def test_given_texts_are_escaped(full: str) -> None:
    shown = " ".join(Page(full).words)
    for words in ("A <i>title</i>", "<b>bold</b> & co", "a <note>", "<u>", "'a&b.parquet'", "$x^2$", "日本語"):
        assert words in shown
    assert "<i>title" not in full and "<b>bold" not in full and "<note>" not in full


def test_pictures_take_the_colours_of_the_page(full: str) -> None:
    assert "prefers-color-scheme: dark" in full
    pictures = re.findall(r"<svg.*?</svg>", full, flags=re.DOTALL)
    assert len(pictures) == 8
    used = set(re.findall(r"var\(--([a-z-]+)\)", " ".join(pictures)))
    defined = set(re.findall(r"--([a-z-]+):", full))
    assert {"ink", "blue", "blue-letters", "card"} <= used <= defined
    left = set(re.findall(r"#[0-9a-f]{6}", " ".join(pictures)))
    assert left <= {"#ffffff"}  # letters on dark cells


def test_numbers_are_those_of_the_summary(tmp_path: Path) -> None:
    traces = made.traces()
    _, hm = curves.best_threshold(traces)
    n, fixed_hm = curves.best_fixed(traces)
    shown = " ".join(" ".join(Page(write(tmp_path / "a.html", traces)).words).split())
    assert f"{hm:.3f}" in shown and f"{fixed_hm:.3f}" in shown
    assert f"{abs(hm - fixed_hm):.3f} {'higher' if hm >= fixed_hm else 'lower'}" in shown
    assert f"every sequence after {n} item" in shown


def test_the_kept_epoch_is_named(tmp_path: Path) -> None:
    shown = " ".join(Page(write(tmp_path / "a.html", history=made.HISTORY, kept=4.0)).words)
    assert "kept: epoch 4" in shown and "best HM" not in shown


def test_what_unknown_does_to_the_headline_is_said_beside_it(tmp_path: Path) -> None:
    traces = made.traces()
    theta, _ = curves.best_threshold(traces)
    stops = curves.stop_at_threshold(traces, theta)
    known = np.arange(len(stops)) % 7 > 0
    summary = curves.summarise_stops(traces, stops, len(made.CLASSES), draws=50, is_known=known)
    best = curves.summarise_stops(traces, stops, len(made.CLASSES), draws=0)
    path = tmp_path / "unknown.html"
    html.write_report(
        path, title="x", summary=summary, traces=traces, threshold=theta, classes=made.CLASSES, draws=50, is_known=known
    )
    head = " ".join(path.read_text(encoding="utf-8").partition("<main>")[0].split())
    assert "unknown is wrong" in head and f"{(~known).sum()} decisions say that they do not know" in head
    assert f"there HM at the same point is {best.hm:.3f}." in head and f"<b>{summary.hm:.3f}</b>" in head
    assert summary.hm < best.hm
    assert "unknown is wrong" not in write(tmp_path / "known.html")


def test_little_data_and_nothing_optional(tmp_path: Path) -> None:
    one = Traces(np.array([0, 1]), np.ones(1), np.zeros(1), np.ones(1), np.zeros(1), np.zeros(1))
    page = Page(write(tmp_path / "a.html", one, fixed_n=3))
    shown = " ".join(page.words)
    assert "Against the fixed rule" in shown and "every sequence after 3 items" in shown
    assert not {"Training", "Settings", "Data", "Made by", "An example"} & set(page.words)


def test_a_report_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="cannot be written"):
        write(tmp_path / "missing" / "a.html")
    (tmp_path / "a.html").write_text("before")
    monkeypatch.setattr(html, "draw_explanation", lambda one: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "a.html", explanations=[made.explanation(3, 3)])
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
    assert (tmp_path / "a.html").read_text() == "before"


def test_nothing_to_report_is_refused(tmp_path: Path) -> None:
    none = Traces(np.array([0]), *(np.zeros(0) for _ in range(5)))
    summary = curves.summarise_stops(made.traces(), made.traces().length, len(made.CLASSES), draws=0)
    with pytest.raises(DataError, match="no sequence"):
        html.write_report(tmp_path / "a.html", title="", summary=summary, traces=none, threshold=0.5, classes=("a",))


@pytest.mark.parametrize("module", ["matplotlib.style", "jinja2"])
def test_missing_extra_says_how_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'kvec\[report\]'"):
        write(tmp_path / "a.html")
    assert not list(tmp_path.iterdir())


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' brightness, as the rules for readable pages (WCAG) have it."""

    def brightness(colour: str) -> float:
        parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_letters_stand_out_from_the_card_they_are_on(theme: int) -> None:
    page = files("kvec.report").joinpath("report.html.jinja").read_text(encoding="utf-8")
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in re.findall(r":root \{(.*?)\}", page, re.S)]
    colours = themes[theme]
    letters = [name for name in colours if name.endswith("-letters")] + ["ink", "muted"]
    assert len(letters) == 8
    for name in letters:
        assert contrast(colours[name], colours["card"]) >= 4.5, name
    for name in ("blue", "vermillion"):
        assert contrast(colours[name], colours["card"]) >= 3, f"the curve in {name}"
