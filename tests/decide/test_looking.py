"""Where the network looks: shares of attention, and as what each item is seen."""

import numpy as np
import pytest
import torch

from kvec.decide.explain import explain_sequence
from kvec.decide.looking import attention_shares
from kvec.decide.model import build_network
from kvec.decide.readiness import Readiness
from kvec.read.rows import read_table
from kvec.read.synthetic import SYNTHETIC_SCHEMA, planted_tangles
from kvec.tangle.relations import RELATIONS
from kvec.tangle.tangles import encode_tangles
from kvec.tangle.visibility import make_rule
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Encoder, Visibility


@pytest.mark.parametrize("block", [4096, 7])
@pytest.mark.parametrize("use_value_correlation", [True, False])
def test_shares_are_those_of_explanations(block: int, use_value_correlation: bool) -> None:
    frame = read_table(planted_tangles(4), SYNTHETIC_SCHEMA).frame
    vocabulary = Vocabulary.fit(frame, SYNTHETIC_SCHEMA)
    tangles = encode_tangles(frame, SYNTHETIC_SCHEMA, vocabulary)
    torch.manual_seed(0)
    network = build_network(vocabulary, Encoder(width=16, heads=2, feed_forward=16, fusion=16), False).eval()
    rule = make_rule(Visibility("paper", use_value_correlation=use_value_correlation))
    members = np.array([1, 3])
    inside, outside = attention_shares(network, tangles, rule, members, block)
    expected = [
        (sum(look.weight for look in step.looks if look.is_own), sum(k.weight for k in step.looks if not k.is_own))
        for tangle in members
        for sequence in range(tangles.sequence_starts[tangle], tangles.sequence_starts[tangle + 1])
        for step in explain_sequence(network, tangles, rule, int(sequence), Readiness(), block, most=1000)
    ]
    np.testing.assert_allclose(np.stack([inside, outside], axis=1), expected, atol=1e-5)
    assert (outside.max() > 0.01) == use_value_correlation


@pytest.mark.parametrize("block", [4096, 7])
def test_explanations_name_relations_where_the_rule_tells_them_apart(block: int) -> None:
    frame = read_table(planted_tangles(3), SYNTHETIC_SCHEMA).frame
    vocabulary = Vocabulary.fit(frame, SYNTHETIC_SCHEMA)
    tangles = encode_tangles(frame, SYNTHETIC_SCHEMA, vocabulary)
    torch.manual_seed(0)
    settings = Encoder(width=16, heads=2, feed_forward=16, fusion=16)
    network = build_network(vocabulary, settings, False, n_relations=len(RELATIONS)).eval()
    rule, start, names = make_rule(Visibility(rule="typed", window=12)), int(tangles.starts[1]), set()
    sequence = int(tangles.sequence_starts[1])
    for step in explain_sequence(network, tangles, rule, sequence, Readiness(), block, most=1000):
        seen = rule.look(tangles, 1, start + step.arrival, start + step.arrival + 1)
        wanted = dict(zip((seen.items - start).tolist(), (RELATIONS[code] for code in seen.relation), strict=True))
        assert {look.arrival: look.relation for look in step.looks} == wanted
        assert all(look.is_own == (look.relation == "own") for look in step.looks)
        names |= set(wanted.values())
    assert {"own", "same session value", "other"} <= names
    plain = explain_sequence(network, tangles, make_rule(Visibility(rule="window")), sequence, Readiness(), block)
    assert {look.relation for step in plain for look in step.looks} == {""}
