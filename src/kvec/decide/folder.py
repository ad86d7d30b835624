"""The files of a model folder, read and checked; nothing in them is executed, and PyTorch is not needed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from kvec import __version__
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config
from kvec.words.errors import KvecError, ModelError

FORMAT = 3  # the newest that is read: what halts may be backward induction at any cost, kept beside the weights
RELATIONS = 2  # attention may have a bias for each relation of two items
OLDEST = 1  # in which all else is written, so that older versions can read it
POLICY_INPUTS = ["representation", "delay_cost"]  # what the halting policy may look at; the second by a dial
FILES = ("vocabulary.json", "weights.safetensors", "history.csv", "validation.safetensors")


@dataclass(frozen=True)
class Folder:
    """What lies in a model folder."""

    path: Path
    card: dict[str, Any]  # kvec.json
    files: dict[str, bytes]


def format_of(config: Config, trigger: str) -> int:
    """The oldest format that can hold a model of these settings that halts by this trigger."""
    if trigger == "induction":
        return FORMAT
    return RELATIONS if make_rule(config.visibility).relations else OLDEST


def read_folder(path: str | Path) -> Folder:
    """Read a model folder; a damaged, foreign or newer one is refused."""
    path = Path(path)
    if not path.is_dir():
        what = "a file, not a model folder" if path.exists() else "no such model folder"
        raise ModelError(f"{path}: {what}; kvec train writes one, and kvec demo --out demo writes demo/model")
    if not (path / "kvec.json").is_file():
        below = sorted(card.parent for card in path.glob("*/kvec.json"))
        hint = f"; did you mean {below[0]}?" if below else ""
        raise ModelError(f"{path} is not a kvec model: it holds no kvec.json{hint}")
    card = _read_json(path / "kvec.json")
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise ModelError(f"{path / 'kvec.json'} is not the card of a kvec model")
    if card["format"] > FORMAT or card.get("policy_inputs") not in (POLICY_INPUTS[:1], POLICY_INPUTS):
        raise ModelError(
            f"{path} was written by kvec {card.get('kvec')} in format {card['format']}; this is kvec {__version__}, "
            f"which reads up to format {FORMAT}: upgrade kvec to use it"
        )
    files: dict[str, bytes] = {}
    for name in FILES:
        if not (path / name).is_file():
            raise ModelError(f"{path} is damaged: {name} is missing")
        files[name] = (path / name).read_bytes()
    with as_damage(path):
        for name, content in files.items():
            if digest(content) != card["blake2b"][name]:
                raise ModelError(f"{path / name} is damaged: its hash is not the one in kvec.json")
    return Folder(path, card, files)


def rewrite_card(path: str | Path, **entries: Any) -> None:
    """Change entries of a model's kvec.json, whole or not at all; the other files stay as they are."""
    card = Path(path) / "kvec.json"
    plain = _read_json(card) | entries
    fresh = card.with_name(f".{card.name}.{os.getpid()}")
    try:
        fresh.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        fresh.replace(card)
    except OSError as error:
        raise ModelError(f"{path}: cannot change the model: {error.strerror or error}") from None
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def as_damage(path: str | Path) -> Iterator[None]:
    """Whatever cannot be understood inside is damage to the folder."""
    try:
        yield
    except ModelError:
        raise
    except (KvecError, LookupError, AttributeError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{path} is damaged: {' '.join(str(error).split())[:200]}") from None


def digest(content: bytes) -> str:
    """The hash that kvec.json keeps of each file."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ModelError(f"{path} is damaged: it is not JSON text") from None
