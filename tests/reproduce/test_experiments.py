from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.reproduce.fake import profile

from kvec.reproduce.datasets import MADE, NAMES, PLANTED
from kvec.reproduce.experiments import BEYOND, EXPERIMENTS, Names, Plan, plan_cells, read_experiment, read_experiments
from kvec.reproduce.plan import PROFILES, RECIPES, read_profile, start
from kvec.reproduce.trainings import TRAININGS, read_tuned
from kvec.reproduce.trainings import settings_of as tuned_settings_of
from kvec.words.errors import SettingError

settings_of = partial(tuned_settings_of, tuned=read_tuned())
ALL = Names(TRAININGS, (*NAMES, *MADE, PLANTED), PROFILES)
TWO = Names(("kvec", "srn"), ("planted", "other"), PROFILES)
CONTROLLED = {"kvec", "srn", "kvec-paper", "earliest", "srn-earliest"}
RUN = "[[runs]]\ntrainings = ['kvec']\ndatasets = ['planted']\n"


def own(name: str) -> tuple[str, ...]:
    return ("training.floor=1",) if name == "srn" else ()


def planned(folder: Path, *texts: str, datasets: tuple[str, ...] = ("planted", "other"), **more: object) -> Plan:
    experiments = []
    for number, text in enumerate(texts):
        (folder / f"{number}.toml").write_text(text)
        experiments.append(read_experiment(folder / f"{number}.toml", TWO))
    found = more.pop("found", datasets)
    return plan_cells(experiments, profile(*datasets), found, own, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROFILES)
def test_all_experiments_can_be_planned_together(name: str) -> None:
    experiments = read_experiments("all", ALL)
    plan = plan_cells(experiments, read_profile(name), ALL.datasets, settings_of)
    assert not plan.missing
    assert all(each.title and each.reproduces for each in experiments)
    for overrides in {cell.overrides for cell in plan.cells}:
        start().override(overrides)
    for each in experiments:
        alone = plan_cells([each], read_profile(name), ALL.datasets, settings_of)
        assert alone.cells or alone.statistics, f"{each.name} has nothing in {name}"


def test_every_recipe_is_an_experiment() -> None:
    assert {path.stem for path in RECIPES.glob("*.toml")} - {"profiles", "tuned"} == {*EXPERIMENTS, *BEYOND}
    for name in BEYOND:
        (each,) = read_experiments(name, ALL)
        assert all(plan_cells([each], read_profile(profile), ALL.datasets, settings_of).cells for profile in PROFILES)


def test_a_whole_night_is_enough_for_the_small_profile() -> None:
    there = set(ALL.datasets) - {"ustc-tfc2016", "traffic-app"}
    plan = plan_cells(read_experiments("all", ALL), read_profile("small"), there, settings_of)
    assert plan.missing == ("ustc-tfc2016", "traffic-app")
    assert len(plan.cells) * 240 / 2 <= 8 * 3600


def test_the_first_seed_and_the_main_data_sets_come_first(tmp_path: Path) -> None:
    text = "[[runs]]\ntrainings = ['kvec', 'srn']\ndatasets = ['other', 'planted@2', 'planted']\nseeds = [1, 0]\n"
    assert [cell.id for cell in planned(tmp_path, text).cells] == [
        "planted@2/kvec/0", "planted@2/srn/0", "planted/kvec/0", "planted/srn/0", "other/kvec/0", "other/srn/0",
        "planted@2/kvec/1", "planted@2/srn/1", "planted/kvec/1", "planted/srn/1", "other/kvec/1", "other/srn/1",
    ]  # fmt: skip


def test_cells_in_common_are_run_once(tmp_path: Path) -> None:
    plan = planned(tmp_path, RUN, RUN.replace("['kvec']", "['kvec', 'srn']"))
    assert [cell.id for cell in plan.cells] == ["planted/kvec/0", "planted/srn/0"]


def test_cells_of_one_name_with_two_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"0.toml and 1.toml differ in the cell planted/kvec/0: no settings and enc"):
        planned(tmp_path, RUN, RUN + "settings = { encoder.blocks = 1 }\n")


def test_settings_of_an_experiment_go_before_those_of_a_training(tmp_path: Path) -> None:
    text = RUN.replace("kvec", "srn") + "setting = 'training.beta'\nvalues = [0.5, 5]\n"
    first, second = planned(tmp_path, text + "settings = { training.floor = 0.5, encoder.use_time = false }\n").cells
    assert first.overrides == ("encoder.use_time=false", "training.beta=0.5", "training.floor=0.5")
    assert (second.id, second.value) == ("planted/srn beta=5/0", 5.0)
    assert planned(tmp_path, text).cells[0].overrides == ("training.beta=0.5", "training.floor=1")


def test_a_sweep_may_be_of_a_ratio(tmp_path: Path) -> None:
    text = RUN + "setting = 'training.beta'\nrelative_to = 'training.alpha'\nvalues = [0.02, 0.3]\n"
    first, second = planned(tmp_path, text + "settings = { training.alpha = 0.373 }\n").cells
    assert first.overrides == ("training.alpha=0.373", "training.beta=0.00746")
    assert (second.id, second.value) == ("planted/kvec beta/alpha=0.3/0", 0.3)
    assert planned(tmp_path, text).cells[1].overrides == ("training.beta=0.3",), "α is 1 where nobody sets it"


def test_all_sampled_trainings_feel_the_same_ratios(tmp_path: Path) -> None:
    plan = plan_cells(read_experiments("curves", ALL), read_profile("small"), ALL.datasets, settings_of)
    ratios: dict[str, set[float]] = {}
    for cell in plan.cells:
        if TRAININGS[cell.training].is_sampled and cell.dataset == "traffic-fg" and cell.time == 1:
            given = dict(setting.split("=") for setting in cell.overrides)
            ratio = float(given["training.beta"]) / float(given["training.alpha"])
            ratios.setdefault(cell.training, set()).add(round(ratio, 9))
            assert cell.setting == "training.beta/alpha" and ratio == pytest.approx(cell.value)
    assert len(ratios) == 3 and len({frozenset(each) for each in ratios.values()}) == 1


@pytest.mark.parametrize("name", PROFILES)
def test_every_control_has_a_twin(name: str) -> None:
    plan = plan_cells(read_experiments("curves", ALL), read_profile(name), ALL.datasets, settings_of)
    controls = [cell for cell in plan.cells if cell.time != 1]
    assert {cell.training for cell in controls} == (CONTROLLED if name == "small" else set())
    assert {replace(cell, time=1.0) for cell in controls} <= set(plan.cells)


def test_controls_have_a_name_of_their_own(tmp_path: Path) -> None:
    plan = planned(tmp_path, RUN + "time = 2.0\n" + RUN)
    assert [(cell.id, cell.time) for cell in plan.cells] == [("planted/kvec x2/0", 2.0), ("planted/kvec/0", 1.0)]


def test_cells_that_are_compared_keep_what_came_of_their_units(tmp_path: Path) -> None:
    compared = "compare = ['kvec']\nagainst = ['srn-fixed']\n" + RUN
    assert [cell.is_paired for cell in planned(tmp_path, RUN).cells] == [False]
    for texts in ((compared,), (RUN, compared), (compared, RUN)):
        assert [cell.is_paired for cell in planned(tmp_path, *texts).cells] == [True]


def test_data_sets_that_are_not_found_are_left_out(tmp_path: Path) -> None:
    text = "statistics = ['planted', 'other']\n" + RUN.replace("'planted'", "'planted', 'other@4'")
    plan = planned(tmp_path, text, found=("planted",))
    assert ([cell.id for cell in plan.cells], plan.statistics) == (["planted/kvec/0"], ("planted",))
    assert plan.missing == ("other",)


def test_data_sets_and_runs_of_other_profiles_are_no_part_of_the_plan(tmp_path: Path) -> None:
    text = "statistics = ['other']\n" + RUN.replace("'planted'", "'planted', 'other'") + "profiles = ['smoke']\n"
    text += RUN.replace("kvec", "srn") + "profiles = ['small']\n"
    plan = planned(tmp_path, text, datasets=("planted",), found=())
    assert (plan.cells, plan.statistics, plan.missing) == ((), (), ("planted",))


def test_given_seeds_go_before_all_others(tmp_path: Path) -> None:
    plan = planned(tmp_path, RUN + "seeds = [0]\n", seeds=[3, 4])
    assert [cell.seed for cell in plan.cells] == [3, 4]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colour = 1", "unknown entry 'colour' in my.toml; known: against, compare, reproduces, runs, statistics"),
        ("title = 3", "my.toml: title is 3; write it in quotes"),
        ("runs = 3", "my.toml: runs is 3; write [[runs]] above"),
        ("title = 'mine'", "my.toml: has no [[runs]]; begin with a copy of"),
        ("statistics = ['plant']", "unknown data set 'plant' in my.toml; known: other, planted"),
        ("statistics = 'planted'", "my.toml: statistics is 'planted'; write a list, such as ['planted']"),
        (RUN + "sweep = 3", "unknown entry 'sweep' in my.toml, runs 1; known: datasets"),
        (RUN + RUN.replace("kvec", "kvek"), "unknown training 'kvek' in my.toml, runs 2; known: kvec, srn"),
        (RUN.replace("planted", "planted@many"), "my.toml, runs 1: planted@many has 'many' keys; write a number"),
        (RUN.replace("'planted'", "3"), "unknown data set '3' in my.toml, runs 1"),
        ("[[runs]]\ntrainings = ['kvec']", "my.toml, runs 1: datasets are missing; name at least one"),
        (RUN + "profiles = ['huge']", "unknown profile 'huge' in my.toml, runs 1; known: paper, small, smoke"),
        (RUN + "setting = 'training.beta'", "my.toml, runs 1: setting and values go together"),
        (RUN + "setting = 'beta'\nvalues = [1]", "unknown group 'beta' in my.toml, runs 1; known: deciding"),
        (RUN + "setting = 'training.bet'\nvalues = [1]", "unknown setting 'training.bet' in my.toml, runs 1; known"),
        (RUN + "setting = 'training.beta'\nvalues = ['x']", "my.toml, runs 1: values are finite numbers, not 'x'"),
        (RUN + "setting = 'training.beta'\nvalues = [nan]", "my.toml, runs 1: values are finite numbers, not nan"),
        (RUN + "settings = { training.betta = 1 }", "unknown setting 'training.betta' in my.toml, runs 1"),
        (RUN + "relative_to = 'training.alpha'", "my.toml, runs 1: relative_to needs a setting and values"),
        (
            RUN + "setting = 'training.beta'\nrelative_to = 'training.alfa'\nvalues = [1]",
            "unknown setting 'training.alfa' in my.toml, runs 1",
        ),
        (RUN + "time = 0.5", "my.toml, runs 1: time is 0.5; write how often the profile's it is, such as 2.0"),
        (RUN + "settings = 3", "my.toml, runs 1: settings is a group of entries, not 3"),
        (RUN + "seeds = [-1]", "my.toml, runs 1: seeds are whole numbers from 0, not [-1]"),
        (f"compare = ['kvec']\n{RUN}", "my.toml: compare and against go together"),
        ("title = ", "my.toml: not a TOML file"),
    ],
)
def test_what_is_not_known_in_an_experiment_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_experiment(path, TWO)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_unknown_experiments_are_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match="unknown experiment 'curve'; known: data, curves, sensitivity"):
        read_experiments("curve", ALL)
    with pytest.raises(SettingError, match=r"no.toml: no such experiment file"):
        read_experiments("no.toml", ALL)
