"""The plan of the house, read with `ast`: imports go down only, torch stays in its rooms, nothing goes in circles."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# room: the rooms it may import besides itself, and the packages
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    "words": (set(), set()),
    "read": (
        {"words"},
        {"numpy", "polars", "numba", "pandas", "pyarrow", "py7zr", "backports", "compression", "cypcap"}  # captures
        | {"cryptography", "publicsuffixlist", "nfstream"},  # names of flows
    ),
    "tangle": ({"words"}, {"numpy", "polars", "numba", "torch"}),
    "encode": ({"words"}, {"torch"}),
    "report": ({"words"}, {"numpy", "matplotlib", "jinja2"}),
    "decide": ({"words", "tangle", "encode"}, {"numpy", "polars", "torch", "safetensors"}),
    "learn": ({"words", "tangle", "decide", "report"}, {"numpy", "polars", "torch", "rich"}),
    "reproduce": (
        {"words", "read", "tangle", "report", "decide", "learn"},
        {"numpy", "polars", "torch", "matplotlib", "jinja2", "optuna"},
    ),
    "doors": (
        {"words", "read", "tangle", "report", "decide", "learn", "reproduce", "estimator"},
        {"numpy", "polars", "rich", "typer"}
        | {"starlette", "uvicorn", "orjson", "prometheus_client"},  # of the service, an extra
    ),
}
FRONT_DOOR = {"__init__", "__main__", "client", "estimator"}  # of the package itself
TORCH_IN_TANGLE = {"kvec.tangle.batch"}


@dataclass(frozen=True)
class Import:
    """One import statement, wherever it stands."""

    module: str  # what is imported
    names: tuple[str, ...]  # from it
    line: int
    is_hidden: bool  # inside a function
    is_relative: bool

    @property
    def package(self) -> str:
        return self.module.split(".")[0]

    @property
    def room(self) -> str:
        """The room of kvec; empty for the front door itself."""
        return self.module.split(".")[1] if "." in self.module else ""


def imports_of(file: Path) -> list[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    hidden = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, (), node.lineno, id(node) in hidden, False) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            found.append(Import(node.module or "", names, node.lineno, id(node) in hidden, node.level > 0))
    return found


def name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(file): imports_of(file) for file in sorted(SOURCE.rglob("*.py"))}
IN_ROOMS = [name for name in MODULES if name.count(".") >= 1 and name.split(".")[1] not in FRONT_DOOR]


def test_every_room_is_on_the_plan() -> None:
    assert {name.split(".")[1] for name in IN_ROOMS} == set(ROOMS)
    assert {name.split(".")[1] for name in MODULES if name.count(".") == 1} - set(ROOMS) <= FRONT_DOOR


@pytest.mark.parametrize("name", IN_ROOMS)
def test_imports_go_down_only(name: str) -> None:
    room = name.split(".")[1]
    rooms, packages = ROOMS[room]
    for found in MODULES[name]:
        where = f"{name}, line {found.line}: {found.module}"
        assert not found.is_relative, where
        if found.module == "kvec":
            assert set(found.names) <= {"__version__"}, f"{where}: import from the room, not from the front door"
        elif found.package == "kvec":
            assert found.room == room or found.room in rooms, where
        elif found.package not in sys.stdlib_module_names:
            assert found.package in packages, where
            assert found.package != "torch" or room != "tangle" or name in TORCH_IN_TANGLE, where


@pytest.mark.parametrize("name", [name for name in IN_ROOMS if name.split(".")[1] != "doors"])
def test_rooms_are_imported_in_the_open(name: str) -> None:
    """Only the doors may import rooms inside functions, so that `kvec --help` answers at once."""
    hidden = [found for found in MODULES[name] if found.is_hidden and found.package == "kvec"]
    assert not hidden, f"{name}, line {hidden[0].line}"


def test_nothing_goes_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for name, imports in MODULES.items():
        if name == "kvec":
            continue  # the front door names its rooms for type checkers, and fetches them when asked
        needed = {found.module for found in imports if found.package == "kvec"}
        needed |= {f"{found.module}.{n}" for found in imports if found.package == "kvec" for n in found.names}
        graph[name] = (needed & set(MODULES)) - {"kvec", name}
    TopologicalSorter(graph).prepare()


def test_modules_are_short() -> None:
    """A module that passes about 300 lines is probably two ideas."""
    for file in SOURCE.rglob("*.py"):
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 400, file


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_light_rooms_never_load_torch() -> None:
    light = [name for name in IN_ROOMS if name.split(".")[1] in ("words", "read", "report")]
    code = f"import sys\nfor name in {light!r}:\n    __import__(name)\nprint('torch' in sys.modules)"
    assert run(code) == "False"


def test_the_front_door_is_light() -> None:
    heavy = ("torch", "numba", "polars", "numpy", "matplotlib")
    code = f"import sys, kvec, kvec.doors.cli\nprint(sorted(set({heavy!r}) & set(sys.modules)))"
    assert run(code) == "[]"


def test_the_import_reader_sees_what_it_should(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "from __future__ import annotations\nimport torch.nn as nn\nfrom . import near\n"
        "def f():\n    from kvec.learn.trainer import train\n",
        encoding="utf-8",
    )
    future, torch, near, hidden = imports_of(file)
    assert (torch.package, torch.is_hidden) == ("torch", False)
    assert near.is_relative and not future.is_relative
    assert (hidden.room, hidden.names, hidden.is_hidden, hidden.line) == ("learn", ("train",), True, 5)
