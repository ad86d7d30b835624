"""What halts, and where: fitted on sequences that the network was not trained on."""

from __future__ import annotations

from dataclasses import dataclass

from kvec.decide.dial import halting_scores
from kvec.decide.held import Arrays, prefixes_of, some_of
from kvec.decide.operating import Held, OperatingPoint
from kvec.decide.readiness import Readiness, heard
from kvec.decide.triggers.calibrated import Temperatures
from kvec.decide.triggers.calimera import Calimera
from kvec.decide.triggers.waiting import Waiting
from kvec.report.curves import Traces, best_threshold
from kvec.words.config import Config
from kvec.words.errors import DataError

DOUBT = 10.0  # sequences that speak for the network's own word, beside those that are held out
FEWEST = 40  # labelled sequences; with fewer a trigger learns noise


@dataclass(frozen=True)
class Settled:
    """How a trained network halts."""

    readiness: Readiness
    held: Arrays  # the sequences with its scores
    point: OperatingPoint


def settle(held: Arrays, config: Config) -> Settled:
    """The policy that was learned; without one backward induction, or the surest class where sequences are too few.

    The operating point is that of largest HM, of those with the threshold where one is given.
    """
    n_labelled, fixed = int((held["labels"][:, 0] >= 0).sum()), config.deciding.fixed
    if not n_labelled:
        raise DataError("no validation sequence has a label, so nothing says where to halt; label some, or give more")
    if config.training.objective != "every":
        theta = best_threshold(traces_of(held))[0] if fixed is None else fixed
        cost = config.training.delay_cost if config.encoder.knots > 1 else None
        return Settled(Readiness(temperatures(held)), held, OperatingPoint(theta, cost))
    readiness = readiness_of(held, "induction" if n_labelled >= FEWEST else "calibrated")
    said = heard(readiness, held)
    point = Held.of(said).best(fixed)
    if point.delay_cost is not None:
        said["halt"] = halting_scores(said["knots"], point.delay_cost)
    return Settled(readiness, said, point)


def temperatures(held: Arrays) -> tuple[Temperatures, ...]:
    """What makes the class probabilities of each label column true to their word on these sequences."""
    n_columns = held["labels"].shape[1]
    return tuple(Temperatures.fit(prefixes_of(held, column), DOUBT) for column in range(n_columns))


def readiness_of(held: Arrays, trigger: str) -> Readiness:
    """Temperatures and a trigger, fitted on these sequences."""
    tempered, waiting = temperatures(held), None
    if trigger == "induction":
        waiting = Waiting.of(Calimera().fit(prefixes_of(held), tempered[0]))
    return Readiness(tempered, trigger, waiting)


def traces_of(held: Arrays, column: int = 0) -> Traces:
    """The labelled sequences' scores as the report room reads them."""
    known = some_of(held, held["labels"][:, column] >= 0)
    classes = known[f"classes.{column}"]
    return Traces(
        offsets=known["offsets"],
        halt=known["halt"],
        predicted=classes.argmax(axis=1),
        confidence=classes.max(axis=1, initial=0.0),
        truth=known["labels"][:, column],
        tangle=known["tangle"],
        untempered=known.get("untempered"),
    )
