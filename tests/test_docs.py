"""The pages keep pace with the code: every entry and setting with its present default, examples that read, links."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from tests.decide.made_promise import watched

import kvec
from kvec.decide.risk import units_needed
from kvec.doors import cli
from kvec.doors.service.bounds import Bounds
from kvec.learn.display import SCORES, TERMS
from kvec.words import schema
from kvec.words.config import PRESETS, Config
from kvec.words.flows import FlowSettings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SECTIONS = {
    "Entries": schema.Schema,
    "Value fields": schema.Field,
    "A label that is an event": schema.Outcome,
    "Re-tangling": schema.Tangling,
    "Packets of captures": FlowSettings,
}


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def table_rows(text: str) -> dict[str, str]:
    """The default beside each name in the tables of a page or section."""
    return dict(re.findall(r"^\| `([\w.-]+)` \| `?(.*?)`? \|", text, re.MULTILINE))


def sections(text: str) -> dict[str, str]:
    return {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}


def examples(page: str) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


def written(default: Any) -> str:
    """A default as a TOML file has it, text without quotation marks as on the command line."""
    if default is None or isinstance(default, bool):
        return str(default).lower()
    return default if isinstance(default, str) else repr(default)


def entry_default(entry: Field[Any]) -> str:
    if entry.default is MISSING:
        return "required"
    if isinstance(entry.default, tuple):
        return f"[{', '.join(quoted(name) for name in entry.default)}]"
    return quoted(entry.default) if isinstance(entry.default, str) else written(entry.default)


def quoted(text: str) -> str:
    return f'"{text}"'


@pytest.mark.parametrize("title", SECTIONS)
def test_every_entry_of_a_schema_is_on_its_page(title: str) -> None:
    entries = {entry.name: entry_default(entry) for entry in fields(SECTIONS[title])}
    assert table_rows(sections(text_of("schema.md"))[title]) == entries


def test_every_setting_is_on_its_page_with_its_default() -> None:
    told = {name: default for name, default in table_rows(text_of("settings.md")).items() if "." in name}
    settings = {f"{group}.{name}": value for group, s in Config().to_dict().items() for name, value in s.items()}
    assert told == {name: written(value) for name, value in settings.items()}


def test_every_preset_and_progress_column_is_on_the_page() -> None:
    found = sections(text_of("settings.md"))
    assert PRESETS.keys() == table_rows(found["Presets"]).keys()
    for column in (*TERMS.values(), *SCORES.values(), "sec", "best"):
        assert f"`{column}`" in found["What training shows"]


@pytest.mark.parametrize("example", examples("schema.md"))
def test_schemas_on_the_page_can_be_read(example: str) -> None:
    schema.Schema.from_dict(tomllib.loads(example))


@pytest.mark.parametrize("example", examples("settings.md"))
def test_settings_on_the_page_can_be_read(example: str) -> None:
    Config.from_dict(tomllib.loads(example))


def test_the_python_of_the_page_on_streams_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: dict[str, Any] = {"width": 16, "heads": 2, "blocks": 1, "feed_forward": 16, "fusion": 16, "epochs": 1}
    columns = {
        "key": "key", "tangle": "tangle", "time": "time", "values": ["size", "direction"], "session": "direction",
        "label": "label",
    }  # fmt: skip
    model = kvec.KVEC(schema=columns, **sizes).fit(kvec.synthetic.demo_traffic(10, seed=0, keys=3))
    model.model_.threshold = 1.0  # so that all wait for their end
    for name in ("model", "newer"):
        model.save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", text_of("stream-python.md"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    page: dict[str, Any] = {}
    exec(compile("\n".join(blocks), "stream-python.md", "exec"), page)
    assert [(one.key, one.reason) for one in page["decisions"]] == [
        ("10.0.0.1:443", "ended"), ("10.0.0.2:443", "expired"),
    ]  # fmt: skip
    assert page["status"].n_observed == 1 and page["stream"].counters.items == 8
    assert capsys.readouterr().out


def test_the_numbers_of_units_on_the_page_on_promises() -> None:
    told = sections(text_of("guarantee.md"))["How many units are needed"]
    rows = re.findall(r"^\| (0\.\d+) \| (\d+) \| (\d+) \| (\d+) \|$", told, re.MULTILINE)
    assert len(rows) == 5
    for alpha, *numbers in rows:
        needed = [units_needed("betting", np.ones(1, np.int64), float(alpha), delta, 1) for delta in (0.1, 0.05, 0.01)]
        assert [int(number) for number in numbers] == needed


def test_the_python_of_the_page_on_unknown_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", text_of("unknown.md"), re.MULTILINE | re.DOTALL)
    sizes = "epochs=1, width=8, heads=2, feed_forward=8, fusion=8, blocks=1"
    assert "epochs=6" in block
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace("epochs=6", sizes), "unknown.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 18
    kept = kvec.load("careful-model").model_.unknown
    assert (kept.abstain_below, kept.unknown_below) == (0.6, 0.05) and kept.usual is not None


def test_the_python_of_the_page_on_promises_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", text_of("guarantee.md"), re.MULTILINE | re.DOTALL)
    model = kvec.KVEC(width=16, heads=2, blocks=1, feed_forward=16, fusion=16, epochs=1)
    items = kvec.synthetic.demo_traffic(10, seed=0, keys=3)
    stream = model.fit(items).stream(threshold=0.0)
    stream.__class__ = type("Promised", (kvec.Stream,), {"promised": watched(np.random.default_rng(0))})
    page: dict[str, Any] = {"stream": stream, "items": model.items(items), "decision_id": "nothing"}
    exec(compile(block, "guarantee.md", "exec"), page)
    assert page["monitor"].status().n_units == 10
    assert "n_decisions=30" in capsys.readouterr().out


def test_every_verb_of_a_stream_is_on_its_page() -> None:
    told = sections(text_of("stream-python.md"))["Verbs"]
    verbs = {f"`{name}{_given(verb)}`" for name, verb in vars(kvec.Stream).items() if _tells_decisions(verb)}
    assert len(verbs) == 7
    assert verbs == set(re.findall(r"^\| (`[^`]+\)`) \|", told, re.MULTILINE))


def _tells_decisions(verb: Any) -> bool:
    return getattr(verb, "__annotations__", {}).get("return") == "list[Decision]" and not verb.__name__.startswith("_")


def _given(verb: Any) -> str:
    _, *parameters = inspect.signature(verb).parameters.values()
    return f"({', '.join(str(one.replace(annotation=inspect.Parameter.empty)) for one in parameters)})"


def test_a_key_that_returns_is_a_new_sequence_also_after_eviction_and_after_close() -> None:
    """As the page on streams has it."""
    items = kvec.synthetic.demo_traffic(10, seed=0, keys=3)
    stream = kvec.KVEC(width=16, blocks=1, epochs=1).fit(items).stream(threshold=1.0, max_live_keys=1)

    def feed(key: str, time: float) -> list[str]:
        value = {"size": 40, "direction": 0}
        return [f"{one.key}/{one.sequence} {one.reason}" for one in stream.feed(kvec.Item(0, key, value, time))]

    assert feed("a", 1.0) == []
    assert feed("b", 2.0) == ["a/0 evicted"]
    assert feed("a", 3.0) == ["b/0 evicted"]
    assert [(one.key, one.sequence, one.reason) for one in stream.close()] == [("a", 1, "closed")]
    assert feed("a", 4.0) == []
    assert [one.sequence for one in stream.close()] == [2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if ":" not in link and not (page.parent / link).exists()]
    assert links
    assert not missing


def test_every_command_with_a_dial_is_on_its_page() -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    dialled = {name for name, one in commands.items() if any("--at" in param.opts for param in one.params)}
    told = text_of("dial.md").partition("On the command line `--at`")[2].partition("\n\n")[0]
    assert dialled == set(re.findall(r"`([a-z]+)`", told))
    for name in ("inspect", "train", "evaluate", "decide"):
        (data,) = (param for param in commands[name].params if param.name == "data")
        assert "captures (.pcap, .pcapng)" in data.help


def test_the_bounds_of_the_service_are_told_with_their_defaults() -> None:
    told = table_rows(text_of("serve.md"))
    assert told == {f"--{entry.name.replace('_', '-')}": repr(entry.default) for entry in fields(Bounds)}
