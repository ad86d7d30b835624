"""`kvec label`: from captures without labels to a file of labels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.read.packets.making_names import sent, tls_flow
from tests.read.packets.making_packets import pcap

from kvec.doors.cli import run
from kvec.read.packets.flow_labels import read_flow_labels

pytest.importorskip("publicsuffixlist")
WEB = ("192.0.2.1", 443)


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    (folder / "more").mkdir(parents=True)
    names = [
        "www.example.org",
        "cdn.example.org",
        "a.example.net",
        "b.example.net",
        "c.example.net",
        "rare.example.com",
    ]
    frames = [f for i, name in enumerate(names) for f in tls_flow(("10.0.0.1", 5000 + i), WEB, name, 10.0 + i)]
    (folder / "one.pcap").write_bytes(pcap([*frames, sent(("10.0.0.1", 7000), ("192.0.2.9", 9), b"x", 20.0)]))
    (folder / "more" / "two.pcap").write_bytes(pcap(tls_flow(("10.0.0.2", 5000), WEB, "example.org", 30.0)))
    (folder / "more" / "readme.txt").write_text("no capture")
    return folder


def test_labels_are_written_and_told(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "labels.csv"
    assert run(["label", str(captures), "--by", "sni", "-o", str(output), "--min-flows", "2"]) == 0
    told = capsys.readouterr().out
    lines = [line.split()[:3] for line in told.splitlines()]
    assert ["example.net", "3", "18"] in lines and ["example.org", "3", "18"] in lines
    assert "6 of 8 flows (75.0 %) have one of 2 labels, by sni" in told
    assert "one of 1 label(s) with fewer than 2 flows" in told and "no TLS, DTLS or QUIC hello was seen" in told
    assert "0 of them have 10 packets or more; the others are left out of training, unless" in told
    assert f"kvec train {captures} --labels {output} --min-packets 1 -o model" in told, "else no class is left"
    rows = pl.read_csv(output)
    assert rows.columns == [
        "capture", "client", "client_port", "server", "server_port", "protocol", "start", "end", "label", "by",
    ]  # fmt: skip
    assert rows["capture"].unique().sort().to_list() == ["more/two.pcap", "one.pcap"]
    assert rows["label"].value_counts().sort("label").rows() == [("example.net", 3), ("example.org", 3)]


def test_what_is_written_can_be_read_again(captures: Path, tmp_path: Path) -> None:
    output = tmp_path / "labels.csv"
    assert run(["label", str(captures), "--by", "sni", "-o", str(output), "--min-flows", "1", "--level", "host"]) == 0
    labels, rows = read_flow_labels(output), pl.read_csv(output)
    joined = labels.join(rows)
    assert joined.labels.to_list() == rows["label"].to_list() and rows.height == 7
    assert labels.by == ("sni",) and not labels.gives_away(["size", "server_port"])


def test_labels_by_port_remember_it(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "labels.csv"
    assert run(["label", str(captures / "one.pcap"), "--by", "port", "-o", str(output), "--min-flows", "1"]) == 0
    assert "do not let the model see client_port or server_port" in capsys.readouterr().out
    assert read_flow_labels(output).gives_away(["size", "server_port"]) == ("server_port",)


def test_one_class_is_warned_of(captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = [str(captures / "more"), "--by", "sni", "--min-flows", "1", "-o", str(tmp_path / "labels.csv")]
    assert run(["label", *more]) == 0
    assert "training needs at least two classes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--by", "magic"], "there are sni, dns, port, ndpi"),
        (["--by", "sni", "--level", "app"], "--by sni knows domain and host"),
        (["--by", "sni", "--min-flows", "0"], "must be 1 or more"),
        (["--by", "sni", "--min-flows", "9"], "no label has 9 flows: example.net has the most, 3; lower --min-flows"),
        (["--by", "dns"], "none of the 8 flows has a name by dns (most often: no DNS answer"),
        (["--by", "sni", "-o", "labels.xlsx"], "it may end in .csv"),
        (["--by", "sni", "--keyed", "both"], "keyed"),
        ([], "--by"),
    ],
)
def test_wishes_that_cannot_be_met(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str],
    flags: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert message in refused("label", captures, *flags)
    assert not (tmp_path / "labels.csv").exists()


def test_paths_that_hold_no_capture(captures: Path, refused: Callable[..., str]) -> None:
    assert "no such file" in refused("label", captures / "none.pcap", "--by", "port")
    assert "neither pcap nor pcapng" in refused("label", captures / "more" / "readme.txt", "--by", "port")
