"""The catalogue of public data sets, on folders made for the test."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from kvec.read.catalogue import Dataset, datasets
from kvec.words.errors import DataError

NAMES = [
    "MovieLens-1M",
    "USTC-TFC2016",
    "Traffic-FG",
    "Traffic-App",
    "Synthetic-Traffic",
    "FG-Net D1",
    "IoT Sentinel",
    "Sepsis",
    "Traffic fines",
    "HDFS",
]
PCAP = b"\xd4\xc3\xb2\xa1" + bytes(20)
EVENTS = b"case_id,activity,timestamp\nA,Start,2020-01-01\n"


def put(folder: Path, name: str, content: bytes | str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("latin-1") if isinstance(content, str) else content)


def rows(folder: Path, name: str, columns: int = 36) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    np.save(folder / name, np.ones((2, columns), dtype=np.int64))


def whole(folder: Path) -> None:
    """One of each, in its public layout."""
    put(folder, "ml-1m/ratings.dat", "1::10::5::978300760\n")
    put(folder, "ml-1m/users.dat", "1::F::1::10::48067\n")
    put(folder, "ml-1m/movies.dat", "10::Caf\xe9 (1999)::Drama\n")
    put(folder, "USTC/Benign/Facetime.pcap", PCAP)
    put(folder, "USTC/Malware/Tinba.pcap", PCAP)
    rows(folder, "traffic_fg/fold_1/train.npy")
    rows(folder, "traffic_app.npy")
    rows(folder, "traffic_synthetic/early.npy", 804)
    flow = {"packet_length": [282, -1448], "arrive_time_delta": [0, 0.1], "start_timestamp": 1.5}
    put(folder, "dataset/D1/app/1.0/1592638931_clear.pcap.json", json.dumps([flow]))
    put(folder, "iot/Aria/Setup-A-1-STA.pcap", PCAP)
    put(folder, "logs/sepsis.csv.gz", gzip.compress(EVENTS))
    put(folder, "logs/traffic_fines.csv", EVENTS)
    put(folder, "HDFS/preprocessed/Event_traces.csv", "BlockId,Label,Type,Features\nblk_1,Success,,[E5]\n")


def state(folder: Path, name: str) -> Dataset:
    return next(dataset for dataset in datasets(folder) if dataset.name == name)


def test_every_public_set_is_described() -> None:
    known = datasets()
    assert [dataset.name for dataset in known] == NAMES
    for dataset in known:
        assert dataset.what and dataset.files and dataset.licence and dataset.road
        assert dataset.address.startswith("https://")
        assert dataset.state == ""
    for name in ("Traffic-FG", "Traffic-App"):
        road = next(dataset.road for dataset in known if dataset.name == name)
        assert "kvec inspect rows.npy" in road and Path(road.rpartition("--schema ")[2]).is_file()


def test_a_full_folder_has_them_all(tmp_path: Path) -> None:
    whole(tmp_path)
    for dataset in datasets(tmp_path):
        assert (dataset.name, dataset.state, dataset.note) == (dataset.name, "present", "")
        assert Path(dataset.path).exists()


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert {dataset.state for dataset in datasets(tmp_path)} == {"missing"}
    with pytest.raises(DataError, match="no such folder"):
        datasets(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "file", "content", "note"),
    [
        ("MovieLens-1M", "ml-1m/users.dat", "1,F,1,10,48067\n", "users.dat"),
        ("MovieLens-1M", "ml-1m/ratings.dat", "", "ratings.dat"),
        ("USTC-TFC2016", "USTC/Benign/Facetime.pcap", "<html>", "does not begin like a capture"),
        ("Traffic-FG", "traffic_fg/fold_1/train.npy", "nothing", "not a plain .npy array"),
        ("FG-Net D1", "dataset/D1/app/1.0/1592638931_clear.pcap.json", '[{"size": 1}]', "packet_length"),
        ("FG-Net D1", "dataset/D1/app/1.0/1592638931_clear.pcap.json", "[1", "packet_length"),
        ("FG-Net D1", "dataset/D1/app/1.0/1592638931_clear.pcap.json", "[1]", "packet_length"),
        ("IoT Sentinel", "iot/Aria/Setup-A-1-STA.pcap", b"", "does not begin like a capture"),
        ("Sepsis", "logs/sepsis.csv.gz", b"not packed", "no column 'case'"),
        ("HDFS", "HDFS/preprocessed/Event_traces.csv", "a,b\n", "no column 'block'"),
    ],
)
def test_what_looks_wrong_is_said(tmp_path: Path, name: str, file: str, content: bytes | str, note: str) -> None:
    whole(tmp_path)
    put(tmp_path, file, content)
    found = state(tmp_path, name)
    assert found.state == "looks wrong" and note in found.note
    assert [d.name for d in datasets(tmp_path) if d.state != "present"] == [name]


def test_sets_made_into_tables_are_found_too(tmp_path: Path) -> None:
    put(tmp_path, "iot_sentinel/packets.csv.gz", gzip.compress(b"device,ts,size,dir\nAria,1.0,60,0\n"))
    for name in ("traffic_fg.parquet", "fgnet_d1.parquet", "sepsis.parquet"):
        put(tmp_path, name, b"PAR1")
    states = {dataset.name: dataset.state for dataset in datasets(tmp_path)}
    assert [name for name in NAMES if states[name] == "present"] == [
        "Traffic-FG",
        "FG-Net D1",
        "IoT Sentinel",
        "Sepsis",
    ]


def test_half_a_set_and_other_formats_are_told(tmp_path: Path) -> None:
    whole(tmp_path)
    (tmp_path / "USTC/Malware/Tinba.pcap").unlink()
    assert "only Facetime.pcap" in state(tmp_path, "USTC-TFC2016").note
    (tmp_path / "logs/sepsis.csv.gz").unlink()
    put(tmp_path, "logs/Sepsis Cases - Event Log.xes.gz", gzip.compress(b"<log/>"))
    assert "CSV" in state(tmp_path, "Sepsis").note
    (tmp_path / "ml-1m/ratings.dat").rename(tmp_path / "ratings.dat")
    assert state(tmp_path, "MovieLens-1M").state == "looks wrong"
