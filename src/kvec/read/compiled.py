"""Compiles the loops over the bytes of packets; with NUMBA_DISABLE_JIT=1 the same code runs as plain Python."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Any)


def compiled(function: F) -> F:
    """The function in machine code that never reads outside an array."""
    try:
        return cast(F, njit(cache=True, nogil=True, boundscheck=True)(function))
    except RuntimeError:  # no folder that the compiled code could be kept in
        return cast(F, njit(nogil=True, boundscheck=True)(function))
