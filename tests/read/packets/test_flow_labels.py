from __future__ import annotations

import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kvec.read.packets.endpoints import protocol_numbers
from kvec.read.packets.flow_labels import read_flow_labels
from kvec.read.packets.flow_names import PROTOCOLS
from kvec.words.errors import DataError

OWN = "capture,client,client_port,server,server_port,protocol,start,end,label,by\n"


def written(tmp_path: Path, text: str, name: str = "labels.csv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def flows(*rows: tuple[Any, ...]) -> pl.DataFrame:
    names = ["capture", "client", "client_port", "server", "server_port", "protocol", "start", "end"]
    return pl.DataFrame([dict(zip(names, row, strict=True)) for row in rows])


WEB = ("a.pcap", "10.0.0.1", 5000, "192.0.2.1", 443, "tcp", 10.0, 20.0)


def test_own_files(tmp_path: Path) -> None:
    path = written(tmp_path, OWN + "a.pcap,10.0.0.1,5000,192.0.2.1,443,tcp,10.0,20.5,example.org,sni\n")
    labels = read_flow_labels(path)
    joined = labels.join(flows(WEB, ("a.pcap", "10.0.0.2", *WEB[2:])))
    assert joined.labels.to_list() == ["example.org", None]
    assert (joined.matched, joined.ambiguous, labels.by) == (1, 0, ("sni",))
    assert "labels 1 of 2 flows" in joined.notes[-1].text


@pytest.mark.parametrize(
    ("flow", "label"),
    [
        (("192.0.2.1", 443, "10.0.0.1", 5000, "tcp", 12.0), "a"),  # called the other way round
        (("10.0.0.1", 5000, "192.0.2.1", 443, 6, 12.0), "a"),
        (("10.0.0.1", 5000, "192.0.2.1", 443, "udp", 12.0), None),
        (("10.0.0.1", 5001, "192.0.2.1", 443, "tcp", 12.0), None),
        (("10.0.0.1", 5000, "192.0.2.1", 443, "tcp", 9.0), None),
        (("10.0.0.1", 5000, "192.0.2.1", 443, "tcp", 9.0, 10.2), "a"),
        (("10.0.0.1", 5000, "192.0.2.1", 443, "tcp", 20.5005), "a"),  # rounded clocks
        (("10.0.0.1", 5000, "192.0.2.1", 443, "tcp", 20.51), None),
        (("2001:db8::1", 53, "2001:0DB8:0::2", 53, "UDP", 1e9), "b"),  # no time range: all times
        (("fe80::1%eth0", 0, "ff02::1", 0, "icmpv6", 5.0), "c"),
        (("10.9.9.9", 7, "10.9.9.8", 9, "icmp", 5.0), "d"),  # ports of ICMP do not count
    ],
)
def test_one_flow(tmp_path: Path, flow: tuple[Any, ...], label: str | None) -> None:
    path = written(
        tmp_path,
        OWN
        + ",10.0.0.1,5000,192.0.2.1,443,tcp,10.0,20.5,a,sni\n"
        + ",2001:db8:0:0::2,53,2001:db8::1,53,17,,,b,dns\n"
        + ",ff02::1,134,fe80::1,0,58,,,c,port\n"
        + ",10.9.9.8,,10.9.9.9,,1,,,d,port\n",
    )
    labels = read_flow_labels(path)
    assert labels.label_of(*flow) == label
    assert labels.by == ("dns", "port", "sni")
    assert labels.gives_away(["size", "server_port"]) == ("server_port",)


def test_the_capture_is_compared_as_far_as_both_paths_go(tmp_path: Path) -> None:
    rows = "".join(f"{c},10.0.0.1,5000,192.0.2.1,443,tcp,,,{c[0]},sni\n" for c in ("x/one.pcap", "two.pcap"))
    labels = read_flow_labels(written(tmp_path, OWN + rows))
    captures = ["/data/x/one.pcap", "one.pcap", "y/one.pcap", "../two.pcap", "x\\three.pcap"]
    joined = labels.join(flows(*((capture, *WEB[1:]) for capture in captures)))
    assert joined.labels.to_list() == ["x", "x", None, "t", None]


def test_the_row_that_shares_most_time_is_taken_and_equal_ones_are_refused(tmp_path: Path) -> None:
    head = ",10.0.0.1,5000,192.0.2.1,443,tcp,"
    text = OWN + f"{head}0.5,12,early,x\n{head}12,30,late,x\n{head}40,50,one,x\n{head}40,50,two,x\n{head},,always,x\n"
    labels = read_flow_labels(written(tmp_path, text))
    spans = [(10.0, 20.0), (10.0, 13.0), (12.0, 12.0), (40.0, 50.0), (60.0, 61.0)]
    joined = labels.join(flows(*((*WEB[:6], *span) for span in spans)))
    assert joined.labels.to_list() == ["late", "early", "late", None, "always"]
    assert joined.ambiguous == 1 and "two labels to 1 flow" in joined.notes[-1].text


def test_a_row_without_an_end_holds_until_the_next(tmp_path: Path) -> None:
    text = "ts,src_ip,src_port,dst_ip,dst_port,proto,label\n"
    text += "".join(f"{t},10.0.0.1,5000,192.0.2.1,443,6,{name}\n" for t, name in ((10.5, "a"), (100, "b")))
    labels = read_flow_labels(written(tmp_path, text))
    assert [labels.label_of(*WEB[1:6], t) for t in (5.0, 50.0, 150.0)] == [None, "a", "b"]


@pytest.mark.parametrize("separator", ["|", ","])
def test_ndpi_exports(tmp_path: Path, separator: str) -> None:
    names = "#flow_id protocol first_seen last_seen duration src_ip src_port dst_ip dst_port ndpi_proto_num ndpi_proto"
    row = "1 6 10000.000 20000.000 10.000 10.0.0.1 5000 192.0.2.1 443 91.140 TLS.Apple"
    other = "2 17 1.000 2.000 1.000 10.0.0.1 5000 192.0.2.1 443 0 Unknown"
    path = written(tmp_path, "\n".join(separator.join(line.split()) for line in (names, row, other)) + "\n")
    labels = read_flow_labels(path)
    assert labels.label_of(*WEB[1:6], 15000.0) == "TLS.Apple"
    assert labels.by == ("ndpi",) and labels.notes[0].count == 1


def test_nfstream_exports_count_milliseconds(tmp_path: Path) -> None:
    names = "src_ip,src_port,dst_ip,dst_port,protocol,bidirectional_first_seen_ms,bidirectional_last_seen_ms"
    text = names + ",application_name\n10.0.0.1,5000,192.0.2.1,443,6,1700000000123,1700000005123,TLS.Google\n"
    labels = read_flow_labels(written(tmp_path, text))
    assert labels.label_of(*WEB[1:6], 1700000003.0) == "TLS.Google"
    assert labels.label_of(*WEB[1:6], 1700000013.0) is None


ZEEK = """#separator \\x09
#set_separator\t,
#empty_field\t(empty)
#unset_field\t-
#path\tconn
#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration{more}
#types\ttime\tstring\taddr\tport\taddr\tport\tenum\tstring\tinterval
10.500000\tC1\t10.0.0.1\t5000\t192.0.2.1\t443\ttcp\tssl\t5.0{a}
11.000000\tC2\t10.0.0.1\t5001\t192.0.2.1\t443\ttcp\t-\t-{b}
#close\t2024-01-01
"""


def test_zeek_logs(tmp_path: Path) -> None:
    text = ZEEK.format(more="", a="", b="")
    labels = read_flow_labels(written(tmp_path, text, "conn.log"))
    assert [labels.label_of(*WEB[1:6], t) for t in (12.0, 16.0)] == ["ssl", None]
    assert labels.by == ("zeek",) and labels.frame.height == 1
    packed = tmp_path / "conn.log.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_flow_labels(packed).frame.equals(labels.frame)


def test_zeek_logs_with_labels_added(tmp_path: Path) -> None:
    text = ZEEK.format(more="   label", a="   Malicious", b="   Benign")
    labels = read_flow_labels(written(tmp_path, text, "conn.log.labeled"))
    assert labels.label_of(*WEB[1:6], 12.0) == "Malicious" and labels.frame.height == 2


def test_zeek_logs_as_json(tmp_path: Path) -> None:
    one = {"ts": 10.5, "id.orig_h": "10.0.0.1", "id.orig_p": 5000, "id.resp_h": "192.0.2.1", "id.resp_p": 443}
    lines = [one | {"proto": "tcp", "service": "ssl", "duration": 5.0}, one | {"proto": "udp"}]
    path = written(tmp_path, "\n".join(map(json.dumps, lines)), "conn.json")
    assert read_flow_labels(path).label_of(*WEB[1:6], 12.0) == "ssl"


def test_tables_of_cicflowmeter(tmp_path: Path) -> None:
    text = "Flow ID,Src IP,Src Port,Dst IP,Dst Port,Protocol,Timestamp,Flow Duration,Label\n"
    text += "x,10.0.0.1,5000,192.0.2.1,443,6,2024-05-01 12:00:00,5000000,Bot\n"
    labels = read_flow_labels(written(tmp_path, text))
    noon = 1714564800.0
    assert [labels.label_of(*WEB[1:6], noon + s) for s in (-1.5, 0.9, 5.9, 6.5)] == [None, "Bot", "Bot", None]


def test_parquet_and_an_unusual_label_column(tmp_path: Path) -> None:
    frame = flows(WEB).with_columns(pl.lit("x").alias("what"), pl.lit("y").alias("label"))
    frame.write_parquet(tmp_path / "labels.parquet")
    assert read_flow_labels(tmp_path / "labels.parquet", label="what").label_of(*WEB[1:6], 12.0) == "x"
    with pytest.raises(DataError, match="no column 'that'"):
        read_flow_labels(tmp_path / "labels.parquet", label="that")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (",10.0.0,5000,192.0.2.1,443,tcp,,,a,x", "labels.csv, row 2, column 'client': '10.0.0' is no IP address"),
        (",10.0.0.1,,192.0.2.1,443,tcp,,,a,x", "row 2, column 'client_port': None is no port"),
        (",10.0.0.1,5,192.0.2.1,70000,tcp,,,a,x", "row 2, column 'server_port': '70000' is no port"),
        (",10.0.0.1,5,192.0.2.1,443,tpc,,,a,x", "row 2, column 'protocol': 'tpc' is no protocol"),
        (",10.0.0.1,5,192.0.2.1,443,tcp,noon,,a,x", "row 2, column 'start': 'noon' is no time"),
        (",10.0.0.1,5,192.0.2.1,443,tcp,7,6,a,x", "row 2, column 'end': the flow ends before it starts"),
    ],
)
def test_cells_that_cannot_be_used_are_named(tmp_path: Path, row: str, message: str) -> None:
    path = written(tmp_path, OWN + ",10.0.0.1,5000,192.0.2.1,443,tcp,1,2,a,x\n" + row + "\n")
    with pytest.raises(DataError) as error:
        read_flow_labels(path)
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "no column tells the client of a flow"),
        (OWN, "there are no rows"),
        (OWN + ",10.0.0.1,5000,192.0.2.1,443,tcp,1,2,,x\n", "no row has a label"),
        ('{"a": 1}\n{"a": \n', "line 2"),
        (OWN + "1,2,3,4,5,6,7,8,9,10,11\n", "line 2 has 11 fields"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_flow_labels(written(tmp_path, text))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.csv", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(DataError, match=message):
            read_flow_labels(path)


def test_labels_of_other_captures_are_refused(tmp_path: Path) -> None:
    labels = read_flow_labels(written(tmp_path, OWN + ",10.0.0.7,5000,192.0.2.1,443,tcp,,,a,x\n"))
    with pytest.raises(DataError, match=r"none of the 1 flows in the captures, such as 10\.0\.0\.1 5000 to 192"):
        labels.join(flows(WEB))


def test_the_join_equals_a_plain_loop(tmp_path: Path) -> None:
    dice = random.Random(7)
    rows = []
    for _ in range(120):
        start = dice.choice([None, dice.randrange(100) + 0.5])
        end = None if start is None else start + dice.randrange(1, 30)
        rows.append((dice.randrange(3), start, end, dice.choice("abc")))
    text = OWN + "".join(
        f",10.0.0.1,{port},192.0.2.1,443,tcp,{'' if s is None else s},{'' if e is None else e},{label},x\n"
        for port, s, e, label in rows
    )
    labels = read_flow_labels(written(tmp_path, text))
    seen = [(dice.randrange(4), float(dice.randrange(120)), float(dice.randrange(40))) for _ in range(200)]
    found = labels.join(flows(*((*WEB[:2], port, *WEB[3:6], s, s + d) for port, s, d in seen))).labels
    for (port, s, d), label in zip(seen, found, strict=True):
        meeting = [r for r in rows if r[0] == port and r[1] is not None and min(r[2], s + d) - max(r[1], s) >= -1e-3]
        if meeting:
            best = max((max(min(r[2], s + d) - max(r[1], s), 0.0), r[1]) for r in meeting)
            left = {r[3] for r in meeting if (max(min(r[2], s + d) - max(r[1], s), 0.0), r[1]) == best}
        else:
            left = {r[3] for r in rows if r[0] == port and r[1] is None}
        assert label == (left.pop() if len(left) == 1 else None)


def test_many_flows_of_one_tuple_are_joined_quickly(tmp_path: Path) -> None:
    n = 50_000
    frame = pl.DataFrame({"start": pl.int_range(n, eager=True) * 10.0 + 0.5}).with_columns(
        (pl.col("start") + 5).alias("end"), (pl.int_range(pl.len()) % 7).cast(pl.String).alias("label"),
        pl.lit("a.pcap").alias("capture"), pl.lit("10.0.0.1").alias("client"), pl.lit(123).alias("client_port"),
        pl.lit("192.0.2.1").alias("server"), pl.lit(123).alias("server_port"), pl.lit("udp").alias("protocol"),
    )  # fmt: skip
    frame.write_csv(tmp_path / "labels.csv")
    began = time.perf_counter()
    joined = read_flow_labels(tmp_path / "labels.csv").join(frame)
    assert joined.labels.to_list() == frame["label"].to_list()
    assert time.perf_counter() - began < 20


def test_the_names_that_kvec_gives_to_protocols_are_known() -> None:
    numbers = protocol_numbers(pl.Series(PROTOCOLS.values()))
    assert [58 if name == "icmp6" else n for name, n in zip(PROTOCOLS.values(), numbers, strict=True)] == list(
        PROTOCOLS
    )
