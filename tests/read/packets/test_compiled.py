"""What was compiled before is used again only while no source has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvec.read.packets import compiled

SOURCE = Path(compiled.__file__).parent
CALLER = """
from kvec.read.packets.compiled import compiled
from kvec.read.packets.links import answer

@compiled
def asked():
    return answer()
"""
CALLEE = """
from kvec.read.packets.compiled import compiled

@compiled
def answer():
    return {}
"""


def test_all_modules_with_compiled_loops_are_named() -> None:
    users = {
        p.stem for p in SOURCE.glob("*.py") if "from kvec.read.packets.compiled import" in p.read_text(encoding="utf-8")
    }
    assert users | {"compiled"} == set(compiled.MODULES)


def test_a_change_of_what_is_called_is_noticed(tmp_path: Path) -> None:
    """The caller's own file stays as it is."""
    room = tmp_path / "kvec" / "read" / "packets"
    room.mkdir(parents=True)
    for package in (room, room.parent, room.parent.parent):
        (package / "__init__.py").write_text("")
    for name in compiled.MODULES:
        (room / f"{name}.py").write_text("")
    (room / "compiled.py").write_bytes((SOURCE / "compiled.py").read_bytes())
    (room / "layers.py").write_text(CALLER)

    def run(number: int) -> str:
        (room / "links.py").write_text(CALLEE.format(number))
        code = "from kvec.read.packets.layers import asked; print(asked(), sum(asked.stats.cache_hits.values()))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert [run(1), run(1), run(2)] == ["1 0", "1 1", "2 0"]
