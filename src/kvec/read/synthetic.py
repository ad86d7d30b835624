"""Made tangles whose structure is known: the paper's Synthetic-Traffic (§V-A), planted cases, and traffic for the demo.

Letters of the arrays: S sequences, L items of the longest one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from kvec.words.errors import DataError, SettingError
from kvec.words.schema import Field, Schema

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_PACKET = (Field("size", kind="categorical"), Field("direction", kind="categorical"))
SYNTHETIC_SCHEMA = Schema(tangle="tangle", order="order", values=_PACKET, session=("direction",), labels=("label",))
DEMO_SCHEMA = Schema(tangle="tangle", time="time", values=_PACKET, session=("direction",), labels=("label",))

SINGLE_CASES = ("early", "late", "own")  # the class shows in the sequence itself
PAIR_CASES = ("value", "two_hop")  # the class shows in a helper's sequence only
CASES = (*SINGLE_CASES, *PAIR_CASES, "mixed")

# Sizes of the planted tangles. Fillers of the three roles are disjoint, so that a link leads to its helper alone.
_OPEN, _NEEDY, _HELPER, _N_FILLERS = 100, 200, 300, 12
_LINK, _MARKER = 500, 400  # the first link, and the marker of the first class


def synthetic_traffic(
    n_tangles: int,
    kind: str = "early",
    seed: int = 0,
    flows: pl.DataFrame | None = None,
    length: int = 100,
    signal: int = 10,
) -> pl.DataFrame:
    """Tangles of two flows: a signal of a few packets at the start (`early`) or the end (`late`) among empty ones.

    The signal is the start of one of the given `flows` (columns key, size, direction, label, perhaps tangle and
    order; two classes are drawn), or a made one: sizes that tend to be large or small, which takes several packets to
    tell. Empty packets have size 0 and a random direction. `halt_at` counts the items that complete the signal.
    """
    _at_least("n_tangles", n_tangles, 1)
    _at_least("signal", signal, 1)
    _at_least("length", length, signal)
    if kind not in ("early", "late"):
        raise SettingError(f"kind is {kind!r}; it can be early or late")
    rng = np.random.default_rng(seed)
    n = 2 * n_tangles
    if flows is None:
        labels = rng.choice(["heavy", "light"], n)
        sizes, directions = _made_signals(labels == "heavy", signal, rng)
    else:
        sizes, directions, labels = _given_signals(flows, n, signal, rng)
    start = 0 if kind == "early" else length - signal
    size = np.zeros((n, length), dtype=np.int64)
    direction = rng.integers(0, 2, (n, length))
    size[:, start : start + signal] = sizes
    direction[:, start : start + signal] = directions
    extra = {"label": labels, "halt_at": np.full(n, start + signal)}
    arrival = np.sort(rng.random((n, length)), axis=1)  # mixed at random, each flow in its own order
    return _table(size, direction, np.full(n, length), arrival, 2, extra).drop("arrival")


def planted_tangles(
    n_tangles: int, keys: int = 4, case: str = "mixed", seed: int = 0, length: int = 16
) -> pl.DataFrame:
    """Tangles of several keys of two classes, a and b, in which it is known where each class shows.

    - `early`, `late`: a marker among the first or last items of the sequence.
    - `own`: a marker anywhere; sessions of other keys with equal values hold markers of their own, which mislead.
    - `value`: the sequence says nothing; its class is that of a helper, one of whose sessions holds an item equal to
      one of ours and the marker.
    - `two_hop`: the marker is in the helper's first session, the equal item in a later one: our item must look at the
      helper's item (value correlation), which must have looked back at its own first session (key correlation).
    - `mixed`: all of them.

    The column `case` names what each key needs; helpers show their class openly. `halt_at` counts the items of the
    sequence after which its class is known.
    """
    if case not in CASES:
        raise SettingError(f"case is {case!r}; it can be {', '.join(CASES)}")
    _at_least("n_tangles", n_tangles, 1)
    _at_least("keys", keys, 3 if case == "mixed" else 2 if case in PAIR_CASES else 1)
    _at_least("length", length, 16)
    rng = np.random.default_rng(seed)
    cases, roles = _roles(n_tangles, keys, case, rng)
    n = n_tangles * keys
    pair = np.arange(n) // keys * keys + np.arange(n) % keys // 2 * 2  # needy and helper share the first one's number
    label = rng.integers(0, 2, n)
    is_needy, is_helper = roles == "needy", roles == "helper"
    label[is_needy] = label[pair[is_needy] + 1]
    links = np.argsort(rng.random((n_tangles, max(16, keys))), axis=1)[:, :keys].ravel()[pair] + _LINK
    planted = rng.integers(0, 2, n)[pair]  # direction of the planted sessions; the items around them turn away
    lengths = rng.integers(length - length // 4, length + 1, n)

    fillers = np.select([is_needy, is_helper], [_NEEDY, _HELPER], _OPEN)
    size = fillers[:, None] + rng.integers(0, _N_FILLERS, (n, length))
    direction = rng.integers(0, 2, (n, length))
    at = _between(0, np.full(n, length // 8), rng)  # where the sequence shows its own class, or its link to another
    at = np.where(cases == "late", lengths - 1 - at, at)
    at = np.where(cases == "own", _between(0, lengths, rng), at)
    at = np.where(is_needy, _between(lengths // 2, lengths * 9 // 10, rng), at)

    def plant(where: Bools, start: Ints, *sizes: Ints) -> None:
        """Put the given sizes into a session of their own."""
        rows = np.flatnonzero(where)
        for side in (-1, len(sizes)):
            inside = rows[(start[rows] + side >= 0) & (start[rows] + side < length)]
            direction[inside, start[inside] + side] = 1 - planted[inside]
        for step, values in enumerate(sizes):
            size[rows, start[rows] + step] = values[rows]
            direction[rows, start[rows] + step] = planted[rows]

    size[cases == "own", at[cases == "own"]] = (_MARKER + label)[cases == "own"]  # in whatever session it falls
    plant(np.isin(cases, ("early", "late")), at, _MARKER + label)
    plant(is_needy, at, links, links)
    early = _between(0, lengths * 4 // 10 - 2, rng)
    is_link_first, is_near = rng.random(n) < 0.5, cases == "value"
    plant(is_helper & is_near & is_link_first, early, links, _MARKER + label)
    plant(is_helper & is_near & ~is_link_first, early, _MARKER + label, links)
    plant(is_helper & ~is_near, np.zeros(n, dtype=np.int64), _MARKER + label, _MARKER + label)
    plant(is_helper & ~is_near, np.maximum(early, 3), links, links)
    at = np.where(is_helper, np.where(is_near, early + is_link_first, 0), at)

    shown = np.where(is_helper, "helper", cases)
    arrival = (np.arange(length) + rng.random((n, length))) / lengths[:, None]  # each sequence spans the same time
    extra = {"label": np.array(["a", "b"])[label], "case": shown, "halt_at": at + 1}
    return _table(size, direction, lengths, arrival, keys, extra, rng).drop("arrival")


APPLICATIONS = ("web", "video", "chat", "backup", "scan")
_LENGTHS = {"web": (12, 36), "video": (30, 60), "chat": (12, 40), "backup": (25, 60), "scan": (8, 24)}
_GAPS = {"web": 0.05, "video": 0.012, "chat": 0.3, "backup": 0.008, "scan": 0.02}  # seconds, typical
# Signed sizes (below 0: sent by the server) of each application once it is under way; the last row is the hand-shake.
_PROFILES = np.array([
    [620, 700, 540, -1460, -890, -340, -1460, 52],
    [-1460, -1460, -1460, -1380, -1380, -1460, 52, 300],
    [140, 180, 220, -140, -180, -220, 52, -52],
    [1460, 1460, 1460, 1380, 1380, -52, -52, -300],
    [40, 44, 40, 44, -40, 60, 40, -60],
    [517, -1460, -340, 126, -52, 52, 93, -180],
])  # fmt: skip
_HELLO, _TICKET, _N_TICKETS = 800, 1000, 120


def demo_traffic(n_tangles: int, seed: int = 0, keys: int = 6) -> pl.DataFrame:
    """Made traffic of five applications with times: most flows show theirs early, some only by a flow they resume.

    Every flow opens with the same hand-shake, of any duration. Most go on with a ticket and their application's
    hello; some repeat the ticket of an earlier flow of their application, and show nothing else for long; and some
    show nothing until late.
    """
    _at_least("n_tangles", n_tangles, 1)
    _at_least("keys", keys, 1)
    rng = np.random.default_rng(seed)
    n, longest = n_tangles * keys, 60
    slot = np.arange(n) % keys
    kind = rng.choice(["open", "resumed", "late"], n, p=[0.58, 0.32, 0.1])
    kind[slot == 0] = "open"
    opener = np.where(kind == "open", np.arange(n), -1)
    friend = np.maximum.accumulate(opener)  # the newest open flow of the same tangle: its slot 0 is open
    label = rng.integers(0, len(APPLICATIONS), n)
    label = np.where(kind == "resumed", label[friend], label)
    ranges = np.array([_LENGTHS[name] for name in APPLICATIONS])[label]
    lengths = rng.integers(ranges[:, 0], ranges[:, 1] + 1)
    ticket = (_TICKET + 3 * np.argsort(rng.random((n_tangles, max(_N_TICKETS, keys))), axis=1)[:, :keys].ravel())[
        friend
    ]

    late = np.round(lengths * rng.uniform(0.6, 0.8, n))
    begins = np.where(kind == "open", 1 + np.round(lengths * rng.uniform(0.0, 0.25, n)), late).astype(np.int64)
    index = np.arange(longest)
    is_under_way = index >= begins[:, None]  # (S, L)
    profile = np.where(is_under_way, label[:, None], len(APPLICATIONS))
    signed = _PROFILES[profile, rng.integers(0, _PROFILES.shape[1], (n, longest))]
    rows = np.flatnonzero(kind == "open")
    signed[rows, begins[rows]] = -ticket[rows]
    signed[rows, begins[rows] + 1] = -(_HELLO + label[rows])
    signed[rows, begins[rows] - 1] = np.abs(signed[rows, begins[rows] - 1])  # the client speaks before and after
    signed[rows, begins[rows] + 2] = np.abs(signed[rows, begins[rows] + 2])
    rows = np.flatnonzero(kind == "resumed")
    signed[rows, rng.integers(1, 4, len(rows))] = -ticket[rows]

    typical = np.where(is_under_way, np.array([_GAPS[name] for name in APPLICATIONS])[label][:, None], 0.03)
    gaps = typical * rng.lognormal(0.0, 0.6, (n, longest))
    gaps[:, 0] = rng.exponential(0.4, n) + 0.15 * slot
    time = np.cumsum(gaps, axis=1)
    hello = time[np.arange(n), np.minimum(begins + 1, longest - 1)]
    time += np.where(kind == "resumed", hello[friend], 0.0)[:, None]  # resumes what was opened before

    frame = _table(
        np.abs(signed), (signed > 0).astype(np.int64), lengths, time, keys, {"label": np.array(APPLICATIONS)[label]}
    )
    host = pl.format(
        "10.0.{}.{}:{}", pl.col("tangle") % 250, pl.col("key") % keys + 2, 49152 + pl.col("key") * 7919 % 16384
    )
    return frame.select(
        "tangle", host.alias("key"), pl.col("arrival").round(6).alias("time"), "size", "direction", "label"
    )


def _made_signals(is_heavy: Bools, signal: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Draws of eight sizes, each e^0.3 times as likely as the next smaller one, or as the next larger one."""
    n = len(is_heavy)
    tilt = np.exp(0.3 * np.arange(8))
    drawn = rng.choice(8, (n, signal), p=tilt / tilt.sum())
    turns = rng.random((n, signal)) < 1 / 2.7  # bursts as long as the paper's
    turns[:, 0] = rng.random(n) < 0.5
    return 100 + 150 * np.where(is_heavy[:, None], drawn, 7 - drawn), np.cumsum(turns, axis=1) % 2


def _given_signals(
    flows: pl.DataFrame, n: int, signal: int, rng: np.random.Generator
) -> tuple[Ints, Ints, npt.NDArray[Any]]:
    """The first packets of `n` flows drawn from two classes."""
    if missing := [name for name in ("key", "size", "direction", "label") if name not in flows.columns]:
        raise DataError(f"flows have no column {missing[0]!r}; they need key, size, direction and label")
    if not (flows.schema["size"].is_integer() and flows.schema["direction"].is_integer()):
        raise DataError("flows need whole numbers in the columns size and direction")
    sequence = [name for name in ("tangle", "key") if name in flows.columns]
    if "order" in flows.columns:
        flows = flows.sort("order", maintain_order=True)
    columns = [pl.col(name).cast(pl.Int64).head(signal) for name in ("size", "direction")]
    starts = flows.group_by(sequence, maintain_order=True).agg(
        *columns, pl.col("label").first().cast(pl.String), pl.len()
    )
    starts = starts.filter(pl.col("len") >= signal).sort(sequence)
    classes = starts["label"].unique().sort()
    if len(classes) < 2:
        raise DataError(f"flows hold {len(classes)} classes with {signal} packets or more; two are needed")
    starts = starts.filter(pl.col("label").is_in(rng.choice(classes.to_numpy(), 2, replace=False).tolist()))
    chosen = starts[rng.integers(0, starts.height, n)]
    sizes, directions = (np.array(chosen[name].to_list(), dtype=np.int64) for name in ("size", "direction"))
    return sizes, directions, chosen["label"].to_numpy()


def _roles(
    n_tangles: int, keys: int, case: str, rng: np.random.Generator
) -> tuple[npt.NDArray[np.str_], npt.NDArray[np.str_]]:
    """The case and the role (open, needy, helper) of each sequence; pairs stand first, the needy before its helper."""
    n_pairs = {"mixed": max(1, keys // 3)}.get(case, keys // 2 if case in PAIR_CASES else 0)
    pairs = rng.choice(PAIR_CASES if case == "mixed" else [case], (n_tangles, n_pairs)).repeat(2, axis=1)
    singles = rng.choice(SINGLE_CASES if case == "mixed" else [case], (n_tangles, keys - 2 * n_pairs))
    lone = "helper" if case in PAIR_CASES else "open"  # a helper of nobody misleads
    roles = [("needy", "helper")[i % 2] if i < 2 * n_pairs else lone for i in range(keys)]
    return np.concatenate([pairs, singles], axis=1).ravel(), np.tile(np.array(roles), n_tangles)


def _between(low: int | Ints, high: Ints, rng: np.random.Generator) -> Ints:
    """Random whole numbers from low up to, but without, high."""
    return rng.integers(low, np.maximum(high, np.asarray(low) + 1))


def _table(
    size: Ints,
    direction: Ints,
    lengths: Ints,
    arrival: Floats,
    keys: int,
    extra: dict[str, Any],
    rng: np.random.Generator | None = None,
) -> pl.DataFrame:
    """One row per item in order of arrival; with `rng`, key numbers say nothing about roles."""
    n, longest = size.shape
    number = np.arange(n)
    if rng is not None:
        number = (number // keys) * keys + np.argsort(rng.random((n // keys, keys)), axis=1).ravel()
    real = np.arange(longest) < lengths[:, None]
    spread = {name: np.broadcast_to(np.asarray(of)[:, None], real.shape)[real] for name, of in extra.items()}
    own = {"key": np.broadcast_to(number[:, None], real.shape)[real]}
    frame = pl.DataFrame({**own, "arrival": arrival[real], "size": size[real], "direction": direction[real], **spread})
    frame = frame.with_columns(tangle=pl.col("key") // keys).sort("tangle", "arrival", maintain_order=True)
    frame = frame.with_columns(order=pl.int_range(pl.len()).over("tangle"))
    return frame.select("tangle", "key", "order", "arrival", "size", "direction", *extra)


def _at_least(name: str, given: int, least: int) -> None:
    if given < least:
        raise SettingError(f"{name} is {given}; it must be at least {least}")
