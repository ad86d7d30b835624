"""Makes folders of results as experiments write them, with curves whose answers are known."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kvec.report.metrics import harmonic_mean
from kvec.reproduce.results import ATTENTION, CELLS, DATA, HALTS, PAIRED, POINTS, PREFIXES

FIRST = 0.02  # earliness of deciding after one item
SWEEPS = {"kvec-paper": "training.beta", "earliest": "training.beta", "srn-earliest": "training.beta"}
BY_TRAINING = {
    "srn": ["srn-fixed", "srn-confidence", "srn-calibrated", "srn-economy", "srn-calimera", "srn-sprt"],
    "kvec": ["kvec", "kvec-confidence", "kvec-calimera"],
}
ALL = [
    "kvec", "kvec-paper", "kvec-no-key", "kvec-no-value", "kvec-no-time", "kvec-no-membership", "kvec-window",
    "earliest", "srn-earliest", "srn", "srn-all",
]  # fmt: skip
START = {  # accuracy after one item
    "kvec": 0.45, "kvec-paper": 0.42, "srn-earliest": 0.30, "earliest": 0.2, "srn-fixed": 0.32, "srn-confidence": 0.34,
    "kvec-no-value": 0.3, "kvec-no-key": 0.38, "kvec-no-time": 0.42, "kvec-no-membership": 0.43, "kvec-window": 0.4,
}  # fmt: skip
END = {"earliest": 0.80, "kvec-paper": 0.93, "kvec-no-value": 0.9, "kvec-no-key": 0.92}
SEED_STEP = 0.002  # what each further seed adds to accuracies, or a multiple of it
RISEN = "0.30 0.50 0.60 0.66 0.70 0.71 0.70 0.71 0.712"


def accuracy(method: str, earliness: float, seed: int = 0, end: float | None = None) -> float:
    """Rises from START at the first item to END when all is read."""
    start = START.get(method, 0.33)
    end = END.get(method, 0.94) if end is None else end
    noise = SEED_STEP * seed * (1 + len(method) % 3)  # the same method differs between seeds, and not as others do
    return end - (end - start) * math.exp(-(earliness - FIRST) / 0.12) + noise


class Made:
    """Tables that are filled cell by cell and written to a folder."""

    def __init__(self) -> None:
        self.cells: list[dict[str, Any]] = []
        self.points: list[dict[str, Any]] = []
        self.attention: list[dict[str, Any]] = []
        self.halts: list[dict[str, Any]] = []
        self.data: list[dict[str, Any]] = []
        self.prefixes: list[dict[str, Any]] = []
        self.paired: list[dict[str, Any]] = []

    def cell(
        self, dataset: str, training: str, seed: int, setting: str = "", value: float | None = None, **more: Any
    ) -> str:
        swept = "" if value is None else f" {setting.rpartition('.')[2]}={value:g}"
        name = f"{dataset}/{training}{swept}/{seed}"
        late = 0.02 + 0.2 * (1 - math.exp(-(value or 0.1)))
        row = {
            "cell": name, "profile": "small", "dataset": dataset, "training": training, "setting": setting,
            "value": "" if value is None else value, "seed": seed, "settings": "encoder.blocks=2 training.epsilon=0.1",
            "commit": "0123abc", "version": "0.3.0", "started": "2025-11-16T05:00:00+00:00", "train_seconds": 240.5,
            "seconds": 261.25, "epochs": 9, "n_train": 8000, "n_validation": 1000, "n_test": 1000, "n_new": 940,
            "theta": 0.4, "validation_hm": 0.8 - abs(late - 0.1), "validation_accuracy": 0.8,
            "validation_earliness": late, "first_accuracy": accuracy(training, FIRST, seed),
            "end_accuracy": accuracy(training, 1.0, seed), "first_earliness": FIRST, "hm_by_epoch": RISEN,
            "earliness_by_epoch": " ".join([f"{0.15:g}"] * 9),
        }  # fmt: skip
        self.cells.append(row | more)
        return name

    def point(self, cell: str, method: str, curve: str, setting: Any, earliness: float, right: float) -> None:
        new = right - 0.01
        self.points.append({
            "cell": cell, "method": method, "curve": curve, "setting": setting, "earliness": earliness,
            "accuracy": right, "precision": right - 0.02, "recall": right - 0.03, "f1": right - 0.025,
            "hm": harmonic_mean(right, earliness), "new_earliness": earliness, "new_accuracy": new,
            "new_hm": harmonic_mean(new, earliness),
        })  # fmt: skip

    def curve(
        self,
        cell: str,
        method: str,
        seed: int,
        n: int = 40,
        end: float | None = None,
        of: Callable[..., float] = accuracy,
    ) -> None:
        """A moved curve, closer together at its beginning, and its chosen point."""
        for i in range(n):
            x = FIRST + (1 - FIRST) * (i / (n - 1)) ** 2
            self.point(cell, method, "moved", round(1 - i / n, 3), x, of(method, x, seed, end))
        self.point(cell, method, "chosen", 0.5, 0.2, of(method, 0.2, seed, end))

    def curves(self, dataset: str, seeds: Iterable[int], trainings: Sequence[str] = ALL, values: int = 4) -> Made:
        """Experiment 2 and the ablation."""
        for seed in seeds:
            for training in trainings:
                if training in SWEEPS:
                    for i in range(values):
                        late = 0.03 + 0.12 * i
                        right = accuracy(training, late, seed)
                        more = {"validation_hm": harmonic_mean(right, late), "validation_earliness": late}
                        cell = self.cell(dataset, training, seed, SWEEPS[training], 0.5 / 4**i, **more)
                        self.point(cell, training, "swept", 0.5, late, right)
                        self.point(cell, training, "chosen", 0.4, late + 0.01, right)
                    continue
                cell = self.cell(dataset, training, seed)
                for method in BY_TRAINING.get(training, [training]):
                    self.curve(cell, method, seed)
        return self

    def sensitivity(self, dataset: str, seeds: Iterable[int]) -> Made:
        """α lifts accuracy and leaves earliness; β moves earliness down."""
        for seed in seeds:
            for name, values in (("alpha", (0, 0.01, 0.1, 1, 10)), ("beta", (-0.05, 0, 0.001, 0.1, 5))):
                for i, value in enumerate(values):
                    late = 0.15 if name == "alpha" else 0.5 - 0.11 * i
                    right = 0.5 + 0.08 * i if name == "alpha" else 0.9 - 0.05 * i
                    cell = self.cell(dataset, "kvec-paper", seed, f"training.{name}", value)
                    self.point(cell, "kvec-paper", "swept", 0.5, late + 0.002 * seed, right + 0.002 * seed)
        return self

    def keys(self, dataset: str, seeds: Iterable[int], sizes: Sequence[int] = (2, 4, 8, 16, 32)) -> Made:
        """More keys help early and hurt late: the curve starts higher and ends lower with each doubling."""
        for seed in seeds:
            for i, size in enumerate(sizes):
                cell = self.cell(f"{dataset}@{size}", "kvec", seed)

                def tilted(method: str, x: float, seed: int, end: float | None, i: int = i) -> float:
                    return accuracy(method, x, seed, end) + 0.03 * i * (math.exp(-x / 0.1) - 0.4)

                self.curve(cell, "kvec", seed, of=tilted)
        return self

    def attend(self, cell: str, seed: int = 0) -> Made:
        """Attention to others fades from a half to a tenth."""
        for upper in (0.02, 0.04, 0.06, 0.08, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            outside = 0.1 + 0.4 * math.exp(-upper / 0.15) + 0.002 * seed
            row = {"cell": cell, "earliness": upper, "inside": 1 - outside, "outside": outside, "items": 1000}
            self.attention.append(row | {"accuracy": accuracy("kvec", upper, seed)})
        return self

    def halting(self, dataset: str, true: int, seeds: Iterable[int] = (0,)) -> Made:
        """KVEC halts at the true position or up to two items later, without value correlation seven later still."""
        for seed in seeds:
            for method, behind in (("kvec", 1), ("kvec-no-value", 8)):
                cell = self.cell(dataset, method, seed, first_earliness=0.01)
                self.curve(cell, method, seed, n=12)
                for late, count in ((behind - 1, 30), (behind, 100), (behind + 1, 60 + seed)):
                    row = {"cell": cell, "method": method, "true": true, "n_observed": true + late}
                    self.halts.append(row | {"count": count})
        return self

    def table_one(self, *names: str) -> Made:
        for i, name in enumerate(names, start=1):
            self.data.append({
                "dataset": name, "keys": 1000 * i, "tangles": 100 * i, "items": 50_000 * i, "mean_length": 50.7,
                "mean_session": 2.4, "classes": 12, "keys_per_tangle": 10.0, "concurrent_keys": 4.2,
                "related_keys": 0.11 * i, "seeing_items": 0.6, "same_class_seen": 0.5,
            })  # fmt: skip
        return self

    def read_on(self, dataset: str, trainings: Sequence[str], seeds: Iterable[int], has_auc: bool = False) -> Made:
        """Trainings that are told after n items: each is better than the one before it by a hundredth."""
        for seed in seeds:
            for better, training in enumerate(trainings):
                cell = self.cell(dataset, training, seed)
                for n in (1, 2, 5, 20, ""):
                    right = 0.5 + 0.02 * min(int(n or 20), 20) + 0.01 * better + SEED_STEP * seed
                    auc = {"auc": right - 0.1} if has_auc else {}
                    self.prefixes.append({"cell": cell, "n_observed": n, "accuracy": right, **auc})
        return self

    def yardsticks(self, dataset: str, seeds: Iterable[int]) -> Made:
        """Trees, their hindsight, and KVEC above some and below others."""
        for seed in seeds:
            cell = self.cell(dataset, "trees", seed)
            for method in ("trees-fixed", "trees-induction"):
                self.curve(cell, method, seed)
            for i in range(5):
                self.point(cell, "trees-oracle", "bound", 5 - i, 0.02 + 0.02 * i, 0.6 + 0.08 * i)
        for other, value, gain in (
            ("srn-fixed", 0.7, 0.1),
            ("trees-fixed", 0.75, 0.05),
            ("trees-induction", 0.85, -0.05),
        ):
            for measure in ("0.05", "0.1", "0.2", "0.3", "hm"):
                self.paired.append({
                    "dataset": dataset, "method": "kvec", "other": other, "measure": measure, "value": 0.8,
                    "other_value": value, "difference": gain, "low": gain - 0.02, "high": gain + 0.02, "seeds": 3,
                    "units": 3000,
                })  # fmt: skip
        beyond = {name: "" for name in ("value", "other_value", "difference", "low", "high")}
        half = [row | {"other": "half", "other_value": 0.8, "difference": 0, "low": -0.01, "high": 0.01}
                for row in self.paired if row["other"] == "srn-fixed"]  # fmt: skip
        self.paired += [half[0] | beyond, *half[1:]]
        return self

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows, columns in (
            ("cells", self.cells, CELLS), ("points", self.points, POINTS), ("attention", self.attention, ATTENTION),
            ("halts", self.halts, HALTS), ("data", self.data, DATA), ("prefixes", self.prefixes, PREFIXES),
            ("paired", self.paired, PAIRED),
        ):  # fmt: skip
            if rows:
                with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, list(rows[0]) if name == "data" else list(columns))
                    writer.writeheader()
                    writer.writerows(rows)
        return folder


def everything() -> Made:
    """All experiments, as the profile `small` would write them."""
    made = Made()
    for dataset in ("traffic-fg", "fgnet-d1", "movielens-1m"):
        made.curves(dataset, (0, 1, 2))
    made.curves("sepsis", (0,), values=1)
    made.sensitivity("traffic-fg", (0,)).keys("traffic-fg", (0, 1, 2))
    for seed in (0, 1, 2):
        made.attend(f"traffic-fg/kvec/{seed}", seed)
    made.halting("synthetic-early", 10).halting("synthetic-late", 90)
    return made.table_one("traffic-fg", "fgnet-d1", "movielens-1m", "synthetic-early", "synthetic-late", "sepsis")
