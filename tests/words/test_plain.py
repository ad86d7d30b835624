"""TOML files, names, groups and choices: what can be used is returned, the rest is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvec.words.errors import SettingError
from kvec.words.plain import read_toml, require_choice, require_group, require_known


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "any.toml").write_text("a = 1\n[b]\nc = ['ü']\n", encoding="utf-8")
    assert read_toml(tmp_path / "any.toml", "schema") == {"a": 1, "b": {"c": ["ü"]}}


@pytest.mark.parametrize("content", [b"[encoder\n", b"key = \n", b"\xff\xfe\x00", b"a = 1\na = 2\n"])
def test_what_is_no_toml_is_refused_with_its_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.toml").write_bytes(content)
    with pytest.raises(SettingError, match=r"broken\.toml: not a TOML file: ") as caught:
        read_toml(tmp_path / "broken.toml", "schema")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.toml: no such settings file$"):
        read_toml(tmp_path / "none.toml", "settings")
    with pytest.raises(SettingError, match="cannot be read: "):
        read_toml(tmp_path, "settings")


def test_names_groups_and_choices() -> None:
    require_known(["b"], ["a", "b"], "entry", "here.toml")
    with pytest.raises(SettingError, match=r"^unknown entry 'c' in here\.toml; known: a, b$"):
        require_known(["d", "c", "a"], ["b", "a"], "entry", "here.toml")
    assert require_group({"a": 1}, "part", "here.toml") == {"a": 1}
    with pytest.raises(SettingError, match=r"^here\.toml: part is a group of entries, not \[1\]; write \[part\] above"):
        require_group([1], "part", "here.toml")
    require_choice("x", ("x", "y"), "part.kind")
    with pytest.raises(SettingError, match=r"^part\.kind is 'z'; it can be x, y$"):
        require_choice("z", ("x", "y"), "part.kind")
