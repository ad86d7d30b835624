"""The live table of flows."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from kvec.doors import screen
from kvec.doors.flow_book import Flow, FlowBook
from kvec.doors.flow_view import FlowView, fitting, picture
from kvec.words.items import Decision, Reason

LONG = "video conference with screen sharing and much else"
SIX = "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:51234"


def named(label: str, n_observed: int = 5) -> Decision:
    return Decision("wire", "key", 0, (label,), (0.934,), n_observed, None, Reason.HALTED)


@pytest.fixture
def book() -> FlowBook:
    made = FlowBook()
    flows = [
        Flow("10.0.0.7:51234", "192.0.2.1:443", "tcp", 0.0, 1234, 56_700_000, 1.0, named("web")),
        Flow("192.168.178.124:40104", "203.0.113.117:8443", "tcp", 0.0, 20, 900, 1.0, named(LONG)),
        Flow(SIX, "[fe80::1]:53", "udp", 0.0, 5, 500, 1.0, named("name")),
        Flow("fe80::1", "ff02::1", "icmp6", 0.0, 2, 160, 1.0),
    ]
    made._flows.update({("wire", str(i)): one for i, one in enumerate(flows)})
    made.packets, made.n_flows, made.n_decided = 1261, 4, 3
    made.labels.update({"web": 1, LONG: 1, "name": 1})
    return made


def lines(book: FlowBook, width: int, n_rows: int = 20, name: str = "eth0") -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=40)
    console.print(picture(book, 2, SimpleNamespace(name=name), 1500.4, n_rows, width))
    found: list[str] = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    return found


def test_all_is_told_where_there_is_room(book: FlowBook) -> None:
    head, labels, _, titles, *rows = lines(book, 180)
    assert head == "eth0  1,261 packets, 1,500/s  4 flows, 3 named, 2 open"
    assert labels == "web 1  video confer…d much else 1  name 1"
    assert titles.split() == ["client", "server", "label", "sure", "packets", "bytes", "seen"]
    assert [row.split() for row in rows] == [
        [SIX, "[fe80::1]:53", "udp", "name", "93", "%", "5", "of", "5", "500", "B", "100", "%"],
        ["192.168.178.124:40104", "203.0.113.117:8443", "tcp", *LONG.split(),
         "93", "%", "5", "of", "20", "900", "B", "25", "%"],
        ["10.0.0.7:51234", "192.0.2.1:443", "tcp", "web", "93", "%", "5", "of", "1,234", "56.7", "MB", "0", "%"],
        ["fe80::1", "ff02::1", "icmp6", "…", "2", "160", "B"],
    ]  # fmt: skip
    assert len({row.index("…" if row.startswith("fe80") else one) for row, one in zip(
        rows, ("name", "video", "web", "…"), strict=True)}) == 1, "columns are aligned"  # fmt: skip


def test_eighty_columns_are_enough(book: FlowBook) -> None:
    titles, *rows = lines(book, 80)[3:]
    assert titles.split() == ["client", "server", "label", "sure", "packets"]
    assert all(len(row) <= 80 for row in rows)
    assert rows[1].startswith("192.168.178.124:40104 ") and "203.0.113.117:8443" in rows[1], "IPv4 is whole"
    assert "[fe80::1]:53" in rows[0] and rows[0].endswith("93 %     5 of 5")
    assert " tcp   video co…ch else 93 %" in rows[1]
    assert "5 of 1,234" in rows[2]


@pytest.mark.parametrize("width", [20, 40, 60, 99, 100, 120])
def test_no_line_is_broken(book: FlowBook, width: int) -> None:
    found = lines(book, width, name="a very long name of a capture in some deep folder.pcapng.zst")
    assert len(found) == 4 + 4 and all(len(line) <= width for line in found)


def test_the_newest_are_shown_where_not_all_can_be(book: FlowBook) -> None:
    assert [row.split()[0] for row in lines(book, 120, n_rows=2)[4:]] == [SIX, "192.168.178.124:40104"]
    assert len(lines(FlowBook(), 120)) == 4


def test_what_strangers_send_is_shown_as_it_is() -> None:
    """No markup, no control characters."""
    book = FlowBook()
    book._flows["wire", "0"] = Flow("[fe80::1]:9", "[red]:1", "udp", 0.0, 1, 1, 0.0, named("[bold]a\x1b[31m\nb[/bold]"))
    (row,) = lines(book, 120)[4:]
    assert row.split()[:4] == ["[fe80::1]:9", "[red]:1", "udp", "[bold]a·[31m·b[/bold]"]


def test_widths() -> None:
    assert fitting([21, 18, 50], 200) == [21, 18, 50]
    assert fitting([21, 18, 50], 70) == [21, 18, 31], "the label gives way"
    assert fitting([46, 46, 50], 60) == [22, 22, 16], "then addresses"
    assert fitting([46, 46, 5], 61) == [28, 28, 5]
    assert fitting([46, 46, 50], -5) == [1, 1, 1]


def test_it_is_drawn_a_few_times_a_second(book: FlowBook, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(screen.time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), width=100, height=12, force_terminal=True, color_system=None)
    stream, source = SimpleNamespace(n_live=2), SimpleNamespace(name="eth0")

    def drawn() -> str:
        text: str = console.file.getvalue()  # type: ignore[attr-defined]
        console.file.seek(0)
        console.file.truncate()
        return text

    with FlowView(console) as view:
        view.update(book, stream, source)  # type: ignore[arg-type]
        assert "1,261 packets, 0/s" in drawn()
        now[0] += 0.1
        view.update(book, stream, source)  # type: ignore[arg-type]
        assert drawn() == ""
        now[0], book.packets = 101.0, 2261
        view.update(book, stream, source)  # type: ignore[arg-type]
        assert "2,261 packets, 500/s" in drawn(), "half way to 1,000/s after a second"
        view.update(book, stream, source, is_last=True)  # type: ignore[arg-type]
        assert "2,261 packets, 500/s" in drawn(), "the last picture is always drawn"
