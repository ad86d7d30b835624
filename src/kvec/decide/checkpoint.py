"""A model as a folder: safetensors weights and plain text. Loading executes nothing.

kvec.json                format, versions, settings, schema, split, operating point, promise and what gave it, hashes of
                         the other files
vocabulary.json          known values, bins and class names
weights.safetensors      the network, and what waiting loses where it halts by backward induction
history.csv              one line per training epoch
validation.safetensors   scores on the validation part, from which other operating points can be chosen, and marks of
                         the sequences of both parts, and of those that it was tuned on
"""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
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
from kvec.decide.deployed import Deployed, deploy
from kvec.decide.folder import POLICY_INPUTS, as_damage, digest, format_of, read_folder
from kvec.decide.model import Network, build_network
from kvec.decide.operating import OperatingPoint
from kvec.decide.promise import Promise
from kvec.decide.readiness import Readiness, heard
from kvec.decide.unknown import Unknown
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Config
from kvec.words.errors import ModelError
from kvec.words.schema import Schema


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
    readiness: Readiness = field(default_factory=Readiness)
    delay_cost: float | None = None  # what halts is told of the cost of waiting, where it has a dial
    seen: npt.NDArray[np.uint64] | None = None  # marks of the sequences it has seen (tangle.seen); None: not known
    promise: Promise | None = None  # as it was made, perhaps for another operating point
    unknown: Unknown = field(default_factory=Unknown)  # when a decision says that it does not know
    tuned: npt.NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))  # marks of what tuned it
    calibrated: list[dict[str, Any]] = field(default_factory=list)  # what gave a promise (decide.spent)

    @property
    def operating_point(self) -> OperatingPoint:
        """Where on the trade-off it decides."""
        return OperatingPoint(self.threshold, self.delay_cost)

    def turned(self, point: OperatingPoint) -> Trained:
        """The same model at another operating point."""
        network = copy.deepcopy(self.network)
        if point.delay_cost is not None and self.readiness.trigger == "hazard":
            network.turn(point.delay_cost)
        return replace(self, network=network, threshold=point.threshold, delay_cost=point.delay_cost)

    def deployed(self) -> Deployed:
        """The same as streams need it."""
        weights = {name: tensor.detach().cpu().numpy() for name, tensor in self.network.state_dict().items()}
        return Deployed(
            weights | self.readiness.to_arrays(),
            self.vocabulary,
            self.schema,
            self.config,
            self.has_time,
            self.threshold,
            self.readiness,
            self.promise,
            self.delay_cost,
            self.unknown,
        )


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
                | {k: torch.from_numpy(array) for k, array in model.readiness.to_arrays().items()}
            ),
            "history.csv": history_csv(model.history).encode(),
            "validation.safetensors": save_arrays(_lasting(model) | _marks(model)),
        }
        card = {
            "format": format_of(model.config, model.readiness.trigger),
            "kvec": __version__,
            "settings": model.config.to_dict(),
            "schema": model.schema.to_dict(),
            "operating_point": {"threshold": model.threshold, "delay_cost": model.delay_cost},
            "policy_inputs": [*POLICY_INPUTS[: 1 if model.delay_cost is None else 2]],
            "readiness": model.readiness.to_plain(),
            **({"unknown": model.unknown.to_plain()} if model.unknown.is_asked else {}),
            "has_time": model.has_time,
            "split": model.split,
            "about": model.about,
            **({} if model.promise is None else {"promise": model.promise.to_dict()}),
            **({"calibrated": model.calibrated} if model.calibrated else {}),
            "blake2b": {name: digest(content) for name, content in files.items()},
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
    try:
        with TemporaryDirectory(prefix=".kvec-", dir=above):
            pass  # rights alone do not tell: not every file system takes files
    except OSError:
        raise ModelError(f"{path}: cannot write the model: {above} is no folder that may be written to") from None


def load_model(path: str | Path) -> Trained:
    """Read a model folder; a damaged, foreign or newer one is refused."""
    folder = read_folder(path)
    with as_damage(path):
        deployed = deploy(folder)
        n_relations = len(make_rule(deployed.config.visibility).relations)
        network = build_network(
            deployed.vocabulary, deployed.config.encoder, deployed.has_time, n_relations=n_relations
        )
        beside = deployed.readiness.to_arrays()
        network.load_state_dict({k: torch.from_numpy(w) for k, w in deployed.weights.items() if k not in beside})
        network.eval()
        kept = load_arrays(folder.files["validation.safetensors"])
        seen, tuned = kept.pop("seen", None), kept.pop("tuned", np.zeros(0, np.uint64))
        return Trained(
            network, deployed.vocabulary, deployed.schema, deployed.config, deployed.has_time, deployed.threshold,
            read_history(folder.files["history.csv"].decode()), folder.card["split"],
            heard(deployed.readiness, kept, deployed.delay_cost), folder.card["about"], deployed.readiness,
            deployed.delay_cost, seen, deployed.promise, deployed.unknown, tuned, folder.card.get("calibrated", []),
        )  # fmt: skip


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
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(save_tensors(kept, metadata={"kvec": json.dumps(facts)}))
        fresh.replace(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot keep the unfinished run: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
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


def _lasting(model: Trained) -> dict[str, npt.NDArray[Any]]:
    """What is kept of validation: all but what induction says, which is reckoned anew and takes most of the room."""
    is_said = model.readiness.waiting is not None
    return {name: array for name, array in model.validation.items() if not (is_said and name == "knots")}


def _marks(model: Trained) -> dict[str, npt.NDArray[np.uint64]]:
    """Marks of what it has seen, where it knows, and of what it was tuned on, if it was."""
    seen = {} if model.seen is None else {"seen": model.seen}
    return seen | ({"tuned": model.tuned} if model.tuned.size else {})


def _is_replaceable(path: Path) -> bool:
    return path.is_dir() and ((path / "kvec.json").is_file() or not any(path.iterdir()))
