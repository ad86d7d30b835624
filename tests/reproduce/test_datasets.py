"""Every road from a path to the parts of a data set, and what is counted in them, on small made files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.read.packets.making_packets import Frame, ethernet, ipv4, pcap, udp
from tests.read.test_authors import row
from tests.read.test_example_schemas import EXPECTED, FEW_ROWS

from kvec.reproduce.datasets import NAMES, Parts, find_datasets, read_parts, statistics
from kvec.reproduce.plan import Sizes
from kvec.words.errors import DataError, SettingError

PARTS = ("train", "validation", "test")
ALL = Sizes()


def rows_file(path: Path, n: int = 20) -> Path:
    """The authors' rows, with two flows of two packets each in every one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row([100 + i, -50, 60, -(70 + i)], [0, 1, 1, 0], (i % 2, 1 - i % 2)) for i in range(n)]
    np.save(path, np.stack(rows))
    return path


def movielens(folder: Path, n: int = 20) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    ratings = [f"{user}::{10 + i}::{1 + (user + i) % 5}::{1000 + i}" for user in range(n) for i in range(3)]
    (folder / "ratings.dat").write_text("\n".join(ratings) + "\n")
    (folder / "users.dat").write_text("".join(f"{user}::{'FM'[user % 2]}::25::4::0\n" for user in range(n)))
    (folder / "movies.dat").write_text("".join(f"{10 + i}::Title {i} (1999)::Drama|War\n" for i in range(3)))
    return folder / "ratings.dat"


def capture(path: Path, n_flows: int, size: int, n_packets: int = 12) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = []
    for flow in range(n_flows):
        for i in range(n_packets):
            inside = udp(1000 + flow, 53, b"x" * (size + i))
            frames.append(Frame(ethernet(0x0800, ipv4("10.0.0.1", "10.0.0.2", 17, inside)), 10**9 * (flow + i)))
    path.write_bytes(pcap(sorted(frames, key=lambda frame: frame.time)))
    return path


def ustc(folder: Path) -> Path:
    for i, name in enumerate(("Benign/Facetime.pcap", "Benign/Gmail.pcap", "Malware/Tinba.pcap", "Malware/Zeus.pcap")):
        capture(folder / name, 10, 20 * i)
    return folder / "Benign" / "Facetime.pcap"


def fgnet(folder: Path) -> Path:
    for app in ("maps", "mail"):
        for number in range(10):
            flows = [
                {"packet_length": [100, -200, 30], "arrive_time_delta": [0.0, 0.5, 0.25], "start_timestamp": 100.0 + i}
                for i in range(2)
            ]
            path = folder / "D1" / app / "1.0" / f"{number}_clear.pcap.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(flows))
    return path


def repeated(name: str, column: str, n: int = 20) -> pl.DataFrame:
    """Rows of a schema's shape, again and again for other keys."""
    rows = FEW_ROWS[name]
    return pl.concat([rows.with_columns(pl.format("{}-{}", pl.col(column), pl.lit(i)).alias(column)) for i in range(n)])


def units(parts: Parts, column: str) -> list[set[object]]:
    return [set(getattr(parts, name)[column]) for name in PARTS]


def refusal(of: object, *given: object) -> str:
    with pytest.raises((DataError, SettingError)) as caught:
        of(*given)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- where data sets are --------------------------------------------------------------------------------------------


def test_a_folder_is_looked_through_for_published_names(tmp_path: Path) -> None:
    rows_file(tmp_path / "authors" / "traffic_fg" / "fold_1" / "train.npy")
    rows_file(tmp_path / "authors" / "traffic_app.npy")
    ratings, pcaps, flows = movielens(tmp_path / "ml-1m"), ustc(tmp_path / "USTC"), fgnet(tmp_path / "dataset")
    repeated("sepsis", "case_id").write_csv(tmp_path / "sepsis.csv")
    repeated("traffic_fines", "case_id").write_csv(tmp_path / "traffic_fines.csv")
    repeated("iot_sentinel", "capture").write_csv(tmp_path / "iot_sentinel.csv")
    found = {name: path for name, path in find_datasets([str(tmp_path)]).items() if path}
    assert set(found) == set(NAMES)
    assert found["traffic-fg"] == str(tmp_path / "authors" / "traffic_fg" / "fold_1")
    assert found["traffic-app"] == str(tmp_path / "authors" / "traffic_app.npy")
    assert (found["movielens-1m"], found["ustc-tfc2016"]) == (str(ratings), str(pcaps))
    assert Path(found["fgnet-d1"]).parents[2] == flows.parents[2]
    for name in NAMES:
        parts = read_parts(name, found, ALL, 0)
        assert min(part.height for part in (parts.train, parts.validation, parts.test)) > 0


def test_a_named_path_goes_before_a_folder_wherever_it_stands(tmp_path: Path) -> None:
    rows_file(tmp_path / "all" / "traffic_fg.npy")
    mine = rows_file(tmp_path / "mine" / "rows.npy")
    for given in ([f"traffic-fg={mine}", str(tmp_path / "all")], [str(tmp_path / "all"), f"traffic-fg={mine}"]):
        assert find_datasets(given)["traffic-fg"] == str(mine)


def test_made_sets_need_no_path() -> None:
    assert find_datasets([]) == dict.fromkeys(
        ["synthetic-early", "synthetic-late", "made-early", "made-late", "planted"], ""
    )


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    assert refusal(find_datasets, ["traffic-fg=/no/rows.npy"]).startswith("/no/rows.npy: no such file or folder")
    assert "unknown data set 'traffic' in --data traffic=x; known: traffic-fg" in refusal(find_datasets, ["traffic=x"])
    assert "no such folder; give the one that holds the data sets" in refusal(find_datasets, [str(tmp_path / "none")])
    assert "there is no data for sepsis; give it with --data FOLDER" in refusal(read_parts, "sepsis", {}, ALL, 0)


def test_a_folder_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    rows_file(folder / "traffic_fg.npy")
    assert find_datasets([str(folder)])["traffic-fg"] == str(folder / "traffic_fg.npy")


# -- how they are read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["traffic-fg", "traffic-app"])
def test_rows_of_the_authors(tmp_path: Path, name: str) -> None:
    path = rows_file(tmp_path / "rows.npy")
    parts = read_parts(name, {name: str(path)}, ALL, 0)
    assert [len(each) for each in units(parts, "tangle")] == [16, 2, 2]
    assert parts.train.group_by("tangle").agg(pl.col("key").n_unique())["key"].unique().to_list() == [2]
    assert parts.schema.tangling is None and parts.schema.session == ("direction",) and parts.keys_per_tangle == 2


def test_rows_of_the_authors_in_several_files_are_one_set(tmp_path: Path) -> None:
    rows_file(tmp_path / "traffic_fg" / "test.npy", 12)
    rows_file(tmp_path / "traffic_fg" / "train.npy", 28)
    parts = read_parts("traffic-fg", find_datasets([str(tmp_path)]), ALL, 0)
    assert [len(each) for each in units(parts, "tangle")] == [32, 4, 4]


@pytest.mark.parametrize("name", ["traffic-fg", "traffic-app"])
def test_the_same_as_a_table(tmp_path: Path, name: str) -> None:
    one = FEW_ROWS["traffic_fg"]
    table = pl.concat([one.with_columns(pl.lit(i).alias("tangle")) for i in range(20)])
    table.write_parquet(tmp_path / f"{name.replace('-', '_')}.parquet")
    parts = read_parts(name, find_datasets([str(tmp_path)]), ALL, 0)
    assert parts.train.height == 16 * 3 and parts.schema.label_names == ("label",)


def test_captures_of_ustc_are_named_by_their_files(tmp_path: Path) -> None:
    first = ustc(tmp_path)
    capture(tmp_path / "others" / "Skype.pcap", 3, 9)
    ways = [first, first.parent, tmp_path]
    found = [read_parts("ustc-tfc2016", {"ustc-tfc2016": str(way)}, ALL, 0) for way in ways]
    for parts in found:
        assert parts.train.equals(found[0].train)
        assert set(parts.train["label.label"]) == {"Facetime", "Gmail", "Tinba", "Zeus"}
        assert [len(each) for each in units(parts, "group")] == [32, 4, 4], "whole flows"
        assert parts.keys_per_tangle == 8 and parts.train["time"].null_count() == 0


def test_no_capture_is_left_out_without_a_word(tmp_path: Path) -> None:
    first = ustc(tmp_path)
    (tmp_path / "Malware" / "Zeus.pcap").write_bytes(b"<html>")
    assert "Zeus.pcap" in refusal(read_parts, "ustc-tfc2016", {"ustc-tfc2016": str(first)}, ALL, 0)


def test_captures_of_iot_sentinel_are_named_by_their_folders(tmp_path: Path) -> None:
    for i, device in enumerate(("Aria", "Plug")):
        for number in range(6):
            capture(tmp_path / "iot" / device / f"Setup-{number}-STA.pcap", 2, 20 * i, n_packets=4)
    data = find_datasets([str(tmp_path)])
    parts = read_parts("iot-sentinel", data, ALL, 0)
    again = read_parts("iot-sentinel", {"iot-sentinel": str(tmp_path / "iot")}, ALL, 0)
    assert parts.train.equals(again.train) and [len(each) for each in units(parts, "group")] == [10, 1, 1]
    everything = pl.concat([parts.train, parts.validation, parts.test])
    assert set(everything["label.label"]) == {"Aria", "Plug"} and everything.height == 2 * 6 * 2 * 4
    assert parts.schema.match_names == ("size", "direction", "server_port")
    assert parts.arranged(0, False)[0].group_by("tangle").agg(pl.col("group").n_unique())["group"].max() == 3


def test_files_of_fgnet_give_the_same_as_its_table(tmp_path: Path) -> None:
    file = fgnet(tmp_path)
    parts = read_parts("fgnet-d1", {"fgnet-d1": str(file)}, ALL, 0)
    assert [len(each) for each in units(parts, "group")] == [16, 2, 2]
    assert parts.train.height == 16 * 2 * 3 and set(parts.train["label.app"]) == {"maps", "mail"}
    assert sorted(set(parts.train["time"])) == [100.0, 100.5, 100.75, 101.0, 101.5, 101.75]
    frame = parts.arranged(0, False)[0]
    assert frame["time"].min() == 0 and frame.group_by("tangle").agg(pl.col("group").n_unique())["group"].max() == 3
    again = read_parts("fgnet-d1", {"fgnet-d1": str(tmp_path / "D1")}, ALL, 0)
    assert again.train.equals(parts.train)


def test_ratings_are_split_by_users(tmp_path: Path) -> None:
    path = movielens(tmp_path)
    for way in (path, tmp_path):
        parts = read_parts("movielens-1m", {"movielens-1m": str(way)}, ALL, 0)
        assert [len(each) for each in units(parts, "key")] == [16, 2, 2] and parts.keys_per_tangle == 8
        assert parts.train["value.genre"].unique().to_list() == ["Drama"]


@pytest.mark.parametrize(
    ("name", "key", "label"),
    [("sepsis", "case_id", "return"), ("traffic-fines", "case_id", "collection"),
     ("iot-sentinel", "capture", "device"), ("fgnet-d1", "capture", "app")],
)  # fmt: skip
def test_tables_are_read_by_the_schemas_that_kvec_has(tmp_path: Path, name: str, key: str, label: str) -> None:
    stem = name.replace("-", "_")
    table = repeated(stem, key)
    if name == "fgnet-d1":
        table = table.with_columns(pl.int_range(pl.len()).alias("flow"))
    path = tmp_path / f"{stem}.parquet"
    table.write_parquet(path)
    parts = read_parts(name, {name: str(path)}, ALL, 0)
    n_items, _, _ = EXPECTED[stem]
    assert sum(getattr(parts, part).height for part in PARTS) == 20 * n_items
    assert parts.schema.label_names == (label,) and parts.train[f"label.{label}"].n_unique() == 2


# -- how they are drawn ---------------------------------------------------------------------------------------------


def test_sizes_take_whole_units_and_the_same_ones_for_every_training() -> None:
    cut = Sizes(train=5, validation=3, test=2)
    parts, all_of_it = read_parts("planted", {}, cut, 3), read_parts("planted", {}, ALL, 3)
    for name, n in zip(PARTS, (5, 3, 2), strict=True):
        drawn, whole = getattr(parts, name), getattr(all_of_it, name)
        assert drawn["tangle"].n_unique() == n
        assert drawn.equals(whole.filter(pl.col("tangle").is_in(drawn["tangle"].unique().implode())))
    again = read_parts("planted", {}, cut, 3)
    assert all(getattr(again, name).equals(getattr(parts, name)) for name in PARTS)
    alone, tangled = parts.arranged(3, True), parts.arranged(3, False)
    for one, other in zip(alone, tangled, strict=True):
        values = ["value.size", "value.direction", "label.label"]
        assert sorted(one.select(values).rows()) == sorted(other.select(values).rows())


@pytest.mark.parametrize("sizes", [ALL, Sizes(folds=5), Sizes(train=9, folds=2)])
def test_no_two_parts_share_a_unit(sizes: Sizes) -> None:
    for seed in range(sizes.folds or 3):
        train, validation, test = units(read_parts("made-early", {}, sizes, seed), "tangle")
        assert train and validation and test and not (train & validation | train & test | validation & test)


def test_keys_are_tangled_anew_within_their_part() -> None:
    plain, again = read_parts("planted", {}, ALL, 0), read_parts("planted@8", {}, ALL, 0)
    assert all(getattr(plain, name).equals(getattr(again, name)) for name in PARTS)
    for frame, before in zip(again.arranged(0, False), plain.arranged(0, False), strict=True):
        n_keys = before.select("tangle", "key").n_unique()
        assert frame["tangle"].n_unique() == -(-n_keys // 8) and frame.height == before.height
        assert frame.group_by("tangle").agg(pl.col("key").n_unique())["key"].max() == 8
        assert sorted(frame["value.size"]) == sorted(before["value.size"])


@pytest.mark.parametrize("dataset", ["planted", "made-early"])
def test_sequences_may_be_cut_after_their_first_items(dataset: str) -> None:
    whole, cut = read_parts(dataset, {}, ALL, 0), read_parts(dataset, {}, Sizes(length=5), 0)
    for name in PARTS:
        rows: dict[tuple[object, object], list[tuple[object, ...]]] = {}
        for each in getattr(whole, name).sort("order", maintain_order=True).iter_rows():
            rows.setdefault(each[:2], []).append(each)
        expected = [each for items in rows.values() for each in items[:5]]
        assert getattr(whole, name).columns[:2] == ["tangle", "key"]
        assert sorted(getattr(cut, name).iter_rows(), key=repr) == sorted(expected, key=repr)


def test_too_few_units_are_refused(tmp_path: Path) -> None:
    path = rows_file(tmp_path / "rows.npy", 4)
    told = refusal(read_parts, "traffic-fg", {"traffic-fg": str(path)}, ALL, 0)
    assert told.startswith("a split 8:1:1 leaves a part empty: there are only 4 tangles")
    assert "only 4 tangles" in refusal(read_parts, "traffic-fg", {"traffic-fg": str(path)}, Sizes(folds=5), 0)


# -- what is counted in them ----------------------------------------------------------------------------------------


def test_statistics_are_those_of_the_whole_set(tmp_path: Path) -> None:
    path = rows_file(tmp_path / "rows.npy")
    told = statistics("traffic-fg", str(path), Sizes(train=4, validation=1, test=1, folds=5))
    expected = {
        "dataset": "traffic-fg", "keys": 40, "tangles": 20, "items": 80, "mean_length": 2.0, "mean_session": 1.0,
        "classes": 2, "keys_per_tangle": 2.0,
    }  # fmt: skip
    assert expected.items() <= told.items()
    assert told["related_keys"] == told["seeing_items"] == told["same_class_seen"] == 0
    assert statistics("traffic-fg@4", str(path), ALL)["keys_per_tangle"] == 4


@pytest.mark.parametrize("dataset", ["planted", "planted@8"])
def test_relations_agree_with_plain_loops(dataset: str) -> None:
    sizes = Sizes(train=30)
    told = statistics(dataset, "", sizes)
    parts = read_parts(dataset, {}, sizes, 0)
    frame = parts.arranged(0, False)[0]
    items = frame.select("tangle", "key", "value.size", "value.direction", "label.label").rows()
    label_of = {(tangle, key): label for tangle, key, _, _, label in items}
    related = [
        any(other != one and other[0] == one[0] and label_of[other] == label_of[one] for other in label_of)
        for one in label_of
    ]
    assert told["related_keys"] == pytest.approx(np.mean(related), abs=1e-4)

    runs: dict[tuple[object, object], tuple[object, int]] = {}
    session = []
    for tangle, key, _, direction, _ in items:
        before, number = runs.get((tangle, key), (None, -1))
        runs[tangle, key] = (direction, number + (direction != before))
        session.append((tangle, key, runs[tangle, key][1]))
    n_seeing = n_seen = n_same = 0
    for i, (tangle, key, size, direction, label) in enumerate(items):
        matched = {
            session[m]
            for m in range(i + 1)
            if items[m][0] == tangle and items[m][1] != key and items[m][2:4] == (size, direction)
        }
        seen = [j for j in range(i) if session[j] in matched]
        n_seeing += bool(seen)
        n_seen += len(seen)
        n_same += sum(items[j][4] == label for j in seen)
    assert told["seeing_items"] == pytest.approx(n_seeing / len(items), abs=1e-4)
    assert told["same_class_seen"] == pytest.approx(n_same / n_seen, abs=1e-4)


def test_captures_are_tangled_anew_as_captures(tmp_path: Path) -> None:
    """fgnet-d1@4 has four captures in each tangle, of whose flows none is parted from the others."""
    path = str(fgnet(tmp_path))
    parts = read_parts("fgnet-d1@4", {"fgnet-d1": path}, ALL, 0)
    train = parts.arranged(0, is_alone=False)[0]
    per_tangle = train.group_by("tangle").agg(pl.col("group").n_unique(), keys=pl.col("key").n_unique())
    assert per_tangle["group"].max() == 4 and per_tangle["keys"].max() == 8
    assert train.group_by("group").agg(pl.col("tangle").n_unique())["tangle"].to_list() == [1] * 16
    assert parts.keys_per_tangle == 8
