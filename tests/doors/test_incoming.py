"""Which source is meant."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tests.doors.made import Trained

from kvec.decide.deployed import Deployed, load_deployed
from kvec.doors.incoming import _decoder, open_source
from kvec.read.arriving_files import LineFile, ParquetFile
from kvec.read.arriving_forms import CsvLines
from kvec.read.arriving_sockets import Listener
from kvec.read.arriving_sources import Source
from kvec.read.arriving_stdin import StandardInput
from kvec.words.errors import DataError, KvecError, SettingError


@pytest.fixture(scope="module")
def model(lively: Trained) -> Deployed:
    return load_deployed(lively.model)


def opened(given: str | Path, model: Deployed, form: str | None = None, follow: bool = False) -> Source:
    return open_source(str(given), model, form, follow, 1000)[0]


def test_sources_by_their_names(model: Deployed, lively: Trained, tmp_path: Path) -> None:
    for name in ("a.ndjson", "a.jsonl", "a.csv", "a.tsv.gz"):
        (tmp_path / name).write_text("")
        assert isinstance(opened(tmp_path / name, model), LineFile)
    (tmp_path / "a.log").write_text("")
    assert isinstance(opened(tmp_path / "a.log", model, form="csv", follow=True), LineFile)
    assert isinstance(opened(lively.items, model), ParquetFile)
    for name in ("", "-"):
        assert isinstance(opened(name, model), StandardInput)
        assert isinstance(opened(name, model, form="tsv"), StandardInput)
    assert opened("tcp://:9000", model).name == "tcp://127.0.0.1:9000", "only this machine, unless said"
    assert opened("tcp://0.0.0.0:9000", model).name == "tcp://0.0.0.0:9000"
    assert opened("unix:///run/kvec.sock", model).name == "unix:///run/kvec.sock"
    assert isinstance(opened("unix:///run/kvec.sock", model), Listener)


def test_tabs_by_the_ending_or_the_flag(model: Deployed, tmp_path: Path) -> None:
    columns = "tangle\tkey\ttime\tsize\tdirection"
    for name, form in (("a.tsv", None), ("a.csv", "tsv"), ("a.csv", None)):
        path = tmp_path / name
        path.write_text(f"{columns}\n1\ta,b\t2\t3\t4\n")
        source = opened(path, model, form)
        source.start({})
        header, row = source.read(10, 0) or []
        assert source.cells(header) is None
        assert source.cells(row) == {"tangle": "1", "key": "a,b", "time": "2", "size": "3", "direction": "4"}
        source.close()


def test_a_header_that_names_a_column_twice_is_refused(model: Deployed) -> None:
    decoder = _decoder("csv", "stdin", model, "")[0]
    with pytest.raises(SettingError, match="stdin: the header names column 'key' twice"):
        decoder.cells(b"tangle,key,time,size,direction,key")


@pytest.mark.parametrize(
    ("given", "form", "follow", "message"),
    [
        ("none.ndjson", None, False, "none.ndjson: no such file"),
        (".", None, False, "is a folder; name one file"),
        ("a.log", None, False, "cannot tell its form by its ending; say it with --format"),
        ("a.log", "xml", False, "--format is 'xml'; it can be ndjson, csv, tsv, parquet"),
        ("pipe.ndjson", None, False, "is no plain file; read it as the standard input"),
        ("-", "parquet", False, "the standard input cannot be Parquet"),
        ("-", None, True, "--follow is for files"),
        ("tcp://:9000", None, True, "--follow is for files"),
        ("items.parquet", None, True, "a Parquet file does not grow"),
        ("tcp://localhost", None, False, "names no port; write tcp://127.0.0.1:9000"),
        ("tcp://:99999", None, False, "99999 is no port; ports are 0 .any that is free. to 65535"),
        ("tcp://:x", None, False, "names no port"),
        ("tcp://:9000", "csv", False, "its rows are JSON lines; leave out --format csv"),
        ("unix://", None, False, "names no path"),
        ("ftp://x/y", None, False, "sources are files, -, tcp://, unix://, kafka:// and nats://"),
        ("mqtt://broker/topic", None, False, "mqtt:// is not known"),
        ("other.parquet", None, False, r"there is no column 'tangle' \(schema.tangle\); columns: key"),
    ],
)
def test_what_cannot_be_a_source_is_refused(
    model: Deployed, lively: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    given: str, form: str | None, follow: bool, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("a.log").write_text("")
    os.mkfifo("pipe.ndjson")
    lively.frame.write_parquet("items.parquet")
    lively.frame.select("key").write_parquet("other.parquet")
    with pytest.raises(KvecError, match=message):
        opened(given, model, form, follow)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("tangle,key,time,sizes,direction", r"there is no column 'size' \(schema.values\); did you mean 'sizes'"),
        ('{"tangle": 1, "key": 2}', "if these are JSON lines, say --format ndjson"),
    ],
)
def test_a_header_that_lacks_a_column_is_refused(model: Deployed, tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n1,a,2,3,4\n")
    source = opened(tmp_path / "a.csv", model)
    source.start({})
    with pytest.raises(SettingError, match=message):  # not a row that is passed over: none could be read
        for one in source.read(10, 0) or []:
            source.cells(one)
    source.close()


def test_the_header_of_a_file_that_took_the_place_of_the_first_is_a_bad_row(model: Deployed) -> None:
    decoder, _ = _decoder("csv", "a.csv", model, "")
    assert isinstance(decoder, CsvLines)
    decoder.begin("tangle,key,time,size,direction")
    with pytest.raises(DataError, match="there is no column 'key'"):
        decoder.begin("tangle,time,size,direction")


def test_an_address_in_use_is_refused(model: Deployed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        source = opened(f"tcp://:{taken.getsockname()[1]}", model)
        with pytest.raises(KvecError, match="cannot listen here: Address already in use"):
            source.start({})
