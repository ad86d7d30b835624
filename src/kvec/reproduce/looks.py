"""How each method is named and drawn, the same in every figure and table: colour, marker and line together tell it."""

from __future__ import annotations

from dataclasses import dataclass

from kvec.report.canvas import BLUE, GREEN, INK, MUTED, ORANGE, PINK, SKY, VERMILLION

SOLID: tuple[float, ...] = ()
DASHED, DOTTED, MIXED, LONG = (5.0, 2.0), (1.2, 1.6), (6.0, 1.6, 1.2, 1.6), (9.0, 2.5)
MOVED = "-moved"  # a method whose policy was trained by a sweep, its threshold moved after training instead


@dataclass(frozen=True)
class Look:
    """A method's name for readers and its line; `is_main` where the paper's own figures show it."""

    label: str
    colour: str
    marker: str
    dashes: tuple[float, ...] = SOLID
    is_main: bool = False
    is_rival: bool = False  # one of the rivals that the paper compares with


LOOKS: dict[str, Look] = {
    "kvec": Look("KVEC (expected loss)", BLUE, "o", SOLID, is_main=True),
    "kvec-paper": Look("KVEC (as in the paper)", VERMILLION, "s", SOLID, is_main=True),
    "kvec-paper-sum": Look("KVEC (returns as printed)", INK, "s", DOTTED),
    "srn-earliest": Look("SRN-EARLIEST", GREEN, "^", DASHED, is_main=True, is_rival=True),
    "earliest": Look("EARLIEST", ORANGE, "v", MIXED, is_main=True, is_rival=True),
    "srn-fixed": Look("SRN-Fixed", PINK, "D", DOTTED, is_main=True, is_rival=True),
    "srn-confidence": Look("SRN-Confidence", SKY, "P", LONG, is_main=True, is_rival=True),
    "kvec-no-value": Look("without value correlation", VERMILLION, "X", DASHED),
    "kvec-no-key": Look("without key correlation", ORANGE, "<", LONG),
    "kvec-no-time": Look("without time embeddings", GREEN, ">", MIXED),
    "kvec-no-membership": Look("without membership", PINK, "d", DASHED),
    "kvec-window": Look("KVEC (window of all keys)", INK, "h", DASHED),
    "kvec-dial": Look("KVEC (dial, one training)", BLUE, "*", LONG),
    "kvec-dial-calimera": Look("KVEC (dial's network, CALIMERA)", VERMILLION, ">", SOLID),
    "kvec-dial-induction": Look("KVEC (dial's network, induction)", ORANGE, "*", SOLID),
    "kvec-costs": Look("KVEC (one training per cost)", MUTED, "o", DASHED),
    "kvec-every": Look("KVEC (trained at every length)", SKY, "p", SOLID),
    "kvec-every-fixed": Look("KVEC (every length, fixed n)", PINK, "D", SOLID),
    "kvec-every-confidence": Look("KVEC (every length, confidence)", SKY, "P", SOLID),
    "kvec-every-calimera": Look("KVEC (every length, CALIMERA)", GREEN, ">", SOLID),
    "kvec-every-induction": Look("KVEC (every length, induction)", ORANGE, "p", SOLID),
    "kvec-default": Look("KVEC (by default)", GREEN, "h", SOLID),
    "kvec-default-fixed": Look("KVEC (by default, fixed n)", MUTED, "D", SOLID),
    "kvec-default-confidence": Look("KVEC (by default, confidence)", SKY, "P", MIXED),
    "kvec-default-calimera": Look("KVEC (by default, CALIMERA)", GREEN, ">", LONG),
    "kvec-default-induction": Look("KVEC (by default, induction)", GREEN, "p", SOLID),
    "kvec-alone": Look("KVEC (own items alone)", ORANGE, "v", DASHED),
    "kvec-hidden-every": Look("KVEC (every length, half of the values hidden)", SKY, "o", SOLID),
    "kvec-fixed": Look("KVEC (fixed n)", PINK, "D", DASHED),
    "kvec-confidence": Look("KVEC (confidence)", SKY, "P", DASHED),
    "kvec-calibrated": Look("KVEC (calibrated)", GREEN, "<", LONG),
    "kvec-economy": Look("KVEC (ECONOMY-γ)", ORANGE, "d", DASHED),
    "kvec-calimera": Look("KVEC (CALIMERA)", VERMILLION, ">", LONG),
    "kvec-sprt": Look("KVEC (SPRT)", MUTED, "X", MIXED),
    "srn-calibrated": Look("SRN (calibrated)", GREEN, "<", DOTTED),
    "srn-economy": Look("SRN (ECONOMY-γ)", ORANGE, "d", DOTTED),
    "srn-calimera": Look("SRN (CALIMERA)", VERMILLION, ">", DOTTED),
    "srn-sprt": Look("SRN (SPRT)", MUTED, "X", DOTTED),
    "srn": Look("SRN", SKY, "p", DASHED),
    "srn-all": Look("SRN (window of all keys)", INK, "p", DASHED),
    "trees": Look("boosted trees", MUTED, "X", DASHED),
    "trees-fixed": Look("trees (fixed n)", MUTED, "D", DASHED),
    "trees-confidence": Look("trees (confidence)", SKY, "P", DOTTED),
    "trees-calimera": Look("trees (CALIMERA)", GREEN, ">", DOTTED),
    "trees-induction": Look("trees (induction)", MUTED, "X", LONG),
    "trees-oracle": Look("trees (hindsight)", MUTED, "*", DOTTED),
    "logistic": Look("logistic regression", VERMILLION, "s", DASHED),
    "logistic-fixed": Look("logistic regression (fixed n)", VERMILLION, "D", DASHED),
    "logistic-confidence": Look("logistic regression (confidence)", VERMILLION, "P", DOTTED),
    "logistic-calimera": Look("logistic regression (CALIMERA)", VERMILLION, ">", MIXED),
    "logistic-induction": Look("logistic regression (induction)", VERMILLION, "p", MIXED),
    "kvec-paper-moved": Look("KVEC (as in the paper, θ moved)", VERMILLION, "s", LONG),
    "kvec-paper-sum-moved": Look("KVEC (returns as printed, θ moved)", INK, "s", LONG),
    "srn-earliest-moved": Look("SRN-EARLIEST (θ moved)", GREEN, "^", LONG),
    "earliest-moved": Look("EARLIEST (θ moved)", ORANGE, "v", LONG),
}

ABLATION = ("kvec", "kvec-no-key", "kvec-no-value", "kvec-no-time", "kvec-no-membership")
RIVALS = tuple(name for name, look in LOOKS.items() if look.is_rival)
DATA_SETS = {
    "traffic-fg": "Traffic-FG", "fgnet-d1": "FG-Net D1", "movielens-1m": "MovieLens-1M", "ustc-tfc2016": "USTC-TFC2016",
    "traffic-app": "Traffic-App", "synthetic-early": "Synthetic-Traffic (early stop)",
    "synthetic-late": "Synthetic-Traffic (late stop)", "iot-sentinel": "IoT Sentinel", "sepsis": "Sepsis",
    "traffic-fines": "Traffic fines", "planted": "planted (made)", "made-early": "made (early stop)",
    "made-late": "made (late stop)",
}  # fmt: skip


SWEPT = {"alpha": "α", "beta": "β", "beta/alpha": "β/α", "delay_cost": "λ"}  # settings as they are told
# how the methods of what is beyond the paper begin: told apart from its comparison
YARDSTICKS = (
    "trees-", "logistic-", "kvec-every-", "kvec-default-", "kvec-alone-", "kvec-hidden-every-", "kvec-dial",
    "kvec-costs",
)  # fmt: skip
GROUPED = ("fgnet-d1", "iot-sentinel")  # data sets whose captures, not keys, are put side by side


def look_of(method: str) -> Look:
    """The look of a method; one that the table does not know keeps its name and is grey."""
    return LOOKS.get(method) or Look(method, MUTED, "1", DOTTED)


def name_of(dataset: str) -> str:
    """A data set's name for readers.

    >>> name_of("traffic-fg@8")
    'Traffic-FG (8 keys per tangle)'
    >>> name_of("fgnet-d1@8")
    'FG-Net D1 (8 captures per tangle)'
    """
    base, _, keys = dataset.partition("@")
    name = DATA_SETS.get(base, base)
    return f"{name} ({keys} {'captures' if base in GROUPED else 'keys'} per tangle)" if keys else name


def in_order(methods: set[str]) -> list[str]:
    """Methods in the order of the table, unknown ones last."""
    return [name for name in LOOKS if name in methods] + sorted(methods - set(LOOKS))
