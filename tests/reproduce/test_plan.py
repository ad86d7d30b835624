from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kvec.reproduce.plan import PROFILES, RECIPES, Cell, read_profile
from kvec.words.errors import SettingError
from kvec.words.plain import read_toml


def test_a_cell_is_named_after_all_that_it_is() -> None:
    assert Cell("traffic-fg@8", "kvec", "", None, 2, "small").id == "traffic-fg@8/kvec/2"
    assert (
        Cell("traffic-fg", "kvec-paper", "training.beta", -0.05, 0, "small").id == "traffic-fg/kvec-paper beta=-0.05/0"
    )
    assert Cell("traffic-fg@8", "kvec", "", None, 2, "small").base == "traffic-fg"
    ratio = Cell("traffic-fg", "earliest", "training.beta/alpha", 0.1, 0, "small")
    assert ratio.id == "traffic-fg/earliest beta/alpha=0.1/0"
    assert replace(ratio, time=2.0).id == "traffic-fg/earliest beta/alpha=0.1 x2/0"


def test_a_control_has_more_time_or_more_epochs() -> None:
    control = Cell("traffic-fg", "kvec", "", None, 0, "small", time=2.0)
    assert read_profile("small").sizes_for(control).train_seconds == 400
    assert read_profile("paper").sizes_for(control).epochs == 200
    assert read_profile("paper").sizes_for(replace(control, time=1.0)) == read_profile("paper").sizes_of("traffic-fg")


def test_the_profiles_that_are_named_are_there() -> None:
    assert tuple(read_toml(RECIPES / "profiles.toml", "profiles")) == PROFILES
    for name in PROFILES:
        assert read_profile(name).datasets


def test_small_trains_thrice_for_as_long_on_the_main_sets() -> None:
    small, main = read_profile("small"), ["traffic-fg", "fgnet-d1", "movielens-1m"]
    assert [name for name in small.datasets if small.seeds[name] == (0, 1, 2)] == main
    assert {small.sizes_of(name).train_seconds for name in main} == {200}
    assert small.sizes_of("traffic-fg@32") == small.sizes_of("traffic-fg")


def test_paper_has_five_folds_and_a_hundred_epochs() -> None:
    paper = read_profile("paper")
    assert {(s.folds, s.epochs, s.train_seconds) for s in paper.sizes.values()} == {(5, 100, 0.0)}
    assert paper.sizes_of("movielens-1m").preset == "paper-movielens"
    assert paper.sizes_of("traffic-fg").preset == "paper-traffic"


def test_an_entry_of_a_data_set_goes_before_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text("[tiny]\nseeds = [0, 1]\ntrain = 5\n[tiny.datasets]\na = {}\nb = { train = 7, seeds = [4] }\n")
    tiny = read_profile("tiny", path)
    assert (tiny.sizes_of("a").train, tiny.sizes_of("b").train) == (5, 7)
    assert tiny.seeds == {"a": (0, 1), "b": (4,)}
    assert [tiny.rank("a"), tiny.rank("b@4")] == [0, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tiny.datasets]\na = { sizes = 3 }", "unknown entry 'sizes' in profiles.toml, [tiny]; known: epochs"),
        ("[tiny.datasets]\na = { preset = 'big' }", "preset of a in profiles.toml, [tiny] is 'big'; it can be small"),
        ("[tiny]\nfolds = 3\nseeds = [0, 3]\n[tiny.datasets]\na = {}", "seeds of a .* are folds, from 0 to 2"),
        ("[other.datasets]\na = {}", "--profile is 'tiny'; it can be other"),
        ("[tiny]\ndatasets = ['a']", "tiny.datasets is a group of entries"),
    ],
)
def test_what_is_not_known_in_a_profile_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(SettingError, match=told.replace("[", r"\[").replace("]", r"\]")):
        read_profile("tiny", path)
