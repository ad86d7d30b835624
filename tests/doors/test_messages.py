"""What kvec says on the standard error output."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvec.doors.messages import say


def test_no_control_characters_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert say("\x1b[2Jclear\u202e, Größe 界\nnext\udcff", 2) == 2
    assert capsys.readouterr().err == "kvec: ·[2Jclear·, Größe 界 next·\n"


def test_commands_can_still_choose_how_many_threads_numpy_has() -> None:
    code = "import sys, kvec.doors.cli, kvec.doors.watch_command; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
