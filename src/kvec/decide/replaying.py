"""Scores of a table when items that come after a halt are dropped: what an item sees then depends on decisions.

So items are replayed one by one at a fixed θ, as a stream takes them; a halted sequence keeps what was said then.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kvec.decide.model import Network
from kvec.decide.ready import hazards
from kvec.decide.runner import Runner
from kvec.decide.scores import Scores
from kvec.decide.scoring import score
from kvec.tangle.coder import Coded
from kvec.tangle.tangles import Tangles
from kvec.tangle.visibility import make_rule
from kvec.words.config import Config
from kvec.words.items import Item
from kvec.words.limits import Limits


def replay(
    network: Network, tangles: Tangles, config: Config, threshold: float,
    progress: Callable[[int, int], None] | None = None, dtype: npt.DTypeLike = np.float32,
) -> Scores:  # fmt: skip
    """Halting scores and class probabilities of every item that is not dropped; 1 and the decided ones after that."""
    weights = {name: tensor.detach().cpu().numpy() for name, tensor in network.state_dict().items()}
    most = max(int(tangles.sizes.max(initial=1)), 1)
    limits = Limits(max_tangles=1, max_live_keys=most, max_cached_items=most, max_returning_keys=1)
    runner = Runner(weights, config, network.embedding.vocabularies, limits, dtype=dtype)
    n_outputs = 1 + sum(network.n_classes)
    said = np.zeros((tangles.n_items, n_outputs), np.float32)
    halt = np.zeros(tangles.n_items, np.float32)
    halted_at = np.full(tangles.n_sequences, -1, np.int64)
    sequence, codes, numbers = tangles.sequences.sequence.tolist(), tangles.codes.tolist(), tangles.numbers.tolist()
    session, match, alike = tangles.session.tolist(), tangles.match.tolist(), tangles.alike.tolist()
    time = [None] * tangles.n_items if tangles.time is None else tangles.time.tolist()
    for tangle in range(tangles.n_tangles):
        for i in range(int(tangles.starts[tangle]), int(tangles.starts[tangle + 1])):
            s = sequence[i]
            item = Item(tangle, s, {}, time[i])
            runner.arrivals.make_room(item, time[i])
            if halted_at[s] >= 0:
                live = runner.arrivals.find(tangle, s)
                assert live is not None
                runner.arrivals.pass_by(live, time[i], 0.0)
                said[i], halt[i] = said[halted_at[s]], 1.0
                continue
            same = None if match[i] < 0 else (match[i],)
            of_like = None if alike[i] < 0 else (alike[i],)
            runner.book(item, Coded(codes[i], numbers[i], (session[i],), same, 0, 0, of_like), time[i], 0.0)
            said[i] = runner.run()[0]
            halt[i] = hazards(said[i : i + 1, 0])[0]
            if float(halt[i]) >= threshold:
                halted_at[s] = i
        if progress is not None:
            progress(int(tangles.starts[tangle + 1]), tangles.n_items)
    order = tangles.sequences.by_sequence
    bounds = np.cumsum([1, *network.n_classes])
    classes = tuple(_softmax(said[order, a:b]) for a, b in pairwise(bounds))
    return Scores(tangles.offsets, halt[order], classes)


def score_table(
    network: Network, tangles: Tangles, config: Config, progress: Callable[[int, int], None] | None = None,
    share: tuple[int, int] = (0, 1),
) -> Scores:  # fmt: skip
    """Halting score and class probabilities after every item, by the model's own settings.

    Without dropping, `share` may be one part of several, whose scores add up.
    """
    if config.deciding.after_halt == "drop":
        return replay(network, tangles, config, config.deciding.fixed or 0.0, progress)
    sizes, rule = config.training, make_rule(config.visibility)
    return score(network, tangles, rule, sizes.batch, sizes.batch_items, sizes.block, progress, share)


def dropped_items(tangles: Tangles, n_observed: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which items of the table come after the first `n_observed` of their sequence."""
    late: npt.NDArray[np.bool_] = tangles.sequences.position >= n_observed[tangles.sequences.sequence]
    return late


def _softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    whole: npt.NDArray[np.float32] = shares / shares.sum(axis=1, keepdims=True)
    return whole
