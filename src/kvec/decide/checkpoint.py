"""A model as a folder: safetensors weights and plain text. Loading executes nothing.

kvec.json                format, versions, settings, schema, split, operating point, hashes of the other files
vocabulary.json          known values, bins and class names
weights.safetensors      the network
history.csv              one line per training epoch
validation.safetensors   scores on the validation part, from which other operating points can be chosen
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from kvec import __version__
from kvec.decide.model import Network, build_network
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.errors import KvecError, ModelError
from kvec.words.schema import Schema

FORMAT = 1
POLICY_INPUTS = ["representation"]  # what the halting policy looks at; a later format may add the delay cost
FILES = ("vocabulary.json", "weights.safetensors", "history.csv", "validation.safetensors")


@dataclass
class Trained:
    """All that a model folder holds."""

    network: Network
    vocabulary: Vocabulary
    schema: Schema
    config: Config
    has_time: bool
    threshold: float
    history: list[dict[str, float]] = field(default_factory=list)
    split: dict[str, Any] | None = None
    validation: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)  # what it was trained on, in numbers


def save_model(model: Trained, path: str | Path) -> None:
    """Write the folder whole or not at all: beside its place first, then moved there."""
    path = Path(path)
    require_model_place(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    old = path.with_name(f"{fresh.name}.old")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        files = {
            "vocabulary.json": (json.dumps(model.vocabulary.to_dict()) + "\n").encode(),
            "weights.safetensors": save_tensors(
                {k: v.detach().cpu().contiguous() for k, v in model.network.state_dict().items()}
            ),
            "history.csv": history_csv(model.history).encode(),
            "validation.safetensors": save_arrays(model.validation),
        }
        card = {
            "format": FORMAT,
            "kvec": __version__,
            "settings": model.config.to_dict(),
            "schema": model.schema.to_dict(),
            "operating_point": {"threshold": model.threshold},
            "policy_inputs": POLICY_INPUTS,
            "has_time": model.has_time,
            "split": model.split,
            "about": model.about,
            "blake2b": {name: _hash(content) for name, content in files.items()},
        }
        (fresh / "kvec.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        if path.exists():
            path.rename(old)  # a kill in the middle must not leave neither of the two
        fresh.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if old.exists() and not path.exists():
            old.rename(path)
        raise ModelError(f"{path}: cannot write the model: {error.strerror or error}") from None


def require_model_place(path: Path) -> None:
    """Refuse a place where a model cannot be written; asked before training, this saves the time of it."""
    if path.name in ("", ".."):
        raise ModelError(f"{path}: name a folder for the model, such as {path / 'model'}")
    if path.exists() and not _is_replaceable(path):
        raise ModelError(f"{path} exists and is not a kvec model; choose another place, or remove it first")
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise ModelError(f"{path}: cannot write the model: {above} is no folder that may be written to")


def load_model(path: str | Path) -> Trained:
    """Read a model folder; a damaged, foreign or newer one is refused."""
    path = Path(path)
    if not path.is_dir():
        raise ModelError(f"{path}: no such model folder")
    if not (path / "kvec.json").is_file():
        raise ModelError(f"{path} is not a kvec model: it holds no kvec.json")
    card = _read_json(path / "kvec.json")
    if not isinstance(card, dict) or not isinstance(card.get("format"), int):
        raise ModelError(f"{path / 'kvec.json'} is not the card of a kvec model")
    if card["format"] > FORMAT or card.get("policy_inputs") != POLICY_INPUTS:
        raise ModelError(
            f"{path} was written by kvec {card.get('kvec')} in format {card['format']}; this is kvec {__version__}, "
            f"which reads up to format {FORMAT}: upgrade kvec to use it"
        )
    files: dict[str, bytes] = {}
    for name in FILES:
        if not (path / name).is_file():
            raise ModelError(f"{path} is damaged: {name} is missing")
        files[name] = (path / name).read_bytes()
    try:
        for name, content in files.items():
            if _hash(content) != card["blake2b"][name]:
                raise ModelError(f"{path / name} is damaged: its hash is not the one in kvec.json")
        vocabulary = Vocabulary.from_dict(json.loads(files["vocabulary.json"]))
        config = Config.from_dict(card["settings"], where=str(path / "kvec.json"))
        schema = Schema.from_dict(card["schema"], where=str(path / "kvec.json"))
        network = build_network(vocabulary, config.encoder, card["has_time"])
        network.load_state_dict(load_tensors(files["weights.safetensors"]))
        network.eval()
        return Trained(
            network, vocabulary, schema, config, card["has_time"], float(card["operating_point"]["threshold"]),
            read_history(files["history.csv"].decode()), card["split"],
            load_arrays(files["validation.safetensors"]), card["about"],
        )  # fmt: skip
    except ModelError:
        raise
    except (KvecError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{path} is damaged: {' '.join(str(error).split())[:200]}") from None


def history_csv(history: Sequence[Mapping[str, float]]) -> str:
    """The training history as CSV text."""
    text = io.StringIO()
    if history:
        writer = csv.DictWriter(text, fieldnames=list(history[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(history)
    return text.getvalue()


def read_history(text: str) -> list[dict[str, float]]:
    """Read what `history_csv` wrote."""
    return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def save_progress(path: Path, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Write the state of a training run into one file, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        fresh.write_bytes(save_tensors(kept, metadata={"kvec": json.dumps(facts)}))
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def load_progress(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what `save_progress` wrote."""
    try:
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        facts = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["kvec"])
        return load_tensors(content), facts
    except FileNotFoundError:
        raise ModelError(f"{path}: there is no unfinished training to resume") from None
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise ModelError(f"{path} is damaged; train again without --resume") from None


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def _is_replaceable(path: Path) -> bool:
    return path.is_dir() and ((path / "kvec.json").is_file() or not any(path.iterdir()))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ModelError(f"{path} is damaged: it is not JSON text") from None


def validation_arrays(offsets: npt.NDArray[np.int64], halt: npt.NDArray[np.float32],
                      classes: Sequence[npt.NDArray[np.float32]], labels: npt.NDArray[np.int32],
                      tangle: npt.NDArray[np.int32]) -> dict[str, npt.NDArray[Any]]:  # fmt: skip
    """The validation scores as the folder keeps them: one entry per array, `classes.0`, `classes.1`, … by column."""
    named = {f"classes.{i}": scores for i, scores in enumerate(classes)}
    return {"offsets": offsets, "halt": halt, "labels": labels, "tangle": tangle, **named}
