"""The training loop: batches of tangles of like length, validation every epoch, the best model kept (§IV-E)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kvec.decide.dial import draw_costs, mixture
from kvec.decide.model import Network, Outputs, in_batch_order, run_blocks
from kvec.decide.operating import OWN_WORD
from kvec.decide.replaying import score_table
from kvec.decide.scores import Scores
from kvec.learn.losses import (
    Layout,
    Terms,
    expected_terms,
    expected_total,
    paper_terms,
    paper_total,
    sample_episodes,
)
from kvec.report.curves import Traces, best_threshold, stop_at_threshold
from kvec.report.metrics import accuracy, earliness, harmonic_mean
from kvec.tangle.batch import Batch, Draw, Ints, plan_batches
from kvec.tangle.links import Flags
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import Rule, without
from kvec.words.config import Config, Training
from kvec.words.plain import under

Record = dict[str, float]
EVEN = 3.5  # λ from which on tangles count less, so that those of large λ do not drown the others
LEAST_STEPS = 64  # an epoch of few tangles takes smaller batches rather than fewer updates


@dataclass
class Run:
    """A training run between two epochs: all that is needed to go on."""

    network: Network
    optimizers: dict[str, torch.optim.Optimizer]
    history: list[Record] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)  # weights of the epoch that is kept
    is_finished: bool = False

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    @property
    def best_record(self) -> Record:
        """The epoch whose weights are kept."""
        return best_of(self.history)


@dataclass(frozen=True)
class Step:
    """What the progress display hears after each batch."""

    epoch: int
    step: int
    n_steps: int
    terms: dict[str, float]
    seconds: float  # since the epoch began


def kept_of(history: list[Record], settings: Training) -> Record:
    """The epoch whose weights the model has."""
    return history[-1] if settings.keep == "last" else best_of(history)


def best_of(history: list[Record]) -> Record:
    """The best epoch by HM; of equals, the one that is right more often."""
    return max(history, key=lambda record: (record["hm"], record["accuracy"]))


def new_run(network: Network, settings: Training) -> Run:
    """A run of which nothing has been trained; the baseline learns at its own rate."""
    rest = [p for name, p in network.named_parameters() if not name.startswith("baseline.")]
    return Run(
        network,
        {
            "network": torch.optim.AdamW(
                rest, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
            ),
            "baseline": torch.optim.Adam(network.baseline.parameters(), lr=settings.baseline_rate),
        },
    )


def run_state(run: Run) -> dict[str, Tensor]:
    """Everything of a run that is not in its history, as named tensors."""
    state = {f"network.{name}": tensor for name, tensor in run.network.state_dict().items()}
    state |= {f"best.{name}": tensor for name, tensor in run.best.items()}
    for which, optimizer in run.optimizers.items():
        for index, entries in optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{which}.{index}.{name}": torch.as_tensor(value) for name, value in entries.items()}
    return state


def restore_run(run: Run, state: dict[str, Tensor], history: list[Record], is_finished: bool) -> None:
    """Put a new run where the saved one was."""
    run.network.load_state_dict(under("network.", state))
    run.best = under("best.", state)
    run.history, run.is_finished = history, is_finished
    for which, optimizer in run.optimizers.items():
        entries: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under(f"optimizer.{which}.", state).items():
            index, _, entry = name.partition(".")
            entries.setdefault(int(index), {})[entry] = tensor
        optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def train(
    run: Run, training: Tangles, validation: Tangles, rule: Rule, config: Config,
    on_step: Callable[[Step], None] | None = None, on_epoch: Callable[[Run], None] | None = None,
) -> Run:  # fmt: skip
    """Train until the epochs, the patience or the minutes run out; the kept epoch's weights are then in place."""
    settings = config.training
    weights = class_weights(training, run.network) if settings.class_weights == "balanced" else None
    delays = delay(training, settings)
    with torch.random.fork_rng(devices=[]):
        while not run.is_finished:
            started = time.perf_counter()
            terms = _epoch(run, training, rule, config, delays, weights, on_step, started)
            record = terms | validate(run.network, validation, config)
            record["seconds"] = time.perf_counter() - started
            run.history.append({"epoch": float(run.epoch + 1), **record})
            keeps_best = settings.keep == "best"
            if not keeps_best or run.best_record is run.history[-1]:
                run.best = {k: v.detach().clone() for k, v in run.network.state_dict().items()}
            since_best = run.epoch - max(run.best_record["epoch"], settings.settle * settings.epochs)
            spent = sum(r["seconds"] for r in run.history)
            run.is_finished = (
                run.epoch >= settings.epochs
                or (keeps_best and since_best >= settings.patience)
                or 0 < settings.minutes * 60 <= spent
            )  # fmt: skip
            if on_epoch is not None:
                on_epoch(run)
    run.network.load_state_dict(run.best)
    run.network.eval()
    return run


def _epoch(
    run: Run, tangles: Tangles, rule: Rule, config: Config, delays: Tensor, weights: list[Tensor] | None,
    on_step: Callable[[Step], None] | None, started: float,
) -> Record:  # fmt: skip
    settings, drops = config.training, config.deciding.after_halt == "drop"
    rng = np.random.default_rng([settings.seed, run.epoch])  # so that a resumed run draws as an unbroken one
    batches = plan_epoch(tangles, settings, rng)
    sums: Record = {}
    n_tangles = 0
    run.network.train()
    for step, members in enumerate(batches):
        done = (run.epoch * len(batches) + step) / (settings.epochs * len(batches))
        rate = learning_rate(settings, run.epoch * len(batches) + step, settings.epochs * len(batches))
        for group in run.optimizers["network"].param_groups:
            group["lr"] = rate
        cost = delay_cost_at(settings, done)
        terms = train_batch(run, Batch.of(tangles, members), rule, settings, delays, weights, rng, cost, drops)
        n_tangles += len(members)
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value * len(members)
        if on_step is not None:
            means = {name: value / n_tangles for name, value in sums.items()}
            on_step(Step(run.epoch, step + 1, len(batches), means, time.perf_counter() - started))
    return {name: value / n_tangles for name, value in sums.items()} | {"rate": rate}


def plan_epoch(tangles: Tangles, settings: Training, rng: np.random.Generator) -> list[Ints]:
    """The tangles of each batch of an epoch."""
    most = max(min(settings.batch, tangles.n_tangles // LEAST_STEPS), 1)
    return plan_batches(tangles.sizes, most, settings.batch_items, settings.block, rng)


def learning_rate(settings: Training, step: int, n_steps: int) -> float:
    """Rises over the warm-up (a tenth of all steps at the most), then falls along a cosine to a hundredth."""
    warmup = min(settings.warmup, n_steps // 10)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    share = (step - warmup) / max(n_steps - warmup, 1)
    return settings.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0))))


def delay_cost_at(settings: Training, done: float) -> float | None:
    """λ after a share of all steps: None at first, while only the classifier learns, then rising to its full."""
    if 2 * done < settings.settle:
        return None
    return settings.delay_cost * (min(2 * done / settings.settle - 1, 1.0) if settings.settle else 1.0)


def train_batch(
    run: Run, batch: Batch, rule: Rule, settings: Training, delays: Tensor, weights: list[Tensor] | None,
    rng: np.random.Generator, delay_cost: float | None, drops: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Learn from one batch of tangles: one update for each block. Without a delay cost the policy learns nothing.

    With knots, a delay cost is drawn for each tangle, and its policy is told; `delay_cost` then only sets the scale.

    With `drops`, halts are sampled first, and what comes after its sequence's halt is seen by no other sequence.

    Tangles of several blocks are run twice: once without gradients, to know every score that the loss of a whole
    sequence needs, and once block by block, to pass back the gradient that the loss has at each score.
    """
    network = run.network
    device = network.policy.weight.device
    layout = Layout.of(torch.from_numpy(np.diff(batch.offsets)).to(device))
    labels = torch.from_numpy(batch.tangles.labels[batch.sequences].astype(np.int64)).to(device)
    sizes = network.settings
    draw = batch.draw(rng, sizes.slots, sizes.time_modulus, sizes.hide)
    seed = int(rng.integers(2**62))
    sampling = torch.Generator().manual_seed(int(rng.integers(2**62)))
    is_head = settings.objective == "paper" and settings.policy_gradient == "head"
    dials = share = None
    if sizes.knots > 1:
        costs = draw_costs(rng, len(batch.members))
        dials = torch.as_tensor(mixture(costs, sizes.knots)).to(network.policy.weight)
        of_sequence = np.repeat(costs, np.diff(batch.tangles.sequence_starts)[batch.members])
        turned = torch.from_numpy(of_sequence / settings.delay_cost).to(device)
        share = 1 / (1 + turned * settings.delay_cost / EVEN)
    if drops:
        rule = without(rule, _sample_dropped(network, batch, rule, settings.block, draw, layout, sampling, seed))

    def blocks() -> Iterator[tuple[Any, Outputs]]:
        torch.manual_seed(seed)
        return run_blocks(network, batch, rule, settings.block, draw, is_head, dials)

    def loss(outputs: Outputs) -> tuple[Terms, Tensor]:
        if settings.objective == "expected":
            late = delays[torch.from_numpy(batch.items)].to(outputs.halt)
            if delay_cost is None:
                outputs = replace(outputs, halt=outputs.halt.detach())
            if share is not None:
                late = late * turned[layout.rows].to(late)
            terms = expected_terms(
                outputs, labels, layout, late, settings.policy_cost, weights, share, settings.lengths
            )
            return terms, expected_total(terms, delay_cost or 0.0, settings.floor)
        episodes = sample_episodes(outputs.halt, layout, sampling, settings.exploration)
        terms = paper_terms(outputs, labels, layout, episodes, len(batch.members), settings.returns, weights)
        return terms, paper_total(terms, settings.alpha, settings.beta)

    if int(batch.tangles.sizes[batch.members].max()) <= settings.block:
        ((block, outputs),) = blocks()
        terms, total = loss(outputs.taken(in_batch_order([block.items], batch)))
        total.backward()  # type: ignore[no-untyped-call]
        _update(run, settings.clip)
    else:
        with torch.no_grad():
            parts = [(block.items, outputs) for block, outputs in blocks()]  # the lists of visible items may go
        order = in_batch_order([items for items, _ in parts], batch)
        joined = Outputs.joined([outputs for _, outputs in parts])
        leaves = joined.detached()
        terms, total = loss(leaves.taken(order))
        total.backward()  # type: ignore[no-untyped-call]
        gradients = [leaf.grad for leaf in leaves.tensors()]
        done = 0
        for _, outputs in blocks():
            n = len(outputs.halt)
            pairs = [
                (t, g[done : done + n])
                for t, g in zip(outputs.tensors(), gradients, strict=True)
                if g is not None and t.requires_grad
            ]
            torch.autograd.backward([t for t, _ in pairs], [g for _, g in pairs])
            _update(run, settings.clip)
            done += n
    return {"loss": float(total.detach()), **terms.to_floats()}


@torch.no_grad()
def _sample_dropped(
    network: Network, batch: Batch, rule: Rule, block: int, draw: Draw, layout: Layout, sampling: torch.Generator,
    seed: int,
) -> Flags:  # fmt: skip
    """One halt per sequence, sampled from the policy as it is; the items of the table that come after them."""
    torch.manual_seed(seed)
    parts = [(part.items, outputs) for part, outputs in run_blocks(network, batch, rule, block, draw)]
    order = in_batch_order([items for items, _ in parts], batch)
    halt = Outputs.joined([outputs for _, outputs in parts]).taken(order).halt
    late = layout.columns >= sample_episodes(halt, layout, sampling).n_observed[layout.rows]
    dropped = np.zeros(batch.tangles.n_items, bool)
    dropped[batch.items[late.cpu().numpy()]] = True
    return dropped


def _update(run: Run, clip: float) -> None:
    for optimizer in run.optimizers.values():  # clipped apart: the baseline's error must not slow the network
        if clip:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def delay(tangles: Tangles, settings: Training) -> Tensor:
    """d_i of every item, in table order: the share of its sequence seen, or items or seconds over their unit."""
    position = tangles.sequences.position + 1.0
    if settings.delay == "fraction":
        return torch.from_numpy(position / tangles.sequences.length[tangles.sequences.sequence])
    if settings.delay == "items":
        return torch.from_numpy(position / settings.delay_unit)
    assert tangles.time is not None
    begun = tangles.time[tangles.sequences.first][tangles.sequences.sequence]
    return torch.from_numpy((tangles.time - begun) / settings.delay_unit)


def class_weights(tangles: Tangles, network: Network) -> list[Tensor]:
    """Weights per class that let every class count the same, with mean 1 over the sequences."""
    weights = []
    for column, n in enumerate(network.n_classes):
        labels = tangles.labels[:, column]
        counts = np.bincount(labels[labels >= 0], minlength=n)
        weight = counts.sum() / (np.maximum(counts, 1) * (counts > 0).sum())
        weights.append(torch.tensor(weight, dtype=torch.float32, device=network.policy.weight.device))
    return weights


def traces(tangles: Tangles, scores: Scores, column: int = 0) -> Traces:
    """The labelled sequences' scores as the report room reads them."""
    known = tangles.labels[:, column] >= 0
    kept = np.repeat(known, np.diff(scores.offsets))
    classes = scores.classes[column][kept]
    return Traces(
        offsets=np.concatenate([[0], np.cumsum(np.diff(scores.offsets)[known])]),
        halt=scores.halt[kept].astype(np.float64),
        predicted=classes.argmax(axis=1),
        confidence=classes.max(axis=1, initial=0.0),
        truth=tangles.labels[known, column].astype(np.int64),
        tangle=tangles.given[tangles.tangle_of[known]].astype(np.int64),
        untempered=None if scores.untempered is None else scores.untempered[column][kept].max(axis=1, initial=0.0),
    )


def operating_point(found: Traces, threshold: float | None) -> float:
    """The threshold that was asked for, or else the best by HM."""
    return best_threshold(found)[0] if threshold is None else threshold


def validate(network: Network, tangles: Tangles, config: Config) -> Record:
    """Accuracy, earliness and HM at the operating point, accuracy at the sequences' ends; means over columns.

    Earliness and HM are told by the policy's own word (θ = 0.5) as well.
    """
    scores = score_table(network, tangles, config)
    found = [traces(tangles, scores, column) for column in range(len(network.n_classes))]
    theta = operating_point(found[0], config.deciding.fixed)
    results = []
    for each in found:
        n_observed = stop_at_threshold(each, theta)
        right = accuracy(each.truth, each.decided(n_observed)[0])
        early = earliness(n_observed, each.length)
        at_end = accuracy(each.truth, each.decided(each.length)[0])
        by_word = stop_at_threshold(each, OWN_WORD)
        late = earliness(by_word, each.length)
        word_hm = harmonic_mean(accuracy(each.truth, each.decided(by_word)[0]), late)
        results.append((right, early, harmonic_mean(right, early), at_end, late, word_hm))
    means = np.mean(results, axis=0)
    names = ("accuracy", "earliness", "hm", "end_accuracy", "word_earliness", "word_hm")
    return {"threshold": theta, **{name: float(value) for name, value in zip(names, means, strict=True)}}
