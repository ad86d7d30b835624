"""What is trained in the experiments: KVEC, its ablations and its rivals, as networks and settings (§V-A, §V-D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvec.decide.model import Network
from kvec.decide.rivals import Confident, Recurrent, Sure, Transformer
from kvec.reproduce.plan import start
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.plain import read_toml, require_choice, require_group, require_known

TUNED = Path(__file__).with_name("recipes") / "tuned.toml"
REINFORCE = (
    "training.objective=paper", "training.returns=final", "training.policy_gradient=head", "training.keep=last",
)  # fmt: skip
EVERY_LENGTH = ("training.floor=1",)  # nothing but the classifier learns, as by the objective `every`
ALONE = ("encoder.use_membership=false",)
BY_DEFAULT = (  # as kvec learns by default, in the size of `kvec`
    "training.objective=every", "training.lengths=early", "training.ends=0.2", "training.deal=true",
    "visibility.rule=typed", "encoder.use_membership=false", "encoder.time=gaps",
)  # fmt: skip
HIDDEN = (  # for a few thousand sequences of many rare values: no value is relied upon
    "encoder.hide=0.5", "encoder.dropout=0.5", "training.weight_decay=0.01", "training.learning_rate=0.001",
    "training.lengths=even",
)  # fmt: skip
ALL_TRIGGERS = ("fixed", "confidence", "calibrated", "sprt", "economy", "calimera")
YARDSTICK = ("fixed", "confidence", "calimera", "induction")


@dataclass(frozen=True)
class Training:
    """A network, what it sees, and how it learns; and the ways of halting that are tried on what it says."""

    network: type[Network] = Network
    is_alone: bool = False  # every sequence is a tangle of its own
    settings: tuple[str, ...] = ()
    has_policy: bool = True  # a learned halting score
    triggers: tuple[str, ...] = ()  # ways of halting on its class probabilities
    tuned_as: str = ""  # whose tuned settings it takes; its own when empty
    classifier: str = ""  # learned by scikit-learn for each number of items, in place of a network

    @property
    def is_sampled(self) -> bool:
        """Whether it learns to halt by REINFORCE."""
        return "training.objective=paper" in self.settings

    @property
    def is_swept(self) -> bool:
        """Whether one training gives one point of the trade-off, by the word of its own policy."""
        return self.has_policy and "training.keep=last" in self.settings and "encoder.knots=9" not in self.settings


TRAININGS: dict[str, Training] = {
    "kvec": Training(triggers=ALL_TRIGGERS),
    "kvec-paper": Training(settings=REINFORCE),
    "kvec-paper-sum": Training(settings=(*REINFORCE, "training.returns=sum"), tuned_as="kvec-paper"),
    "kvec-no-key": Training(settings=("visibility.use_key_correlation=false",), tuned_as="kvec"),
    "kvec-no-value": Training(settings=("visibility.use_value_correlation=false",), tuned_as="kvec"),
    "kvec-no-time": Training(settings=("encoder.use_time=false", "encoder.use_position=false"), tuned_as="kvec"),
    "kvec-no-membership": Training(settings=("encoder.use_membership=false",), tuned_as="kvec"),
    "kvec-window": Training(settings=("visibility.rule=window",), tuned_as="kvec"),
    "kvec-dial": Training(
        settings=("encoder.knots=9", "training.keep=last"), triggers=("calimera", "induction"), tuned_as="kvec"
    ),
    "kvec-costs": Training(settings=("training.keep=last",), tuned_as="kvec"),
    "kvec-every": Training(
        Sure, settings=(*EVERY_LENGTH, "training.keep=last"), has_policy=False, triggers=YARDSTICK, tuned_as="kvec"
    ),
    "kvec-default": Training(settings=BY_DEFAULT, has_policy=False, triggers=YARDSTICK, tuned_as="kvec"),
    "kvec-alone": Training(is_alone=True, settings=BY_DEFAULT, has_policy=False, triggers=YARDSTICK, tuned_as="kvec"),
    "kvec-hidden-every": Training(
        settings=("training.objective=every", *HIDDEN), has_policy=False, triggers=YARDSTICK, tuned_as="kvec"
    ),
    "trees": Training(is_alone=True, has_policy=False, triggers=YARDSTICK, classifier="trees"),
    "logistic": Training(is_alone=True, has_policy=False, triggers=YARDSTICK, classifier="logistic"),
    "earliest": Training(Recurrent, is_alone=True, settings=(*REINFORCE, *ALONE)),
    "srn-earliest": Training(Transformer, is_alone=True, settings=(*REINFORCE, *ALONE)),
    "srn": Training(
        Confident, is_alone=True, settings=(*EVERY_LENGTH, *ALONE), has_policy=False, triggers=ALL_TRIGGERS
    ),
    "srn-all": Training(
        Confident, settings=(*EVERY_LENGTH, "visibility.rule=window"), has_policy=False, triggers=("confidence",),
        tuned_as="srn",
    ),
}  # fmt: skip


def settings_of(name: str, tuned: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The settings of a training over the preset, sorted: its own, and tuned ones.

    Its own tuned settings go before what it stands for; those of another training after what sets it apart.
    """
    require_choice(name, TRAININGS, "a training")
    training = TRAININGS[name]
    own = dict(setting.split("=") for setting in training.settings)
    found = {setting: str(value) for setting, value in tuned.get(training.tuned_as or name, {}).items()}
    chosen = found | own if training.tuned_as else own | found
    return tuple(f"{setting}={value}" for setting, value in sorted(chosen.items()))


def read_tuned(path: Path = TUNED) -> dict[str, dict[str, Any]]:
    """The settings that a search on validation found for trainings; `kvec reproduce tune` makes such a file."""
    plain = read_toml(path, "tuning")
    require_known(plain, TRAININGS, "training", path.name)
    found = {}
    for name, given in plain.items():
        if other := TRAININGS[name].tuned_as:
            raise SettingError(f"{path.name}: {name} takes the settings of {other}; leave it out")
        groups: dict[str, dict[str, Any]] = {}
        for setting, value in require_group(given, name, path.name).items():
            group, dot, entry = setting.partition(".")
            groups.setdefault(group, {}).update({entry: value} if dot else require_group(value, setting, path.name))
        Config.from_dict(groups, f"{path.name}, [{name}]", start())
        found[name] = {
            f"{group}.{entry}": value for group, entries in groups.items() for entry, value in entries.items()
        }
    return found
