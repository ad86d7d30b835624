"""The pages keep pace with the code: every entry and setting with its present default, examples that read, links."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from kvec.learn.display import SCORES, TERMS
from kvec.words import schema
from kvec.words.config import PRESETS, Config

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SECTIONS = {
    "Entries": schema.Schema,
    "Value fields": schema.Field,
    "A label that is an event": schema.Outcome,
    "Re-tangling": schema.Tangling,
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_files_that_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if ":" not in link and not (page.parent / link).exists()]
    assert links
    assert not missing
