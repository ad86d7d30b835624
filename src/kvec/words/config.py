"""All settings, in four groups, with the paper's presets. Frozen, checked once, saved beside the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from kvec.words.errors import SettingError
from kvec.words.plain import read_toml, require_choice, require_group, require_known


@dataclass(frozen=True)
class Visibility:
    """Which earlier items an item may look at."""

    rule: str = (
        "typed"  # the newest items and those of "paper" (own, value-correlated), with biases; "window": all newest
    )
    window: int | None = None  # W: nothing further back is seen; None is 1024, and 256 for "window"
    own: int = 128  # U: newest earlier items of the own sequence
    others: int = 64  # V: items of other sequences
    recent: int = 64  # R: in "typed", so many of the newest items besides, whatever their key
    use_key_correlation: bool = True
    use_value_correlation: bool = True


@dataclass(frozen=True)
class Encoder:
    """The size of the network, and which embeddings it uses."""

    width: int = 64
    blocks: int = 2
    heads: int = 4
    feed_forward: int = 256
    fusion: int = 128  # size of the gated state of each sequence
    dropout: float = 0.1
    hide: float = 0.05  # share of values that training shows as 'unknown', so that no single value is relied upon
    slots: int = 64  # S: membership is the number of sequences opened earlier, modulo this
    positions: int = 256  # P: later positions in a sequence share one embedding
    time: str = "gaps"  # to the items before, where there are times; "order" of arrival; "both"; "auto": what there is
    time_modulus: int = 1024  # M: the order of arrival is taken modulo this
    knots: int = 1  # delay costs at which the policy has a head of its own, for a dial; 1: it knows its own alone
    use_membership: bool = False  # an item tells which sequence it is of; `typed` visibility knows without
    use_position: bool = True
    use_time: bool = True


@dataclass(frozen=True)
class Deciding:
    """When a sequence is decided."""

    threshold: float | None = None  # θ: halt at the first score that reaches it; None: the best by HM on validation
    after_halt: str = "keep"  # items of decided sequences: keep them as context for others, or drop them

    @property
    def fixed(self) -> float | None:
        """θ where it is settled before training: given, or 0.5 where items are dropped by it; None: to be chosen."""
        return 0.5 if self.threshold is None and self.after_halt == "drop" else self.threshold


@dataclass(frozen=True)
class Training:
    """How the network learns."""

    objective: str = "every"  # tell at every length; "expected" cost of stopping; "paper": sampled halts, REINFORCE
    delay_cost: float = 3.5  # λ: cost of having waited for the whole sequence, in nats of cross entropy
    delay: str = "fraction"  # what waiting costs is counted in: "fraction" of the length, "items", "seconds"
    delay_unit: float = 1.0  # items or seconds that cost λ
    floor: float = 0.2  # ε: share of the loss that trains the classifier at every length
    lengths: str = "early"  # how these lengths count: the n-th by 1/n, so each doubling alike; or "even"
    ends: float = 0.2  # share of the loss of `every` where sequences end, so that what shows late is found
    settle: float = 0.3  # share of all steps over which λ is first 0, then rises: first learn to tell, then when
    policy_cost: str = "cross_entropy"  # or "error": what the halting probabilities weigh in `expected`
    alpha: float = 1.0  # α: weight of the policy loss in `paper`
    beta: float = 0.001  # β: weight of the lateness loss in `paper`
    returns: str = "sum"  # R_i = Σ_{s>i} r_s as printed; "final": R_i = r as the authors' code has it
    policy_gradient: str = "head"  # l2 and l3 update the policy head only; "all": the representation too
    exploration: float = 0.0  # share of uniformly random actions while sampling in `paper`
    epochs: int = 20
    keep: str = "best"  # the best epoch on validation: of least loss in `every`, else of largest HM; or the "last" one
    patience: int = 8  # epochs without a better one on validation before stopping; "last" has none
    minutes: float = 0.0  # stop after the epoch that passes this many minutes; 0 is no limit
    deal: bool = True  # every epoch deals the keys of large tangles out into 1, 2, 4, … smaller ones, drawn anew
    batch: int = 16  # tangles at the most; an epoch of few tangles takes smaller batches rather than few updates
    batch_items: int = 8192  # padded items in a batch at the most, where it holds several tangles
    block: int = 4096  # longer tangles are run in blocks of this many items
    learning_rate: float = 2e-3
    baseline_rate: float = 1e-3
    weight_decay: float = 1e-4
    warmup: int = 200  # steps until the learning rate is reached
    clip: float = 1.0  # norm that gradients are clipped to
    class_weights: str = "none"  # or "balanced": each class counts the same
    precision: str = "float32"  # or "bfloat16": of products while training; weights and scores stay in single precision
    stream_items: int = 0  # items in memory at a time where training is streamed; 0: all of them, not streamed
    seed: int = 0


_CHOICES: dict[str, tuple[str, ...]] = {
    "visibility.rule": ("paper", "window", "typed"),
    "encoder.time": ("auto", "order", "gaps", "both"),
    "deciding.after_halt": ("keep", "drop"),
    "training.objective": ("every", "expected", "paper"),
    "training.delay": ("fraction", "items", "seconds"),
    "training.lengths": ("even", "early"),
    "training.policy_cost": ("cross_entropy", "error"),
    "training.returns": ("sum", "final"),
    "training.policy_gradient": ("head", "all"),
    "training.keep": ("best", "last"),
    "training.class_weights": ("none", "balanced"),
    "training.precision": ("float32", "bfloat16"),
}
_AT_LEAST: dict[str, float] = {
    "visibility.window": 1, "visibility.own": 0, "visibility.others": 0, "visibility.recent": 0,
    "encoder.width": 1, "encoder.blocks": 1, "encoder.heads": 1, "encoder.feed_forward": 1, "encoder.fusion": 1,
    "encoder.dropout": 0, "encoder.hide": 0, "encoder.slots": 1, "encoder.positions": 1, "encoder.time_modulus": 1,
    "encoder.knots": 1,
    "deciding.threshold": 0,
    "training.delay_cost": 0, "training.delay_unit": 1e-12, "training.floor": 0, "training.ends": 0,
    "training.settle": 0, "training.exploration": 0,
    "training.epochs": 1, "training.patience": 1, "training.minutes": 0, "training.batch": 1,
    "training.batch_items": 1, "training.block": 1, "training.learning_rate": 0, "training.baseline_rate": 0,
    "training.weight_decay": 0, "training.warmup": 0, "training.clip": 0, "training.stream_items": 0,
    "training.seed": 0,
}  # fmt: skip
_AT_MOST: dict[str, float] = {
    "encoder.dropout": 0.99, "encoder.hide": 0.99, "deciding.threshold": 1, "training.floor": 1, "training.ends": 1,
    "training.settle": 1,
    "training.exploration": 1,
}  # fmt: skip
_OF_DELAY = tuple(
    f"training.{name}" for name in ("delay_cost", "delay", "delay_unit", "floor", "settle", "policy_cost")
)
_LARGEST = 2**53 - 1  # whole numbers up to here pass through a float unchanged


@dataclass(frozen=True)
class Config:
    """Every setting of a model and its training.

    >>> Config.preset("paper-movielens").encoder.blocks
    2
    >>> Config().override(["encoder.blocks=3"]).encoder.blocks
    3
    """

    visibility: Visibility = field(default_factory=Visibility)
    encoder: Encoder = field(default_factory=Encoder)
    deciding: Deciding = field(default_factory=Deciding)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        """Check every choice and range, naming the setting to change."""
        for name, known in _CHOICES.items():
            require_choice(self.get(name), known, name)
        for name, least in _AT_LEAST.items():
            given, most = self.get(name), _AT_MOST.get(name, _LARGEST)
            if given is not None and not given >= least:
                raise SettingError(f"{name} is {given}; it must be at least {least:g}")
            if given is not None and given > most:
                raise SettingError(f"{name} is {given}; it must be at most {most:,}")
        if self.training.objective != "expected" and self.encoder.knots > 1:
            raise SettingError(
                f"encoder.knots is {self.encoder.knots}, but with training.objective={self.training.objective} the "
                "policy does not learn from delay costs; set training.objective=expected, or encoder.knots=1"
            )
        for name in _OF_DELAY if self.training.objective == "every" else ():
            if (given := self.get(name)) != (default := Training.__dataclass_fields__[name.partition(".")[2]].default):
                raise SettingError(
                    f"{name} is {given!r}, but with training.objective=every nothing learns from what waiting costs; "
                    f"set training.objective=expected, or leave it at {default!r} and turn the dial afterwards, as in "
                    "--at earliness=0.1 or --at cost_per_error=1,cost_per_item=0.01"
                )
        if self.training.objective == "every" and self.deciding.after_halt == "drop":
            raise SettingError(
                "deciding.after_halt is 'drop', so halts are needed while training, and training.objective=every has "
                "none; set training.objective=expected"
            )
        if self.encoder.knots > 1 and not self.training.delay_cost:
            raise SettingError(
                "training.delay_cost is 0, where a dial of encoder.knots stands at first; set it above 0"
            )
        if self.encoder.width % self.encoder.heads:
            raise SettingError(
                f"encoder.width ({self.encoder.width}) must be a multiple of encoder.heads ({self.encoder.heads})"
            )

    @classmethod
    def preset(cls, name: str) -> Config:
        """The settings known by a name: small, paper-traffic or paper-movielens."""
        if name not in PRESETS:
            raise SettingError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
        return PRESETS[name]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], where: str = "settings", base: Config | None = None) -> Config:
        """Read settings from plain data on top of `base`, naming any that is not known."""
        config = base or cls()
        require_known(plain, [f.name for f in fields(cls)], "group", where)
        groups: dict[str, Any] = {}
        for group, given in plain.items():
            entries, current = require_group(given, group, where), getattr(config, group)
            names = [f"{group}.{f.name}" for f in fields(current)]
            require_known([f"{group}.{name}" for name in entries], names, "setting", where)
            typed = {name: _typed(current, name, v, f"{group}.{name}", where) for name, v in entries.items()}
            groups[group] = replace(current, **typed)
        return replace(config, **groups)

    @classmethod
    def from_toml(cls, path: str | Path, base: Config | None = None) -> Config:
        """Read settings from a TOML file."""
        return cls.from_dict(read_toml(path, "settings"), where=str(path), base=base)

    def override(self, settings: Iterable[str]) -> Config:
        """Apply settings written as `group.name=value`, all of them before any is checked beside another."""
        groups: dict[str, dict[str, str]] = {}
        for setting in settings:
            name, equals, value = setting.partition("=")
            group, dot, entry = name.strip().partition(".")
            if not (equals and dot):
                raise SettingError(f"cannot read {setting!r}; write it as group.name=value, such as encoder.blocks=2")
            groups.setdefault(group, {})[entry] = value.strip()
        return Config.from_dict(groups, where="--set", base=self)

    def get(self, name: str) -> Any:
        """The value of a setting by its dotted name."""
        group, _, entry = name.partition(".")
        return getattr(getattr(self, group), entry)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain data, as `from_dict` reads it."""
        return asdict(self)


def _typed(group: Any, name: str, given: Any, setting: str, where: str) -> Any:
    """Turn a given value (perhaps text from the command line) into the setting's own type."""
    wanted = get_type_hints(type(group))[name]
    if isinstance(wanted, UnionType):
        if given is None:
            return None
        wanted = get_args(wanted)[0]
    if wanted is bool and isinstance(given, str):
        if given.lower() in ("true", "false"):
            return given.lower() == "true"
    elif wanted is bool:
        if isinstance(given, bool):
            return given
    elif wanted is str:
        if isinstance(given, str):
            return given
    elif not isinstance(given, bool):
        try:
            if math.isfinite(float(given)) and (wanted is float or float(given) == int(float(given))):
                return wanted(float(given))
        except (TypeError, ValueError, OverflowError):
            pass
    kind = "true or false" if wanted is bool else f"of type {wanted.__name__}"
    raise SettingError(f"{setting} is {given!r} in {where}; it must be {kind}")


PRESETS: dict[str, Config] = {
    "small": Config(),
    "paper-traffic": Config(encoder=Encoder(width=128, blocks=6, feed_forward=512, fusion=256)),
    "paper-movielens": Config(encoder=Encoder(width=64, blocks=2, fusion=256)),
}
