"""The flags that say how a table is read: declared once, offered by every command that reads one without a model."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Option

from kvec.words.errors import SettingError
from kvec.words.schema import Schema, require_fields

_PANEL = "How the table is read (else: a TOML beside it, else guessed)"


def _flag(*names: str, help: str, metavar: str | None = None) -> Any:
    return Option(*names, help=help, metavar=metavar, rich_help_panel=_PANEL, show_default=False)


@dataclass(frozen=True)
class SchemaFlags:
    """What was said about the columns; None where nothing was said."""

    key: Annotated[
        str | None, _flag("--key", metavar="COLUMN", help="Tells sequences apart; several as in src,dst.")
    ] = None
    tangle: Annotated[str | None, _flag("--tangle", metavar="COLUMN", help="Keys of one tangle share a stream.")] = None
    group: Annotated[
        str | None, _flag("--group", metavar="COLUMN", help="Never cut by a split: a capture, a user.")
    ] = None
    time: Annotated[str | None, _flag("--time", metavar="COLUMN", help="When items arrive: seconds, or dates.")] = None
    order: Annotated[
        str | None, _flag("--order", metavar="COLUMN", help="In which order they arrive, or what settles equal times.")
    ] = None
    values: Annotated[
        str | None, _flag("--values", metavar="COLUMNS", help="The value fields, as in size,direction.")
    ] = None
    kind: Annotated[
        list[str] | None,
        _flag(
            "--kind", metavar="FIELD=KIND", help="categorical, binned or projected, as in size=binned; can be repeated."
        ),
    ] = None
    session: Annotated[
        str | None, _flag("--session", metavar="FIELDS", help="A change in one of these opens a new session.")
    ] = None
    session_gap: Annotated[
        float | None, _flag("--session-gap", metavar="SECONDS", help="So does a longer silence of the key.")
    ] = None
    match: Annotated[
        str | None, _flag("--match", metavar="FIELDS", help="What value correlation compares; all fields unless given.")
    ] = None
    label: Annotated[
        str | None, _flag("--label", metavar="COLUMNS", help="What is to be told; several as in gender,age.")
    ] = None
    labels: Annotated[
        Path | None,
        _flag(
            "--labels",
            metavar="FILE",
            help="A second table with the labels, joined per key; for captures also by-file or by-folder.",
        ),
    ] = None
    end: Annotated[str | None, _flag("--end", metavar="COLUMN", help="Marks the last item of a sequence.")] = None
    expiry: Annotated[
        float | None, _flag("--expiry", metavar="SECONDS", help="After so long a silence a sequence is over.")
    ] = None
    tangling: Annotated[
        str | None,
        _flag(
            "--tangling",
            metavar="OF:NUMBER:CLOCK",
            help="Put sequences side by side, as in key:8:common or group:3:order; none: as they come.",
        ),
    ] = None
    min_packets: Annotated[
        int | None,
        _flag(
            "--min-packets",
            metavar="N",
            help="Of captures: leave labelled flows of fewer packets out; 10 unless given.",
        ),
    ] = None
    schema: Annotated[
        Path | None, _flag("--schema", metavar="FILE", help="A TOML with all this; other flags go before it.")
    ] = None
    empty_key: Annotated[
        str | None, _flag("--empty-key", metavar="NAME", help="The name of items whose key cell is empty.")
    ] = None

    def over(self, schema: Schema) -> Schema:
        """The schema with what was said put in its place.

        >>> beside = Schema.from_dict({"values": {"size": {"kind": "binned"}}, "session": "size"})
        >>> flags = SchemaFlags(values="size,direction", session="direction", kind=["direction=categorical"])
        >>> [(f.name, f.kind) for f in flags.over(beside).values]
        [('size', 'binned'), ('direction', 'categorical')]
        """
        plain = schema.to_dict()
        arrival = ("key", "tangle", "group", "time", "order", "end", "expiry", "empty_key")
        roles = (*arrival, "session", "session_gap", "match")
        plain |= {name: getattr(self, name) for name in roles if getattr(self, name) is not None}
        if self.label is not None:
            plain |= {"labels": self.label}
            plain.pop("outcome", None)
        if self.labels is not None:
            plain.pop("labels_file", None)
        if self.tangling is not None:
            plain.pop("tangling", None)
            plain |= {} if self.tangling == "none" else {"tangling": _tangling(self.tangling)}
        if self.min_packets is not None:
            plain["packets"] = plain.get("packets", {}) | {"min_packets": self.min_packets}
        plain["values"] = self._values(schema)
        return Schema.from_dict(plain, where="the flags")

    @property
    def entries(self) -> set[str]:
        """The entries of a schema whose columns were named."""
        given = {field.name for field in fields(self) if getattr(self, field.name) is not None} - {"labels"}
        return given | ({"labels"} if self.label is not None else set())

    @property
    def value_names(self) -> list[str]:
        """The value fields that were named."""
        return [name.strip() for name in (self.values or "").split(",") if name.strip()]

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds that were given, by field; those of fields that are still to be guessed are for `read_table`."""
        kinds = {}
        for setting in self.kind or ():
            name, equals, kinds[name] = setting.partition("=")
            if not equals:
                raise SettingError(f"cannot read --kind {setting!r}; write it as field=kind, such as size=binned")
        return kinds

    def _values(self, schema: Schema) -> dict[str, dict[str, Any]]:
        known = {field.name: {k: v for k, v in asdict(field).items() if k != "name"} for field in schema.values}
        if self.values is not None:
            known = {name: known.get(name, {}) for name in self.value_names}
        kinds = self.kinds
        if not known:  # they will be guessed, and get their kinds then
            return known
        require_fields(kinds, known)
        return {name: entries | ({"kind": kinds[name]} if name in kinds else {}) for name, entries in known.items()}


def _tangling(text: str) -> dict[str, Any]:
    of, number, clock = [*text.split(":"), "order"][:3] if text.count(":") in (1, 2) else ("", "", "")
    if not number.isdecimal():
        raise SettingError(f"--tangling is {text!r}; write it as in key:8:common, group:3:order, or none")
    return {"of": of, "number": int(number), "clock": clock}


def with_schema_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command that takes `flags: SchemaFlags` offer each of them as an option of its own."""
    hints = get_type_hints(SchemaFlags, include_extras=True)
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "flags"]
    offered = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(SchemaFlags)
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        said = SchemaFlags(**{f.name: given.pop(f.name) for f in fields(SchemaFlags)})
        command(**given, flags=said)

    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = signature.replace(parameters=[*keyword_only, *offered])  # type: ignore[attr-defined]
    return run
