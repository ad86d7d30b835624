"""Laws of a fleet: tangles stay together, partitions are shared out, and nobody needs to be told by a third."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kvec.doors.fleet.partitions import partition_of, plan, share
from kvec.doors.fleet.sink import MOST_ID, marked_id

names = st.text("abcdef", min_size=1, max_size=4)
tangles = st.one_of(st.text(), st.integers(-(2**70), 2**70))


@given(tangles, st.integers(1, 64))
def test_a_tangle_has_one_partition_whether_its_name_is_text_or_a_number(tangle: str | int, n: int) -> None:
    assert 0 <= partition_of(tangle, n) < n
    assert partition_of(tangle, n) == partition_of(str(tangle), n)


@given(st.sets(names, min_size=1, max_size=9), st.integers(1, 64))
def test_shares_add_up_and_are_fair(workers: set[str], n: int) -> None:
    shares = [share(one, workers, n) for one in workers]
    assert sum(shares) == n
    assert max(shares) - min(shares) <= 1


@given(st.sets(names, min_size=1, max_size=5), st.sets(names, max_size=3), st.integers(1, 12), st.randoms())
def test_from_any_state_workers_come_to_their_shares(live: set[str], lost: set[str], n: int, rng: Random) -> None:
    """Workers look in any order; each partition has one owner at all times, and soon each has its share."""
    anyone = [*sorted(live | lost), ""]
    owners = {number: rng.choice(anyone) for number in range(n) if rng.random() < 0.8}
    held = {one: [number for number in owners if owners[number] == one and rng.random() < 0.7] for one in live}
    for _ in range(4):
        for one in sorted(live, key=lambda _: rng.random()):
            wanted = plan(one, live, owners, held[one], n)
            assert not set(wanted.release) & set(wanted.claim)
            for number in wanted.release:
                if number in held[one]:
                    held[one].remove(number)
                owners[number] = ""
            for number in wanted.claim:
                assert all(number not in others for name, others in held.items() if name != one)
                held[one].append(number)
                owners[number] = one
    assert sorted(number for some in held.values() for number in some) == list(range(n))
    assert {one: len(some) for one, some in held.items()} == {one: share(one, live, n) for one in live}


@given(st.text(), st.text())
def test_different_ids_have_different_marks_that_a_header_can_hold(one: str, other: str) -> None:
    marked = marked_id(one)
    assert marked.isascii() and marked.isprintable() and marked == marked.strip() and len(marked) <= MOST_ID
    assert (marked == marked_id(other)) == (one == other)
