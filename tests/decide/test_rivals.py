import numpy as np
import torch
from torch import nn

from kvec.decide.model import build_network, run_blocks
from kvec.decide.rivals import Confident, Recurrent, Transformer
from kvec.decide.scoring import score
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles
from kvec.tangle.batch import Batch
from kvec.tangle.tangles import Tangles, encode_tangles
from kvec.tangle.tangling import retangle
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Encoder, Visibility
from kvec.words.schema import Tangling

SETTINGS = Encoder(width=16, heads=2, feed_forward=32, fusion=16, dropout=0.0, use_membership=False)
RULE = make_rule(Visibility())


def tangles_alone(n: int = 3) -> tuple[Tangles, Vocabulary]:
    frame = retangle(read_table(planted_tangles(n), SYNTHETIC_SCHEMA).frame, Tangling(1, "key", "order"))
    vocabulary = Vocabulary.fit(frame, SYNTHETIC_SCHEMA)
    return encode_tangles(frame, SYNTHETIC_SCHEMA, vocabulary), vocabulary


def network_of(kind: type, vocabulary: Vocabulary) -> nn.Module:
    torch.manual_seed(0)
    return build_network(vocabulary, SETTINGS, False, kind).double().eval()


def test_earliest_is_an_lstm_over_the_embeddings_of_each_sequence() -> None:
    tangles, vocabulary = tangles_alone()
    network = network_of(Recurrent, vocabulary)
    assert not network.layers()
    with torch.no_grad():
        for member in range(tangles.n_tangles):
            ((block, outputs),) = run_blocks(network, Batch.of(tangles, np.array([member])), RULE, 4096)
            parts = block.codes, block.numbers, block.slot, block.position, block.arrival, block.gaps
            hidden, _ = network.fusion.cell(network.norm(network.embedding(*parts))[0])
            torch.testing.assert_close(outputs.halt, network.policy(hidden)[:, 0])
            torch.testing.assert_close(outputs.classes[0], network.classifiers[0](hidden))


def test_srn_represents_a_sequence_by_its_newest_item() -> None:
    tangles, vocabulary = tangles_alone()
    network = network_of(Transformer, vocabulary)
    assert not hasattr(network, "fusion")
    members = np.arange(tangles.n_tangles)
    batch = Batch.of(tangles, members)
    with torch.no_grad():
        ((block, outputs),) = run_blocks(network, batch, RULE, 4096)
        mixed = network.encode(block, network.new_state(len(batch.sequences)))
    for row, item in enumerate(block.items):  # outputs are laid out sequence by sequence; here tangle by tangle
        tangle = int(np.searchsorted(tangles.starts, item, side="right")) - 1
        at = mixed[tangle, int(item - tangles.starts[tangle])]
        expected = network.classifiers[0](torch.tanh(network.widen(at)))
        torch.testing.assert_close(outputs.classes[0][row], expected)


def test_confidence_is_the_probability_of_the_best_class() -> None:
    tangles, vocabulary = tangles_alone()
    scores = score(network_of(Confident, vocabulary), tangles, RULE)
    np.testing.assert_allclose(scores.halt, scores.classes[0].max(axis=1), rtol=1e-5)


def test_blocks_give_what_one_pass_gives() -> None:
    tangles, vocabulary = tangles_alone()
    for kind in (Recurrent, Transformer, Confident):
        network = network_of(kind, vocabulary)
        whole, parts = (score(network, tangles, RULE, block=size) for size in (4096, 5))
        np.testing.assert_allclose(parts.halt, whole.halt, rtol=1e-5)
        np.testing.assert_allclose(parts.classes[0], whole.classes[0], rtol=1e-5)
