"""The state of a stream as bytes or as one file: arrays and plain data behind a hash. Loading executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from kvec import __version__
from kvec.decide.folder import FORMAT, OLDEST
from kvec.words.errors import ModelError

HASH = 32  # bytes in front of the arrays
CARD = "kvec"  # the name of the plain data among them
KINDS = {"f2": "F16", "f4": "F32", "f8": "F64", "i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64"}  # of safetensors
KINDS |= {"u1": "U8", "u2": "U16", "u4": "U32", "u8": "U64", "b1": "BOOL"}
SLICE = 1024  # entries of a list that become JSON at once
PIECE = 1 << 20  # bytes that are hashed and written at once


def go_on() -> None:
    """Do not rest."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str | Path) -> bytes:
    """A state as bytes, the hash first; `format` is that of its models, `where` stands in messages."""
    content = b"".join(_pieces(facts, arrays, where))
    return hashlib.blake2b(content, digest_size=HASH).digest() + content


def unpack(whole: bytes, where: str | Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What `pack` made bytes of; damaged, foreign or newer ones are refused."""
    content = whole[HASH:]
    if hashlib.blake2b(content, digest_size=HASH).digest() != whole[:HASH]:
        raise ModelError(f"{where} is damaged, or not the state of a stream: its hash does not fit")
    try:
        arrays = load_arrays(content)
        card: dict[str, Any] = json.loads(arrays.pop(CARD).tobytes())
        written, version = int(card["format"]), card["kvec"]
    except (KeyError, TypeError, ValueError, SafetensorError):
        raise ModelError(f"{where} is not the state of a stream") from None
    if written > FORMAT:
        raise ModelError(
            f"{where} was written by kvec {version} in format {written}; this is kvec {__version__}, "
            f"which reads up to format {FORMAT}: upgrade kvec to use it"
        )
    return card, arrays


def write_state(
    path: str | Path, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]],
    rest: Callable[[], None] = go_on,
) -> None:  # fmt: skip
    """Write what `pack` gives, whole or not at all; it is on the disk before this returns.

    It is written in pieces, with a call of `rest` after each, so that another thread that runs the stream meanwhile is
    never held up for long.
    """
    path = Path(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    found = hashlib.blake2b(digest_size=HASH)
    try:
        with fresh.open("wb") as out:
            out.write(bytes(HASH))
            for piece in _pieces(facts, arrays, path, rest):
                found.update(piece)
                out.write(piece)
                rest()
            out.seek(0)
            out.write(found.digest())
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise ModelError(f"{path}: cannot write the state: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def read_state(path: str | Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what `write_state` wrote; a damaged, foreign or newer file is refused."""
    try:
        whole = Path(path).read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot read the state: {error.strerror or error}") from None
    return unpack(whole, path)


def _pieces(
    facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str | Path,
    rest: Callable[[], None] = go_on,
) -> Iterator[bytes | memoryview]:  # fmt: skip
    """All in the form of safetensors, a piece after the other; its own writer needs all arrays at once, twice."""
    texts = []
    try:
        for text in _json({"format": OLDEST, "kvec": __version__, **facts}):
            texts.append(text)
            rest()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{where}: an item's value or the note cannot be kept in a state: {error}") from None
    told_of = {**arrays, CARD: np.frombuffer("".join(texts).encode(), np.uint8)}
    ordered = sorted(told_of.items(), key=lambda one: (-one[1].dtype.itemsize, one[0]))  # aligned, as it wants them
    header, start = {}, 0
    for name, array in ordered:
        end = start + array.nbytes
        header[name] = {"dtype": KINDS[array.dtype.str[1:]], "shape": list(array.shape), "data_offsets": [start, end]}
        start = end
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    yield len(told).to_bytes(8, "little") + told
    for _, array in ordered:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for first in range(0, len(flat), PIECE):
            yield flat[first : first + PIECE].data


def _json(value: Any, depth: int = 3) -> Iterator[str]:
    """Plain data as JSON, a piece after the other: long lists in slices, what lies deep as it is."""
    if isinstance(value, list) and len(value) > SLICE:
        for first in range(0, len(value), SLICE):
            yield ("," if first else "[") + json.dumps(value[first : first + SLICE], default=_plain)[1:-1]
        yield "]"
    elif isinstance(value, list) and depth:
        for i, one in enumerate(value):
            yield "," if i else "["
            yield from _json(one, depth - 1)
        yield "]" if value else "[]"
    elif isinstance(value, dict) and depth and all(isinstance(name, str) for name in value):
        for i, (name, one) in enumerate(value.items()):
            yield ("," if i else "{") + json.dumps(name) + ":"
            yield from _json(one, depth - 1)
        yield "}" if value else "{}"
    else:
        yield json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither text nor a number")


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk, so that a new name survives a power cut too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
