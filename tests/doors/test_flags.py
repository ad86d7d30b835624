from __future__ import annotations

import inspect

import pytest

from kvec.doors.flags import SchemaFlags, with_schema_flags
from kvec.words.errors import SettingError
from kvec.words.schema import Field, Outcome, Schema

BESIDE = Schema(
    key=("who",), values=(Field("size", kind="binned", bins=9), Field("way")), labels=("app",), session=("way",),
    expiry=5.0, labels_file="labels.csv",
)  # fmt: skip


def test_nothing_said_changes_nothing() -> None:
    assert SchemaFlags().over(BESIDE) == BESIDE


def test_what_is_said_goes_before_the_file() -> None:
    flags = SchemaFlags(key="src,dst", time="t", label="app,user", session="", session_gap=1.5, empty_key="NA")
    told = flags.over(BESIDE)
    assert (told.key, told.time, told.labels, told.session) == (("src", "dst"), "t", ("app", "user"), ())
    assert (told.session_gap, told.expiry, told.empty_key) == (1.5, 5.0, "NA")


def test_fields_keep_what_the_file_says_of_them() -> None:
    told = SchemaFlags(values="way, size, extra", kind=["extra=projected"]).over(BESIDE)
    assert told.values == (Field("way"), Field("size", kind="binned", bins=9), Field("extra", kind="projected"))


def test_a_label_replaces_an_outcome_and_labels_their_file() -> None:
    from pathlib import Path

    schema = BESIDE.changed(outcome=Outcome("event", ("paid",)))
    assert SchemaFlags(label="app").over(schema).outcome is None
    assert SchemaFlags(labels=Path("other.csv")).over(schema).labels_file == ""


@pytest.mark.parametrize("kind", ["size", "colour=binned", "size=round"])
def test_wrong_kinds(kind: str) -> None:
    with pytest.raises(SettingError):
        SchemaFlags(kind=[kind]).over(BESIDE)


def test_kinds_of_fields_that_nobody_names_wait_for_the_guess() -> None:
    flags = SchemaFlags(kind=["size=binned"])
    assert flags.over(Schema()).values == ()
    assert flags.kinds == {"size": "binned"}
    with pytest.raises(SettingError, match="cannot read --kind 'size'"):
        SchemaFlags(kind=["size"]).over(Schema())


def test_a_command_offers_every_flag() -> None:
    heard: list[SchemaFlags] = []

    @with_schema_flags
    def command(data: str, flags: SchemaFlags, loud: bool = False) -> None:
        heard.append(flags)

    offered = inspect.signature(command).parameters
    assert "flags" not in offered
    assert {"data", "loud", "key", "session_gap", "empty_key"} <= set(offered)
    command(**{name: None for name in offered if name not in ("data", "loud", "key")}, data="x", loud=True, key="who")
    assert heard == [SchemaFlags(key="who")]
