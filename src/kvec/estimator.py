"""KVEC in scikit-learn's manner: fit on a table of items, then decide each sequence as early as it can."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from kvec.decide.checkpoint import Trained, load_model, save_model
from kvec.decide.deployed import Deployed
from kvec.decide.explain import explain_sequence, find_sequence
from kvec.decide.halting import decision_table, decisions, first_halts, judged
from kvec.decide.replaying import dropped_items, score_table
from kvec.decide.scores import Scores
from kvec.decide.stream import Stream
from kvec.decide.targets import Target, require_mapping, warn_of_costs
from kvec.decide.unknown import settle
from kvec.learn.display import TrainingDisplay
from kvec.learn.fitting import Pretrained, Progress, fit_material, fit_model
from kvec.learn.run import Run
from kvec.learn.streamed import streamed_material, surveyed
from kvec.learn.together import joined
from kvec.learn.trainer import Step
from kvec.learn.validating import traces
from kvec.read.rows import read_table
from kvec.read.shards import Shards, open_shards
from kvec.read.table import Table, iterate, require_labels
from kvec.report.curves import Traces, stop_at_threshold, summarise_stops
from kvec.report.metrics import Summary
from kvec.report.text import Explained
from kvec.tangle.seen import seen_marks
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import Split, arrange, tangled
from kvec.tangle.visibility import make_rule, without
from kvec.words.config import Config
from kvec.words.errors import DataError, ModelError, SettingError
from kvec.words.explanation import Explanation
from kvec.words.items import Decision, Item
from kvec.words.limits import Limits
from kvec.words.plain import require_known
from kvec.words.schema import Schema

PLACES: dict[str, tuple[str, str]] = {
    "visibility" if (group, name) == ("visibility", "rule") else name: (group, name)
    for group, settings in Config().to_dict().items()
    for name in settings
}
OWN = ("preset", "schema", "device", "pretrained", "verbose")  # parameters that are no settings
T = TypeVar("T")


class KVEC:
    """Early classifier of tangled key-value sequences.

    Any setting of `kvec.Config` is a parameter by its own name (`visibility` stands for `visibility.rule`):
    `KVEC(width=64, blocks=2, epochs=6, seed=1)`. What is not given comes from `preset`.
    `schema` names the columns (a `Schema`, a mapping as in its TOML, or None: found beside the data, or guessed).
    `pretrained` gives value embeddings to start from: {field: {value: vector}}.
    `verbose` shows the training as the command line does: a line per epoch, and a bar where there is a terminal.
    """

    model_: Trained

    def __init__(
        self, *, preset: str = "small", schema: Schema | Mapping[str, Any] | None = None, device: str = "auto",
        pretrained: Pretrained | None = None, verbose: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        self.preset = preset
        self.schema = schema
        self.device = device
        self.pretrained = pretrained
        self.verbose = verbose
        self._settings: dict[str, Any] = {}
        self.set_params(**settings)

    @classmethod
    def from_config(cls, config: Config, **parameters: Any) -> KVEC:
        """An unfitted KVEC with exactly these settings."""
        return cls(**_flat(config), **parameters)

    # -- scikit-learn's manners ---------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name."""
        return self._own() | _flat(Config.preset(self.preset)) | self._settings

    def set_params(self, **parameters: Any) -> KVEC:
        """Set parameters by name."""
        require_known(parameters, [*OWN, *PLACES], "parameter", "KVEC")
        for name, value in parameters.items():
            if name in OWN:
                setattr(self, name, value)
            else:
                self._settings[name] = value
        return self

    def __sklearn_clone__(self) -> KVEC:
        """An unfitted copy of what was given; what was not still comes from the preset, whichever is set later."""
        return type(self)(**copy.deepcopy(self._own() | self._settings))

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
        which `resume` goes on. With the setting `stream_items`, `data` is a Parquet file or a folder of them that is
        read in windows of so many items. In processes that torchrun has started, all of them train one model, which
        each of them has in the end.
        """
        with joined(self.torch_device()) as together:
            return self._fit(data, validation, labels, split, Progress(
                None if progress is None else Path(progress), resume, on_step, on_epoch, together
            ))  # fmt: skip

    def _fit(self, data: Any, validation: Any, labels: Any, split: Sequence[float] | None, progress: Progress) -> KVEC:
        config = self.config
        settings = config.training
        is_shown = self.verbose and progress.together.is_first
        display = TrainingDisplay(settings.epochs, settings.minutes) if is_shown else None
        shown = (display.on_step, display.on_epoch) if display else (None, None)
        watch = replace(
            progress, on_step=_each(shown[0], progress.on_step), on_epoch=_each(shown[1], progress.on_epoch)
        )
        with display or nullcontext():
            if settings.stream_items:
                return self._fit_streamed(data, validation, labels, split, watch)
            table = self._read(data, labels)
            require_labels(table)
            schema = table.schema
            kept: Split | None = None
            if validation is None:
                kept = Split.of(table.frame, split or (8, 1, 1), settings.seed)
                parts = kept.part(table.frame, "train"), kept.part(table.frame, "validation")
            else:
                other = self._read(validation, labels, schema)
                require_labels(other)
                parts = table.frame, other.frame
            training, held_out = (tangled(part, schema.tangling, settings.seed) for part in parts)
            self.model_ = fit_model(
                training, held_out, schema, config, self.torch_device(), self.pretrained or {}, kept, watch
            )
            self.model_.seen = seen_marks(*parts)
        return self

    def _fit_streamed(
        self, data: Any, validation: Any, labels: Any, split: Sequence[float] | None, watch: Progress
    ) -> KVEC:
        config, together = self.config, watch.together
        shards = data if isinstance(data, Shards) else open_shards(data, self._own_schema(), labels)
        ratios = (split or (8, 1, 1)) if validation is None else None
        found = surveyed(shards, config.training, ratios, together)
        held_out, seen = None, found.seen
        if validation is not None:
            other = self._read(validation, labels, shards.schema)
            require_labels(other)
            held_out, seen = arrange(other.frame), np.union1d(seen, seen_marks(other.frame))
        material = streamed_material(shards, found, config.training, held_out)
        self.model_ = fit_material(material, shards.schema, config, self.torch_device(), self.pretrained or {}, watch)
        self.model_.seen = seen
        return self

    # -- deciding -----------------------------------------------------------------------------------------------

    def decide(self, data: Any) -> list[Decision]:
        """One decision per sequence, in order of first arrival, tangle by tangle."""
        return decisions(self.decision_frame(data), self.model_.vocabulary.label_names)

    def decision_frame(self, data: Any, on_items: Callable[[int, int], None] | None = None) -> pl.DataFrame:
        """The decisions as a Polars data frame (`.to_pandas()` for pandas), with the ids that streams give them."""
        tangles = self.tangles(data)
        return self._decided(tangles, self.scores(tangles, on_items)).select(_ids(), pl.all())

    def predict(self, data: Any) -> npt.NDArray[np.str_]:
        """The label of every sequence, in the order of `decide`; the best class also of those that are not known."""
        return self.decision_frame(data)["label"].to_numpy().astype(np.str_)

    def predict_proba(self, data: Any) -> npt.NDArray[np.float32]:
        """Class probabilities of every sequence where it was decided, (sequences, classes); see `classes_`."""
        tangles = self.tangles(data)
        scores = self.scores(tangles)
        n_observed = self._decided(tangles, scores)["n_observed"].to_numpy()
        at: npt.NDArray[np.int64] = scores.offsets[:-1] + n_observed - 1
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
        same = np.flatnonzero(tangles.given == tangles.given[tangles.tangle_of[index]])  # other tangles tell nothing
        index -= int(tangles.sequence_starts[same[0]])
        its_own = tangles.frame[int(tangles.starts[same[0]]) : int(tangles.starts[same[-1] + 1])]
        tangles = encode_tangles(its_own, model.schema, model.vocabulary)
        table = self._decided(tangles, self.scores(tangles))
        rule = make_rule(model.config.visibility)
        if model.config.deciding.after_halt == "drop":
            rule = without(rule, dropped_items(tangles, table["n_observed"].to_numpy()))
        steps = explain_sequence(
            model.network, tangles, rule, index, model.readiness, model.config.training.block,
            delay_cost=model.delay_cost,
        )  # fmt: skip
        (decision,) = decisions(table[index : index + 1], model.vocabulary.label_names)
        return Explained(decision, model.vocabulary.labels[0], model.threshold, steps, model.delay_cost)

    def at(self, **target: Any) -> KVEC:
        """The same model elsewhere on its trade-off, chosen by its scores on the validation part.

        `at(earliness=0.1)`, `at(accuracy=0.95)`, `at(cost_per_error=1, cost_per_item=0.01, cost_per_second=0.1)`,
        `at(delay_cost=2)` and `at(threshold=0.4)`; a target that cannot be met says what can. `cost_per_error` may be
        a number or differ by class: {true class: {decided class: cost}}.

        `at(abstain_below=0.6)` lets sequences that end less sure than that be decided as not known, with
        `abstain_at_halts=True` also those that halt; `at(unknown_below=0.05)` those that are stranger than all but 5 %
        of the validation sequences. These words may go with a target or alone.
        """
        turned = self.aimed(target)
        warn_of_costs(target)
        return turned

    def stream(self, threshold: float | None = None, **limits: Any) -> Stream:
        """Decide while items arrive: feed, tick, end, close. Limits by name, as in `max_live_keys=50_000`."""
        return Stream(self, Limits.of(limits), threshold)

    def items(self, data: Any) -> Iterator[Item]:
        """The items of a table one by one in order of arrival, tangle by tangle, as a stream takes them."""
        schema = self._trained().schema
        return iterate(Table(self.tangles(data).frame, schema, "items"))

    def deployed(self) -> Deployed:
        """The model as streams need it, without PyTorch."""
        return self._trained().deployed()

    # -- the parts between, for the doors -----------------------------------------------------------------------

    @property
    def classes_(self) -> npt.NDArray[np.str_]:
        """The class names of the first label column, in the order of `predict_proba`."""
        return np.array(self.model_.vocabulary.labels[0])

    def aimed(self, target: Target) -> KVEC:
        """As `at`, without the warnings."""
        trained = self._trained()
        turned = self.__sklearn_clone__()
        classes = trained.vocabulary.labels[0]
        point, unknown = settle(
            target, trained.validation, trained.operating_point, trained.unknown, classes, trained.config
        )
        turned.model_ = replace(trained.turned(point), unknown=unknown)
        return turned

    def tangles(self, data: Any, retangle: bool = True) -> Tangles:
        """Read data as the model's schema has it; without `retangle`, in the tangles in which it comes."""
        if isinstance(data, Tangles):
            return data
        model = self._trained()
        frame = data.frame if isinstance(data, Table) else read_table(data, model.schema, labels_optional=True).frame
        if frame.height == 0:
            raise DataError("there are no items to decide on")
        frame = tangled(frame, model.schema.tangling if retangle else None, model.config.training.seed)
        return encode_tangles(frame, model.schema, model.vocabulary)

    def scores(self, tangles: Tangles, on_items: Callable[[int, int], None] | None = None) -> Scores:
        """Halting score and class probabilities after every item."""
        self.model_.network.to(self.torch_device())
        model = self.model_
        return model.readiness.applied(score_table(model.network, tangles, model.config, on_items), model.delay_cost)

    def traces(self, tangles: Tangles, scores: Scores, column: int = 0) -> Traces:
        """The labelled sequences' scores, for curves."""
        found = traces(tangles, scores, column)
        if not len(found.truth):
            name = self.model_.vocabulary.label_names[column]
            raise DataError(f"no sequence has a {name!r} that the model knows, so there is nothing to compare with")
        return found

    def summary(self, tangles: Tangles, scores: Scores, column: int = 0) -> Summary:
        """The measures at the model's operating point."""
        found = self.traces(tangles, scores, column)
        n_observed = stop_at_threshold(found, self.model_.threshold)
        known = self.is_known(tangles, scores, column)
        is_known = None if known is None else known[tangles.labels[:, column] >= 0]
        n_classes = len(self.model_.vocabulary.labels[column])
        return summarise_stops(found, n_observed, n_classes, is_known=is_known)

    def is_known(self, tangles: Tangles, scores: Scores, column: int = 0) -> npt.NDArray[np.bool_] | None:
        """(S,) which decisions say that they know; None where none is asked, as of all label columns but the first."""
        model = self.model_
        if column or not model.unknown.is_asked:
            return None
        length = tangles.sequences.length.astype(np.int64)
        return judged(scores, first_halts(scores, model.threshold), length, model.unknown)[0]

    def save(self, path: str | Path) -> None:
        """Write the model folder."""
        if not hasattr(self, "model_"):
            raise ModelError("this KVEC is not fitted yet, so there is no model to save")
        save_model(self.model_, path)

    def _decided(self, tangles: Tangles, scores: Scores) -> pl.DataFrame:
        model = self.model_
        return decision_table(tangles, model.vocabulary, scores, model.threshold, model.unknown)

    def _trained(self) -> Trained:
        if not hasattr(self, "model_"):
            raise ModelError("this KVEC is not fitted yet; call fit, or kvec.load a saved model")
        return self.model_

    def _own(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in OWN}

    def _read(self, data: Any, labels: Any, schema: Schema | None = None) -> Table:
        if isinstance(data, Table):
            return data
        return read_table(data, schema or self._own_schema(), labels=labels)

    def _own_schema(self) -> Schema | None:
        return Schema.from_dict(self.schema) if isinstance(self.schema, Mapping) else self.schema

    def torch_device(self) -> torch.device:
        """Where the network runs."""
        if self.device not in ("auto", "cpu", "cuda"):
            raise SettingError(f"device is {self.device!r}; it can be auto, cpu or cuda")
        has_cuda = torch.cuda.is_available()
        if self.device == "cuda" and not has_cuda:
            raise SettingError("device is cuda, but PyTorch sees no CUDA device here; use auto or cpu")
        return torch.device("cuda" if has_cuda and self.device != "cpu" else "cpu")


def load(path: str | Path, device: str = "auto", at: Target | None = None) -> KVEC:
    """Load a saved model, at the operating point that meets a target; executes nothing of what it reads."""
    require_mapping(at or {})
    trained = load_model(path)
    model = KVEC.from_config(trained.config, schema=trained.schema, device=device)
    model.model_ = trained
    if not at:
        return model
    turned = model.aimed(at)
    warn_of_costs(at)
    return turned


def _ids() -> pl.Expr:
    """The ids of decisions, as `Decision.id` has them."""
    tangle = pl.col("tangle").cast(pl.String).str.replace_all("\\", "\\\\", literal=True)
    return pl.format("{}/{}/{}", tangle.str.replace_all("/", "\\/", literal=True), "key", "sequence").alias("id")


def _flat(config: Config) -> dict[str, Any]:
    return {name: config.get(f"{group}.{entry}") for name, (group, entry) in PLACES.items()}


def _each(*listeners: Callable[[T], None] | None) -> Callable[[T], None]:
    """One listener that tells all of those that are there, in their order."""

    def tell(what: T) -> None:
        for listener in listeners:
            if listener is not None:
                listener(what)

    return tell
