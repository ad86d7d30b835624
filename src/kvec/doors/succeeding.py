"""What must be the same when a state is gone on with: its limits, and the columns of a newer model's items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvec.words.errors import ModelError, SettingError
from kvec.words.limits import Limits
from kvec.words.schema import Schema


def limits_of(given: Mapping[str, Any]) -> Limits:
    """The limits, of which the command line speaks as flags."""
    try:
        return Limits.of(given)
    except SettingError as problem:
        name, _, rest = str(problem).partition(" ")
        raise SettingError(f"--{name.replace('_', '-')} {rest}" if name in given else str(problem)) from None


def require_same_limits(before: Limits, given: Mapping[str, Any], state: str) -> None:
    """Refuse other limits than a state was made with."""
    for name, value in given.items():
        if value != (kept := getattr(before, name)):
            flag = f"--{name.replace('_', '-')}"
            raise SettingError(f"{flag} is {value}, but {kept} in {state}; leave it out, or name a new --state")


def require_same_items(before: Schema, after: Schema, model: str, state: str, anew: str = "a new --state") -> None:
    """Both models see every item, so it must be made from the same columns in the same way."""
    old, new = _columns(before), _columns(after)
    if different := [name for name in old if old[name] != new[name]]:
        raise ModelError(
            f"{model} reads other items than the model in {state} (schema.{different[0]} differs); "
            f"let it begin with {anew}"
        )


def _columns(schema: Schema) -> dict[str, Any]:
    entries = ("key", "tangle", "time", "end", "empty_key", "outcome", "label_names")
    fields = [(f.name, f.source, f.transform, f.kind == "categorical") for f in schema.values]
    return {**{name: getattr(schema, name) for name in entries}, "values": sorted(fields)}
