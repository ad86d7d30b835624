"""What is trained: every network and setting is there, and settings that were tuned are what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvec.decide.triggers.catalogue import TRIGGERS
from kvec.reproduce.learners import LEARNERS
from kvec.reproduce.plan import start
from kvec.reproduce.trainings import TRAININGS, read_tuned, settings_of
from kvec.reproduce.tuning import SPACES
from kvec.words.config import PRESETS
from kvec.words.errors import SettingError


@pytest.mark.parametrize("name", TRAININGS)
def test_every_training_can_be_made(name: str) -> None:
    training = TRAININGS[name]
    for preset in PRESETS:
        config = start(preset).override(settings_of(name, {}))
        assert (config.training.objective == "paper") == training.is_sampled
    assert set(training.triggers) <= set(TRIGGERS)
    assert training.has_policy or training.triggers, "there must be a way to halt"
    if training.classifier:
        assert training.classifier in LEARNERS and not training.settings, "a network's settings say nothing to it"
        return
    is_told = config.training.objective == "every" or config.training.floor == 1
    assert training.has_policy or is_told, "without a policy only the classifier learns"
    assert not training.is_alone or not config.encoder.use_membership


def test_settings_are_taken_from_trainings_that_are_tuned() -> None:
    for name, training in TRAININGS.items():
        assert training.classifier or (training.tuned_as or name) in SPACES
        assert not training.tuned_as or not TRAININGS[training.tuned_as].tuned_as


def test_rivals_of_one_kind_are_searched_alike() -> None:
    """What sizes there are to choose from depends on the network; there are as many of them."""
    spaces = [SPACES[name] for name in ("kvec-paper", "earliest", "srn-earliest")]
    assert len({tuple((s, x) for s, x in space.items() if not s.startswith("encoder.")) for space in spaces}) == 1
    sizes = [sum(len(x) - 1 for s, x in space.items() if s.startswith("encoder.")) for space in spaces]
    assert sizes == [2, 2, 2]
    assert all("training.learning_rate" in space for space in SPACES.values())


def test_tuned_settings_that_kvec_brings_along_can_be_used() -> None:
    tuned = read_tuned()
    for name in TRAININGS:
        assert start().override(settings_of(name, tuned))


def test_what_sets_a_training_apart_stays() -> None:
    tuned = {"kvec": {"visibility.use_value_correlation": True, "training.floor": 0.1}, "srn": {"training.floor": 0.5}}
    assert "visibility.use_value_correlation=false" in settings_of("kvec-no-value", tuned)
    assert "training.floor=0.1" in settings_of("kvec-no-value", tuned)
    assert "training.floor=1" in settings_of("srn-all", tuned)
    assert settings_of("kvec-window", tuned) == (
        "training.floor=0.1", "visibility.rule=window", "visibility.use_value_correlation=True",
    )  # fmt: skip


def test_settings_may_be_written_with_or_without_quotes(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text('[kvec]\n"training.floor" = 0.1\ntraining.delay_cost = 2\nencoder.time = "order"\n')
    assert read_tuned(path) == {"kvec": {"training.floor": 0.1, "training.delay_cost": 2, "encoder.time": "order"}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[lstm]", "unknown training 'lstm' in mine.toml; known: earliest"),
        ("kvec = 3", "mine.toml: kvec is a group of entries, not 3"),
        ("[kvec]\nfloor = 0.1", "mine.toml: floor is a group of entries, not 0.1"),
        ('[kvec]\n"training.flor" = 0.1', "unknown setting 'training.flor' in mine.toml, [kvec]; known: "),
        ('[kvec]\n"learning.rate" = 0.1', "unknown group 'learning' in mine.toml, [kvec]; known: deciding"),
        ('[kvec]\n"training.floor" = "low"', "training.floor is 'low' in mine.toml, [kvec]; it must be of type float"),
        ('[kvec]\n"training.floor" = true', "training.floor is True in mine.toml, [kvec]; it must be of type float"),
        ('[kvec-no-key]\n"training.floor" = 0.1', "mine.toml: kvec-no-key takes the settings of kvec; leave it out"),
        ("[kvec", "mine.toml: not a TOML file"),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as refusal:
        read_tuned(path)
    assert told in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_training_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match="a training is 'lstm'; it can be kvec"):
        settings_of("lstm", {})
