"""The state of a stream as bytes or as one file: arrays and plain data behind a hash. Loading executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from kvec import __version__
from kvec.decide.folder import FORMAT, OLDEST
from kvec.words.errors import ModelError

HASH = 32  # bytes in front of the arrays
CARD = "kvec"  # the name of the plain data among them


def pack(facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str | Path) -> bytes:
    """A state as bytes, the hash first; `format` is that of its models, `where` stands in messages."""
    try:
        card = json.dumps({"format": OLDEST, "kvec": __version__, **facts}, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"{where}: an item's value or the note cannot be kept in a state: {error}") from None
    content = save_arrays({**arrays, CARD: np.frombuffer(card, np.uint8)})
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


def write_state(path: str | Path, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a state whole or not at all; it is on the disk before this returns."""
    path = Path(path)
    whole = pack(facts, arrays, path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as out:
            out.write(whole)
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
