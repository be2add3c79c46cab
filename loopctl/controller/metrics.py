"""A snapshot as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from loopctl.controller.status import STALLED, Snapshot, health


def render(snapshot: Snapshot, webhooks: Mapping[str, int], now: datetime) -> bytes:
    """All metrics as text. `webhooks` counts what became of requests."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot, webhooks, now))
    return generate_latest(registry)


class _Snapshot(Collector):
    def __init__(self, snapshot: Snapshot, webhooks: Mapping[str, int], now: datetime) -> None:
        self._snapshot, self._webhooks, self._now = snapshot, webhooks, now

    def collect(self) -> Iterator[Metric]:
        """Every family, each with a value for what is known."""
        got = self._snapshot
        up = health(got, self._now)[0] != STALLED if got else False
        yield GaugeMetricFamily("loopctl_up", "Whether the controller's loop turns.", value=float(up))
        good = got.get("good_at")
        if good:
            moment = datetime.fromisoformat(good).timestamp()
            yield GaugeMetricFamily(
                "loopctl_last_good_cycle_timestamp_seconds",
                "When the last whole look at everything ended.",
                value=moment,
            )
        yield _by("sessions", "Sessions by phase.", "phase", got.get("sessions", {}))
        yield _by("held_items", "Items left alone, by reason.", "reason", got.get("held", {}))
        yield GaugeMetricFamily("loopctl_queue_depth", "Items that wait.", value=got.get("queue_depth", 0))
        yield CounterMetricFamily("loopctl_hints_dropped", "Hints without room.", value=got.get("hints_dropped", 0))
        yield from _counters(got, self._webhooks)


def _counters(got: Snapshot, webhooks: Mapping[str, int]) -> Iterator[Metric]:
    actions = CounterMetricFamily("loopctl_actions", "Actions by verb and status.", labels=["verb", "status"])
    for row in got.get("actions", []):
        actions.add_metric([row["verb"], row["status"]], row["count"])
    yield actions
    cycles: Mapping[str, int] = got.get("cycles", {})
    seconds = SummaryMetricFamily("loopctl_cycle_seconds", "How long cycles took.")
    seconds.add_metric([], count_value=sum(cycles.values()), sum_value=got.get("cycle_seconds", 0.0))
    yield seconds
    yield _counts("cycles", "Cycles by what asked for them.", "trigger", cycles)
    yield _counts("webhook_requests", "Webhook requests by what became of them.", "outcome", webhooks)
    github: Mapping[str, Any] = got.get("github", {})
    yield CounterMetricFamily("loopctl_github_calls", "Calls to GitHub.", value=github.get("calls", 0))
    yield CounterMetricFamily("loopctl_github_points", "Points spent at GitHub.", value=github.get("points", 0))
    if github.get("remaining") is not None:
        yield GaugeMetricFamily("loopctl_github_points_remaining", "Points left at GitHub.", value=github["remaining"])


def _by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"loopctl_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _counts(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"loopctl_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
