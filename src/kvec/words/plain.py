"""Plain data by name, such as a TOML file: what cannot be used is refused in one line that names its place."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from kvec.words.errors import SettingError

T = TypeVar("T")


def read_toml(path: str | Path, what: str) -> dict[str, Any]:
    """The entries of a TOML file; `what` it holds is named where it cannot be read."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"{path}: no such {what} file") from None
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not a TOML file: {error}") from None


def require_known(given: Iterable[str], known: Iterable[str], what: str, where: str) -> None:
    """Refuse names that mean nothing there.

    >>> require_known(["colour"], ["kind", "bins"], "entry", "flows.toml")
    Traceback (most recent call last):
    kvec.words.errors.SettingError: unknown entry 'colour' in flows.toml; known: bins, kind
    """
    known = sorted(known)
    if unknown := set(given).difference(known):
        name = min(unknown)
        raise SettingError(f"unknown {what} {name!r} in {where}; known: {', '.join(known)}{meant(name, known)}")


def meant(given: str, known: Iterable[str]) -> str:
    """Which of the known names was perhaps meant, as the end of a message; empty where none is near.

    >>> meant("widht", ["blocks", "width"])
    "; did you mean 'width'?"
    """
    near = get_close_matches(given, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def require_group(given: Any, name: str, where: str) -> dict[str, Any]:
    """The entries of a group, which is a table of its own in a TOML file."""
    if not isinstance(given, Mapping):
        raise SettingError(f"{where}: {name} is a group of entries, not {given!r}; write [{name}] above them")
    return dict(given)


def require_choice(given: Any, known: Iterable[str], where: str) -> None:
    """Refuse a choice that is not offered."""
    if given not in (offered := tuple(known)):
        raise SettingError(f"{where} is {given!r}; it can be {', '.join(offered)}")


def shown_theta(threshold: float) -> str:
    """A threshold on the halting score as it is shown; scores go up to 1, so that above it none is enough.

    >>> shown_theta(0.0226), shown_theta(2.0)
    ('θ = 0.0226', 'θ > 1, never halts')
    """
    return f"θ = {threshold:.3g}" if threshold <= 1 else "θ > 1, never halts"


def shown_point(threshold: float, delay_cost: float | None) -> str:
    """An operating point as it is shown; without a dial there is no delay cost.

    λ has five digits: where many sequences are alike, earliness changes much within little of it.

    >>> shown_point(0.5, 1.234567), shown_point(0.5, None)
    ('θ = 0.5, λ = 1.2346', 'θ = 0.5')
    """
    return shown_theta(threshold) + ("" if delay_cost is None else f", λ = {delay_cost:.5g}")


def under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    """The entries whose names begin with a prefix, without it.

    >>> under("best.", {"best.bias": 1, "last.bias": 2})
    {'bias': 1}
    """
    return {name.removeprefix(prefix): entry for name, entry in named.items() if name.startswith(prefix)}
