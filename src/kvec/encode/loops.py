"""The small C extension with the network's inner loops: attention, fusion, dropout and the gradient of the look-up.

They are called with the interpreter lock released. Where the extension could not be built, `is_built` is False, and
PyTorch's own functions serve: dense attention, nn.LSTM, a product for dropout, the gradient of embedding_bag.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from kvec.words.extensions import load_extension

VECTOR = 64  # bytes of the longest vectors that the C loops reckon in

_LIBRARY = load_extension("kvec.encode._loops")
is_built = _LIBRARY is not None
width = _LIBRARY.kvec_width() if _LIBRARY is not None else 0  # bytes of the vectors that this processor reckons in
_pool = ThreadPoolExecutor(thread_name_prefix="kvec-loops")


def can_take(x: Tensor) -> bool:
    """Whether the C loops can work on it: built, on a CPU, single or double precision."""
    return is_built and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def whole(n: int, x: Tensor) -> int:
    """The number n rounded up to whole vectors of x's type."""
    lanes = VECTOR // x.element_size()
    return -(-n // lanes) * lanes


def call(name: str, *given: Tensor | int | None) -> None:
    """Call a C function of the first tensor's type; tensors are passed by address, numbers as 64-bit integers."""
    kind = next(x.dtype for x in given if isinstance(x, Tensor))
    function = getattr(_LIBRARY, f"{name}_{'f64' if kind == torch.float64 else 'f32'}_{width}")
    function(
        *(
            ctypes.c_int64(x) if isinstance(x, int) else ctypes.c_void_p(None if x is None else x.data_ptr())
            for x in given
        )
    )


def in_threads(work: Callable[[int, int], None], n: int) -> None:
    """Do the work for 0 .. n in as many threads as PyTorch uses, each its own share."""
    parts = max(min(torch.get_num_threads(), n), 1)
    bounds = [n * i // parts for i in range(parts + 1)]
    if parts == 1:
        work(0, n)
    else:
        list(_pool.map(work, bounds[:-1], bounds[1:]))
