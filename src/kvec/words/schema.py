"""How a table is read as items: which column is the key, the value, the time, the label."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from kvec.words.errors import SettingError
from kvec.words.flows import FlowSettings
from kvec.words.plain import read_toml, require_choice, require_group, require_known

T = TypeVar("T")
KINDS = ("auto", "categorical", "binned", "projected")
TRANSFORMS = ("none", "sign", "magnitude", "first")
CLOCKS = ("real", "common", "order")


@dataclass(frozen=True)
class Field:
    """One value field of an item.

    `kind` is `categorical` (a learned vector per value), `binned` (numbers, cut at quantiles of the training data),
    `projected` (numbers, through a linear layer; never matched) or `auto` (guessed from the column).
    `transform` makes the field from its column: `sign` (0 below zero, else 1), `magnitude`, or `first`
    (the part before the first `|`, such as the first listed genre).
    """

    name: str
    column: str = ""  # the column it is made from; its own name when empty
    kind: str = "auto"
    transform: str = "none"
    bins: int = 64

    def __post_init__(self) -> None:
        """Check the choices against what is known."""
        require_choice(self.kind, KINDS, f"values.{self.name}.kind")
        require_choice(self.transform, TRANSFORMS, f"values.{self.name}.transform")
        if self.bins < 2:
            raise SettingError(f"values.{self.name}.bins is {self.bins}; at least 2 are needed")

    @property
    def source(self) -> str:
        """The column this field is made from."""
        return self.column or self.name


@dataclass(frozen=True)
class Outcome:
    """A label that is itself an event of the sequence.

    The label is the first of the `label_from` values found in `column`, else `otherwise`; every sequence is cut
    before its first `cut_before` value (by default the `label_from` values), so that the label does not leak.
    """

    column: str
    label_from: tuple[str, ...]
    cut_before: tuple[str, ...] = ()
    otherwise: str = "none"
    name: str = "outcome"


@dataclass(frozen=True)
class Tangling:
    """How single sequences are made into tangles of several concurrent ones.

    `of` is what is put side by side (`key`, or `group`: all keys of `number` groups); `clock` is `real` (times as
    they are), `common` (every key or group shifted to start at zero) or `order` (by index within the sequence).
    """

    number: int
    of: str = "key"
    clock: str = "order"

    def __post_init__(self) -> None:
        """Check the choices against what is known."""
        require_choice(self.of, ("key", "group"), "tangling.of")
        require_choice(self.clock, CLOCKS, "tangling.clock")
        if self.number < 1:
            raise SettingError(f"tangling.number is {self.number}; at least 1 is needed")


@dataclass(frozen=True)
class Schema:
    """Names the columns of a table of items. Empty names mean: there is no such column."""

    key: tuple[str, ...] = ("key",)
    values: tuple[Field, ...] = ()
    labels: tuple[str, ...] = ()
    tangle: str = ""
    group: str = ""
    time: str = ""
    order: str = ""
    end: str = ""
    session: tuple[str, ...] = ()  # value fields; a change in one of them opens a new session
    session_gap: float | None = None  # seconds (or units of the time column) that close a session
    match: tuple[str, ...] = ()  # value fields compared by value correlation; all when empty
    expiry: float | None = None  # idle time after which a sequence is over
    empty_key: str = ""  # the name of keys whose cell is empty; without one they are an error
    labels_file: str = ""  # a second table with the labels, joined per key
    unfold: tuple[str, ...] = ()  # list columns: one row is then a whole sequence
    unfold_gap: str = ""  # the list column of gaps that, summed and added to `time`, gives each item's time
    separator: str = " "  # between the elements of a list column stored as text
    outcome: Outcome | None = None
    tangling: Tangling | None = None
    packets: FlowSettings | None = None  # how the packets of captures become flows

    def __post_init__(self) -> None:
        """Check that the parts fit together."""
        if not self.key:
            raise SettingError("schema.key is empty; name the column (or columns) that tell sequences apart")
        names = [f.name for f in self.values]
        if len(set(names)) != len(names):
            raise SettingError(f"schema.values names a field twice: {', '.join(names)}")
        for part, chosen in (("session", self.session), ("match", self.match)):
            for name in chosen:
                if names and name not in names:
                    raise SettingError(
                        f"schema.{part} names {name!r}, which is no value field; fields: {', '.join(names)}"
                    )
        if shapeless := {f.name for f in self.values if f.kind == "projected"} & set(self.session):
            raise SettingError(f"schema.session names {min(shapeless)!r}, which is projected; give it kind = 'binned'")
        for part, length in (("session_gap", self.session_gap), ("expiry", self.expiry)):
            if length is not None and not length >= 0:
                raise SettingError(f"schema.{part} is {length}; it must be at least 0")
            if length is not None and self.tangling and self.tangling.clock == "order":
                raise SettingError(
                    f"schema.{part} needs times, which tangling.clock = 'order' leaves out; use 'common'"
                )
        if self.unfold_gap and not self.unfold:
            raise SettingError("schema.unfold_gap needs schema.unfold, the list columns")

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the value fields, in order."""
        return tuple(f.name for f in self.values)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the label columns, in order."""
        return (self.outcome.name,) if self.outcome else self.labels

    @property
    def match_names(self) -> tuple[str, ...]:
        """The fields compared by value correlation."""
        chosen = self.match or self.value_names
        projected = {f.name for f in self.values if f.kind == "projected"}
        return tuple(name for name in chosen if name not in projected)

    def changed(self, **changes: Any) -> Schema:
        """A copy with the given entries; entries that are None are left as they are."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `from_dict` reads it and as a TOML file holds it."""
        plain = {k: _as_lists(v) for k, v in asdict(self).items() if k != "values"}
        plain["values"] = {f.name: {k: v for k, v in asdict(f).items() if k != "name"} for f in self.values}
        return {k: v for k, v in plain.items() if v not in (None, "", [])}

    def to_toml(self) -> str:
        """The text of a TOML file that `from_toml` reads.

        >>> print(Schema(tangle="shop", values=(Field("page", kind="categorical"),)).to_toml())
        key = ["key"]
        tangle = "shop"
        <BLANKLINE>
        [values.page]
        kind = "categorical"
        <BLANKLINE>
        """
        plain, standard = self.to_dict(), Schema().to_dict()
        groups: dict[str, Any] = {name: plain.pop(name) for name in ("outcome", "tangling", "packets") if name in plain}
        for name, entries in plain.pop("values").items():
            usual = asdict(Field(name))
            groups[f"values.{name}"] = {k: v for k, v in entries.items() if v != usual[k]}
        lines = [f"{k} = {json.dumps(v)}" for k, v in plain.items() if k == "key" or v != standard.get(k)]
        for name, entries in groups.items():
            lines += ["", f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in entries.items() if v is not None)]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], where: str = "schema") -> Schema:
        """Read a schema from plain data, naming any entry that is not known.

        >>> Schema.from_dict({"key": "user", "values": ["movie", "rating"], "label": "gender"}).value_names
        ('movie', 'rating')
        """
        entries = dict(plain)
        if "label" in entries:
            entries["labels"] = entries.pop("label")
        for name in ("key", "labels", "session", "match", "unfold"):
            if name in entries:
                entries[name] = _names(entries[name], f"{where}.{name}")
        if "values" in entries:
            entries["values"] = _fields(entries["values"], where)
        if not isinstance(entries.get("outcome"), Outcome | None):
            plain_outcome = require_group(entries["outcome"], "outcome", where)
            for name in ("label_from", "cut_before"):
                if name in plain_outcome:
                    plain_outcome[name] = _names(plain_outcome[name], f"{where}.outcome.{name}")
            entries["outcome"] = _build(Outcome, plain_outcome, f"{where}.outcome")
        if not isinstance(entries.get("tangling"), Tangling | None):
            plain_tangling = require_group(entries["tangling"], "tangling", where)
            entries["tangling"] = _build(Tangling, plain_tangling, f"{where}.tangling")
        if not isinstance(entries.get("packets"), FlowSettings | None):
            plain_packets = require_group(entries["packets"], "packets", where)
            entries["packets"] = _build(FlowSettings, plain_packets, f"{where}.packets")
        return _build(cls, entries, where)

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        return cls.from_dict(read_toml(path, "schema"), where=str(path))


def require_fields(named: Iterable[str], fields: Iterable[str]) -> None:
    """Refuse kinds of fields that are not there."""
    known = tuple(fields)
    for name in named:
        if name not in known:
            raise SettingError(f"--kind names {name!r}, which is no value field; fields: {', '.join(known)}")


def _as_lists(value: Any) -> Any:
    """Tuples as lists, inside mappings too: what JSON and TOML give back."""
    if isinstance(value, Mapping):
        return {k: _as_lists(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _names(given: Any, where: str) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    if isinstance(given, Sequence) and all(isinstance(part, str) for part in given):
        return tuple(given)
    raise SettingError(f"{where} must be a name or a list of names, not {given!r}")


def _fields(given: Any, where: str) -> tuple[Field, ...]:
    if isinstance(given, Mapping):
        return tuple(_field(name, entry, f"{where}.values.{name}") for name, entry in given.items())
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(f, Field) for f in given):
        return tuple(given)
    return tuple(Field(name) for name in _names(given, f"{where}.values"))


def _field(name: str, entry: Any, where: str) -> Field:
    if not isinstance(entry, Mapping):
        raise SettingError(f"{where} is {entry!r}; write its entries in braces, such as {{ kind = 'categorical' }}")
    return _build(Field, {"name": name, **entry}, where)


_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float | None": (int, float, type(None))}
_SPOKEN = {"str": "text", "int": "a whole number", "float | None": "a number"}


def _build(cls: type[T], entries: Mapping[str, Any], where: str) -> T:
    known = fields(cls)  # type: ignore[arg-type]
    require_known(entries, [f.name for f in known], "entry", where)
    for f in known:
        kind = str(f.type)
        if f.name in entries and kind in _PLAIN:
            given = entries[f.name]
            if not isinstance(given, _PLAIN[kind]) or isinstance(given, bool):
                raise SettingError(f"{where}.{f.name} is {given!r}; it must be {_SPOKEN[kind]}")
    try:
        return cls(**entries)
    except TypeError as error:
        raise SettingError(f"{where}: {error}") from None
