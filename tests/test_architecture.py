"""The rule of imports: rooms know only what stands below them, and those of the middle floor not one another."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[1] / "src" / "kvec"
BELOW = {
    "words": set(),
    "read": {"words"},
    "tangle": {"words"},
    "encode": {"words"},
    "report": {"words"},
    "decide": {"words", "tangle", "encode"},
    "learn": {"words", "tangle", "decide", "report"},
    "estimator": {"words", "read", "tangle", "decide", "learn", "report"},
    "doors": {"words", "read", "tangle", "decide", "learn", "report", "estimator"},
    "__main__": {"doors"},
    "__init__": {"words", "read", "estimator"},
}
WITHOUT_TORCH = ("words", "read", "report")
OUTSIDE = {  # packages that a room may use beside the standard library; rooms that are not named here may use any
    "words": set(),
    "read": {"polars", "numpy"},
}
MODULES = sorted(HOUSE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(HOUSE).parts
    return parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[int, str]]:
    """Every imported module with its line, wherever in the file it stands."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; import from the room, absolutely"
            found.append((node.lineno, node.module or ""))
            if node.module == "kvec":
                found += [(node.lineno, f"kvec.{name.name}") for name in node.names if (HOUSE / name.name).is_dir()]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_only_go_down(path: Path) -> None:
    room = room_of(path)
    for line, module in imports(path):
        if not module.startswith("kvec."):
            continue
        other = module.split(".")[1]
        assert other == room or other in BELOW[room], f"{path}:{line}: {room} must not know {other}"


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) in WITHOUT_TORCH], ids=lambda p: p.stem)
def test_rooms_without_torch(path: Path) -> None:
    for line, module in imports(path):
        assert module.split(".")[0] != "torch", f"{path}:{line}: {room_of(path)} does without torch"


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) == "tangle"], ids=lambda p: p.stem)
def test_tangling_needs_torch_in_batches_only(path: Path) -> None:
    for line, module in imports(path):
        assert path.stem == "batch" or module.split(".")[0] != "torch", f"{path}:{line}: only batch makes tensors"


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) in OUTSIDE], ids=lambda p: p.stem)
def test_rooms_with_few_packages(path: Path) -> None:
    import sys

    for line, module in imports(path):
        package = module.split(".")[0]
        allowed = package == "kvec" or package in sys.stdlib_module_names or package in OUTSIDE[room_of(path)]
        assert allowed, f"{path}:{line}: {room_of(path)} does without {package}"


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in MODULES} == set(BELOW)


def test_the_command_line_enters_heavy_rooms_inside_its_commands() -> None:
    tree = ast.parse((HOUSE / "doors" / "cli.py").read_text(encoding="utf-8"))
    outside = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kvec")
    ]
    allowed = {"kvec", "kvec.doors.flags", "kvec.doors.messages", "kvec.words.errors"}
    assert {node.module for node in outside} <= allowed
