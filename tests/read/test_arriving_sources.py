"""What all sources have in common."""

from __future__ import annotations

import pytest
from tests.read.quiet import Quiet

from kvec.read.arriving_forms import JsonLines
from kvec.read.arriving_sources import Arrived
from kvec.words.errors import DataError


def test_a_row_with_a_problem_has_no_cells() -> None:
    source = Quiet("rows.ndjson", JsonLines())
    with pytest.raises(DataError, match=r"^is longer"):
        source.cells(Arrived(3, b"{}", problem="is longer than 5 bytes"))
    assert source.place(Arrived(3, b"{}")) == "rows.ndjson, line 3"
    assert Arrived(3, b'1,"a\nb"').last == 4
