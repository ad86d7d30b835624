"""The flags of `kvec label`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvec.doors import labelling
from kvec.doors.cli import run
from kvec.doors.labelling import Wishes


def test_every_flag_reaches_its_wish(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[Wishes] = []

    def note(wishes: Wishes) -> str:
        given.append(wishes)
        return "told"

    monkeypatch.setattr(labelling, "label_captures", note)
    flags = "-o x.csv --min-flows 3 --level host --idle 60 --keyed outer"
    assert run(["label", "a.pcap", "b", "--by", "dns", *flags.split()]) == 0
    assert run(["label", "a.pcap", "--by", "sni"]) == 0
    paths = (Path("a.pcap"), Path("b"))
    assert given[0] == Wishes(paths, "dns", Path("x.csv"), 3, "host", 60.0, "outer")
    assert given[1] == Wishes(paths[:1], "sni", Path("labels.csv"))
    assert capsys.readouterr().out == "told\ntold\n"
