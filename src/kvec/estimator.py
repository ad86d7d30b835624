"""KVEC in scikit-learn's manner: fit on a table of items, then decide each sequence as early as it can."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from kvec.decide.checkpoint import Trained, load_model, load_progress, save_model, save_progress, validation_arrays
from kvec.decide.explain import explain_sequence, find_sequence
from kvec.decide.halting import decision_table, decisions
from kvec.decide.model import build_network
from kvec.decide.scoring import Scores, score
from kvec.learn.trainer import Run, Step, new_run, operating_point, restore_run, run_state, traces, train
from kvec.read.rows import read_table
from kvec.read.table import Table, require_labels
from kvec.report.curves import Traces, stop_at_threshold
from kvec.report.metrics import Summary, summarise
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import Split, arrange, retangle
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import FIRST_KNOWN, Vocabulary
from kvec.words.config import Config
from kvec.words.errors import DataError, ModelError, SettingError
from kvec.words.explanation import Explanation
from kvec.words.items import Decision
from kvec.words.schema import Schema

GROUPS = ("visibility", "encoder", "deciding", "training")
PLACES: dict[str, tuple[str, str]] = {
    "visibility" if (group, f.name) == ("visibility", "rule") else f.name: (group, f.name)
    for group in GROUPS
    for f in fields(getattr(Config(), group))
}
Pretrained = Mapping[str, Mapping[Any, Sequence[float]]]


class KVEC:
    """Early classifier of tangled key-value sequences.

    Any setting of `kvec.Config` is a parameter by its own name (`visibility` stands for `visibility.rule`):
    `KVEC(width=64, blocks=2, objective="expected", seed=1)`. What is not given comes from `preset`.
    `schema` names the columns (a `Schema`, a mapping as in its TOML, or None: found beside the data, or guessed).
    `pretrained` gives value embeddings to start from: {field: {value: vector}}.
    """

    model_: Trained

    def __init__(
        self, *, preset: str = "small", schema: Schema | Mapping[str, Any] | None = None, device: str = "auto",
        pretrained: Pretrained | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        self.preset = preset
        self.schema = schema
        self.device = device
        self.pretrained = pretrained
        self._settings: dict[str, Any] = {}
        self.set_params(**settings)

    @classmethod
    def from_config(cls, config: Config, **parameters: Any) -> KVEC:
        """An unfitted KVEC with exactly these settings."""
        flat = {name: config.get(f"{group}.{entry}") for name, (group, entry) in PLACES.items()}
        return cls(**flat, **parameters)

    # -- scikit-learn's manners ---------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name."""
        base = Config.preset(self.preset)
        own = {"preset": self.preset, "schema": self.schema, "device": self.device, "pretrained": self.pretrained}
        flat = {name: base.get(f"{group}.{entry}") for name, (group, entry) in PLACES.items()}
        return own | flat | self._settings

    def set_params(self, **parameters: Any) -> KVEC:
        """Set parameters by name."""
        for name, value in parameters.items():
            if name in ("preset", "schema", "device", "pretrained"):
                setattr(self, name, value)
            elif name in PLACES:
                self._settings[name] = value
            else:
                raise SettingError(f"unknown parameter {name!r} of KVEC; known: {', '.join(sorted(PLACES))}")
        return self

    def __sklearn_clone__(self) -> KVEC:
        """An unfitted copy of what was given; what was not still comes from the preset, whichever is set later."""
        own = {name: getattr(self, name) for name in ("preset", "schema", "device", "pretrained")}
        return type(self)(**copy.deepcopy(own | self._settings))

    def __repr__(self) -> str:
        """The parameters that were given."""
        given = ({"preset": self.preset} if self.preset != "small" else {}) | self._settings
        return f"KVEC({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model to predict with."""
        return hasattr(self, "model_")

    @property
    def config(self) -> Config:
        """The settings, checked."""
        plain: dict[str, dict[str, Any]] = {}
        for name, value in self._settings.items():
            group, entry = PLACES[name]
            plain.setdefault(group, {})[entry] = value
        return Config.from_dict(plain, where="KVEC(...)", base=Config.preset(self.preset))

    # -- learning -----------------------------------------------------------------------------------------------

    def fit(
        self, data: Any, validation: Any = None, *, labels: Any = None, split: Sequence[float] | None = None,
        on_step: Callable[[Step], None] | None = None, on_epoch: Callable[[Run], None] | None = None,
        progress: str | Path | None = None, resume: bool = False,
    ) -> KVEC:  # fmt: skip
        """Train on `data`; the best epoch and the operating point are chosen on `validation`.

        Without `validation`, whole groups or tangles are held out by `split` (8:1:1, the last share untouched, so that
        it can be found again as the test part). `progress` is a file that keeps the run after every epoch, from
        which `resume` goes on.
        """
        config = self.config
        table = self._read(data, labels)
        require_labels(table)
        schema, seed = table.schema, config.training.seed
        kept: Split | None = None
        if validation is None:
            kept = Split.of(table.frame, split or (8, 1, 1), seed)
            frames = kept.part(table.frame, "train"), kept.part(table.frame, "validation")
        else:
            other = validation if isinstance(validation, Table) else read_table(validation, schema, labels=labels)
            require_labels(other)
            frames = table.frame, other.frame
        frames = _tangled(frames[0], schema, seed), _tangled(frames[1], schema, seed)
        vocabulary = Vocabulary.fit(frames[0], schema)
        training, held_out = (encode_tangles(frame, schema, vocabulary) for frame in frames)
        _check_trainable(config, training, held_out, schema.label_names)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = build_network(vocabulary, config.encoder, training.time is not None)
        self._start_from_pretrained(network.embedding, vocabulary)
        rule = make_rule(config.visibility)
        run = new_run(network.to(self._device()), config.training)
        facts: dict[str, Any] = {
            "settings": config.to_dict(), "schema": schema.to_dict(), "about": _about(training, held_out),
            "data": _fingerprint(vocabulary, training, held_out),
        }  # fmt: skip
        if resume:
            _resume(run, progress, facts)

        def after_epoch(run: Run) -> None:
            if progress is not None:
                save_progress(Path(progress), run_state(run), facts | {"history": run.history, "done": run.is_finished})
            if on_epoch is not None:
                on_epoch(run)

        train(run, training, held_out, rule, config, on_step, after_epoch)
        scores = _score(network, held_out, config)
        theta = operating_point(traces(held_out, scores), config.deciding.threshold)
        self.model_ = Trained(
            network, vocabulary, schema, config, training.time is not None, theta, run.history,
            kept.to_dict() if kept else None,
            validation_arrays(scores.offsets, scores.halt, scores.classes, held_out.labels, held_out.tangle_of),
            facts["about"],
        )  # fmt: skip
        return self

    # -- deciding -----------------------------------------------------------------------------------------------

    def decide(self, data: Any) -> list[Decision]:
        """One decision per sequence, in order of first arrival, tangle by tangle."""
        return decisions(self.decision_frame(data), self.model_.vocabulary.label_names)

    def decision_frame(self, data: Any, on_items: Callable[[int, int], None] | None = None) -> pl.DataFrame:
        """The decisions as a Polars data frame (`.to_pandas()` for pandas)."""
        tangles = self.tangles(data)
        scores = self.scores(tangles, on_items)
        return decision_table(tangles, self.model_.vocabulary, scores, self.model_.threshold)

    def predict(self, data: Any) -> npt.NDArray[np.str_]:
        """The label of every sequence, in the order of `decide`."""
        return self.decision_frame(data)["label"].to_numpy().astype(np.str_)

    def predict_proba(self, data: Any) -> npt.NDArray[np.float32]:
        """Class probabilities of every sequence where it was decided, (sequences, classes); see `classes_`."""
        tangles = self.tangles(data)
        scores = self.scores(tangles)
        table = decision_table(tangles, self.model_.vocabulary, scores, self.model_.threshold)
        at: npt.NDArray[np.int64] = scores.offsets[:-1] + table["n_observed"].to_numpy() - 1
        return scores.classes[0][at]

    def score(self, data: Any, y: Any = None) -> float:
        """The harmonic mean of accuracy and of the share of items saved; 1.0 is best."""
        return self.evaluate(data).hm

    def evaluate(self, data: Any) -> Summary:
        """Accuracy, precision, recall, F1, earliness (lower is better) and HM, with intervals over tangles."""
        tangles = self.tangles(data)
        return self.summary(tangles, self.scores(tangles))

    def explain(self, data: Any, key: Any, tangle: Any = None, sequence: int = 0) -> Explanation:
        """What the model saw of one sequence until it halted, and where it looked."""
        tangles, model = self.tangles(data), self.model_
        index = find_sequence(tangles, key, tangle, sequence)
        at = int(tangles.tangle_of[index])
        index -= int(tangles.sequence_starts[at])
        its_own = tangles.frame[int(tangles.starts[at]) : int(tangles.starts[at + 1])]  # other tangles tell nothing
        tangles = encode_tangles(its_own, model.schema, model.vocabulary)
        block = model.config.training.block
        steps = explain_sequence(model.network, tangles, make_rule(model.config.visibility), index, block)
        table = decision_table(tangles, model.vocabulary, self.scores(tangles), model.threshold)
        (decision,) = decisions(table[index : index + 1], model.vocabulary.label_names)
        return Explanation(decision, model.vocabulary.labels[0], model.threshold, steps)

    # -- the parts between, for the doors -----------------------------------------------------------------------

    @property
    def classes_(self) -> npt.NDArray[np.str_]:
        """The class names of the first label column, in the order of `predict_proba`."""
        return np.array(self.model_.vocabulary.labels[0])

    def tangles(self, data: Any) -> Tangles:
        """Read data as the model's schema has it."""
        if isinstance(data, Tangles):
            return data
        if not hasattr(self, "model_"):
            raise ModelError("this KVEC is not fitted yet; call fit, or kvec.load a saved model")
        model = self.model_
        frame = data.frame if isinstance(data, Table) else read_table(data, model.schema, labels_optional=True).frame
        if frame.height == 0:
            raise DataError("there are no items to decide on")
        return encode_tangles(_tangled(frame, model.schema, model.config.training.seed), model.schema, model.vocabulary)

    def scores(self, tangles: Tangles, on_items: Callable[[int, int], None] | None = None) -> Scores:
        """Halting score and class probabilities after every item."""
        self.model_.network.to(self._device())
        return _score(self.model_.network, tangles, self.model_.config, on_items)

    def traces(self, tangles: Tangles, scores: Scores, column: int = 0) -> Traces:
        """The labelled sequences' scores, for curves."""
        found = traces(tangles, scores, column)
        if not len(found.truth):
            name = self.model_.vocabulary.label_names[column]
            raise DataError(f"no sequence has a known label in column {name!r}, so there is nothing to compare with")
        return found

    def summary(self, tangles: Tangles, scores: Scores, column: int = 0) -> Summary:
        """The measures at the model's operating point."""
        found = self.traces(tangles, scores, column)
        n_observed = stop_at_threshold(found, self.model_.threshold)
        n_classes = len(self.model_.vocabulary.labels[column])
        return summarise(found.truth, found.decided(n_observed)[0], n_observed, found.length, found.tangle, n_classes)

    def save(self, path: str | Path) -> None:
        """Write the model folder."""
        if not hasattr(self, "model_"):
            raise ModelError("this KVEC is not fitted yet, so there is no model to save")
        save_model(self.model_, path)

    def _read(self, data: Any, labels: Any = None) -> Table:
        if isinstance(data, Table):
            return data
        schema = Schema.from_dict(self.schema) if isinstance(self.schema, Mapping) else self.schema
        return read_table(data, schema, labels=labels)

    def _device(self) -> torch.device:
        if self.device not in ("auto", "cpu", "cuda"):
            raise SettingError(f"device is {self.device!r}; it can be auto, cpu or cuda")
        has_cuda = torch.cuda.is_available()
        if self.device == "cuda" and not has_cuda:
            raise SettingError("device is cuda, but PyTorch sees no CUDA device here; use auto or cpu")
        return torch.device("cuda" if has_cuda and self.device != "cpu" else "cpu")

    def _start_from_pretrained(self, embedding: Any, vocabulary: Vocabulary) -> None:
        names = [field.name for field in vocabulary.coded]
        for name, vectors in (self.pretrained or {}).items():
            if name not in names:
                raise SettingError(f"pretrained names {name!r}, which is no embedded field; fields: {', '.join(names)}")
            known = vocabulary.coded[names.index(name)].values
            codes = {value: code + FIRST_KNOWN for code, value in enumerate(known)}
            width = embedding.table.shape[1]
            if wrong := {len(v) for v in vectors.values()} - {width}:
                raise SettingError(f"pretrained vectors of {name!r} have {min(wrong)} numbers; the width is {width}")
            embedding.start_from(
                vocabulary.first_code(name), {codes[value]: v for value, v in vectors.items() if value in codes}
            )


def load(path: str | Path, device: str = "auto") -> KVEC:
    """Load a saved model; executes nothing of what it reads."""
    trained = load_model(path)
    model = KVEC.from_config(trained.config, schema=trained.schema, device=device)
    model.model_ = trained
    return model


def _tangled(frame: pl.DataFrame, schema: Schema, seed: int) -> pl.DataFrame:
    return retangle(frame, schema.tangling, seed) if schema.tangling else arrange(frame)


def _score(
    network: Any, tangles: Tangles, config: Config, on_items: Callable[[int, int], None] | None = None
) -> Scores:
    settings = config.training
    rule = make_rule(config.visibility)
    return score(network, tangles, rule, settings.batch, settings.batch_items, settings.block, on_items)


def _about(training: Tangles, validation: Tangles) -> dict[str, int]:
    parts = {"train": training, "validation": validation}
    return {
        f"{name}_{what}": count
        for name, part in parts.items()
        for what, count in (("tangles", part.n_tangles), ("sequences", part.n_sequences), ("items", part.n_items))
    }


def _check_trainable(config: Config, training: Tangles, validation: Tangles, label_names: tuple[str, ...]) -> None:
    needs_time = {"training.delay": ("seconds",), "encoder.time": ("gaps", "both")}
    for name, values in needs_time.items():
        if (value := config.get(name)) in values and training.time is None:
            raise SettingError(f"{name} is {value!r}, but the data has no time column; name one, or change the setting")
    for name, labels in zip(label_names, validation.labels.T, strict=True):
        if not (labels >= 0).any():
            raise DataError(
                f"label column {name!r}: no validation sequence has a class that the training data has; "
                "give other validation data"
            )


def _fingerprint(vocabulary: Vocabulary, *parts: Tangles) -> str:
    """A name for all that a run reads: the same only for the same values, sequences and labels."""
    digest = hashlib.blake2b(json.dumps(vocabulary.to_dict()).encode(), digest_size=16)
    for part in parts:
        for array in (part.codes, part.numbers, part.gaps, part.sequences.sequence, part.session, part.labels):
            digest.update(b"" if array is None else array.tobytes())
    return digest.hexdigest()


def _resume(run: Run, progress: str | Path | None, facts: Mapping[str, Any]) -> None:
    if progress is None:
        raise SettingError("resume needs progress, the file that the stopped run was kept in")
    path = Path(progress)
    tensors, saved = load_progress(path)
    for what, now in facts.items():
        if (then := saved.get(what)) != now:
            detail = _difference(then, now) if what in ("settings", "schema") else ""
            raise ModelError(
                f"{path} belongs to a run with other {'data' if what == 'about' else what}{detail}; "
                "repeat that run's command with --resume added, or train anew without --resume"
            )
    try:
        restore_run(run, tensors, saved["history"], saved["done"])
    except (RuntimeError, KeyError, ValueError):
        raise ModelError(f"{path} does not fit this network; train again without --resume") from None


def _difference(then: Any, now: Any) -> str:
    """The first entry, by its full name, that two mappings do not agree on."""
    name: list[str] = []
    while isinstance(then, Mapping) and isinstance(now, Mapping):
        name.append(next(entry for entry in {**now, **then} if then.get(entry) != now.get(entry)))
        then, now = then.get(name[-1]), now.get(name[-1])
    return f": {'.'.join(name)} was {then!r} and is now {now!r}"
