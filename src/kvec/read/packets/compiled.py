"""Compiles the loops over the bytes of packets; with NUMBA_DISABLE_JIT=1 the same code runs as plain Python."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Any)
MODULES = ("compiled", "records", "links", "headers", "tunnels", "layers", "tracking", "flow_names")


def _stamp() -> str:
    """Changes with the source of any module whose functions call each other."""
    texts = (Path(__file__).with_name(f"{name}.py").read_bytes() for name in MODULES)
    return sha256(b"\0".join(texts)).hexdigest()


def compiled(function: F) -> F:
    """The function in machine code that never reads outside an array."""
    try:
        made: Any = njit(cache=True, nogil=True, boundscheck=True)(function)
    except RuntimeError:  # no folder that the compiled code could be kept in
        return cast(F, njit(nogil=True, boundscheck=True)(function))
    with suppress(AttributeError, OSError):
        # numba looks at the file of the function alone; what it kept holds the functions that are called, too
        made._cache._cache_file._source_stamp = _stamp()
    return cast(F, made)
