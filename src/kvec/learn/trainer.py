"""The training loop: batches of tangles of like length, validation every epoch, the best model kept (§IV-E)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from kvec.decide.dial import draw_costs, mixture
from kvec.decide.model import Network, Outputs, in_batch_order, run_blocks
from kvec.learn.losses import (
    Layout,
    Terms,
    every_terms,
    expected_terms,
    expected_total,
    paper_terms,
    paper_total,
    sample_episodes,
)
from kvec.learn.run import Record, Run, patient_from
from kvec.learn.supply import InMemory, Supply, class_weights
from kvec.learn.validating import Validation, validate
from kvec.tangle.batch import Batch, Block, Draw
from kvec.tangle.links import Flags
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import Rule, without
from kvec.words.config import Config, Training

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}
EVEN = 3.5  # λ from which on tangles count less, so that those of large λ do not drown the others


@dataclass(frozen=True)
class Step:
    """What the progress display hears after each batch."""

    epoch: int
    step: int
    n_steps: int
    terms: dict[str, float]
    seconds: float  # since the epoch began


def train(
    run: Run, training: Tangles | Supply, validation: Validation, rule: Rule, config: Config,
    on_step: Callable[[Step], None] | None = None, on_epoch: Callable[[Run], None] | None = None,
) -> Run:  # fmt: skip
    """Train until the epochs, the patience or the minutes run out; the kept epoch's weights are then in place."""
    settings, together = config.training, run.together
    n_classes = run.network.n_classes
    supply: Supply = InMemory(training, n_classes) if isinstance(training, Tangles) else training
    is_balanced = settings.class_weights == "balanced"
    weights = class_weights(supply.class_counts(), run.network) if is_balanced else None
    with torch.random.fork_rng(devices=[]):
        while not run.is_finished:
            started = time.perf_counter()
            terms = _epoch(run, supply, rule, config, weights, on_step, started)
            record = terms | validate(run.network, validation, config, together)
            record["seconds"] = time.perf_counter() - started
            record = together.agreed(record)  # so that all stop at the same epoch
            run.history.append({"epoch": float(run.epoch + 1), **record})
            keeps_best = settings.keep == "best"
            if not keeps_best or run.best_record is run.history[-1]:
                run.best = {k: v.detach().clone() for k, v in run.network.state_dict().items()}
            since_best = run.epoch - max(run.best_record["epoch"], patient_from(settings))
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
    run: Run, supply: Supply, rule: Rule, config: Config, weights: list[Tensor] | None,
    on_step: Callable[[Step], None] | None, started: float,
) -> Record:  # fmt: skip
    settings, drops = config.training, config.deciding.after_halt == "drop"
    rng = np.random.default_rng([settings.seed, run.epoch])  # so that a resumed run draws as an unbroken one
    n_steps, portions = supply.epoch(run.epoch, settings, rng, run.together)
    sums: Record = {}
    n_tangles = 0
    run.network.train()
    for step, portion in enumerate(portions):
        done = (run.epoch * n_steps + step) / (settings.epochs * n_steps)
        rate = learning_rate(settings, run.epoch * n_steps + step, settings.epochs * n_steps)
        for group in run.optimizers["network"].param_groups:
            group["lr"] = rate
        cost = delay_cost_at(settings, done)
        terms = train_batch(run, portion.batch, rule, settings, portion.delays, weights, rng, cost, drops)
        n_tangles += (n := len(portion.batch.sizes))
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + value * n
        if on_step is not None:
            means = {name: value / n_tangles for name, value in sums.items()}
            on_step(Step(run.epoch, step + 1, n_steps, means, time.perf_counter() - started))
    return {name: value / n_tangles for name, value in sums.items()} | {"rate": rate}


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

    Where processes share a batch, each has the loss of its tangles over the counts of all, and gradients are added up;
    all take as many updates as the longest tangle of the batch has blocks. Dropout differs from process to process.
    """
    network, together = run.network, run.together
    device = network.policy.weight.device
    layout = Layout.of(torch.from_numpy(np.diff(batch.offsets)).to(device))
    labels = torch.from_numpy(batch.tangles.labels[batch.sequences].astype(np.int64)).to(device)
    sizes = network.settings
    draw = batch.draw(rng, sizes.slots, sizes.time_modulus, sizes.hide)
    seed = int(rng.integers(2**62)) + together.rank
    sampling = torch.Generator().manual_seed(int(rng.integers(2**62)))
    is_head = settings.objective == "paper" and settings.policy_gradient == "head"
    among = (int(batch.sizes.sum()), torch.from_numpy(batch.places))
    dials = share = None
    if sizes.knots > 1:
        costs = draw_costs(rng, len(batch.sizes))[batch.here]
        dials = torch.as_tensor(mixture(costs, sizes.knots)).to(network.policy.weight)
        of_sequence = np.repeat(costs, np.diff(batch.tangles.sequence_starts)[batch.members])
        turned = torch.from_numpy(of_sequence / settings.delay_cost).to(device)
        share = 1 / (1 + turned * settings.delay_cost / EVEN)
    n_here = int(batch.tangles.sizes[batch.members].max(initial=0))  # of the longest
    if drops and n_here:
        rule = without(rule, _sample_dropped(network, batch, rule, settings.block, draw, layout, sampling, seed, among))

    def blocks() -> Iterator[tuple[Block, Outputs]]:
        torch.manual_seed(seed)
        return run_blocks(network, batch, rule, settings.block, draw, is_head, dials, PRECISIONS[settings.precision])

    def loss(outputs: Outputs) -> tuple[Terms, Tensor]:
        if settings.objective == "every":
            terms = every_terms(outputs, labels, layout, weights, settings.lengths, settings.ends, together.total)
            return terms, terms.every
        if settings.objective == "expected":
            late = delays[torch.from_numpy(batch.items)].to(outputs.halt)
            if delay_cost is None:
                outputs = replace(outputs, halt=outputs.halt.detach())
            if share is not None:
                late = late * turned[layout.rows].to(late)
            terms = expected_terms(
                outputs, labels, layout, late, settings.policy_cost, weights, share, settings.lengths,
                together.total,
            )  # fmt: skip
            return terms, expected_total(terms, delay_cost or 0.0, settings.floor)
        episodes = sample_episodes(outputs.halt, layout, sampling, settings.exploration, among)
        terms = paper_terms(
            outputs, labels, layout, episodes, len(batch.sizes), settings.returns, weights, together.total
        )
        return terms, paper_total(terms, settings.alpha, settings.beta)

    n_updates = -(-int(batch.sizes.max()) // settings.block)
    if n_here <= settings.block:
        terms, total = loss(_one_block(blocks(), batch) if n_here else network.no_outputs())
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
    for _ in range(n_updates - max(-(-n_here // settings.block), 1)):
        _update(run, settings.clip)  # others' blocks
    return together.totals({"loss": float(total.detach()), **terms.to_floats()}, device)


def _one_block(blocks: Iterator[tuple[Block, Outputs]], batch: Batch) -> Outputs:
    ((block, outputs),) = blocks
    return outputs.taken(in_batch_order([block.items], batch))


@torch.no_grad()
def _sample_dropped(
    network: Network, batch: Batch, rule: Rule, block: int, draw: Draw, layout: Layout, sampling: torch.Generator,
    seed: int, among: tuple[int, Tensor] | None = None,
) -> Flags:  # fmt: skip
    """One halt per sequence, sampled from the policy as it is; the items of the table that come after them."""
    torch.manual_seed(seed)
    parts = [(part.items, outputs) for part, outputs in run_blocks(network, batch, rule, block, draw)]
    order = in_batch_order([items for items, _ in parts], batch)
    halt = Outputs.joined([outputs for _, outputs in parts]).taken(order).halt
    late = layout.columns >= sample_episodes(halt, layout, sampling, among=among).n_observed[layout.rows]
    dropped = np.zeros(batch.tangles.n_items, bool)
    dropped[batch.items[late.cpu().numpy()]] = True
    return dropped


def _update(run: Run, clip: float) -> None:
    run.together.add_up([p for each in run.optimizers.values() for group in each.param_groups for p in group["params"]])
    for optimizer in run.optimizers.values():  # clipped apart: the baseline's error must not slow the network
        if clip:
            nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
