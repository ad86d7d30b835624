"""Packages that only some doors need: loaded when they are, or a word on how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from kvec.words.errors import MissingExtra


def need(module: str, wish: str, extra: str, more: str = "") -> Any:
    """A module of an extra, for a wish that reads like "reports and pictures need"; `more` ends what is said."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f"{wish} {module.partition('.')[0]}; pip install 'kvec[{extra}]'{more}") from error
