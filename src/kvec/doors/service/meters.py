"""What the service counts, in Prometheus's format."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kvec.words.items import Decision

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ITEMS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024)
GAUGES = {
    "live": ("kvec_live_keys", "Sequences that are being watched, decided ones included."),
    "waiting": ("kvec_waiting_keys", "Sequences that are not decided yet."),
    "tangles": ("kvec_tangles", "Tangles that are being watched."),
    "cached": ("kvec_cached_items", "Items that others may still see."),
    "bytes": ("kvec_stream_bytes", "Memory of the stream's arrays."),
    "models": ("kvec_models_deciding", "Models that decide: more than one while a newer one takes over."),
    "newest": ("kvec_newest_item_seconds", "The time of the newest item, by the items' own clock."),
    "accuracy": (
        "kvec_live_accuracy",
        "Share of labelled decisions that were right, since the last take-over.",
    ),
    "labelled": ("kvec_labelled_decisions", "Decisions whose true label has come, since the last take-over."),
    "drift": ("kvec_drift", "Evidence of drift from calibration; at 1 it is an alarm."),
    "errors": ("kvec_promise_errors", "Evidence of more errors than promised; at 1 it is an alarm."),
    "evicted": ("kvec_evicted_items", "Items forgotten before their window had passed."),
    "late": ("kvec_late_items", "Items older than the clock of their tangle."),
    "unknown": ("kvec_unknown_values", "Values that training never saw."),
    "missing": ("kvec_missing_values", "Value fields that a row did not have."),
}
Facts = Callable[[], Mapping[str, Mapping[str, Any]]]  # by model, by name


class Meters:
    """Counters and histograms; gauges are asked for when someone reads."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = to = CollectorRegistry()
        self._items = Counter("kvec_items", "Items taken.", ["model"], registry=to)
        self._refused = Counter("kvec_rows_refused", "Rows that could not be used.", ["model"], registry=to)
        self._decisions = Counter(
            "kvec_decisions", "Decisions; where is_known is false, the label is only the closest one.",
            ["model", "label", "reason", "is_known"], registry=to,
        )  # fmt: skip
        self._observed = Histogram(
            "kvec_items_observed", "Items seen before a decision.", ["model"], buckets=ITEMS, registry=to
        )
        self._earliness = Histogram(
            "kvec_earliness", "Share of a sequence seen before it was decided, told when it ends; lower is better.",
            ["model"], buckets=SHARES, registry=to,
        )  # fmt: skip
        self._lag = Histogram(
            "kvec_lag_seconds", "From a request's arrival until it is taken.", buckets=SECONDS, registry=to
        )
        self._latency = Histogram(
            "kvec_latency_seconds", "From a request's arrival until its decisions.", buckets=SECONDS, registry=to
        )
        self._requests = Counter("kvec_http_requests", "Answers by kind.", ["route", "status"], registry=to)
        self._judged = Counter("kvec_judged", "Decisions whose label came.", ["model", "verdict"], registry=to)
        self._saves = Histogram(
            "kvec_snapshot_seconds", "For how long a snapshot halts a stream.", ["model"], buckets=SECONDS, registry=to
        )
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def read(self, facts: Facts, waiting: Callable[[], int]) -> None:
        """Ask these for gauges."""
        self.registry.register(_Gauges(facts, waiting))

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def taken(self, model: str, n_items: int, n_refused: int) -> None:
        """Rows came."""
        self._items.labels(model).inc(n_items)
        if n_refused:
            self._refused.labels(model).inc(n_refused)

    def decided(self, model: str, decisions: Sequence[Decision]) -> None:
        """Decisions fell."""
        kinds = Tally((one.label, one.reason.value, str(one.is_known).lower()) for one in decisions)
        for kind, n in kinds.items():
            self._decisions.labels(model, *kind).inc(n)
        observed = self._observed.labels(model)
        for one in decisions:
            observed.observe(one.n_observed)

    def early(self, model: str, found: Tally[float]) -> None:
        """Sequences ended; what was found is counted, and gone."""
        if found:
            histogram = self._earliness.labels(model)
            for share, n in found.items():
                for _ in range(n):
                    histogram.observe(share)
            found.clear()

    def waited(self, lag: float, latency: float) -> None:
        """A request was answered."""
        self._lag.observe(lag)
        self._latency.observe(latency)

    def answered(self, route: str, status: int) -> None:
        """An answer went out."""
        self._requests.labels(route, status).inc()

    def judged(self, model: str, is_right: bool) -> None:
        """The label of a decision came."""
        self._judged.labels(model, "right" if is_right else "wrong").inc()

    def saved(self, model: str, seconds: float) -> None:
        """A stream was halted for a snapshot."""
        self._saves.labels(model).observe(seconds)


class _Gauges:
    """Asks for the numbers of the moment."""

    def __init__(self, facts: Facts, waiting: Callable[[], int]) -> None:
        self._facts, self._waiting = facts, waiting

    def collect(self) -> Iterable[Metric]:
        """One family for each fact."""
        found = self._facts()
        for name, (metric, help) in GAUGES.items():
            family = GaugeMetricFamily(metric, help, labels=["model"])
            for model, facts in found.items():
                if facts.get(name) is not None:
                    family.add_metric([model], facts[name])
            yield family
        yield GaugeMetricFamily("kvec_queue_requests", "Requests that wait to be taken.", value=self._waiting())
