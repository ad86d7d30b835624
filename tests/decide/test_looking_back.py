"""Where a stream's items looked, told by running what it remembers once more."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decide.test_hearing import items
from tests.properties.stories import MODEL, TIMELESS, changed

from kvec.decide.deployed import Deployed
from kvec.decide.stream import Stream
from kvec.words.items import Item

MODELS = {
    "paper": changed(MODEL, "visibility.rule=paper"),
    "window": changed(MODEL, "visibility.rule=window"),
    "typed": changed(MODEL, "visibility.rule=typed"),
    "timeless": TIMELESS,
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_item_shares_its_attention_among_earlier_ones_and_itself(model: Deployed) -> None:
    stream = Stream(model, dtype=np.float64)
    given = items(50, model.has_time)
    stream.feed_many([*given, Item("other", "k0", given[0].value, given[0].time)])
    before = stream.to_plain()[0]
    looked = stream.look_back("t")
    assert looked is not None
    assert [item.key for item in looked.items] == [item.key for item in given]
    for i, looks in enumerate(looked.looks):
        places = [look.place for look in looks]
        assert max(places) <= i and (i in places or len(looks) == 24)
        shares = [look.share for look in looks]
        assert shares == sorted(shares, reverse=True)
        if len(looks) < 24:
            assert sum(shares) == pytest.approx(1)
        for look in looks:
            is_own = (looked.items[look.place].key, looked.numbers[look.place]) == (
                looked.items[i].key, looked.numbers[i],
            )  # fmt: skip
            assert (look.kind == "own") == is_own
    if model is MODELS["paper"]:
        assert {look.kind for looks in looked.looks for look in looks} == {"own", "value"}
    assert stream.to_plain()[0] == before  # looking changes nothing
    assert stream.look_back("never seen") is None
