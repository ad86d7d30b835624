"""Settings: presets, overrides, files, and messages that name what to change."""

from __future__ import annotations

import json
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from kvec.words.config import PRESETS, Config, Encoder, Training, Visibility
from kvec.words.errors import SettingError


def test_presets_are_those_of_the_paper() -> None:
    small = Config.preset("small")
    assert small == Config()
    e = small.encoder
    assert (e.blocks, e.width, e.heads, e.feed_forward, e.fusion, e.slots) == (2, 64, 4, 256, 128, 64)
    traffic = Config.preset("paper-traffic").encoder
    assert (traffic.blocks, traffic.width, traffic.fusion) == (6, 128, 256)
    movies = Config.preset("paper-movielens").encoder
    assert (movies.blocks, movies.width, movies.fusion) == (2, 64, 256)
    v = small.visibility
    assert (v.rule, v.window, v.own, v.others) == ("typed", None, 128, 64)
    assert (small.deciding.threshold, small.encoder.dropout) == (None, 0.1)
    assert (small.training.returns, small.training.policy_gradient) == ("sum", "head")


def test_unknown_preset() -> None:
    with pytest.raises(SettingError, match=r"unknown preset 'big'; known: small, paper-traffic, paper-movielens"):
        Config.preset("big")


@pytest.mark.parametrize("name", PRESETS)
def test_round_trip_through_plain_data(name: str) -> None:
    config = PRESETS[name].override(
        ["training.delay_cost=0.25", "training.objective=expected", "encoder.use_time=false"]
    )
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_round_trip_through_toml(tmp_path: Path) -> None:
    config = Config().override(["visibility.rule=window", "visibility.window=256", "training.learning_rate=3e-4"])
    lines = []
    for group, entries in config.to_dict().items():
        lines.append(f"[{group}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in entries.items() if value is not None]
    file = tmp_path / "settings.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    assert tomllib.loads(file.read_text(encoding="utf-8"))["visibility"]["rule"] == "window"
    assert Config.from_toml(file) == config


def test_a_file_changes_only_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[encoder]\nblocks = 3\n", encoding="utf-8")
    config = Config.from_toml(file, base=Config.preset("paper-traffic"))
    assert (config.encoder.blocks, config.encoder.width) == (3, 128)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("encoder.blocks=3", "encoder.blocks", 3),
        (" encoder.blocks = 3 ", "encoder.blocks", 3),
        ("training.learning_rate=1e-2", "training.learning_rate", 0.01),
        ("training.clip=2", "training.clip", 2.0),
        ("visibility.use_key_correlation=false", "visibility.use_key_correlation", False),
        ("visibility.use_key_correlation=True", "visibility.use_key_correlation", True),
        ("training.objective=paper", "training.objective", "paper"),
        ("training.batch=1e2", "training.batch", 100),
    ],
)
def test_override(given: str, name: str, value: object) -> None:
    found = Config().override([given]).get(name)
    assert found == value
    assert type(found) is type(value)


def test_later_overrides_win() -> None:
    assert Config().override(["encoder.blocks=3", "encoder.blocks=4"]).encoder.blocks == 4


def test_overrides_need_no_order() -> None:
    assert Config().override(["encoder.knots=9", "training.objective=expected"]).encoder.knots == 9


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"encodr": {}}, r"unknown group 'encodr' in here.toml; known: deciding, encoder, training, visibility"),
        ({"encoder": {"widht": 3}}, r"known: encoder.blocks, .*; did you mean 'encoder.width'\?$"),
        ({"encoder": 3}, r"here.toml: encoder is a group of entries, not 3; write \[encoder\] above"),
        ({"encoder": {"width": "wide"}}, r"encoder.width is 'wide' in here.toml; it must be of type int"),
        ({"encoder": {"width": 2.5}}, r"encoder.width is 2.5 in here.toml; it must be of type int"),
        ({"encoder": {"width": True}}, r"encoder.width is True"),
        ({"encoder": {"width": None}}, r"encoder.width is None"),
        ({"encoder": {"width": [64]}}, r"encoder.width is \[64\]"),
        ({"encoder": {"use_time": 1}}, r"encoder.use_time is 1 in here.toml; it must be true or false"),
        ({"encoder": {"use_time": "yes"}}, r"encoder.use_time is 'yes' in here.toml; it must be true or false"),
        ({"training": {"objective": 3}}, r"training.objective is 3 in here.toml; it must be of type str"),
        ({"training": {"objective": "both"}}, r"training.objective is 'both'; it can be every, expected, paper"),
        ({"training": {"alpha": "nan"}}, r"training.alpha is 'nan'"),
        ({"training": {"learning_rate": float("inf")}}, r"training.learning_rate is inf"),
        ({"training": {"floor": 1.5}}, r"training.floor is 1.5; it must be at most 1"),
        ({"training": {"seed": -1}}, r"training.seed is -1; it must be at least 0"),
        ({"training": {"seed": 10**20}}, r"training.seed is 1\d{20}; it must be at most 9,007,199,254,740,991"),
        ({"training": {"epochs": 0}}, r"training.epochs is 0; it must be at least 1"),
        ({"visibility": {"window": 0}}, r"visibility.window is 0; it must be at least 1"),
        ({"deciding": {"threshold": 2}}, r"deciding.threshold is 2.0; it must be at most 1"),
        (
            {"encoder": {"knots": 9}},
            r"knots is 9, but with training.objective=every .*; set training.objective=expected",
        ),
        (
            {"encoder": {"knots": 9}, "training": {"objective": "paper"}},
            r"knots is 9, but with training.objective=paper",
        ),
        ({"deciding": {"after_halt": "drop"}}, r"training.objective=every has none; set training.objective=expected"),
        ({"encoder": {"width": 30}}, r"encoder.width \(30\) must be a multiple of encoder.heads \(4\)"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_hold_is_named(plain: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        Config.from_dict(plain, where="here.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["encoder.blocks", "blocks=2", "=3", ""])
def test_overrides_that_cannot_be_read(given: str) -> None:
    with pytest.raises(SettingError, match=r"write it as group.name=value"):
        Config().override([given])


def test_overrides_name_the_flag() -> None:
    with pytest.raises(SettingError, match=r"unknown setting 'encoder.widht' in --set"):
        Config().override(["encoder.widht=3"])


def test_what_is_wrong_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none.toml: no such settings file"):
        Config.from_toml(tmp_path / "none.toml")
    file = tmp_path / "settings.toml"
    file.write_text("[encoder]\nblocks = 'two'\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"encoder.blocks is 'two' in .*settings.toml"):
        Config.from_toml(file)


def test_settings_are_frozen_and_compare_by_value() -> None:
    assert Config(encoder=Encoder(blocks=3)) == Config().override(["encoder.blocks=3"])
    with pytest.raises(AttributeError):
        Config().encoder.blocks = 3  # type: ignore[misc]


def test_every_number_has_a_least_and_a_largest_value() -> None:
    """A new number that is not checked would let nonsense through the door; α and β alone may be negative."""
    for group, cls in (("visibility", Visibility), ("encoder", Encoder), ("training", Training)):
        for f in fields(cls):
            if f.type in ("int", "float") and f.name not in ("alpha", "beta"):
                with pytest.raises(SettingError, match=f"{group}.{f.name} is -1.*; it must be at least"):
                    Config.from_dict({group: {f.name: -1}})
                with pytest.raises(SettingError, match=f"{group}.{f.name} is 1.*; it must be at most"):
                    Config.from_dict({group: {f.name: 1e30}})
