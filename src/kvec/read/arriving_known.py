"""By what a file is known again when a stream goes on, and where it is once its name was given to another."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

KNOWN = 4096  # bytes by which a file is known again: its first ones, and those before the place where it is left
_AGE = re.compile(r"[.-][0-9][0-9T.:_-]*")  # what a rotation adds to a name: .1, -20240501


def mark(file: IO[bytes], head: bytes, offset: int) -> dict[str, Any]:
    """What an open file is known by where it is left; `head` holds the first bytes that were read.

    At the beginning all of these count, else only those before the place: rows behind it may still be mended.
    """
    on_disk, is_packed = _on_disk(file), isinstance(file, gzip.GzipFile)
    here = on_disk.tell()
    end = here if is_packed else offset
    at = max(end - KNOWN, 0)
    on_disk.seek(at)
    tail = on_disk.read(end - at)
    on_disk.seek(here)
    first, about = head[: offset or None], os.fstat(file.fileno())
    return {
        "head": digest(first), "head_bytes": len(first), "tail": digest(tail), "tail_bytes": len(tail), "tail_at": at,
        "is_packed": is_packed, "device": about.st_dev, "inode": about.st_ino,
    }  # fmt: skip


def is_known(file: IO[bytes], head: bytes, position: Mapping[str, Any]) -> bool:
    """Whether an open file has the bytes that were marked in it."""
    n = position.get("head_bytes", 0)
    if n > len(head) or digest(head[:n]) != position.get("head", digest(b"")):
        return False
    is_packed = position.get("is_packed", False)
    if "tail" not in position or (is_packed and not isinstance(file, gzip.GzipFile)):  # unpacked since
        return True
    looked_at = _on_disk(file) if is_packed else file
    here = looked_at.tell()
    looked_at.seek(position["tail_at"])
    tail = looked_at.read(position["tail_bytes"])
    if is_packed:
        looked_at.seek(here)
    return digest(tail) == str(position["tail"])


def to_read(path: Path, position: Mapping[str, Any]) -> list[Path]:
    """The files to read where a followed file is gone on with, in order: `path` alone unless it was rotated.

    Else first the one that was left, by its inode or as a copy; then those of rotations in between; `path` at last.
    """
    if "inode" not in position or (_is_inode(path, position) and _is_there(path, position)):
        return [path]
    beside = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other.name != path.name]
    left = [other for other in beside if _is_inode(other, position) and _is_there(other, position)]
    is_telling = position["head_bytes"] > len(position.get("header", "").encode()) + 2  # other files have it too
    if not left and is_telling and not _is_there(path, position):
        left = [other for other in beside if _is_there(other, position)]  # a copy
    if not left:
        return [path]
    first = max(left, key=_age)
    between = [
        other for other in beside
        if other.name.startswith(path.name) and _AGE.fullmatch(other.name, len(path.name)) and _age(other) > _age(first)
    ]  # fmt: skip
    return [first, *sorted(between, key=_age), path]


def digest(content: bytes) -> str:
    """A name for bytes."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _on_disk(file: IO[bytes]) -> Any:
    """The file as it lies on the disk, packed or not."""
    return file.fileobj if isinstance(file, gzip.GzipFile) else file


def _age(path: Path) -> int:
    return path.stat().st_mtime_ns


def _is_inode(path: Path, position: Mapping[str, Any]) -> bool:
    about = path.stat()
    return (about.st_dev, about.st_ino) == (position["device"], position["inode"])


def _is_there(path: Path, position: Mapping[str, Any]) -> bool:
    """Whether a file has the bytes that were marked; one that cannot be read has not."""
    try:
        with path.open("rb") as file:
            has_all = os.fstat(file.fileno()).st_size >= position["offset"]
            return has_all and is_known(file, file.read(KNOWN), position)
    except OSError:
        return False
