"""The front door: public names, the README's promises, the version, and a wheel that runs."""

from __future__ import annotations

import importlib
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import typer

import kvec
from kvec.doors.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_all_names_are_there_and_no_others() -> None:
    assert kvec.__all__ == sorted(set(kvec.__all__), key=lambda name: (name != "__version__", name))
    for name in kvec.__all__:
        assert getattr(kvec, name) is not None
    assert dir(kvec) == sorted(kvec.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kvec.nothing  # noqa: B018


def test_type_checkers_see_the_same_names() -> None:
    source = (ROOT / "src" / "kvec" / "__init__.py").read_text(encoding="utf-8")
    seen = re.findall(r"^    from \S+ import \w+ as (\w+)$", source, re.MULTILINE)
    assert sorted(seen) == sorted(set(kvec.__all__) - {"__version__"})


def test_the_changelog_speaks_of_this_version() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[([^\]]+)\]", changes, re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == kvec.__version__


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for group in project["optional-dependencies"].values() for name in group]
    named = {re.split(r"[><=\[]", name)[0] for name in [*project["dependencies"], *extras]} - {"kvec"}
    files = [ROOT / "constraints.txt", ROOT / "constraints-flink.txt"]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    pinned = {line.split("==")[0] for line in lines if "==" in line}
    assert named == pinned


def python_of_readme() -> str:
    return "".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))


def test_the_python_example_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = python_of_readme()
    assert len([line for line in code.splitlines() if line.strip()]) <= 18
    monkeypatch.chdir(tmp_path)
    left: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), left)
    assert "\nHM  " in capsys.readouterr().out
    assert left["model"].evaluate(left["unseen"]).hm > 0.8, "the first thing that people see works"
    assert (tmp_path / "model" / "kvec.json").exists()
    assert kvec.resume(tmp_path / "flows.state").n_live > 0


def commands_of_readme() -> list[str]:
    text = "\n".join(re.findall(r"```(?:sh|console|bash)\n(.*?)```", README, re.DOTALL)).replace("\\\n", " ")
    return [line.split("  #")[0].strip() for line in text.splitlines() if line.startswith("kvec ")]


@pytest.mark.parametrize("command", commands_of_readme())
def test_the_commands_of_the_readme_are_understood(command: str) -> None:
    name, *arguments = shlex.split(command)[1:]
    group = typer.main.get_command(app)
    found = group.commands[name]  # type: ignore[attr-defined]
    found.make_context(name, arguments)  # parses every argument, and runs nothing


def test_the_make_words_of_the_readme_exist() -> None:
    words = set(re.findall(r"^make (\w+)", README, re.MULTILINE)) | set(re.findall(r"`make (\w+)`", README))
    assert {"demo", "test"} <= words
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert words <= set(re.findall(r"^(\w+):", makefile, re.MULTILINE))


def test_the_pictures_and_pages_of_the_readme_exist() -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_help_is_quick_and_needs_no_heavy_rooms() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "import sys; from kvec.doors.cli import run; run(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for heavy in ("torch", "polars", "numpy", "matplotlib", "numba"):
        assert f"'{heavy}'" not in done.stdout
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 2, "seconds of work; on an idle machine it takes a third of one"


def test_inspecting_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("key,size,label\na,1,x\nb,2,y\n")
    code = "import sys; from kvec.doors.cli import run; run(sys.argv[1:]); print('torch' in sys.modules)"
    asked = [sys.executable, "-c", code, "inspect", str(tmp_path / "items.csv")]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_every_module_can_be_imported() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if not name.endswith("__main__"):
            importlib.import_module(name.removesuffix(".__init__"))


def test_a_wheel_installs_and_answers(tmp_path: Path) -> None:
    quiet = {"capture_output": True, "text": True, "check": True}
    source = tmp_path / "source"  # a copy, so that building leaves nothing in the tree
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    hasty = tmp_path / "cc"  # what it compiles to is not asked here
    hasty.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    hasty.chmod(0o755)
    subprocess.run(build, env=os.environ | {"CC": str(hasty)}, **quiet)  # type: ignore[call-overload]
    (wheel,) = tmp_path.glob("kvec-*.whl")
    files = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("src/kvec/doors/web", "src/kvec/doors/web_model"):
        assert {str(path.relative_to(ROOT / "src")) for path in (ROOT / folder).glob("*.*")} <= files
    built = {name.split(".")[0] for name in files if name.endswith(".so")}
    assert built == ({"kvec/encode/_loops", "kvec/decide/_kernel"} if shutil.which("cc") else set())
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, **quiet)  # type: ignore[call-overload]
    around = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    bare = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONPATH": around}
    command = [str(tmp_path / "venv" / "bin" / "kvec"), "--help"]
    done = subprocess.run(command, env=bare, cwd=tmp_path, **quiet)  # type: ignore[call-overload]
    assert "Early classification" in done.stdout
    where = [str(python), "-P", "-c", "import kvec; print(kvec.__file__)"]
    assert str(tmp_path / "venv") in subprocess.run(where, cwd=tmp_path, **quiet).stdout  # type: ignore[call-overload]
