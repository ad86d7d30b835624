"""Networks and batches that do not fit in memory: refused in one line that names the settings to make smaller."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from kvec.decide.model import Network, build_network
from kvec.tangle.vocabulary import Vocabulary
from kvec.words.config import Encoder, Training
from kvec.words.errors import SettingError

SIZES = ("width", "blocks", "feed_forward", "fusion", "slots", "positions", "time_modulus")
COPIES = 5  # of every weight while it is trained: itself, its gradient, two moments, and the best epoch's


def build_in_memory(
    vocabulary: Vocabulary, settings: Encoder, has_time: bool, kind: type[Network] = Network, n_relations: int = 0
) -> Network:
    """A network that can be trained in this machine's memory; another is refused before it takes any."""
    largest = max(SIZES, key=lambda name: getattr(settings, name) / getattr(Encoder, name))
    way_out = f"make encoder.{largest} ({getattr(settings, largest)}) smaller"
    needed, there = bytes_to_train(vocabulary, settings, has_time), machine_memory()
    if needed > there:
        raise SettingError(
            f"training this network takes {needed / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f} GB; {way_out}"
        )
    with refused_by(lambda: f"this network does not fit in memory; {way_out}"):
        return build_network(vocabulary, settings, has_time, kind, n_relations)


def way_out_of_batches(settings: Training) -> str:
    """What to change where a batch does not fit."""
    named = (f"training.{name} ({getattr(settings, name)})" for name in ("batch_items", "batch", "block"))
    return f"a batch does not fit in memory; make {', '.join(named)} smaller"


@contextmanager
def refused_by(message: Callable[[], str]) -> Iterator[None]:
    """Say this where memory runs out; other errors pass."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)):
            raise
        raise SettingError(message()) from None


def bytes_to_train(vocabulary: Vocabulary, settings: Encoder, has_time: bool) -> float:
    """What all weights take while they are trained; nothing is allocated to know it."""
    try:
        with torch.device("meta"):
            one, two = (build_network(vocabulary, replace(settings, blocks=n), has_time) for n in (1, 2))
    except RuntimeError:  # a tensor of more elements than can be counted
        return COPIES * 2.0**65
    first, both = (sum(p.numel() * p.element_size() for p in network.parameters()) for network in (one, two))
    return COPIES * float(first + (settings.blocks - 1) * (both - first))


def machine_memory() -> float:
    """The bytes of this machine's memory; without end where it does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
