"""From captures without labels to a labels.csv: what `kvec label` does."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from kvec.doors.messages import say
from kvec.doors.writing import require_place
from kvec.read.packets.named_flows import LEVELS, name_flows
from kvec.read.packets.tables import each_capture, unread
from kvec.report.canvas import write_whole
from kvec.report.text import bar, percent, plain, table
from kvec.words.errors import DataError, SettingError
from kvec.words.flows import FlowSettings

COLUMNS = (
    "capture", "client", "client_port", "server", "server_port", "protocol", "start", "end", "label", "by",
)  # fmt: skip
LEAST = FlowSettings().min_packets
MOST_LABELS = 40  # that are listed
GIVEN_AWAY = {
    "sni": "the server name, which no field of kvec holds",
    "dns": "the DNS answer, which no field of kvec holds",
    "port": "the ports: do not let the model see client_port or server_port",
    "ndpi": "nDPI, which looks into the packets",
}


@dataclass(frozen=True)
class Wishes:
    """What was asked of `kvec label`."""

    captures: tuple[Path, ...]
    by: str
    output: Path
    min_flows: int = 10
    level: str | None = None
    idle: float = 120.0
    keyed: str = "inner"


def label_captures(wishes: Wishes) -> str:
    """Write the labels, and tell what was found."""
    if wishes.by not in LEVELS:
        raise SettingError(f"--by {wishes.by}: no such way to name flows; there are {', '.join(LEVELS)}")
    level = wishes.level or LEVELS[wishes.by][0]
    if level not in LEVELS[wishes.by]:
        raise SettingError(f"--level {level}: --by {wishes.by} knows {' and '.join(LEVELS[wishes.by])}")
    if wishes.min_flows < 1:
        raise SettingError(f"--min-flows {wishes.min_flows}: must be 1 or more")
    settings = FlowSettings(idle=wishes.idle, keyed=wishes.keyed)
    require_place(wishes.output, (".csv",), wishes.captures)
    frames, counters = [], Counter[str]()
    for name, path, capture in each_capture(wishes.captures, _pass_by):
        found = name_flows(capture, wishes.by, level, settings, path)
        frames.append(found.frame.with_columns(pl.lit(name).alias("capture")))
        counters += found.counters
    flows = pl.concat(frames)
    if lost := unread(counters):
        say(f"warning: {lost}")
    labels = _keep(flows, wishes)
    _write(flows, labels, wishes)
    return _text(flows, labels, counters, wishes)


def _pass_by(problem: str) -> None:
    say(f"warning: passed over: {problem}")


def _keep(flows: pl.DataFrame, wishes: Wishes) -> pl.DataFrame:
    """The labels that are frequent enough: name, flows, packets, the most frequent first."""
    if not flows.height:
        raise DataError(f"{wishes.captures[0]}: there are no flows in it")
    named = flows.drop_nulls("name")
    others = " or ".join(by for by in LEVELS if by != wishes.by)
    if not named.height:
        why = flows["reason"].value_counts(sort=True)["reason"][0]
        raise DataError(
            f"none of the {flows.height:,} flows has a name by {wishes.by} (most often: {why}); try --by {others}"
        )
    counted = named.group_by("name").agg(pl.len().alias("flows"), pl.col("packets").sum())
    counted = counted.sort(["flows", "name"], descending=[True, False])
    kept = counted.filter(pl.col("flows") >= wishes.min_flows)
    if not kept.height:
        raise DataError(
            f"no label has {wishes.min_flows} flows: {plain(counted['name'][0])} has the most, "
            f"{counted['flows'][0]}; lower --min-flows, or try --by {others}"
        )
    if kept.height == 1:
        say(f"warning: every labelled flow is {plain(kept['name'][0])}; training needs at least two classes")
    return kept


def _write(flows: pl.DataFrame, labels: pl.DataFrame, wishes: Wishes) -> None:
    rows = flows.filter(flows["name"].is_in(labels["name"].implode())).rename({"name": "label"})
    content = io.BytesIO()
    rows.with_columns(pl.lit(wishes.by).alias("by")).select(COLUMNS).write_csv(content)
    write_whole(wishes.output, content.getvalue())


def _text(flows: pl.DataFrame, labels: pl.DataFrame, counters: Counter[str], wishes: Wishes) -> str:
    most, n_labelled = int(labels["flows"][0]), int(labels["flows"].sum())
    rows = [
        (plain(name, 48), f"{n:,}", f"{packets:,}", bar(n / most, 24))
        for name, n, packets in labels.head(MOST_LABELS).rows()
    ]
    parts = [table(rows, ("label", "flows", "packets", ""), right=(1, 2))]
    if (left := labels.height - MOST_LABELS) > 0:
        parts[0] += f"\n… and {left:,} more"
    share = percent(n_labelled / flows.height)
    n_named = flows.height - flows["name"].null_count()
    reasons = [(reason, f"{n:,}") for reason, n in flows["reason"].drop_nulls().value_counts(sort=True).rows()]
    if n_named > n_labelled:
        n_names = flows["name"].n_unique() - bool(flows["name"].null_count()) - labels.height
        reasons.append(
            (f"one of {n_names:,} label(s) with fewer than {wishes.min_flows} flows", f"{n_named - n_labelled:,}")
        )
    parts.append(
        f"{n_labelled:,} of {flows.height:,} flows ({share}) have one of {labels.height:,} labels, by {wishes.by}"
    )
    if reasons:
        parts.append(table(reasons, ("flows without a label", ""), right=(1,)))
    if counters:
        lost = [(reason, f"{n:,}") for reason, n in counters.most_common()]
        parts.append(table(lost, ("passed over", ""), right=(1,)))
    named = flows.filter(flows["name"].is_in(labels["name"].implode()))
    n_long = int((named["packets"] >= LEAST).sum())
    names = " ".join(shlex.quote(str(path)) for path in wishes.captures)
    output = shlex.quote(str(wishes.output))
    parts.append(f"labels: {wishes.output}, made from {GIVEN_AWAY[wishes.by]}")
    if n_labelled > n_long:
        parts.append(
            f"{n_long:,} of them have {LEAST} packets or more; the others are left out of training, unless kvec train "
            "is told --min-packets 1"
        )
    if labels.height > 1:
        n_left = named.filter(pl.col("packets") >= LEAST)["name"].n_unique()
        more = " --min-packets 1" if n_left < 2 else ""  # else no two classes would be left to learn
        parts.append(f"next: kvec train {names} --labels {output}{more} -o model")
    return "\n\n".join(parts)
