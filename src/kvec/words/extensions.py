"""The small C extensions of other rooms, called through ctypes; all of them are optional."""

from __future__ import annotations

import ctypes
from importlib import import_module


def load_extension(module: str) -> ctypes.CDLL | None:
    """The functions of an extension by its full name; None where it could not be built."""
    try:
        return ctypes.CDLL(str(import_module(module).__file__))
    except ImportError:
        return None
