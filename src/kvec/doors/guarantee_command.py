"""The words of `kvec guarantee` on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def guarantee(
    model: Annotated[
        Path,
        Argument(
            metavar="MODEL", help="A folder that kvec train has written; it gets the promise, unless -o is given."
        ),
    ],
    data: Annotated[
        Path,
        Argument(metavar="CALIBRATION", help="Labelled sequences that the model has not seen, of any kind of DATA."),
    ],
    max_early_error: Annotated[
        float | None,
        Option(
            metavar="SHARE",
            help="Of all sequences, wrong when decided early though right at the end.",
            show_default=False,
        ),
    ] = None,
    max_error: Annotated[
        float | None, Option(metavar="SHARE", help="Of all sequences, wrong.", show_default=False)
    ] = None,
    per_class: Annotated[
        bool, Option("--per-class", help="For the sequences of every true class by itself; the confidence is shared.")
    ] = False,
    confidence: Annotated[float, Option(metavar="SHARE", help="How sure the promise is.")] = 0.95,
    max_keys: Annotated[
        int | None,
        Option(
            metavar="K",
            help="The most labelled sequences that a unit can ever hold, known before; otherwise the number of the "
            "tangling, or twice the most of a validation tangle.",
            show_default=False,
        ),
    ] = None,
    block: Annotated[
        float | None,
        Option(
            metavar="SECONDS", help="Take blocks of time as independent units, for endless tangles.", show_default=False
        ),
    ] = None,
    bound: Annotated[
        str, Option(metavar="betting|hoeffding-bentkus|binomial", help="How the risk is bounded.")
    ] = "betting",
    output: Annotated[
        Path | None,
        Option("-o", "--output", metavar="MODEL", help="The folder of the model with the promise.", show_default=False),
    ] = None,
    again: Annotated[
        bool, Option("--again", help="Go on though the same sequences gave another promise; this one says so.")
    ] = False,
    part: Annotated[
        str | None, Option("--split", metavar="test", help="The test part of the data the model was trained on.")
    ] = None,
    labels: Annotated[
        Path | None, Option("--labels", metavar="FILE", help="A second table with the labels, joined per key.")
    ] = None,
    unchecked: Annotated[
        bool, Option("--unchecked", help="Go on though an old model does not know which sequences it has seen.")
    ] = False,
    as_json: Annotated[bool, Option("--json", help="Print the promise as one JSON object.")] = False,
    device: Annotated[str, Option("--device", metavar="auto|cpu|cuda", help="Where the network runs.")] = "auto",
) -> None:
    """Choose the earliest operating point of which an error rate can be promised, and write it into the model.

    The promise holds for any distribution, as long as new tangles come from the same one as the calibration's. The
    operating point of MODEL itself moves there, and an earlier promise is replaced; with -o it only
    remembers which sequences gave a promise.
    """
    from kvec.doors.guaranteeing import Wishes, guarantee_model

    print(guarantee_model(Wishes(
        model, data, max_early_error, max_error, per_class, confidence, max_keys, block, bound, part, labels, unchecked,
        as_json, device, output, again,
    )))  # fmt: skip
