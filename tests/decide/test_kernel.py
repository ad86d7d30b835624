"""The kernel against PyTorch: in C and in NumPy, one by one and in blocks, whatever the sizes."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.properties.stories import MODEL, Plan, assert_same, lived

from kvec.decide.kernel import BLOCK, FEW, MOST_SIZE, TILE, Arriving, Kernel, Memory, is_built, pack_columns
from kvec.decide.model import Network
from kvec.decide.stream import Stream
from kvec.encode.sparse import Lists
from kvec.words.config import Encoder
from kvec.words.errors import ModelError
from kvec.words.limits import Limits
from kvec.words.sizes import Vocabularies

needs_c = pytest.mark.skipif(not is_built, reason="the C extension is not built")
SIZES = {
    "usual": (Encoder(width=16, heads=2, blocks=2, feed_forward=32, fusion=16), (5, 3), 0, (4,)),
    "odd": (Encoder(width=24, heads=3, blocks=3, feed_forward=7, fusion=10), (5,), 2, (2, 3)),
    "one of each": (Encoder(width=1, heads=1, blocks=1, feed_forward=1, fusion=1), (2,), 0, (2,)),
    "numbers alone": (Encoder(width=6, heads=2, blocks=1, feed_forward=70, fusion=5), (), 4, (3,)),
    "just a lane": (Encoder(width=64, heads=2, blocks=1, feed_forward=64, fusion=16), (3,), 0, (63,)),
    "over a lane": (Encoder(width=65, heads=5, blocks=1, feed_forward=65, fusion=17), (3, 2), 2, (64, 5)),
    "usual heads": (Encoder(width=64, heads=8, blocks=1, feed_forward=9, fusion=70), (3,), 0, (2, 2, 2)),
    "wide heads": (Encoder(width=2 * MOST_SIZE, heads=2, blocks=1, feed_forward=8, fusion=4), (3,), 0, (2,)),
    "wider heads": (Encoder(width=2 * MOST_SIZE + 2, heads=2, blocks=1, feed_forward=8, fusion=4), (3,), 0, (2,)),
}
COLUMNS = TILE // 8  # doubles of a tile
N, K, R = 2 * BLOCK + 7, 6, 3  # items, sequences, relations


class Case:
    """A network, some items in order of arrival, what each sees, and what PyTorch makes of them all at once."""

    def __init__(self, settings: Encoder, fields: tuple[int, ...], numbers: int, classes: tuple[int, ...]) -> None:
        rng = np.random.default_rng(7)
        torch.manual_seed(1)
        self.settings, self.n_relations = settings, R
        sizes = Vocabularies(fields, slots=0, positions=0, arrivals=0, gaps=0, projected=numbers)
        network = Network(sizes, settings, classes, n_relations=R).double().eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.5)
        self.weights = {name: tensor.numpy() for name, tensor in network.state_dict().items()}
        self.index = np.array(sizes.starts(), np.int64) + rng.integers(0, 2, (N, len(fields)))
        self.numbers = rng.normal(size=(N, numbers))
        self.rows = rng.permutation(3 * N)[:N]
        self.places = rng.permutation(K + 3)[rng.integers(0, K, N)]
        self.seen = [[i, *rng.permutation(i)[: rng.integers(0, i + 1)].tolist()] for i in range(N)]
        self.relation = [rng.integers(0, R, len(seen)).astype(np.uint8) for seen in self.seen]
        self.said = self._in_torch(network)

    @torch.no_grad()
    def _in_torch(self, network: Network) -> np.ndarray[Any, Any]:
        x = network.embedding.table[torch.from_numpy(self.index)].sum(dim=1)
        if network.embedding.project is not None:
            x = x + network.embedding.project(torch.from_numpy(self.numbers))
        starts = torch.tensor([0, *np.cumsum([len(seen) for seen in self.seen])])
        flat = torch.tensor([j for seen in self.seen for j in seen], dtype=torch.int32)
        lists = Lists(starts, flat, torch.from_numpy(np.concatenate(self.relation)), N)
        x = x[None]
        for layer in network.layers():
            x, _ = layer(x, lists)
        x = network.norm(x)[0]
        said = torch.empty(N, 1 + sum(network.n_classes), dtype=torch.float64)
        for place in set(self.places.tolist()):
            who = torch.from_numpy(np.flatnonzero(self.places == place))
            states, _ = network.fusion.cell(x[who][:, None])
            outputs = network.heads(states[:, 0])
            said[who] = torch.cat([outputs.halt[:, None], *outputs.classes], dim=1)
        return said.numpy()

    def run(self, dtype: type, use_c: bool, chunk: int) -> tuple[np.ndarray[Any, Any], Memory]:
        kernel = Kernel(self.weights, self.settings, dtype, use_c, n_relations=self.n_relations)
        memory = Memory(self.settings, kernel.n_outputs, dtype)
        arriving = Arriving(N, self.index.shape[1], self.numbers.shape[1], dtype)
        arriving.seen, arriving.relation = arriving.seen[:0], arriving.relation[:0]
        arriving.make_room(7)  # so that it grows
        memory.make_room(3 * N, K + 3)
        said = []
        for first in range(0, N, chunk):
            last = min(first + chunk, N)
            arriving.n = last - first
            for i, item in enumerate(range(first, last)):
                arriving.index[i], arriving.numbers[i] = self.index[item], self.numbers[item]
                arriving.rows[i], arriving.places[i] = self.rows[item], self.places[item]
                start = arriving.starts[i]
                end = arriving.starts[i + 1] = start + len(self.seen[item])
                if end > len(arriving.seen):
                    arriving.make_room(2 * end)
                arriving.seen[start:end] = self.rows[self.seen[item]]
                arriving.relation[start:end] = self.relation[item]
            said.append(kernel.run(memory, arriving).copy())
        return np.concatenate(said), memory


CASES = {name: Case(*sizes) for name, sizes in SIZES.items()}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("use_c", [pytest.param(True, marks=needs_c), False], ids=["C", "NumPy"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_kernel_says_what_the_network_says(name: str, use_c: bool, dtype: type) -> None:
    case = CASES[name]
    close = 1e-11 if dtype is np.float64 else 2e-4
    for chunk in (1, 2, 3, *range(FEW, FEW + 4), BLOCK, BLOCK + 1, N):
        said, memory = case.run(dtype, use_c, chunk)
        assert said.dtype == dtype
        np.testing.assert_allclose(said, case.said, rtol=close, atol=close)
        last = {place: i for i, place in enumerate(case.places.tolist())}
        for place, i in last.items():
            np.testing.assert_array_equal(memory.outputs[place], said[i])


@needs_c
def test_narrow_vectors_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs where registers are narrower than here."""
    monkeypatch.setattr("kvec.decide.kernel.WIDTH", 16)
    monkeypatch.setattr("kvec.decide.kernel.TILE", 32)
    for case in CASES.values():
        for dtype, close in ((np.float64, 1e-11), (np.float32, 2e-4)):
            for chunk in (1, FEW + 1, N):
                np.testing.assert_allclose(case.run(dtype, True, chunk)[0], case.said, rtol=close, atol=close)


@pytest.mark.parametrize("outputs", [1, *range(COLUMNS - 2, COLUMNS + 1), 2 * COLUMNS - 1, 69])
def test_any_number_of_classes(outputs: int) -> None:
    case = Case(Encoder(width=4, heads=2, blocks=1, feed_forward=4, fusion=3), (3,), 0, (outputs,))
    for use_c in {is_built, False}:
        for chunk in (1, FEW + 1):
            np.testing.assert_allclose(case.run(np.float64, use_c, chunk)[0], case.said, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_that_are_far_apart(dtype: type) -> None:
    """Gates that are fully open or shut, and attention that sees one item alone: no number runs over."""
    case = Case(Encoder(width=8, heads=2, blocks=2, feed_forward=8, fusion=6), (3,), 2, (3,))
    case.weights = {name: weight * 40 for name, weight in case.weights.items()}
    plain = case.run(dtype, False, N)[0]
    assert np.isfinite(plain).all()
    for chunk in (1, N):
        np.testing.assert_allclose(
            case.run(dtype, is_built, chunk)[0], plain, rtol=5e-3 if dtype is np.float32 else 1e-9
        )


@pytest.mark.parametrize("use_c", [pytest.param(True, marks=needs_c), False], ids=["C", "NumPy"])
def test_biases_count_only_where_relations_are_told_apart(use_c: bool) -> None:
    """Without relations nothing is added, whatever the weights hold; with them each layer must have its table."""
    case = CASES["odd"]
    bare = {name: weight for name, weight in case.weights.items() if not name.endswith("attention.relation")}
    case = copy(case)
    case.relation = [np.zeros_like(some) for some in case.relation]
    said = []
    with pytest.raises(ModelError, match="do not have the sizes"):
        Kernel(bare, case.settings, use_c=use_c, n_relations=R)
    with pytest.raises(ModelError, match="do not have the sizes"):
        Kernel(case.weights, case.settings, use_c=use_c, n_relations=R + 1)
    for weights, n in ((case.weights, R), (case.weights, 0), (bare, 0)):
        case.weights, case.n_relations = weights, n
        said.append(np.concatenate([case.run(np.float64, use_c, chunk)[0] for chunk in (1, N)]))
    np.testing.assert_allclose(said[1], said[0], rtol=1e-11, atol=1e-11)  # the same bias for all pairs changes nothing
    np.testing.assert_array_equal(said[1], said[2])


def test_heads_too_wide_for_the_loops_in_c_are_left_to_numpy() -> None:
    wide, wider = CASES["wide heads"], CASES["wider heads"]
    assert (Kernel(wide.weights, wide.settings)._c is not None) == is_built
    assert Kernel(wider.weights, wider.settings)._c is None


@pytest.mark.parametrize("limits", [Limits(), Limits(max_live_keys=2, max_cached_items=9, reorder=3.0)])
def test_a_whole_stream_without_the_extension(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4):
        story = Plan(seed, 40, n_tangles=2, n_keys=4, most=9).story
        wanted = lived(Stream(MODEL, limits, dtype=np.float64), story)
        with monkeypatch.context() as patch:
            patch.setattr("kvec.decide.runner.Kernel", partial(Kernel, use_c=False))
            found = lived(Stream(MODEL, limits, dtype=np.float64), story)
        for some, others in zip(found, wanted, strict=True):
            assert_same(some, others)


def test_memory_grows_and_keeps_what_it_held() -> None:
    memory = Memory(Encoder(width=4, heads=2, blocks=2, fusion=3), n_outputs=5, dtype=np.float64)
    assert memory.bytes == 0
    memory.make_room(2, 1)
    memory.cache[1], memory.hidden[0], memory.cell[0], memory.outputs[0] = 1, 2, 3, 4
    places = len(memory.hidden)
    memory.make_room(9, places + 1)
    assert (len(memory.cache), len(memory.hidden)) == (9, 2 * places)
    kept = (memory.cache[1], memory.hidden[0], memory.cell[0], memory.outputs[0])
    assert [array.ravel()[0] for array in kept] == [1, 2, 3, 4]
    before = memory.cache
    memory.make_room(9, 2 * places)
    assert memory.cache is before
    memory.clear(0)
    assert not memory.hidden[0].any() and not memory.cell[0].any() and not memory.outputs[0].any()
    assert memory.bytes == 8 * (9 * 2 * 2 * 4 + 2 * places * (3 + 3 + 5))


def test_packing_puts_column_groups_one_after_the_other() -> None:
    matrix = np.arange(3.0 * 13).reshape(3, 13)
    packed = pack_columns(matrix)
    assert packed.shape == (-(-13 // COLUMNS), 3, COLUMNS)
    np.testing.assert_array_equal(packed.transpose(1, 0, 2).reshape(3, -1)[:, :13], matrix)
    assert not packed[-1, :, 13 % COLUMNS :].any()
