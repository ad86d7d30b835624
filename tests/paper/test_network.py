"""The network against the equations of §IV-B and §IV-C, written as loops over single vectors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from tests.paper.slow import slow_attention, slow_block, slow_fusion, slow_norm
from tests.properties.strategies import (
    SMALL,
    VISIBILITIES,
    Arrival,
    assert_same,
    by_item,
    dense_attention,
    encode,
    frame_of,
    small_network,
    tangled,
)
from torch import Tensor

from kvec.decide.model import Network, lists_of
from kvec.encode.fusion import Fusion, Steps
from kvec.tangle.batch import Batch, Draw
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Visibility


def slow_embedding(network: Network, tangles: Tangles, item: int, draw: Draw | None = None) -> Tensor:
    """Value, membership, position and time of one item, each from its own table, added up."""
    sizes = network.embedding.vocabularies
    tables, start = [], 0
    for size in sizes.sizes():
        tables.append(network.embedding.table[start : start + size])
        start += size
    fields, (slots, positions, arrivals, gap_before, gap_tangle) = tables[:-5], tables[-5:]
    sequence = int(tangles.sequences.sequence[item])
    tangle = int(tangles.tangle_of[sequence])
    slot = (sequence - int(tangles.sequence_starts[tangle])) % network.settings.slots
    arrival = item - int(tangles.starts[tangle])
    if draw is not None:
        slot, arrival = int(draw.slots[tangle][slot]), arrival + int(draw.offset[tangle])
    total = torch.zeros(network.settings.width, dtype=torch.float64)
    for field, code in enumerate(tangles.codes[item].tolist()):
        total = total + fields[field][code]
    if sizes.slots:
        total = total + slots[slot]
    if sizes.positions:
        total = total + positions[min(int(tangles.sequences.position[item]), sizes.positions - 1)]
    if sizes.arrivals:
        total = total + arrivals[arrival % sizes.arrivals]
    if sizes.gaps:
        assert tangles.gaps is not None
        total = total + gap_before[int(tangles.gaps[item, 0])] + gap_tangle[int(tangles.gaps[item, 1])]
    if network.embedding.project is not None:
        total = total + network.embedding.project.weight @ torch.from_numpy(tangles.numbers[item]).double()
    return total


def gates_of(fusion: Fusion) -> dict[str, tuple[Tensor, Tensor]]:
    """The cell's weights as the paper writes them, over [s; E]."""
    weights = torch.cat([fusion.cell.weight_hh_l0, fusion.cell.weight_ih_l0], dim=1).chunk(4)
    biases = (fusion.cell.bias_hh_l0 + fusion.cell.bias_ih_l0).chunk(4)
    return dict(zip(("input", "forget", "cell", "output"), zip(weights, biases, strict=True), strict=True))


def slow_network(
    network: Network, tangles: Tangles, tangle: int, visible: list[list[int]], relations: list[list[int]]
) -> Tensor:
    """All that the heads say after each item of one tangle."""
    start, end = int(tangles.starts[tangle]), int(tangles.starts[tangle + 1])
    xs = [slow_embedding(network, tangles, item) for item in range(start, end)]
    for layer in network.blocks:
        xs = slow_block(xs, visible, relations, dict(layer.named_parameters()))
    xs = [slow_norm(x, network.norm.weight, network.norm.bias) for x in xs]
    owners = tangles.sequences.sequence[start:end].tolist()
    rows: dict[int, Tensor] = {}
    for owner in set(owners):
        mine = [i for i, o in enumerate(owners) if o == owner]
        fused = slow_fusion([xs[i] for i in mine], gates_of(network.fusion))
        for i, s in zip(mine, fused, strict=True):
            halt = network.policy.weight @ s + network.policy.bias
            classes = [c.weight @ s + c.bias for c in network.classifiers]  # type: ignore[operator]
            hidden = (network.baseline[0].weight @ s + network.baseline[0].bias).clamp(min=0)  # type: ignore[operator]
            value = network.baseline[2].weight @ hidden + network.baseline[2].bias  # type: ignore[operator]
            rows[i] = torch.cat([halt, *classes, value])
    return torch.stack([rows[i] for i in range(end - start)])


NETWORK = small_network()


@torch.no_grad()
@settings(max_examples=25)
@given(tangled(16), tangled(8), VISIBILITIES)
def test_the_whole_network(one: list[Arrival], two: list[Arrival], visibility: Visibility) -> None:
    tangles, rule = encode(frame_of(one, two)), make_rule(visibility)
    fast = by_item(NETWORK, tangles, rule)
    with dense_attention():
        dense = by_item(NETWORK, tangles, rule)
    for number in range(2):
        start, end = int(tangles.starts[number]), int(tangles.starts[number + 1])
        seen = rule.look(tangles, number, start, end)
        visible = [(seen.of(q) - start).tolist() for q in range(end - start)]
        relations = [seen.relation[a:b].tolist() for a, b in pairwise(seen.starts)]
        slow = slow_network(NETWORK, tangles, number, visible, relations)
        assert_same(fast[start:end], slow, 1e-10)
        assert_same(dense[start:end], slow, 1e-10)


@pytest.mark.parametrize(
    "off",
    [
        {},
        {"use_membership": False},
        {"use_position": False},
        {"use_time": False},
        {"time": "order"},
        {"time": "gaps"},
        {"use_membership": False, "use_position": False, "use_time": False},
    ],
    ids=str,
)
@torch.no_grad()
def test_the_embedding_is_the_sum_of_its_parts(off: dict[str, object]) -> None:
    network = small_network(replace(SMALL, **off))  # type: ignore[arg-type]
    arrivals = [Arrival(i % 5, i % 4, "in", 1.0 * i, 0.1 * i, 0.3 * i, i == 4) for i in range(30)]
    tangles = encode(frame_of(arrivals, arrivals[:7]))
    batch = Batch.of(tangles, torch.arange(2).numpy())
    draw = Draw(torch.tensor([[2, 0, 1], [1, 2, 0]]).numpy(), torch.tensor([4, 3]).numpy(), hidden=None)
    for chosen in (None, draw):
        for block in batch.blocks(make_rule(Visibility()), 12, SMALL.slots, chosen):
            embedded = network.embedding(
                block.codes, block.numbers, block.slot, block.position, block.arrival, block.gaps
            )
            first = int(block.arrival[0, 0]) - (0 if chosen is None else 4)
            for tangle, size in enumerate(tangles.sizes.tolist()):
                for i in range(first, min(first + embedded.shape[1], size)):
                    slow = slow_embedding(network, tangles, int(tangles.starts[tangle]) + i, chosen)
                    assert_same(embedded[tangle, i - first], slow)


@torch.no_grad()
@settings(max_examples=25)
@given(tangled(20), VISIBILITIES)
def test_attention_is_spread_over_the_visible_items_alone(arrivals: list[Arrival], visibility: Visibility) -> None:
    tangles, rule = encode(frame_of(arrivals)), make_rule(visibility)
    (block,) = Batch.of(tangles, torch.arange(1).numpy()).blocks(rule, 100, SMALL.slots)
    attention = NETWORK.blocks[0].attention
    n = len(arrivals)
    x = torch.randn(1, n, SMALL.width, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    mixed, _ = attention(x, lists_of(block))
    weights = attention.weights(x, lists_of(block))[0]
    q, k, v = (x[0] @ attention.project.weight.T + attention.project.bias).chunk(3, dim=1)
    seen = rule.look(tangles, 0, 0, n)
    for i in range(n):
        visible = seen.of(i).tolist()
        relations = seen.relation[seen.starts[i] : seen.starts[i + 1]].tolist()
        slow, shares = slow_attention(
            q[i], [k[j] for j in visible], [v[j] for j in visible], relations, attention.relation
        )
        assert_same(mixed[0, i], attention.out.weight @ slow + attention.out.bias)
        assert_same(weights[i][visible], shares)
        assert weights[i].sum() == pytest.approx(1)
        assert sum(weights[i].tolist()[j] for j in range(n) if j not in visible) == 0


@torch.no_grad()
@pytest.mark.parametrize("size", [4, 8])  # in single vectors, or not
def test_fusion_is_the_papers_gates_step_by_step(size: int) -> None:
    generator = torch.Generator().manual_seed(3)
    fusion = Fusion(width=5, size=size).double()
    for parameter in fusion.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    items = torch.randn(7, 3, 5, generator=generator, dtype=torch.float64)  # (L, S, D)
    zeros = torch.zeros(3, size, dtype=torch.float64)

    def fuse(part: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.arange(3 * len(part))
        steps = Steps(rows, rows, torch.full((len(part),), 3))
        fused, hidden, memory = fusion(part.flatten(0, 1), steps, hidden, memory)
        return fused.view(len(part), 3, size), hidden, memory

    fused, _, memory = fuse(items, zeros, zeros)
    for s in range(3):
        slow = slow_fusion(list(items[:, s]), gates_of(fusion))
        assert_same(fused[:, s], torch.stack(slow))
    first, hidden, cell = fuse(items[:3], zeros, zeros)
    assert torch.equal(hidden, first[-1])
    rest, hidden, cell = fuse(items[3:], hidden, cell)
    assert_same(torch.cat([first, rest]), fused)
    assert_same(cell, memory)
