"""A training run between two epochs: its network, its optimisers, what happened so far, and which epoch is best."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from kvec.decide.model import Network
from kvec.learn.together import ALONE, Together
from kvec.words.config import Training
from kvec.words.plain import under

Record = dict[str, float]


@dataclass
class Run:
    """A training run between two epochs: all that is needed to go on."""

    network: Network
    optimizers: dict[str, torch.optim.Optimizer]
    history: list[Record] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)  # weights of the epoch that is kept
    is_finished: bool = False
    together: Together = ALONE  # with whom it is trained

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.history)

    @property
    def best_record(self) -> Record:
        """The epoch whose weights are kept."""
        return best_of(self.history)


def kept_of(history: list[Record], settings: Training) -> Record:
    """The epoch whose weights the model has."""
    return history[-1] if settings.keep == "last" else best_of(history)


def best_of(history: list[Record]) -> Record:
    """The epoch that tells unseen sequences best at every length, where that is all it learns, else the best by HM.

    Of equals, the one that is right more often.
    """
    return max(history, key=lambda record: (-record.get("unseen", 0.0), record["hm"], record["accuracy"]))


def patient_from(settings: Training) -> float:
    """The epoch from which on patience is counted: where λ rises first, it has to be at its full."""
    return 0.0 if settings.objective == "every" else settings.settle * settings.epochs


def new_run(network: Network, settings: Training, together: Together = ALONE) -> Run:
    """A run of which nothing has been trained; the baseline learns at its own rate."""
    rest = [p for name, p in network.named_parameters() if not name.startswith("baseline.")]
    return Run(
        network,
        {
            "network": torch.optim.AdamW(
                rest, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
            ),
            "baseline": torch.optim.Adam(network.baseline.parameters(), lr=settings.baseline_rate),
        },
        together=together,
    )


def run_state(run: Run) -> dict[str, Tensor]:
    """Everything of a run that is not in its history, as named tensors."""
    state = {f"network.{name}": tensor for name, tensor in run.network.state_dict().items()}
    state |= {f"best.{name}": tensor for name, tensor in run.best.items()}
    for which, optimizer in run.optimizers.items():
        for index, entries in optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{which}.{index}.{name}": torch.as_tensor(value) for name, value in entries.items()}
    return state


def restore_run(run: Run, state: dict[str, Tensor], history: list[Record], is_finished: bool) -> None:
    """Put a new run where the saved one was."""
    run.network.load_state_dict(under("network.", state))
    run.best = under("best.", state)
    run.history, run.is_finished = history, is_finished
    for which, optimizer in run.optimizers.items():
        entries: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under(f"optimizer.{which}.", state).items():
            index, _, entry = name.partition(".")
            entries.setdefault(int(index), {})[entry] = tensor
        optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
