"""Labels of flows by five-tuple and time, joined with flows that were read from captures."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.read.cells import label_text, times
from kvec.read.files import ROW, Rows, first
from kvec.read.packets.endpoints import ICMP, addresses, ends, protocol_numbers
from kvec.read.packets.flow_label_files import LabelFile, open_label_file
from kvec.read.table import Note
from kvec.words.errors import DataError

TUPLE = ["low", "high", "protocol"]
FIELDS = {"port": ("client_port", "server_port")}  # fields that would tell a model the label itself
NO_LABELS = ("", "unknown", "-")
EPOCHS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))  # times beyond these are nano-, micro- or milliseconds


@dataclass(frozen=True)
class Joined:
    """One label per flow (None where there is none), and what to say about it."""

    labels: pl.Series
    matched: int
    ambiguous: int
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class FlowLabels:
    """Labels of flows: `frame` has low, high, protocol, capture, start, end, label and row."""

    name: str
    frame: pl.DataFrame
    by: tuple[str, ...] = ()  # what gave the labels: sni, dns, port, ndpi, zeek; empty when nothing is known
    notes: tuple[Note, ...] = ()
    tolerance: float = 1e-3  # seconds between clocks that are rounded differently

    @classmethod
    def of(cls, name: str, rows: pl.DataFrame, by: tuple[str, ...] = (), notes: tuple[Note, ...] = ()) -> FlowLabels:
        """Labels from rows like those of flows, with a label and a row number; an end of NaN is not known."""
        protocols = protocol_numbers(rows["protocol"]).fill_null(-1)
        both = ends(rows["client"], rows["client_port"], rows["server"], rows["server_port"], protocols == ICMP)
        frame = rows.select("capture", "start", "end", "label", "row").with_columns(*both, protocols.alias("protocol"))
        frame = _until_the_next(frame)
        frame = frame.unique([*TUPLE, "capture", "start", "end", "label"], keep="first", maintain_order=True)
        return cls(name, frame, by, notes, _tolerance(frame))

    def gives_away(self, fields: Collection[str]) -> tuple[str, ...]:
        """The fields among these from which the labels were made: a model must not see them."""
        return tuple(field for by in self.by for field in FIELDS.get(by, ()) if field in fields)

    def label_of(
        self,
        client: str,
        client_port: int,
        server: str,
        server_port: int,
        protocol: str | int,
        start: float,
        end: float | None = None,
        capture: str = "",
    ) -> str | None:
        """The label of one flow; either end may be called its client."""
        flow: dict[str, Any] = {
            "capture": capture, "client": client, "client_port": client_port, "server": server,
            "server_port": server_port, "protocol": str(protocol), "start": start, "end": start if end is None else end,
        }  # fmt: skip
        found, _ = self.search(pl.DataFrame([flow]))
        label: str | None = found[0]
        return label

    def join(self, flows: pl.DataFrame, name: str = "the captures") -> Joined:
        """Label flows (capture, client, client_port, server, server_port, protocol, start, end); some must be known.

        Rows hold for flows of their five-tuple that meet their time range, and rows without one for all others of the
        tuple. Of several, the one that shares most time with the flow is taken, then the one that begins last; where
        two labels are left, the flow gets none.
        """
        labels, ambiguous = self.search(flows)
        matched = labels.len() - labels.null_count()
        if not matched and flows.height:
            one = flows.row(0, named=True)
            raise DataError(
                f"{self.name}: has a label for none of the {flows.height:,} flows in {name}, such as "
                f"{one['client']} {one['client_port']} to {one['server']} {one['server_port']} ({one['protocol']}) "
                f"at {one['start']:.3f} s; are these the same captures, with addresses and times as they were?"
            )
        notes = [
            *self.notes,
            Note("labelled flows", matched, f"{self.name}: labels {matched:,} of {flows.height:,} flows"),
        ]
        if ambiguous:
            text = f"{self.name}: gives two labels to {ambiguous:,} flow(s) at the same time; they are left without"
            notes.append(Note("ambiguous labels", ambiguous, text))
        return Joined(labels, matched, ambiguous, tuple(notes))

    def search(self, flows: pl.DataFrame) -> tuple[pl.Series, int]:
        """The labels of flows as `join` gives them, and how many were refused because there were two."""
        known = protocol_numbers(flows["protocol"]).fill_null(-1)
        seen = flows.select("capture", "start", "end").with_columns(
            *ends(flows["client"], flows["client_port"], flows["server"], flows["server_port"], known == ICMP),
            known.alias("protocol"),
        )
        seen = seen.with_row_index("flow").with_columns(pl.lit(None, pl.String).alias("label"))
        found: list[pl.DataFrame] = []
        has_times = self.frame["start"].is_finite()
        for rows in (self.frame.filter(has_times), self.frame.filter(~has_times)):
            if rows.height and seen.height:
                found.append(_best(rows, seen, self.tolerance))
                seen = seen.join(found[-1], on="flow", how="anti")
        labels = pl.concat(found) if found else pl.DataFrame(schema={"flow": pl.UInt32, "label": pl.String})
        whole = pl.DataFrame({"flow": pl.int_range(flows.height, dtype=pl.UInt32, eager=True)})
        whole = whole.join(labels, on="flow", how="left", maintain_order="left")
        return whole["label"], labels["label"].null_count()


def _best(rows: pl.DataFrame, flows: pl.DataFrame, tolerance: float) -> pl.DataFrame:
    """The label for each flow that some row speaks of (None where two labels are left): flow, label."""
    ids = rows.select(TUPLE).unique(maintain_order=True).with_row_index("id")
    rows = rows.join(ids, on=TUPLE, how="left").sort("id", "start", maintain_order=True)
    flows = flows.join(ids, on=TUPLE, how="inner", maintain_order="left")
    latest = rows.select(pl.col("end").cum_max().over("id"))["end"].to_numpy()
    id_rows, id_flows = rows["id"].to_numpy(), flows["id"].to_numpy()
    begin, end = flows["start"].to_numpy(), flows["end"].to_numpy()
    beyond = _find(id_rows, rows["start"].to_numpy(), id_flows, end + tolerance, "right")
    lowest = _find(id_rows, latest, id_flows, begin - tolerance, "left")
    counts = np.maximum(beyond - lowest, 0)
    which = np.repeat(np.arange(len(counts)), counts)
    row = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(lowest, counts)
    starts, ends = rows["start"].to_numpy()[row], rows["end"].to_numpy()[row]
    shared = np.minimum(ends, end[which]) - np.maximum(starts, begin[which])
    meets = (shared >= -tolerance) & _same_capture(rows["capture"], flows["capture"], row, which)
    pairs = pl.DataFrame({
        "flow": flows["flow"].gather(which), "label": rows["label"].gather(row),
        "shared": np.maximum(shared, 0.0), "start": starts,
    })  # fmt: skip
    pairs = pairs.filter(pl.Series(meets)).filter(pl.col("shared") == pl.col("shared").max().over("flow"))
    pairs = pairs.filter(pl.col("start") == pl.col("start").max().over("flow"))
    one = pl.when(pl.col("label").n_unique() == 1).then(pl.col("label").first())
    return pairs.group_by("flow", maintain_order=True).agg(one.alias("label"))


def _find(
    ids: npt.NDArray[Any], values: npt.NDArray[Any], wanted_ids: npt.NDArray[Any], wanted: npt.NDArray[Any], side: Any
) -> npt.NDArray[np.int64]:
    """Where (id, value) pairs would stand among sorted ones."""
    all_values, ranks = np.unique(np.concatenate([values, wanted]), return_inverse=True)
    scale, ranks = len(all_values) + 1, ranks.astype(np.int64)
    among = ids.astype(np.int64) * scale + ranks[: len(values)]
    return np.searchsorted(among, wanted_ids.astype(np.int64) * scale + ranks[len(values) :], side=side).astype(
        np.int64
    )


def _same_capture(rows: pl.Series, flows: pl.Series, row: npt.NDArray[Any], flow: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whether pairs are of one capture: no name fits all, and paths need agree only as far as both go, from the end."""
    if rows.null_count() == rows.len():
        return np.ones(len(row), bool)
    names, captures = rows.unique(maintain_order=True), flows.unique(maintain_order=True)
    fits = np.array([[_one_path(name, capture) for capture in captures] for name in names], bool)
    numbers = [
        pl.DataFrame({"name": column}).join(
            pl.DataFrame({"name": unique}).with_row_index("n"), on="name", how="left", nulls_equal=True,
            maintain_order="left",
        )["n"].to_numpy()
        for column, unique in ((rows, names), (flows, captures))
    ]  # fmt: skip
    same: npt.NDArray[Any] = fits[numbers[0][row], numbers[1][flow]]
    return same


def _one_path(name: str | None, capture: str | None) -> bool:
    if name is None or capture is None:
        return name is None
    a, b = ([part for part in re.split(r"[\\/]+", text) if part not in ("", ".", "..")] for text in (name, capture))
    n = min(len(a), len(b))
    return a[len(a) - n :] == b[len(b) - n :]


def read_flow_labels(path: str | Path, label: str | None = None) -> FlowLabels:
    """Read a file of labels; `label` names its label column where it has several or an unusual one."""
    file = open_label_file(Path(path), label)
    rows, columns = file.rows, file.columns
    labels = label_text(rows, columns["label"])
    kept = ~labels.str.to_lowercase().is_in(NO_LABELS).fill_null(True)
    notes: tuple[Note, ...] = ()
    if n := int((~kept).sum()):
        text = f"{rows.place(first(~kept))}, column {columns['label']!r}: {n:,} row(s) have no label and are left out"
        notes = (Note("rows without labels", n, text),)
    rows, labels = rows.with_frame(rows.frame.filter(kept)), labels.filter(kept)
    if not rows.frame.height:
        raise DataError(f"{path}, column {columns['label']!r}: no row has a label")
    start, end = _range(file, rows)
    protocols = _protocols(rows, columns["protocol"])
    capture = rows.frame[columns["capture"]] if "capture" in columns else None
    frame = pl.select(
        client=_addresses(rows, columns["client"]), client_port=_ports(rows, columns["client_port"], protocols),
        server=_addresses(rows, columns["server"]), server_port=_ports(rows, columns["server_port"], protocols),
        protocol=protocols, start=start, end=end, label=labels, row=rows.frame[ROW],
    ).with_columns(pl.lit(capture).cast(pl.String).alias("capture"))  # fmt: skip
    return FlowLabels.of(str(path), frame, _makers(file, rows), notes)


def _makers(file: LabelFile, rows: Rows) -> tuple[str, ...]:
    if "by" in file.columns:
        given = rows.frame[file.columns["by"]].cast(pl.String).drop_nulls().str.strip_chars().str.to_lowercase()
        return tuple(given.unique().sort())
    return (file.maker,) if file.maker else ()


def _addresses(rows: Rows, column: str) -> pl.Series:
    given = rows.frame[column].cast(pl.String)
    found = addresses(given)
    if (bad := found.is_null()).any():
        rows.refuse(first(bad), column, f"{given[first(bad)]!r} is no IP address")
    return found


def _ports(rows: Rows, column: str, protocols: pl.Series) -> pl.Series:
    """Ports; protocols other than TCP, UDP and SCTP may leave them empty."""
    given = rows.frame[column].cast(pl.String).str.strip_chars().str.replace(r"\.0$", "")
    found = given.cast(pl.Int64, strict=False)
    found = found.zip_with(
        ~(given.is_null() & ~protocols.is_in([6, 17, 132])), pl.Series([0]).new_from_index(0, len(found))
    )
    if (bad := found.is_null() | (found < 0) | (found > 65_535)).any():
        rows.refuse(first(bad), column, f"{given[first(bad)]!r} is no port; write a number from 0 to 65535")
    return found


def _protocols(rows: Rows, column: str) -> pl.Series:
    found = protocol_numbers(rows.frame[column])
    if (bad := found.is_null()).any():
        rows.refuse(
            first(bad), column, f"{rows.frame[column][first(bad)]!r} is no protocol; write tcp, udp, or its number"
        )
    return found


def _range(file: LabelFile, rows: Rows) -> tuple[pl.Series, pl.Series]:
    """Start and end in seconds: ±∞ where both are missing; an end that is missing alone is NaN."""
    start, end, duration = (_times(rows, file.columns.get(role)) for role in ("start", "end", "duration"))
    start, end = _seconds(start), _seconds(end)
    if "duration" in file.columns:
        end = end.fill_null(start + duration / file.duration_unit)
    if (bad := (end < start).fill_null(False)).any():
        column = file.columns.get("end") or file.columns["duration"]
        rows.refuse(first(bad), column, "the flow ends before it starts")
    both = start.is_null() & end.is_null()
    end = end.fill_null(float("nan")).set(both, float("inf"))
    return start.fill_null(float("-inf")), end


def _times(rows: Rows, column: str | None) -> pl.Series:
    if column is None:
        return pl.Series([None], dtype=pl.Float64).new_from_index(0, rows.frame.height)
    cells = rows.frame[column]
    empty = cells.is_null() | (cells.cast(pl.String).str.strip_chars() == "")
    filler = pl.lit("0") if cells.dtype == pl.String else pl.lit(0).cast(cells.dtype)
    filled = rows.frame.with_columns(pl.when(pl.lit(empty)).then(filler).otherwise(pl.col(column)).alias(column))
    found = times(rows.with_frame(filled), column)
    return found.set(empty, None)


def _seconds(found: pl.Series) -> pl.Series:
    """Times since 1970 as seconds, whatever they count: no one's captures are thousands of years old."""
    largest = float(found.abs().max() or 0.0)  # type: ignore[arg-type]
    return found / next((unit for least, unit in EPOCHS if largest > least), 1.0)


def _until_the_next(frame: pl.DataFrame) -> pl.DataFrame:
    """Where only the start is known, a row holds until the next one of its five-tuple."""
    if not frame["end"].is_nan().any():
        return frame
    ordered = frame.with_row_index("index").sort("start", maintain_order=True)
    following = pl.col("start").shift(-1).over(*TUPLE, "capture").fill_null(float("inf"))
    ordered = ordered.with_columns(
        pl.when(pl.col("end").is_nan()).then(following).otherwise(pl.col("end")).alias("end")
    )
    return ordered.sort("index").drop("index")


def _tolerance(frame: pl.DataFrame) -> float:
    """A second where all times are whole seconds, else a millisecond: exports round."""
    given = pl.concat([frame["start"], frame["end"]])
    given = given.filter(given.is_finite())
    return 1.0 if given.len() and bool((given == given.floor()).all()) else 1e-3
