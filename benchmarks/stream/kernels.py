"""One arriving item through the network, by several kernels side by side, calls included.

    python benchmarks/stream/kernels.py

Preset `small`, one thread, single precision, with 60 and with 256 visible items. All kernels get the same weights and
memory, write the item's attention keys and values and its sequence's state into that memory, and must say the same.
ONNX Runtime takes part where it is installed: pip install onnx onnxruntime.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np
import torch
from numba import njit
from torch.nn import functional

from kvec.decide.deployed import Deployed
from kvec.decide.kernel import EPSILON, LAYER, Arriving, Kernel, Memory, is_built
from kvec.tangle.tangles import embedded_sizes

Step = Callable[[], Any]
ROW, PLACE, SEQUENCES = 1000, 3, 64
ROUNDS = 20


class Setting:
    """Weights, a filled memory, and one booked item that sees n others."""

    def __init__(self, model: Deployed, n_visible: int) -> None:
        rng = np.random.default_rng(1)
        sizes = embedded_sizes(model.vocabulary, model.config.encoder, False)
        self.s = model.config.encoder
        self.kernel = Kernel(model.weights, self.s, use_c=False)
        self.weights = model.weights
        self.memory = Memory(self.s, self.kernel.n_outputs)
        self.memory.make_room(1024, SEQUENCES)
        for array in (self.memory.cache, self.memory.hidden, self.memory.cell):
            array[:] = rng.normal(0, 0.3, array.shape)
        self.arriving = a = Arriving(4, len(sizes.starts()), 0, np.float32)
        a.n, a.starts[1], a.rows[0], a.places[0] = 1, n_visible, ROW, PLACE
        a.index[0] = [start + 1 for start in sizes.starts()]
        a.seen[:n_visible] = [ROW, *rng.choice(ROW, n_visible - 1, replace=False)]
        self.index, self.seen = a.index[0].copy(), a.seen[:n_visible].astype(np.int64)


def with_kernel(use_c: bool) -> Callable[[Setting], Step]:
    def build(given: Setting) -> Step:
        kernel = Kernel(given.weights, given.s, use_c=use_c)
        return lambda: kernel.run(given.memory, given.arriving)[0]

    return build


# -- numba --------------------------------------------------------------------------------------------------------


@njit(fastmath=True)
def times(x, w, bias, out):  # type: ignore[no-untyped-def]
    """Out = x W + bias, row by row of W so that the loop runs along memory."""
    for o in range(len(out)):
        out[o] = bias[o]
    for d in range(len(x)):
        for o in range(len(out)):
            out[o] += x[d] * w[d, o]


@njit(fastmath=True)
def normalised(x, weight, bias, out):  # type: ignore[no-untyped-def]
    """Layer normalisation."""
    mean = x.mean()
    spread = np.float32(0)
    for d in range(len(x)):
        spread += (x[d] - mean) ** 2
    scale = np.float32(1) / np.sqrt(spread / np.float32(len(x)) + np.float32(EPSILON))
    for d in range(len(x)):
        out[d] = (x[d] - mean) * scale * weight[d] + bias[d]


@njit(fastmath=True)
def sigmoid(x):  # type: ignore[no-untyped-def]
    """As the name says."""
    return np.float32(1) / (np.float32(1) + np.exp(-x))


@njit(fastmath=True)
def numba_step(  # type: ignore[no-untyped-def]
    index, seen, row, place, table, vectors, qkv, out, widen, narrow, ends, gates, head, cache, hidden, cell, heads,
    said,
):  # fmt: skip
    """Vectors of a layer, by row: norm1, norm2 (weight, bias), and the biases of the four matrices."""
    width = table.shape[1]
    size = width // heads
    x, h = np.zeros(width, np.float32), np.empty(width, np.float32)
    wide, mixed = np.empty(3 * width, np.float32), np.empty(width, np.float32)
    broad = np.empty(widen.shape[2], np.float32)
    shares = np.empty(len(seen), np.float32)
    for p in index:
        for d in range(width):
            x[d] += table[p, d]
    for layer in range(len(qkv)):
        v = vectors[layer]
        normalised(x, v[0, :width], v[1, :width], h)
        times(h, qkv[layer], v[4, : 3 * width], wide)
        for d in range(width):
            cache[row, layer, 0, d] = wide[width + d]
            cache[row, layer, 1, d] = wide[2 * width + d]
        for g in range(heads):
            first = g * size
            most = np.float32(-np.inf)
            for p in range(len(seen)):
                score = np.float32(0)
                for d in range(first, first + size):
                    score += wide[d] * cache[seen[p], layer, 0, d]
                shares[p] = score / np.sqrt(np.float32(size))
                most = max(most, shares[p])
            total = np.float32(0)
            for p in range(len(seen)):
                shares[p] = np.exp(shares[p] - most)
                total += shares[p]
            mixed[first : first + size] = 0
            for p in range(len(seen)):
                for d in range(first, first + size):
                    mixed[d] += shares[p] * cache[seen[p], layer, 1, d]
            for d in range(first, first + size):
                mixed[d] /= total
        times(mixed, out[layer], v[5, :width], h)
        for d in range(width):
            x[d] += h[d]
        normalised(x, v[2, :width], v[3, :width], h)
        times(h, widen[layer], v[6, : len(broad)], broad)
        for d in range(len(broad)):
            broad[d] = max(broad[d], np.float32(0))
        times(broad, narrow[layer], v[7, :width], h)
        for d in range(width):
            x[d] += h[d]
    normalised(x, ends[0], ends[1], h)
    fusion = hidden.shape[1]
    both = np.empty(width + fusion, np.float32)
    both[:width], both[width:] = h, hidden[place]
    sums = np.empty(4 * fusion, np.float32)
    times(both, gates[1:], gates[0], sums)
    for r in range(fusion):
        c = sigmoid(sums[fusion + r]) * cell[place, r] + sigmoid(sums[r]) * np.tanh(sums[2 * fusion + r])
        cell[place, r] = c
        hidden[place, r] = sigmoid(sums[3 * fusion + r]) * np.tanh(c)
    times(hidden[place], head[1:], head[0], said)


def with_numba(given: Setting) -> Step:
    k, m, s = given.kernel, given.memory, given.s
    widest = max(3 * s.width, s.feed_forward)
    biases = ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias", "attention.project.bias",
              "attention.out.bias", "widen.bias", "narrow.bias")  # fmt: skip
    vectors = np.stack(
        [np.stack([np.pad(layer[name], (0, widest - len(layer[name]))) for name in biases]) for layer in k.layers]
    )
    matrices = [
        np.stack([layer[f"{name}.weight"] for layer in k.layers])
        for name in ("attention.project", "attention.out", "widen", "narrow")
    ]
    gates = np.concatenate([k.input_bias[None], k.input, k.recurrent])
    head, ends = np.concatenate([k.head_bias[None], k.head]), np.stack([k.norm, k.norm_bias])
    said = np.empty(k.n_outputs, np.float32)

    def step() -> Any:
        numba_step(given.index, given.seen, ROW, PLACE, k.table, vectors, *matrices, ends, gates, head, m.cache,
                   m.hidden, m.cell, s.heads, said)  # fmt: skip
        m.outputs[PLACE] = said
        return said

    return step


# -- PyTorch ------------------------------------------------------------------------------------------------------


def with_torch(given: Setting) -> Step:
    w = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in given.weights.items()}
    s, m = given.s, given.memory
    cache, hidden, cell = (torch.from_numpy(array) for array in (m.cache, m.hidden, m.cell))
    index, seen = torch.from_numpy(given.index), torch.from_numpy(given.seen)
    heads = torch.cat([w["policy.weight"], w["classifiers.0.weight"]])
    head_bias = torch.cat([w["policy.bias"], w["classifiers.0.bias"]])
    layers = [[w[f"blocks.{i}.{name}"] for name in LAYER] for i in range(s.blocks)]
    shape, cell_weights = (s.width,), [w[f"fusion.cell.{name}_l0"] for name in ("weight_ih", "weight_hh")]
    cell_biases = [w[f"fusion.cell.{name}_l0"] for name in ("bias_ih", "bias_hh")]

    @torch.inference_mode()
    def step() -> Any:
        x = w["embedding.table"][index].sum(0, keepdim=True)
        for i, (n1, b1, qkv, qkv_b, out, out_b, n2, b2, widen, widen_b, narrow, narrow_b) in enumerate(layers):
            projected = functional.linear(functional.layer_norm(x, shape, n1, b1), qkv, qkv_b).view(3, -1)
            cache[ROW, i] = projected[1:]
            kv = cache[seen, i].view(len(seen), 2, s.heads, -1).permute(1, 2, 0, 3)
            q = projected[0].view(s.heads, 1, -1)
            mixed = functional.scaled_dot_product_attention(q, kv[0], kv[1]).view(1, -1)
            x = x + functional.linear(mixed, out, out_b)
            broad = functional.linear(functional.layer_norm(x, shape, n2, b2), widen, widen_b).relu_()
            x = x + functional.linear(broad, narrow, narrow_b)
        x = functional.layer_norm(x, shape, w["norm.weight"], w["norm.bias"])
        h, c = torch.lstm_cell(x, (hidden[PLACE, None], cell[PLACE, None]), *cell_weights, *cell_biases)
        hidden[PLACE], cell[PLACE] = h[0], c[0]
        said = functional.linear(h, heads, head_bias)[0].numpy()
        m.outputs[PLACE] = said
        return said

    return step


# -- ONNX Runtime -------------------------------------------------------------------------------------------------


def with_onnx(given: Setting) -> Step:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    k, m, s = given.kernel, given.memory, given.s
    nodes, held = [], {}

    def node(kind: str, *inputs: Any, n: int = 1, **attributes: Any) -> Any:
        names = []
        for given_input in inputs:
            if not isinstance(given_input, str):
                held[f"w{len(held)}"] = numpy_helper.from_array(np.asarray(given_input), f"w{len(held)}")
                given_input = f"w{len(held) - 1}"
            names.append(given_input)
        outputs = [f"{kind}{len(nodes)}_{i}" for i in range(n)]
        nodes.append(helper.make_node(kind, names, outputs, **attributes))
        return outputs[0] if n == 1 else outputs

    def linear(x: str, weight: Any, bias: Any) -> str:
        return str(node("Gemm", x, weight, bias))

    def whole(*numbers: int) -> Any:
        return np.array(numbers, np.int64)

    x = node("ReduceSum", node("Gather", k.table, "index"), whole(0), keepdims=1)
    kept = []
    for i, layer in enumerate(k.layers):
        h = node("LayerNormalization", x, layer["norm1.weight"], layer["norm1.bias"], epsilon=EPSILON)
        qkv = linear(h, layer["attention.project.weight"], layer["attention.project.bias"])
        q, own = node("Split", qkv, whole(s.width, 2 * s.width), n=2, axis=1)
        own = node("Reshape", own, whole(1, 2, s.heads, s.width // s.heads))
        kept.append(own)
        seen = node("Gather", f"cache{i}", "others")  # (P - 1, 2, H, D / H)
        both = node("Transpose", node("Concat", own, seen, axis=0), perm=[1, 2, 0, 3])  # (2, H, P, D / H)
        key, value = node("Split", both, whole(1, 1), n=2, axis=0)
        scaled = node("Mul", node("Reshape", q, whole(1, s.heads, s.width // s.heads, 1)),
                      np.float32((s.width // s.heads) ** -0.5))  # fmt: skip
        shares = node("Softmax", node("Transpose", node("MatMul", key, scaled), perm=[0, 1, 3, 2]), axis=-1)
        mixed = node("Reshape", node("MatMul", shares, value), whole(1, s.width))
        x = node("Add", x, linear(mixed, layer["attention.out.weight"], layer["attention.out.bias"]))
        h = node("LayerNormalization", x, layer["norm2.weight"], layer["norm2.bias"], epsilon=EPSILON)
        wide = node("Relu", linear(h, layer["widen.weight"], layer["widen.bias"]))
        x = node("Add", x, linear(wide, layer["narrow.weight"], layer["narrow.bias"]))
    x = node("LayerNormalization", x, k.norm, k.norm_bias, epsilon=EPSILON)
    joined = node("Concat", x, "hidden", axis=1)
    sums = linear(joined, np.concatenate([k.input, k.recurrent]), k.input_bias)
    gate_i, gate_f, gate_g, gate_o = node("Split", sums, whole(*[s.fusion] * 4), n=4, axis=1)
    kept_cell = node("Mul", node("Sigmoid", gate_f), "cell")
    cell = node("Add", kept_cell, node("Mul", node("Sigmoid", gate_i), node("Tanh", gate_g)))
    hidden = node("Mul", node("Sigmoid", gate_o), node("Tanh", cell))
    results = [linear(hidden, k.head, k.head_bias), hidden, cell, *kept]

    def tensor(name: str, kind: int, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    real, by_head = TensorProto.FLOAT, ["rows", 2, s.heads, s.width // s.heads]
    inputs = [
        tensor("index", TensorProto.INT64, [len(given.index)]), tensor("others", TensorProto.INT64, ["others"]),
        tensor("hidden", real, [1, s.fusion]), tensor("cell", real, [1, s.fusion]),
        *(tensor(f"cache{i}", real, by_head) for i in range(s.blocks)),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "step", inputs, [tensor(name, real, None) for name in results], [*held.values()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = min(model.ir_version, 9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    others = given.seen[1:]
    # its inputs must be whole arrays, so here each layer has a cache of its own
    caches = {f"cache{i}": np.ascontiguousarray(m.cache[:, i]).reshape(-1, *by_head[1:]) for i in range(s.blocks)}

    def step() -> Any:
        fed = {"index": given.index, "others": others, "hidden": m.hidden[None, PLACE], "cell": m.cell[None, PLACE]}
        said, m.hidden[PLACE], m.cell[PLACE], *own = session.run(None, fed | caches)
        for i, kv in enumerate(own):
            caches[f"cache{i}"][ROW] = kv[0]
        m.outputs[PLACE] = said
        return said[0]

    return step


def spread(step: Step, calls: int) -> tuple[Any, Any]:
    """Wall and CPU nanoseconds of some calls."""
    wall, cpu = np.empty(calls), np.empty(calls)
    for i in range(calls):
        used, start = time.thread_time_ns(), time.perf_counter_ns()
        step()
        wall[i], cpu[i] = time.perf_counter_ns() - start, time.thread_time_ns() - used
    return wall, cpu


def measure(candidates: dict[str, Callable[[Setting], Step]], model: Deployed, n: int, calls: int) -> Any:
    steps, wanted = {}, None
    for name, build in candidates.items():
        try:
            steps[name] = build(Setting(model, n))
        except ImportError:
            common.progress(f"{name} is not installed: left out")
            continue
        said = np.array(steps[name]())
        wanted = said if wanted is None else wanted
        np.testing.assert_allclose(said, wanted, atol=1e-4, err_msg=name)
    rounds: dict[str, list[Any]] = {name: [] for name in steps}
    for _ in range(ROUNDS):  # by turns, so that a busy moment troubles all
        for name, step in steps.items():
            spread(step, min(50, calls))
            rounds[name].append(spread(step, calls // ROUNDS + 1))
    for name, found in rounds.items():
        wall, cpu = (np.concatenate(part) / 1000 for part in zip(*found, strict=True))
        yield {
            "kernel": name,
            "visible": n,
            "p50_us": round(float(np.median(wall)), 1),
            "p99_us": round(float(np.percentile(wall, 99)), 1),
            "cpu_p50_us": round(float(np.median(cpu)), 1),
            "cpu_best_round_us": round(min(float(np.median(one[1])) for one in found) / 1000, 1),
        }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="measured calls of each kernel (default: 10,000)")
    parser.add_argument("--visible", default="60,256", help="visible items (default: 60,256)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = common.untrained(common.load(given.data, given.schema, given.tangles))
    candidates = {"C extension": with_kernel(True), "numba": with_numba, "NumPy": with_kernel(False)}
    candidates |= {"PyTorch": with_torch, "ONNX Runtime": with_onnx}
    if not is_built:
        del candidates["C extension"]
    rows = []
    for n in (int(word) for word in given.visible.split(",")):
        for row in measure(candidates, model, n, given.calls):
            rows.append(row)
            common.progress(str(row))
    common.finish(given, "kernels", {"results": rows})


if __name__ == "__main__":
    main()
