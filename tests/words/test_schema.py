"""Schemas: from plain data and TOML and back, and messages that name the entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvec.words.errors import SettingError
from kvec.words.schema import Field, Outcome, Schema, Tangling

FULL = Schema(
    key=("src", "dst"),
    values=(Field("size", "payload", "binned", "magnitude", 16), Field("direction", "payload", "categorical", "sign")),
    labels=("app", "kind"),
    tangle="link",
    group="capture",
    time="seconds",
    end="fin",
    session=("direction",),
    session_gap=0.5,
    match=("size",),
    expiry=60.0,
    labels_file="labels.csv",
    tangling=Tangling(3, "group", "common"),
)
EVENTS = Schema(
    key=("case",),
    values=(Field("activity"),),
    outcome=Outcome("activity", ("Return ER",), ("Release A", "Return ER"), "no", "returns"),
)
UNFOLDED = Schema(values=(Field("size"),), unfold=("size", "gap"), unfold_gap="gap", separator=";")


@pytest.mark.parametrize("schema", [Schema(), FULL, EVENTS, UNFOLDED], ids=["empty", "full", "events", "unfolded"])
def test_round_trip_through_plain_data(schema: Schema) -> None:
    assert Schema.from_dict(schema.to_dict()) == schema
    assert json.loads(json.dumps(schema.to_dict())) == schema.to_dict()
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_a_toml_file(tmp_path: Path) -> None:
    file = tmp_path / "kvec.toml"
    file.write_text(
        """
key = ["src", "dst"]
label = ["app", "kind"]
tangle = "link"
group = "capture"
time = "seconds"
end = "fin"
session = "direction"
session_gap = 0.5
match = ["size"]
expiry = 60
labels_file = "labels.csv"

[values]
size = { column = "payload", kind = "binned", transform = "magnitude", bins = 16 }
direction = { column = "payload", kind = "categorical", transform = "sign" }

[tangling]
number = 3
of = "group"
clock = "common"
""",
        encoding="utf-8",
    )
    assert Schema.from_toml(file) == FULL


def test_names_may_be_one_text_with_commas() -> None:
    schema = Schema.from_dict({"key": "a, b", "values": "size,direction", "label": "app", "session": "direction"})
    assert schema.key == ("a", "b")
    assert schema.value_names == ("size", "direction")
    assert schema.label_names == ("app",)
    assert schema.session == ("direction",)


def test_what_a_schema_knows_by_itself() -> None:
    assert FULL.match_names == ("size",)
    assert EVENTS.label_names == ("returns",)
    mixed = Schema(values=(Field("a"), Field("b", kind="projected")))
    assert mixed.match_names == ("a",)
    assert Field("a").source == "a" and Field("a", column="b").source == "b"


def test_changes_leave_out_what_is_none() -> None:
    assert FULL.changed(time=None, end="rst").time == "seconds"
    assert FULL.changed(time=None, end="rst").end == "rst"


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"keys": "a"}, r"unknown entry 'keys' in data.toml; known: .*key.*label"),
        ({"key": []}, r"schema.key is empty"),
        ({"key": 3}, r"data.toml.key must be a name or a list of names, not 3"),
        ({"labels": [1]}, r"data.toml.labels must be a name or a list of names"),
        ({"values": 3}, r"data.toml.values must be a name or a list of names"),
        ({"values": ["a", "a"]}, r"names a field twice: a, a"),
        ({"values": {"size": "binned"}}, r"data.toml.values.size is 'binned'; write its entries in braces"),
        ({"values": {"size": {"kin": "x"}}}, r"unknown entry 'kin' in data.toml.values.size; known: bins, column"),
        ({"values": {"size": {"kind": "numeric"}}}, r"values.size.kind is 'numeric'; it can be auto, categorical"),
        ({"values": {"size": {"transform": "log"}}}, r"values.size.transform is 'log'; it can be none, sign"),
        ({"values": {"size": {"bins": 1}}}, r"values.size.bins is 1; at least 2 are needed"),
        ({"values": {"size": {"bins": "many"}}}, r"data.toml.values.size.bins is 'many'; it must be a whole number"),
        ({"values": ["a"], "session": ["b"]}, r"schema.session names 'b', which is no value field; fields: a"),
        ({"values": ["a"], "match": ["b"]}, r"schema.match names 'b', which is no value field"),
        ({"values": {"a": {"kind": "projected"}}, "session": "a"}, r"schema.session names 'a', which is projected"),
        ({"unfold_gap": "gap"}, r"schema.unfold_gap needs schema.unfold"),
        ({"time": 3}, r"data.toml.time is 3; it must be text"),
        ({"tangle": ["a"]}, r"data.toml.tangle is \['a'\]; it must be text"),
        ({"expiry": "soon"}, r"data.toml.expiry is 'soon'; it must be a number"),
        ({"expiry": -1}, r"schema.expiry is -1; it must be at least 0"),
        (
            {"expiry": 3.0, "time": "t", "tangling": {"number": 2, "clock": "order"}},
            r"schema.expiry needs times, which tangling.clock = 'order' leaves out",
        ),
        ({"session_gap": True}, r"data.toml.session_gap is True; it must be a number"),
        ({"outcome": "died"}, r"data.toml: outcome is a group of entries, not 'died'; write \[outcome\]"),
        ({"outcome": {"column": "a"}}, r"data.toml.outcome: .*label_from"),
        ({"outcome": {"column": "a", "label_from": 3}}, r"data.toml.outcome.label_from must be a name or a list"),
        ({"tangling": 3}, r"data.toml: tangling is a group of entries, not 3; write \[tangling\]"),
        ({"tangling": {"number": 0}}, r"tangling.number is 0; at least 1 is needed"),
        ({"tangling": {"number": 2.5}}, r"data.toml.tangling.number is 2.5; it must be a whole number"),
        ({"tangling": {"number": 2, "of": "user"}}, r"tangling.of is 'user'; it can be key, group"),
        ({"tangling": {"number": 2, "clock": "utc"}}, r"tangling.clock is 'utc'; it can be real, common, order"),
        ({"tangling": {"number": 2, "size": 3}}, r"unknown entry 'size' in data.toml.tangling"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_hold_is_named(plain: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        Schema.from_dict(plain, where="data.toml")
    assert "\n" not in str(caught.value)


def test_what_is_wrong_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none.toml: no such schema file"):
        Schema.from_toml(tmp_path / "none.toml")
    file = tmp_path / "kvec.toml"
    file.write_text("kee = 'a'\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"unknown entry 'kee' in .*kvec.toml"):
        Schema.from_toml(file)
