"""Which score tells keys of a class never trained on: one class is held out, and every score's AUC measured.

python experiments/beyond/open_set.py made --classes 5 --seeds 0,1 -o experiments/beyond/open_set.csv
python experiments/beyond/open_set.py traffic_fg.parquet --name traffic_fg --share 0.25 --classes 4

Training and validation lose the class; the test part keeps it. Scores are compared where the model decides, and at
each sequence's end: the AUC of the held-out class against the known ones, the same of p-values against the validation
part, octave by octave, and the share of the held-out class that has a p-value of at most 0.05.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import torch
from trying import BEFORE, add_rows, some_table

from kvec.decide.model import run_blocks
from kvec.decide.triggers.base import logs_of
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.usual import Usual
from kvec.estimator import KVEC
from kvec.read.table import Table
from kvec.report.metrics import area_under_roc
from kvec.tangle.batch import Batch, plan_batches
from kvec.tangle.tangles import Tangles
from kvec.tangle.tangling import Split
from kvec.tangle.visibility import make_rule

SCORES = ("max_probability", "entropy", "energy", "max_logit", "distance", "relative_logits", "relative")
LEVEL = 0.05
SAMPLE = 40_000  # items of each part that distributions are fitted to


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="made, or a table")
    parser.add_argument("--schema", type=Path)
    parser.add_argument("--name", default="made")
    parser.add_argument("--share", type=float, default=1.0, help="of the tangles")
    parser.add_argument("--classes", type=int, default=3, help="so many are held out, one at a time")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--tangles", type=int, default=700, help="made ones")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).with_name("open_set.csv"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = some_table(given.data, given.schema, given.share, given.tangles)
    label = pl.col(f"label.{table.schema.label_names[0]}")
    names = table.frame.select(label.unique().sort()).to_series().to_list()
    for seed in map(int, given.seeds.split(",")):
        for left_out in names[: given.classes]:
            rows = measure(table, label, left_out, seed, given.epochs)
            about = {"data": given.name, "share": given.share, "left_out": left_out, "seed": seed}
            add_rows(given.out, [about | row for row in rows])


def measure(table: Table, label: pl.Expr, left_out: object, seed: int, epochs: int) -> list[dict[str, object]]:
    """Train without a class, and see which score finds it."""
    split = Split.of(table.frame, (6, 2, 2), seed)
    parts = {name: split.part(table.frame, name) for name in ("train", "validation", "test")}
    for name in ("train", "validation"):
        parts[name] = parts[name].filter(label != left_out)
    model = KVEC(schema=table.schema, epochs=epochs, seed=seed, device="cpu", **BEFORE)
    model.fit(replace(table, frame=parts["train"]), replace(table, frame=parts["validation"]))
    kept: dict[str, np.ndarray] = {"sharpness": model.model_.readiness.temperatures[0].sharpness}
    rng = np.random.default_rng(0)
    for name, frame in parts.items():
        kept |= {f"{name}.{what}": a for what, a in looked_at(model, replace(table, frame=frame), rng).items()}
    return compared(kept)


def looked_at(model: KVEC, table: Table, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """What is said where sequences are decided, at their end, and after some of all items."""
    told = told_of(model, model.tangles(table))
    found = {"truth": told["truth"]}
    for where in ("decision", "end"):
        at = places(model, told, where)
        found |= {f"{where}.{name}": told[name][at].astype(np.float32) for name in ("logits", "hidden")}
        found[f"{where}.n"] = at - told["offsets"][:-1] + 1
    some = np.sort(rng.permutation(len(told["halt"]))[:SAMPLE])
    owner = np.searchsorted(told["offsets"], some, side="right") - 1
    found |= {f"items.{name}": told[name][some].astype(np.float32) for name in ("logits", "hidden")}
    return found | {"items.n": some - told["offsets"][owner] + 1, "items.truth": told["truth"][owner]}


def compared(kept: Mapping[str, np.ndarray]) -> list[dict[str, object]]:
    """Every score where sequences are decided, and at their end."""
    means, whitening = fitted(kept["train.items.hidden"].astype(np.float64), kept["train.items.truth"])
    logits, truth = kept["validation.items.logits"].astype(np.float64), kept["validation.items.truth"]
    logits, truth = logits[truth >= 0], truth[truth >= 0]
    usual = {"relative": Usual.fit(logs_of(_softmax(logits)), truth), "relative_logits": Usual.fit(logits, truth)}
    is_new = kept["test.truth"] < 0
    rows = []
    for where in ("decision", "end"):
        seen = {part: octaves(kept[f"{part}.{where}.n"]) for part in ("validation", "test")}
        strange = {}
        for part in seen:
            said = (kept[f"{part}.{where}.{name}"].astype(np.float64) for name in ("logits", "hidden"))
            calibrated = partial(Temperatures(kept["sharpness"]).apply, place=kept[f"{part}.{where}.n"])
            strange[part] = strangeness(*said, calibrated, means, whitening, usual)
        for score in SCORES:
            asked = strange["test"][score]
            p = p_values(strange["validation"][score], seen["validation"], asked, seen["test"])
            rows.append({
                "where": where, "score": score, "auc": round(area_under_roc(is_new, asked), 4),
                "auc_by_octave": round(area_under_roc(is_new, -p), 4),
                "found": round(float((p <= LEVEL)[is_new].mean()), 4),
                "false_alarms": round(float((p <= LEVEL)[~is_new].mean()), 4), "new": int(is_new.sum()),
                "known": int((~is_new).sum()), "mean_n_observed": round(float(kept[f"test.{where}.n"].mean()), 2),
            })  # fmt: skip
            print(*rows[-1].values(), sep=", ", flush=True)
    return rows


def told_of(model: KVEC, tangles: Tangles) -> dict[str, np.ndarray]:
    """Logits, representations and halting scores after every item, sequence by sequence."""
    network, config = model.model_.network, model.model_.config
    n, place = tangles.n_items, np.empty(tangles.n_items, np.int64)
    place[tangles.sequences.by_sequence] = np.arange(n)
    logits = np.empty((n, network.n_classes[0]))
    hidden = np.empty((n, network.settings.fusion), np.float32)
    halt = np.empty(n)
    seen: list[torch.Tensor] = []
    hook = network.classifiers[0].register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    network.eval()
    with torch.no_grad():
        for members in plan_batches(tangles.sizes, 64, 8192, 4096):
            batch = Batch.of(tangles, members)
            for part, outputs in run_blocks(network, batch, make_rule(config.visibility), 4096):
                rows = place[part.items]
                logits[rows], hidden[rows] = outputs.classes[0].numpy(), seen.pop().numpy()
                halt[rows] = outputs.halt.sigmoid().numpy()
    hook.remove()
    return {
        "logits": logits, "hidden": hidden, "halt": halt, "offsets": tangles.offsets,
        "truth": tangles.labels[:, 0].astype(np.int64),
    }  # fmt: skip


def places(model: KVEC, told: dict[str, np.ndarray], where: str) -> np.ndarray:
    """The item at which each sequence is looked at."""
    if where == "end":
        return told["offsets"][1:] - 1
    n = len(told["halt"])
    reached = np.where(told["halt"] >= model.model_.threshold, np.arange(n), n)
    return np.minimum(np.minimum.reduceat(reached, told["offsets"][:-1]), told["offsets"][1:] - 1)


def fitted(hidden: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class means of the representations of training items, and what makes their common spread round."""
    means = np.stack([hidden[truth == c].mean(axis=0) for c in range(truth.max() + 1)])
    spread = np.cov((hidden - means[truth]).T)
    spread += 1e-3 * np.trace(spread) / len(spread) * np.eye(len(spread))
    return means, np.linalg.cholesky(np.linalg.inv(spread))


def strangeness(
    logits: np.ndarray, hidden: np.ndarray, calibrated: Callable[[np.ndarray], np.ndarray], means: np.ndarray,
    whitening: np.ndarray, usual: Mapping[str, Usual],
) -> dict[str, np.ndarray]:  # fmt: skip
    """Every score; larger is stranger."""
    shares = calibrated(_softmax(logits))
    here = hidden @ whitening
    return {
        "max_probability": -shares.max(axis=1),
        "entropy": -(shares * np.log(np.maximum(shares, 1e-12))).sum(axis=1),
        "energy": -_logsumexp(logits),
        "max_logit": -logits.max(axis=1),
        "distance": np.min([((here - mean) ** 2).sum(axis=1) for mean in means @ whitening], axis=0),
        "relative_logits": usual["relative_logits"].strangeness(logits),
        "relative": usual["relative"].strangeness(logs_of(_softmax(logits))),
    }


def p_values(known: np.ndarray, known_in: np.ndarray, asked: np.ndarray, asked_in: np.ndarray) -> np.ndarray:
    """(1 + known at least as strange) / (n + 1), by octave of items."""
    found = np.ones(len(asked))
    for octave in np.unique(asked_in):
        some = np.sort(known[known_in == octave])
        rows = asked_in == octave
        found[rows] = (1 + len(some) - np.searchsorted(some, asked[rows])) / (len(some) + 1)
    return found


def octaves(n: np.ndarray) -> np.ndarray:
    return np.frexp(n.astype(np.float64))[1] - 1


def _softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def _logsumexp(logits: np.ndarray) -> np.ndarray:
    best = logits.max(axis=1)
    return best + np.log(np.exp(logits - best[:, None]).sum(axis=1))


if __name__ == "__main__":
    main()
