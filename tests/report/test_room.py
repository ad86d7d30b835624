import subprocess
import sys


def test_importing_the_room_loads_no_extra() -> None:
    code = """
import sys
from kvec.report import canvas, curves, html, metrics, pictures, portrait, text
heavy = {"matplotlib", "jinja2", "markupsafe", "torch", "polars", "rich", "numba"}
sys.exit(", ".join(heavy & set(sys.modules)) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
