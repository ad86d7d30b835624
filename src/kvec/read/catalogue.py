"""The public data sets kvec is tried on: what each is, where it is had, and whether a folder holds it."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kvec.read.authors import open_rows
from kvec.words.errors import DataError

_ROWS = (
    "the .npy file itself: kvec inspect rows.npy (in Python: read_authors); a table of its packets (.parquet): "
    f"--schema {Path(__file__).with_name('schemas') / 'traffic_fg.toml'}"
)
_AUTHORS = "https://github.com/tduan-xjtu/kvec_project"
_NO_LICENCE = "none stated; ask the authors before passing it on"
_CAPTURE_STARTS = (
    b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\x0a\x0d\x0d\x0a",
    b"7z\xbc\xaf\x27\x1c",
)  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """A public data set; `state` and `note` say what was found of it in a folder."""

    name: str
    what: str
    address: str
    files: str  # what to expect after download
    licence: str
    road: str  # how kvec reads it
    state: str = ""  # empty when no folder was given, else "present", "missing" or "looks wrong"
    note: str = ""
    path: str = ""  # the file, or first file, that was found


def datasets(folder: str | Path | None = None) -> list[Dataset]:
    """All public sets; with a folder, looked for in it and below it, by name and by a glance at their first file.

    >>> [d.address for d in datasets() if d.name == "MovieLens-1M"]
    ['https://grouplens.org/datasets/movielens/1m/']
    """
    if folder is None:
        return [dataset for dataset, _, _ in _KNOWN]
    if not Path(folder).is_dir():
        raise DataError(f"{folder}: no such folder; give the one that holds the data sets")
    files = sorted(Path(root) / name for root, _, names in os.walk(folder) for name in names)
    by_name = {path.relative_to(folder).as_posix().lower(): path for path in files}
    return [_found(dataset, patterns, check, by_name) for dataset, patterns, check in _KNOWN]


def _found(
    dataset: Dataset, patterns: tuple[str, ...], check: Callable[[Path], str], by_name: dict[str, Path]
) -> Dataset:
    """The data set with its state: all patterns must match a file, and the first file must look right."""
    matches = [next((path for name, path in by_name.items() if re.search(p, name)), None) for p in patterns]
    there = [path for path in matches if path is not None]
    if not there:
        return replace(dataset, state="missing")
    problem = check(there[0]) if len(there) == len(patterns) else f"only {there[0].name} is there of {dataset.files}"
    return replace(dataset, state="looks wrong" if problem else "present", note=problem, path=str(there[0]))


def _look(path: Path) -> bytes:
    """The first bytes of a file, unpacked; none when it cannot be read."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(65536)
    except (OSError, EOFError):
        return b""


def _check_movielens(path: Path) -> str:
    for name, separators in (("users.dat", 4), ("movies.dat", 2), (path.name, 3)):
        line = _look(path.with_name(name)).split(b"\n")[0]
        if name.endswith(".dat") and line.count(b"::") < separators:
            return f"{name} beside {path.name} is missing, or not of the published form with '::'"
    return ""


def _check_npy(path: Path) -> str:
    if path.suffix == ".parquet":
        return ""
    try:
        open_rows(path)
    except DataError as error:
        return str(error)
    return ""


def _check_pcap(path: Path) -> str:
    return "" if _look(path).startswith(_CAPTURE_STARTS) else f"{path.name} does not begin like a capture"


def _check_devices(path: Path) -> str:
    return _check_pcap(path) if path.suffix == ".pcap" else _check_table(path, ("device", "size"))


def _check_flows(path: Path) -> str:
    if path.suffix != ".json":
        return ""
    try:
        flows = json.loads(path.read_bytes())
        is_right = all({"packet_length", "arrive_time_delta", "start_timestamp"} <= set(flow) for flow in flows)
    except (OSError, ValueError, TypeError):
        is_right = False
    return "" if is_right else f"{path.name} is no list of flows with packet_length and arrive_time_delta"


def _check_table(path: Path, columns: tuple[str, ...]) -> str:
    if ".xes" in path.suffixes:
        return "an XES file; turn it into CSV first (pm4py and bupaR do)"
    if path.suffix == ".parquet":
        return ""
    header = _look(path).split(b"\n")[0].decode("utf-8", "replace").lower()
    missing = [column for column in columns if column not in header]
    return f"{path.name} has no column {missing[0]!r} in its first line" if missing else ""


_TABLE = r"[^/]*\.(csv|csv\.gz|parquet|xes|xes\.gz)$"
_KNOWN: tuple[tuple[Dataset, tuple[str, ...], Callable[[Path], str]], ...] = (
    (
        Dataset(
            "MovieLens-1M",
            "1,000,209 ratings of 3,900 movies by 6,040 users; label: gender, age or occupation",
            "https://grouplens.org/datasets/movielens/1m/",
            "ratings.dat, users.dat, movies.dat",
            "research use, no redistribution; cite Harper and Konstan 2015",
            "the folder itself: kvec inspect ml-1m (in Python: read_movielens)",
        ),
        (r"(^|/)ratings\.(dat|parquet|csv)$", r"(^|/)users\.dat$", r"(^|/)movies\.dat$"),
        _check_movielens,
    ),
    (
        Dataset(
            "USTC-TFC2016",
            "captures of ten benign and ten malicious applications",
            "https://github.com/yungshenglu/USTC-TFC2016",
            "Benign/*.pcap, Malware/*.pcap, some as .7z",
            "Mozilla Public License 2.0; cite Wang et al. 2017",
            "the folder itself: kvec train USTC-TFC2016 --labels by-file (in Python: read_captures)",
        ),
        (r"(^|/)benign/[^/]+\.(pcap|7z)$", r"(^|/)malware/[^/]+\.(pcap|7z)$"),
        _check_pcap,
    ),
    (
        Dataset(
            "Traffic-FG",
            "the paper's campus traffic: two flows per tangle, 12 services",
            _AUTHORS,
            "private_dataset/traffic_fg.7z, .npy rows inside",
            _NO_LICENCE,
            _ROWS,
        ),
        (r"traffic[-_]?fg(/.*|[^/]*)\.(npy|parquet)$",),
        _check_npy,
    ),
    (
        Dataset(
            "Traffic-App",
            "the paper's campus traffic: two flows per tangle, 10 applications",
            _AUTHORS,
            "private_dataset/traffic_app.7z, .npy rows inside (announced there; it may be absent)",
            _NO_LICENCE,
            _ROWS,
        ),
        (r"traffic[-_]?app(/.*|[^/]*)\.(npy|parquet)$",),
        _check_npy,
    ),
    (
        Dataset(
            "Synthetic-Traffic",
            "the paper's made traffic with known halting positions, 2 classes",
            _AUTHORS,
            "private_dataset/traffic_synthetic.7z, .npy rows inside",
            _NO_LICENCE,
            "the .npy file itself (in Python: read_authors), or make your own with synthetic_traffic",
        ),
        (r"(traffic[-_]?synthetic|synthetic[-_]?traffic)(/.*|[^/]*)\.(npy|parquet)$",),
        _check_npy,
    ),
    (
        Dataset(
            "FG-Net D1",
            "encrypted traffic of 53 Android apps, flows grouped by capture",
            "https://github.com/jmhIcoding/fgnet",
            "dataset/D1/<app>/<version>/*_clear.pcap.json, or one table of its flows",
            _NO_LICENCE,
            "a table with one row per flow and list columns",
        ),
        (r"((^|/)d1/[^/]+/[^/]+/[^/]+_clear\.pcap\.json|fg-?net[-_]?d1[^/]*\.(parquet|ndjson))$",),
        _check_flows,
    ),
    (
        Dataset(
            "IoT Sentinel",
            "packets of 31 smart-home devices while they are set up",
            "https://research.aalto.fi/en/datasets/iot-devices-captures",
            "captures_IoT_Sentinel.zip: <device>/Setup-*-STA.pcap",
            "see its page; cite Miettinen et al. 2017",
            "the folder itself: kvec train captures_IoT_Sentinel --labels by-folder; or a table of its packets",
        ),
        (r"(^|/)(setup-[^/]*-sta\.pcap|iot[-_ ]?sentinel(/.*|[^/]*)\.csv(\.gz)?)$",),
        _check_devices,
    ),
    (
        Dataset(
            "Sepsis",
            "1,050 hospital cases with 15,214 events; label: an outcome event",
            "https://doi.org/10.4121/uuid:915d2bfb-7e84-49ad-a286-dc35f063a460",
            "Sepsis Cases - Event Log.xes.gz, or the same as CSV",
            "see its page at 4TU.ResearchData; cite Mannhardt 2016",
            "a table with an outcome",
        ),
        (r"(^|/)sepsis" + _TABLE,),
        partial(_check_table, columns=("case", "activity", "time")),
    ),
    (
        Dataset(
            "Traffic fines",
            "150,370 road traffic fines with 561,470 events; label: sent to credit collection or not",
            "https://doi.org/10.4121/uuid:270fd440-1057-4fb9-89a9-b699b47990f5",
            "Road_Traffic_Fine_Management_Process.xes.gz, or the same as CSV",
            "see its page at 4TU.ResearchData; cite de Leoni and Mannhardt 2015",
            "a table with an outcome",
        ),
        (r"(^|/)(road[-_ ])?traffic[-_ ]fine" + _TABLE,),
        partial(_check_table, columns=("case", "activity", "time")),
    ),
    (
        Dataset(
            "HDFS",
            "log blocks of a distributed file system as template sequences; label: anomaly or not",
            "https://github.com/logpai/loghub",
            "HDFS_v1.zip: preprocessed/Event_traces.csv",
            "research use; cite Xu et al. 2009 and Zhu et al. 2023",
            "a table with one row per block and a list column",
        ),
        (r"(^|/)(event_traces|hdfs[^/]*)\.csv$",),
        partial(_check_table, columns=("block", "label")),
    ),
)
