from pathlib import Path

import polars as pl
import pytest

from kvec.read.rows import read_table, require_labels
from kvec.words.schema import Schema

SCHEMAS = Path(__file__).parents[2] / "src" / "kvec" / "read" / "schemas"

FEW_ROWS = {
    "traffic_fg": pl.DataFrame({
        "tangle": [1, 1, 1], "key": [2, 3, 2], "order": [0, 1, 2], "size": [82, 70, 70], "direction": [1, 0, 0],
        "label": [58, 13, 58],
    }),
    "fgnet_d1": pl.DataFrame({
        "flow": [0, 1], "capture": [0, 1], "app": ["maps", "mail"], "start": [1.5e9, 1.5e9 + 1],
        "src_port": [1, 2], "n_packets": [3, 1], "size": [[172, -1448, 31], [99]], "gap": [[0.0, 0.5, 0.1], [0.0]],
    }),
    "iot_sentinel": pl.DataFrame({
        "device": ["Plug", "Plug", "Cam"], "capture": ["1.pcap"] * 3, "ts": ["10.5", "11.25", "3"],
        "proto": ["17"] * 3, "client": ["0.0.0.0"] * 3, "cport": ["68"] * 3, "server": ["255.255.255.255"] * 3,
        "sport": ["67"] * 3, "size": ["328", "60", "328"], "dir": ["0", "1", "0"],
    }),
    "sepsis": pl.DataFrame({
        "case_id": ["NA", "NA", "NA", "B"], "activity": ["ER Registration", "CRP", "Return ER", "ER Registration"],
        "resource": ["A", "B", "?", "A"], ".order": [1, 2, 3, 4],
        "timestamp": ["2014-10-22 11:15:41", "2014-10-22 11:27:00", "2014-11-02 09:00:00", "2014-10-23 01:00:00"],
        "age": [85, None, None, 40], "crp": [None, 210.0, None, None], "leucocytes": [None] * 4,
        "lacticacid": [None] * 4,
    }),
    "traffic_fines": pl.DataFrame({
        "case_id": ["A1", "A1", "A2"], "activity": ["Create Fine", "Send for Credit Collection", "Create Fine"],
        "timestamp": ["2006-07-24", "2009-03-30", "2006-08-02"], ".order": [1, 2, 3], "amount": [35.0, None, 71.5],
        "article": [157, None, 7], "expense": [None, 11.0, None], "paymentamount": [None, None, None],
        "vehicleclass": ["A", None, "C"],
    }),
    "hdfs": pl.DataFrame({"block": ["blk_-16", "blk_8"], "label": [0, 1], "events": ["0 1 1 4", "1 0"]}),
}  # fmt: skip
EXPECTED = {  # items, keys, label of the first item
    "traffic_fg": (3, 2, "58"),
    "fgnet_d1": (4, 2, "maps"),
    "iot_sentinel": (3, 2, "Plug"),
    "sepsis": (3, 2, "Return ER"),
    "traffic_fines": (2, 2, "Send for Credit Collection"),
    "hdfs": (6, 2, "0"),
}


def test_every_example_is_tried():
    assert sorted(path.stem for path in SCHEMAS.glob("*.toml")) == sorted(FEW_ROWS)


@pytest.mark.parametrize("name", FEW_ROWS)
def test_example_schema_reads_rows_of_its_shape(name):
    table = read_table(FEW_ROWS[name], Schema.from_toml(SCHEMAS / f"{name}.toml"))
    require_labels(table)
    label = table.frame[f"label.{table.schema.label_names[0]}"][0]
    assert (table.frame.height, table.frame["key"].n_unique(), label) == EXPECTED[name]
    assert table.guessed == {}


def test_fgnet_sizes_and_directions_come_from_one_column():
    frame = read_table(FEW_ROWS["fgnet_d1"], Schema.from_toml(SCHEMAS / "fgnet_d1.toml")).frame
    assert frame["value.size"].to_list() == [172, 1448, 31, 99]
    assert frame["value.direction"].to_list() == [1, 0, 1, 1]
    assert frame["time"].to_list() == pytest.approx([1.5e9, 1.5e9 + 0.5, 1.5e9 + 0.6, 1.5e9 + 1])


def test_iot_captures_of_the_same_name_are_told_apart():
    frame = read_table(FEW_ROWS["iot_sentinel"], Schema.from_toml(SCHEMAS / "iot_sentinel.toml")).frame
    assert frame["group"].to_list() == ["Plug|1.pcap", "Plug|1.pcap", "Cam|1.pcap"]
