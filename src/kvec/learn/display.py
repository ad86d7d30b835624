"""What is shown of a training run as it goes: a line per epoch, and in a terminal a bar with the time left."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from kvec.learn.run import Record, Run
from kvec.learn.trainer import Step
from kvec.report.text import clock

TERMS = {
    "loss": "loss", "classification": "class", "policy": "policy", "lateness": "late", "every": "every",
    "baseline": "base", "unseen": "unseen",
}  # fmt: skip
WIDE = 110  # columns of a terminal in which the bar has room for all loss terms
SCORES = {"accuracy": "accuracy", "earliness": "earliness", "hm": "HM", "end_accuracy": "at end"}


class TrainingDisplay:
    """Hears of a training run and shows it, on the standard error output unless a console is given."""

    def __init__(self, epochs: int, minutes: float = 0.0, console: Console | None = None) -> None:
        self._epochs, self._minutes = epochs, minutes
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._terms: tuple[str, ...] = ()
        self._seconds: list[float] = []  # of each epoch
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> TrainingDisplay:
        """Start the bar, if there is a terminal to draw it in."""
        if self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description}"), BarColumn(24), TextColumn("{task.fields[terms]}"),
                TextColumn("[dim]{task.fields[left]}"), console=self._console, transient=True,
            )  # fmt: skip
            self._progress.start()
            self._task = self._progress.add_task("preparing", total=None, terms="", left="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()

    def on_step(self, step: Step) -> None:
        """Hear about one batch."""
        if self._progress is None:
            return
        terms = [f"{shown} {step.terms[name]:.3f}" for name, shown in TERMS.items() if step.terms.get(name)]
        room = len(terms) if self._console.width >= WIDE else 1
        left = time_left(self._epochs, self._minutes, self._seconds, step)
        self._progress.update(
            self._task, description=f"epoch {step.epoch + 1}/{self._epochs}", total=step.n_steps, completed=step.step,
            terms="  ".join(terms[:room]), left=f"at most {clock(left)} left",
        )  # fmt: skip

    def on_epoch(self, run: Run) -> None:
        """Hear about the end of an epoch."""
        record = run.history[-1]
        self._seconds = [r["seconds"] for r in run.history]
        if not self._terms:
            self._terms = tuple(name for name in TERMS if any(_tells(name, r) for r in run.history))
            self._console.print(Text(epoch_header(self._terms), style="dim"))
        is_best = run.best_record is record
        line = Text(epoch_line(record, self._terms, self._epochs, is_best))
        if is_best:
            line.stylize("bold")
        self._console.print(line)


def _tells(name: str, record: Record) -> bool:
    """Whether a column says something: it is not nothing, nor all of the loss again."""
    return bool(record.get(name)) and (name != "every" or record["every"] != record["loss"])


def epoch_header(terms: tuple[str, ...]) -> str:
    """The names over the lines of the epochs: loss terms, then scores on the validation sequences."""
    names = [*(TERMS[name] for name in terms), *SCORES.values(), "sec"]
    return " ".join(["epoch".rjust(6), *(_cell(name, name) for name in names)])


def epoch_line(record: Record, terms: tuple[str, ...], epochs: int, is_best: bool) -> str:
    """One epoch in numbers: its loss terms, and accuracy, earliness (lower is better) and HM."""
    cells = [f"{record['epoch']:.0f}/{epochs}".rjust(6)]
    cells += [_cell(f"{record.get(name, 0.0):.3f}", TERMS[name]) for name in terms]
    cells += [_cell(f"{record[name]:.4f}", shown) for name, shown in SCORES.items()]
    return " ".join([*cells, _cell(f"{record['seconds']:.1f}", "sec")]) + ("  best" if is_best else "")


def _cell(text: str, name: str) -> str:
    return text.rjust(max(len(name), 6))


def time_left(epochs: int, minutes: float, seconds: list[float], step: Step) -> float:
    """Seconds until all epochs are done, or the minutes are over; patience may end a run sooner."""
    now = step.seconds / step.step * step.n_steps
    each = sum(seconds) / len(seconds) if seconds else now
    left = max(each, now) - step.seconds + each * (epochs - step.epoch - 1)
    return max(min(left, minutes * 60 - sum(seconds) - step.seconds if minutes else left), 0.0)
