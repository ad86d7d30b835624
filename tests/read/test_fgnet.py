"""FG-Net's JSON files, on a small made folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvec.read.fgnet import MOST_PACKETS, read_fgnet
from kvec.words.errors import DataError


def flow(start: float, sizes: list[int], gaps: list[float]) -> dict[str, Any]:
    return {"packet_length": sizes, "payload": [], "arrive_time_delta": gaps, "start_timestamp": start, "src_port": 1}


def put(folder: Path, name: str, content: Any) -> Path:
    path = folder / f"{name}_clear.pcap.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def test_every_flow_is_a_row_with_its_capture_and_app(tmp_path: Path) -> None:
    put(tmp_path, "maps/1.0/15", [flow(7.5, [172, -1448], [0.0, 0.5]), flow(8.0, [], []), flow(9.0, [31], [0.0])])
    put(tmp_path, "mail/2.1/15", [flow(3.0, [5] * 200, [0.25] * 200)])
    frame = read_fgnet(tmp_path)
    assert frame.select("flow", "capture", "app", "start").rows() == [
        (0, "mail/2.1/15", "mail", 3.0),
        (1, "maps/1.0/15", "maps", 7.5),
        (2, "maps/1.0/15", "maps", 9.0),
    ]
    assert frame["size"][1].to_list() == [172, -1448] and frame["gap"][1].to_list() == [0.0, 0.5]
    assert len(frame["size"][0]) == len(frame["gap"][0]) == MOST_PACKETS


@pytest.mark.parametrize("content", [[1], [{"packet_length": [1]}], [flow(1.0, ["many"], [0.0])], "flows"])
def test_files_of_another_form_are_refused_by_name(tmp_path: Path, content: Any) -> None:
    put(tmp_path, "maps/1.0/14", [flow(7.5, [172], [0.0])])
    put(tmp_path, "maps/1.0/15", content)
    with pytest.raises(DataError, match=r"15_clear\.pcap\.json: no list of flows") as refusal:
        read_fgnet(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_folder_without_such_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no APP/VERSION/\*_clear\.pcap\.json in this folder"):
        read_fgnet(tmp_path)
