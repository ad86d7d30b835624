"""The demo: made traffic, a small model, unseen tangles replayed, and the figures against the best fixed-n rule."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from kvec.decide.checkpoint import require_model_place
from kvec.doors.measuring import Evaluation, dial_of, evaluate_model, report_evaluation
from kvec.doors.messages import Stopped
from kvec.doors.replay import replay
from kvec.doors.training import early_end
from kvec.estimator import KVEC
from kvec.learn.display import TrainingDisplay
from kvec.read.rows import read_table
from kvec.read.synthetic import DEMO_SCHEMA, demo_traffic
from kvec.read.table import Table
from kvec.words.config import Config
from kvec.words.errors import SettingError
from kvec.words.explanation import Explanation
from kvec.words.items import Decision, Reason

TANGLES = {"train": 480, "validation": 80, "unseen": 160}
SETTINGS = ("training.epochs=12", "training.patience=12")
SCHEMA_TOML = """# How kvec reads the made traffic in this folder.
key = "key"
tangle = "tangle"
time = "time"
session = "direction"
label = "label"

[values.size]
kind = "categorical"

[values.direction]
kind = "categorical"
"""


def run_demo(folder: Path, seconds: float, n_replayed: int, minutes: float) -> None:
    """Run the demo; leaves train, validation and unseen tables, the model and a report in the folder."""
    if not 0 <= n_replayed <= TANGLES["unseen"]:
        raise SettingError(f"--tangles is {n_replayed}; it must lie between 0 and {TANGLES['unseen']}")
    _require_own(folder)
    began = time.monotonic()
    console = Console(highlight=False, soft_wrap=True)
    model, unseen = _made(folder, minutes, console)
    trained = time.monotonic() - began

    tangles = model.tangles(unseen)
    scores = model.scores(tangles)
    console.print("\n[bold]3. Unseen traffic[/bold] flows by; each flow is named when its halting score is full.\n")
    replay(model, tangles, scores, range(n_replayed), seconds, console)

    (evaluation,) = evaluate_model(model, tangles, scores)
    console.print("[bold]4. On all unseen traffic[/bold], beside the best rule that reads n items of every flow:\n")
    console.print(evaluation.to_text())
    chosen = _telling(model, unseen, model.decide(tangles))
    report_evaluation(
        folder / "report.html", model, (evaluation,), "kvec demo: made traffic", "kvec demo",
        {"data": "made traffic, unseen", "sequences": tangles.n_sequences, "items": tangles.n_items}, chosen,
        dial_of(model, tangles, scores),
    )  # fmt: skip
    console.print(_farewell(folder, evaluation, chosen, trained, time.monotonic() - began))


def _made(folder: Path, minutes: float, console: Console) -> tuple[KVEC, Table]:
    """Make the tables and train the model; the model, and the unseen table."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kvec.toml").write_text(SCHEMA_TOML, encoding="utf-8")
    tables = {}
    for seed, (name, n_tangles) in enumerate(TANGLES.items(), start=1):
        frame = demo_traffic(n_tangles, seed)
        frame.write_parquet(folder / f"{name}.parquet")
        tables[name] = read_table(frame, DEMO_SCHEMA)
    n_items = {name: table.frame.height for name, table in tables.items()}
    console.print("[bold]1. Traffic[/bold] of five applications, six flows at a time on each link, is made.")
    console.print(
        f"   {n_items['train']:,} packets to learn from, {n_items['unseen']:,} to be tried on. Most flows show their\n"
        "   application early; some only by resuming an earlier flow of the same link; some late.\n"
    )
    console.print("[bold]2. A small model[/bold] learns to tell them; when to stop reading is settled afterwards.")
    config = Config.preset("small").override([*SETTINGS, f"training.minutes={minutes}"])
    model = KVEC.from_config(config, schema=DEMO_SCHEMA)
    try:
        with TrainingDisplay(config.training.epochs, minutes, console) as shown:
            model.fit(tables["train"], tables["validation"], on_step=shown.on_step, on_epoch=shown.on_epoch)
    except KeyboardInterrupt:
        raise Stopped("stopped before the model was trained") from None
    if early := early_end(model.model_.history, config.training):
        console.print(f"   {early}")
    model.save(folder / "model")
    return model, tables["unseen"]


def _require_own(folder: Path) -> None:
    """Refuse a folder in which the demo would write over someone's files; an earlier demo's is made anew."""
    if folder.exists() and not folder.is_dir():
        raise SettingError(f"{folder} is a file; name a new folder with --out")
    schema = folder / "kvec.toml"
    is_own = schema.is_file() and schema.read_bytes() == SCHEMA_TOML.encode()
    if folder.exists() and any(folder.iterdir()) and not is_own:
        raise SettingError(
            f"{folder} is not empty and no earlier demo's folder, so nothing is written to it; "
            "name a new or empty folder with --out"
        )
    require_model_place(folder / "model")


def _telling(model: KVEC, unseen: Table, decided: Sequence[Decision]) -> list[Explanation]:
    """Of the first right and early decisions, the one whose last look went most to other keys."""
    right = [d for d in decided if d.reason is Reason.HALTED and d.true_labels == d.labels and d.n_observed > 2]
    explained = [model.explain(unseen, d.key, d.tangle, d.sequence) for d in right[:24]]

    def share_of_others(explanation: Explanation) -> float:
        last = explanation.steps[explanation.decision.n_observed - 1]
        return sum(look.weight for look in last.looks if not look.is_own)

    return sorted(explained, key=share_of_others)[-1:]


def _farewell(folder: Path, found: Evaluation, chosen: Sequence[Explanation], trained: float, whole: float) -> str:
    gain = found.halting.hm - found.fixed.hm
    unseen = f"{folder}/unseen.parquet"
    lines = [
        "",
        f"HM {found.halting.hm:.3f} against {found.fixed.hm:.3f} of the best fixed rule ({gain:+.3f}); "
        f"trained after {trained:.0f} s, done after {whole:.0f} s.",
        "",
        f"[bold]Left for you:[/bold] {folder}/report.html (for a browser), {folder}/model and the tables. Next:",
        f"  kvec inspect {unseen}",
        f"  kvec evaluate {folder}/model {unseen}",
        f"  kvec decide {folder}/model {unseen}",
    ]
    for decision in (one.decision for one in chosen):
        lines.append(f"  kvec explain {folder}/model {unseen} --key {decision.key} --tangle {decision.tangle}")
    return "\n".join(lines)
