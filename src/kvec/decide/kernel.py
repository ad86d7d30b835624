"""The network's arithmetic for arriving items, without PyTorch: loops in C, or NumPy where these could not be built.

Weights stay here, memory with the caller. Letters: N items, D width, H heads, F feed-forward, R size of the
representation, P visible pairs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kvec.words.config import Encoder
from kvec.words.errors import ModelError
from kvec.words.extensions import load_extension

LINE = 64  # bytes of a line of the processor's cache
MOST_SIZE = 128  # numbers of a head that the C loops hold
FEW = 4  # so many items are faster one by one
EPSILON = 1e-5

Floats = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
LAYER = (
    "norm1.weight", "norm1.bias", "attention.project.weight", "attention.project.bias", "attention.out.weight",
    "attention.out.bias", "norm2.weight", "norm2.bias", "widen.weight", "widen.bias", "narrow.weight", "narrow.bias",
)  # fmt: skip


LIBRARY = load_extension("kvec.decide._kernel")
is_built = LIBRARY is not None
WIDTH, BLOCK = (16, 32) if LIBRARY is None else (LIBRARY.kvec_width(), LIBRARY.kvec_block())  # as in _kernel.c
TILE = 2 * WIDTH  # bytes of a row of a tile of columns


class Arriving:
    """Room for N booked items in order of arrival, ready for the network."""

    def __init__(self, capacity: int, parts: int, numbers: int, dtype: npt.DTypeLike) -> None:
        self.n = 0
        self.booked: list[tuple[list[int], list[float], int, int]] = []  # parts, numbers, row and place, as they come
        self.index = np.zeros((capacity, parts), np.int64)  # rows of the embedding table
        self.numbers = np.zeros((capacity, numbers), dtype)  # of the projected fields
        self.rows = np.zeros(capacity, np.int64)  # where their keys and values are cached
        self.places = np.zeros(capacity, np.int64)  # where their sequences' states lie
        self.starts = np.zeros(capacity + 1, np.int64)  # item i sees seen[starts[i]:starts[i + 1]]
        self.seen = np.zeros(0, np.int32)  # rows
        self.relation = np.zeros(0, np.uint8)  # how the item stands to them
        self.make_room(1024)

    def lay_out(self, starts: Ints) -> None:
        """Put the booked items in their arrays, but for what they see; a part begins at its start in the table."""
        n = self.n = len(self.booked)
        if n <= FEW:  # faster one by one
            for i, (parts, numbers, row, place) in enumerate(self.booked):
                self.index[i], self.rows[i], self.places[i] = parts, row, place
                if numbers:
                    self.numbers[i] = numbers
        else:
            self.index[:n], self.numbers[:n], self.rows[:n], self.places[:n] = zip(*self.booked, strict=True)
        index = self.index[:n]
        index += starts

    def make_room(self, n_pairs: int) -> None:
        """Room for so many visible pairs; those that were there stay."""
        n_pairs = max(n_pairs, len(self.seen))
        self.seen, self.relation = _grown(self.seen, n_pairs), _grown(self.relation, n_pairs)
        self.pointers = [
            _at(x) for x in (self.index, self.numbers, self.rows, self.starts, self.seen, self.relation, self.places)
        ]


class Memory:
    """What the network remembers of a stream: plain arrays, one row per remembered item, one place per sequence."""

    def __init__(self, settings: Encoder, n_outputs: int, dtype: npt.DTypeLike = np.float32) -> None:
        self.cache = np.zeros((0, settings.blocks, 2, settings.width), dtype)  # attention's keys and values
        self.hidden = np.zeros((0, settings.fusion), dtype)  # representations
        self.cell = np.zeros((0, settings.fusion), dtype)
        self.outputs = np.zeros((0, n_outputs), dtype)  # what the heads said last: halting logit, class logits

    def make_room(self, rows: int, places: int) -> None:
        """Grow to so many rows, and to at least so many places."""
        if rows > len(self.cache) or places > len(self.hidden):
            n = max(places, 2 * len(self.hidden), 64) if places > len(self.hidden) else len(self.hidden)
            self.cache = _grown(self.cache, max(rows, len(self.cache)))
            self.hidden, self.cell, self.outputs = (_grown(x, n) for x in (self.hidden, self.cell, self.outputs))
            self.pointers = [_at(self.cache), _at(self.hidden), _at(self.cell)]

    pointers: list[ctypes.c_void_p]

    def clear(self, place: int) -> None:
        """Let a new sequence begin here."""
        self.hidden[place] = self.cell[place] = self.outputs[place] = 0

    def restore(self, arrays: Mapping[str, Floats], rows: int) -> None:
        """Hold these arrays, the cache with room for so many rows."""
        self.hidden, self.cell, self.outputs = (arrays[name].copy() for name in ("hidden", "cell", "outputs"))
        self.cache = arrays["cache"]
        self.make_room(rows, max(64, len(self.hidden) + 1))

    @property
    def bytes(self) -> int:
        """Memory of all arrays."""
        return self.cache.nbytes + self.hidden.nbytes + self.cell.nbytes + self.outputs.nbytes


class Kernel:
    """Runs the network over arriving items."""

    def __init__(self, weights: Mapping[str, Floats], settings: Encoder, dtype: npt.DTypeLike = np.float32,
                 use_c: bool = is_built, n_relations: int = 0) -> None:  # fmt: skip
        self.settings, self.dtype, self.n_relations = settings, np.dtype(dtype), n_relations
        given = {name: np.ascontiguousarray(array, dtype) for name, array in weights.items()}
        self.table = given["embedding.table"]
        project = given.get("embedding.project.weight")
        self.project = np.zeros((0, settings.width), dtype) if project is None else np.ascontiguousarray(project.T)
        self.layers = [{name: _forward(given[f"blocks.{i}.{name}"]) for name in LAYER} for i in range(settings.blocks)]
        none = np.zeros((settings.heads, 0), dtype)
        name = "blocks.{}.attention.relation" if n_relations else ""  # a rule that tells none apart needs none
        self.relations = [given.get(name.format(i), none) for i in range(settings.blocks)]  # biases, (H, relations)
        self.norm, self.norm_bias = given["norm.weight"], given["norm.bias"]
        self.input = _forward(given["fusion.cell.weight_ih_l0"])
        self.recurrent = _forward(given["fusion.cell.weight_hh_l0"])
        self.input_bias = given["fusion.cell.bias_ih_l0"] + given["fusion.cell.bias_hh_l0"]
        if "dial" in given:
            given |= {name: given["dial"][None] @ given[name] for name in ("policy.weight", "policy.bias")}
        n = sum(name.startswith("classifiers.") and name.endswith("weight") for name in given)
        heads = ["policy", *(f"classifiers.{i}" for i in range(n))]
        self.head = np.concatenate([_forward(given[f"{name}.weight"]) for name in heads], axis=1)
        self.head_bias = np.concatenate([given[f"{name}.bias"] for name in heads])
        self._require_fit()
        self._c = _Compiled(self) if use_c and settings.width // settings.heads <= MOST_SIZE else None

    def _require_fit(self) -> None:
        """Refuse weights of other sizes than the settings': the loops in C would read beyond their end."""
        d, f, r, n = self.settings.width, self.settings.feed_forward, self.settings.fusion, self.n_outputs
        layer = ((d,), (d,), (d, 3 * d), (3 * d,), (d, d), (d,), (d,), (d,), (d, f), (f,), (f, d), (d,))
        wanted = [(given[name], shape) for given in self.layers for name, shape in zip(LAYER, layer, strict=True)]
        wanted += [(table, (self.settings.heads, self.n_relations)) for table in self.relations]
        wanted += [
            (self.table, (len(self.table), d)), (self.project, (len(self.project), d)), (self.norm, (d,)),
            (self.norm_bias, (d,)), (self.input, (d, 4 * r)), (self.input_bias, (4 * r,)),
            (self.recurrent, (r, 4 * r)), (self.head, (r, n)), (self.head_bias, (n,)),
        ]  # fmt: skip
        if any(array.shape != shape for array, shape in wanted):
            raise ModelError("the weights do not have the sizes that the model's settings give them")

    @property
    def n_outputs(self) -> int:
        """The halting logit and all class logits."""
        return len(self.head_bias)

    def run(self, memory: Memory, arriving: Arriving) -> Floats:
        """Run items on top of `memory`, which moves on; what the heads say after each, (N, outputs).

        It stands until the next run.
        """
        said = self._block(memory, arriving) if self._c is None else self._c.run(memory, arriving)
        memory.outputs[arriving.places[: arriving.n]] = said  # of a sequence's items the last one stays
        return said

    def _block(self, memory: Memory, a: Arriving) -> Floats:
        rows, places = a.rows[: a.n], a.places[: a.n]
        x = self.table[a.index[: a.n]].sum(axis=1)  # (N, D)
        if len(self.project):
            x += a.numbers[: a.n] @ self.project
        for i, layer in enumerate(self.layers):
            h = _normalise(x, layer["norm1.weight"], layer["norm1.bias"])
            qkv = h @ layer["attention.project.weight"] + layer["attention.project.bias"]  # (N, 3 D)
            memory.cache[rows, i] = qkv[:, self.settings.width :].reshape(len(x), 2, -1)
            mixed = self._attend(qkv, memory.cache, i, a)
            x += mixed @ layer["attention.out.weight"] + layer["attention.out.bias"]
            h = _normalise(x, layer["norm2.weight"], layer["norm2.bias"])
            wide = np.maximum(h @ layer["widen.weight"] + layer["widen.bias"], 0)
            x += wide @ layer["narrow.weight"] + layer["narrow.bias"]
        x = _normalise(x, self.norm, self.norm_bias)
        sums = x @ self.input + self.input_bias  # (N, 4 R)
        said: Floats = self._fuse(memory, sums, places) @ self.head + self.head_bias
        return said

    def _attend(self, qkv: Floats, cache: Floats, layer: int, a: Arriving) -> Floats:
        n, seen = len(qkv), a.seen[: a.starts[len(qkv)]]
        weights, total = self._weigh(qkv, cache, layer, a)
        v = cache[seen, layer, 1].reshape(len(seen), self.settings.heads, -1)  # (P, H, D / H)
        mixed = np.add.reduceat(weights[..., None] * v, a.starts[:n]) / total[..., None]
        return mixed.reshape(n, -1)

    def _weigh(self, qkv: Floats, cache: Floats, layer: int, a: Arriving) -> tuple[Floats, Floats]:
        """How much each visible pair weighs, (P, H), and the sum of each item's pairs, (N, H)."""
        n, heads = len(qkv), self.settings.heads
        starts, seen = a.starts[:n], a.seen[: a.starts[n]]
        of = np.repeat(np.arange(n), np.diff(a.starts[: n + 1]))
        k = cache[seen, layer, 0].reshape(len(seen), heads, -1)
        q = (qkv[:, : self.settings.width] * (self.settings.width // heads) ** -0.5).reshape(n, heads, -1)
        scores = np.einsum("phd,phd->ph", q[of], k)
        if self.n_relations:
            scores += self.relations[layer].T[a.relation[: len(seen)]]
        weights = np.exp(scores - np.maximum.reduceat(scores, starts)[of])
        return weights, np.add.reduceat(weights, starts)

    def _fuse(self, memory: Memory, sums: Floats, places: Ints) -> Floats:
        """The gated cell over each sequence's items; the first items of all sequences at once, then the second ones."""
        representation = np.empty((len(sums), self.settings.fusion), self.dtype)
        order = np.argsort(places, kind="stable")
        first = np.flatnonzero(np.diff(places[order], prepend=-1))
        rank = np.empty(len(places), np.int64)
        rank[order] = np.arange(len(places)) - np.repeat(first, np.diff(first, append=len(places)))
        for wave in range(int(rank.max()) + 1):
            who = np.flatnonzero(rank == wave)
            at = places[who]
            i, f, g, o = np.split(sums[who] + memory.hidden[at] @ self.recurrent, 4, axis=1)
            cell = _sigmoid(f) * memory.cell[at] + _sigmoid(i) * np.tanh(g)
            memory.cell[at] = cell
            memory.hidden[at] = representation[who] = _sigmoid(o) * np.tanh(cell)
        return representation


class _Compiled:
    """The C loops, and the weights as they like them."""

    def __init__(self, kernel: Kernel) -> None:
        assert LIBRARY is not None
        self._run = getattr(LIBRARY, f"kvec_run_f{8 * kernel.dtype.itemsize}_{WIDTH}")
        self.dtype, self.n_outputs = kernel.dtype, kernel.n_outputs
        self._kept: list[Any] = []  # what the pointers point at
        s = kernel.settings
        none = np.zeros(1, kernel.dtype)
        layers = np.array([
            self._keep(array)
            for layer, table in zip(kernel.layers, kernel.relations, strict=True)
            for array in (*(pack_columns(layer[name]) for name in LAYER), table if table.size else none)
        ])  # fmt: skip
        narrow_row = _padded(max(s.width, s.fusion), kernel.dtype)
        wide_row = _padded(max(3 * s.width, s.feed_forward, 4 * s.fusion), kernel.dtype)
        wide_row += LINE // kernel.dtype.itemsize  # or rows of a power of two would fall on the same lines of the cache
        self._wide = BLOCK * (2 * narrow_row + wide_row)
        self._sizes = [
            s.width, s.heads, s.feed_forward, s.fusion, s.blocks, kernel.n_relations, narrow_row, wide_row,
        ]  # fmt: skip
        packed = (kernel.norm, kernel.norm_bias, kernel.input, kernel.input_bias, kernel.recurrent, kernel.head,
                  kernel.head_bias)  # fmt: skip
        self._pointers = [
            self._keep(kernel.table), self._keep(kernel.project), *(self._keep(pack_columns(x)) for x in packed),
            self._keep(layers),
        ]  # fmt: skip
        self._of: Arriving | None = None  # what the buffers fit
        self._room = np.empty(0, kernel.dtype)

    def _keep(self, array: npt.NDArray[Any]) -> int:
        kept = _aligned(array.size, array.dtype)
        kept[:] = array.ravel()
        self._kept.append(kept)
        return int(kept.ctypes.data)

    def _fit(self, a: Arriving) -> None:
        """Fit the buffers to these arrivals, once."""
        if self._of is not a or len(self._room) < self._wide + len(a.seen):
            sizes = [*self._sizes, a.index.shape[1], a.numbers.shape[1], self.n_outputs]
            self._of, self._net = a, np.array([*sizes, *self._pointers], np.int64)  # the struct Net of _kernel.h
            self._room = _aligned(self._wide + len(a.seen), self.dtype)  # no item sees more
            self._out = np.empty((len(a.rows), _padded(self.n_outputs, self.dtype)), self.dtype)
            self._at_net, self._at_room, self._at_out = _at(self._net), _at(self._room), _at(self._out)

    def run(self, memory: Memory, a: Arriving) -> Floats:
        """What the heads say, until the next run."""
        self._fit(a)
        self._run(self._at_net, _long(a.n), *a.pointers, *memory.pointers, self._at_out, self._at_room)
        return self._out[: a.n, : self.n_outputs]


def pack_columns(matrix: Floats) -> Floats:
    """A matrix in tiles of columns, padded with zeros; a vector is only padded.

    >>> tile = TILE // 8
    >>> pack_columns(np.ones((3, tile + 1))).shape == (2, 3, tile), pack_columns(np.ones(1)).shape == (tile,)
    (True, True)
    """
    tile = TILE // matrix.itemsize
    padded = np.pad(matrix, [(0, 0)] * (matrix.ndim - 1) + [(0, -matrix.shape[-1] % tile)])
    if matrix.ndim == 1:
        return padded
    return np.ascontiguousarray(padded.reshape(len(matrix), -1, tile).transpose(1, 0, 2))


def _aligned(n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Room for n numbers that begins with a line of the processor's cache, which halves the time of long loops."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(n + LINE // size, dtype)
    start = -room.ctypes.data % LINE // size
    return room[start : start + n]


def _padded(n: int, dtype: np.dtype[Any]) -> int:
    tile = TILE // dtype.itemsize
    return -(-n // tile) * tile


def _forward(weight: Floats) -> Floats:
    """A PyTorch weight as x @ W takes it; biases stay as they are."""
    return np.ascontiguousarray(weight.T)


def _normalise(x: Floats, weight: Floats, bias: Floats) -> Floats:
    apart = x - x.mean(axis=1, keepdims=True)
    scaled: Floats = apart / np.sqrt((apart * apart).mean(axis=1, keepdims=True) + x.dtype.type(EPSILON))
    return scaled * weight + bias


def _sigmoid(x: Floats) -> Floats:
    half: Floats = np.tanh(x / 2)
    return (half + 1) / 2


def _grown(array: Floats, n: int) -> Floats:
    shape = (n, *array.shape[1:])
    grown = _aligned(math.prod(shape), array.dtype).reshape(shape)
    grown[: len(array)] = array
    return grown


def _at(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


_long = ctypes.c_int64
