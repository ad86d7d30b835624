"""Processes that train one model together, as torchrun starts them; a few verbs that do nothing where there is one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, distributed
from torch.distributed.rendezvous import rendezvous

from kvec.words.errors import KvecError
from kvec.words.processes import is_one_of_many, rank_on_host

T = TypeVar("T")
CALL = "kvec/call"  # where the first process says that it is there
SOON = timedelta(seconds=1)
# of a process that waits for another: readings of a table may be that far apart, all else is shared out evenly;
# torchrun sees dead processes at once, but a host without power says nothing
PATIENCE = timedelta(hours=1)


class OtherEnded(KvecError):
    """Another process of the same training is gone."""


@dataclass(frozen=True)
class Together:
    """One of `size` processes. Every verb but `mine` is a meeting: all processes call it, in the same order."""

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that speaks."""
        return self.rank == 0

    @property
    def keeps(self) -> bool:
        """Whether this process writes what its host keeps of a run."""
        return rank_on_host() == 0

    def mine(self, whole: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """This process's share: what is sorted is shared out evenly."""
        return whole[self.rank :: self.size]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, without a gradient."""
        if self.size == 1:
            return values
        summed = values.detach().clone()
        with _meeting():
            distributed.all_reduce(summed)
        return summed

    def totals(self, values: Mapping[str, float], device: torch.device) -> dict[str, float]:
        """The sums over all processes, by name."""
        if self.size == 1:
            return dict(values)
        summed = self.total(torch.tensor(list(values.values()), dtype=torch.float64, device=device))
        return dict(zip(values, summed.tolist(), strict=True))

    def add_up(self, parameters: Sequence[Tensor]) -> None:
        """Give every parameter the sum of its gradients; none where no process has one."""
        if self.size == 1:
            return
        first = parameters[0]
        flags = torch.tensor([p.grad is not None for p in parameters], dtype=first.dtype, device=first.device)
        parts = [(p.new_zeros(p.shape) if p.grad is None else p.grad).flatten() for p in parameters]
        summed = self.total(torch.cat([*parts, flags]))
        *gradients, given = torch.split(summed, [*(p.numel() for p in parameters), len(parameters)])
        for p, gradient, n in zip(parameters, gradients, given.tolist(), strict=True):
            p.grad = gradient.view(p.shape) if n else None

    def agreed(self, value: T) -> T:
        """What the first process has."""
        return self._told(value, 0)

    def gathered(self, value: T) -> list[T]:
        """What every process has, in their order."""
        if self.size == 1:
            return [value]
        found: list[T | None] = [None] * self.size
        with _meeting():
            distributed.all_gather_object(found, value)
        return found  # type: ignore[return-value]

    def of_furthest(self, value: T, far: int) -> T:
        """What the process that has come furthest has; of equals, the first."""
        ahead = self.gathered(far)
        return self._told(value, ahead.index(max(ahead)))

    def _told(self, value: T, rank: int) -> T:
        if self.size == 1:
            return value
        said = [value]
        with _meeting():
            distributed.broadcast_object_list(said, src=rank)
        return said[0]


ALONE = Together()


@contextmanager
def joined(device: torch.device) -> Iterator[Together]:
    """All processes that torchrun has started, over NCCL on GPUs and Gloo else; this one alone where it has not."""
    if distributed.is_available() and distributed.is_initialized():
        yield Together(distributed.get_rank(), distributed.get_world_size())
    elif not is_one_of_many():
        yield ALONE
    else:
        if device.type == "cuda":
            torch.cuda.set_device(rank_on_host())
        backend = "nccl" if device.type == "cuda" else "gloo"
        with _meeting():
            store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
            fresh = distributed.PrefixStore(_round(store, rank, size), store)  # type: ignore[attr-defined]
            distributed.init_process_group(backend, store=fresh, rank=rank, world_size=size, timeout=PATIENCE)
        try:
            yield Together(distributed.get_rank(), distributed.get_world_size())
            # Gloo's threads let go of what the last exchange held while all wait here; a process that ended meanwhile
            # would take Python from under them, and abort. Whoever is gone already is not waited for.
            with suppress(RuntimeError):
                distributed.barrier()
        finally:
            distributed.destroy_process_group()


def _round(store: Any, rank: int, size: int) -> str:
    """A name for this start of all processes, told by the first and answered by all others.

    The store of torchrun outlives the processes that it starts, and still holds what those before have written.
    """
    if rank == 0:
        name: str = uuid4().hex
        store.set(CALL, name)
        store.wait([f"{name}/{other}" for other in range(1, size)], PATIENCE)
        store.delete_key(CALL)
        store.set(f"{name}/go", "")
    else:
        name = ""
        until = time.monotonic() + PATIENCE.total_seconds()
        store.set_timeout(SOON)
        while not (name and store.check([f"{name}/go"])):
            try:
                name = store.get(CALL).decode()
                store.set(f"{name}/{rank}", "")
                store.wait([f"{name}/go"], SOON)
            except distributed.DistStoreError:  # the first is not there yet, or the one that called is gone
                if time.monotonic() > until:
                    raise
    store.set_timeout(PATIENCE)
    return name


@contextmanager
def _meeting() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, distributed.DistError) as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0].split(". ")[0]
        raise OtherEnded(
            f"another process of this training is gone ({reason}); its own message says why, and torchrun "
            "--max-restarts 3 goes on from the last epoch by itself"
        ) from error
