"""
Collects what the parts of the server have counted, as metrics of Prometheus.

`metrics` imports this on first use, because most servers are never asked for metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from valuetracker.http.call import Document, Service

ROUTE = ("route", "method")
DATABASE = ("user", "extension")


def metrics_document(service: Service) -> Document:
    registry = CollectorRegistry()
    registry.register(Metrics(service))
    ProcessCollector(registry=registry)
    return Document(generate_latest(registry), CONTENT_TYPE_LATEST)


class Metrics:
    """Collects what the parts of the server have counted."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._counts = service.counts

    def describe(self) -> Iterable[Metric]:
        """Say that names are not known before they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._commits()
        yield from self._databases()
        yield from self._backups()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "valuetracker_requests", "Answered requests.", labels=(*ROUTE, "status")
        )
        hits = CounterMetricFamily(
            "valuetracker_cache_hits", "Answers that were kept and sent again.", labels=ROUTE
        )
        seconds = HistogramMetricFamily(
            "valuetracker_request_seconds",
            "Time until the answer was ready, of answers that were not kept.",
            labels=ROUTE,
        )
        for route, counts in self._counts.items():
            for status, number in counts.by_class.items():
                requests.add_metric((*route, status), number)
            if counts.hits:
                hits.add_metric(route, counts.hits)
            buckets = counts.seconds.buckets
            if buckets[-1][1]:
                seconds.add_metric(route, buckets, counts.seconds.sum)
        yield from (requests, hits, seconds)

    def _commits(self) -> Iterator[Metric]:
        commits = self._service.users.capacity.commits
        for name, about, histogram in (
            ("seconds", "Time that a transaction took to be written.", commits.seconds),
            ("writes", "Writes that one transaction committed.", commits.writes),
        ):
            yield HistogramMetricFamily(
                f"valuetracker_commit_{name}",
                about,
                buckets=histogram.buckets,
                sum_value=histogram.sum,
            )

    def _databases(self) -> Iterator[Metric]:
        users = self._service.users
        yield GaugeMetricFamily(
            "valuetracker_feed_readers", "Readers of feeds.", value=users.capacity.readers
        )
        yield GaugeMetricFamily(
            "valuetracker_open_databases", "Open databases.", value=users.capacity.open_databases
        )
        yield GaugeMetricFamily(
            "valuetracker_damaged_extensions",
            "Extensions that could not be opened when somebody last tried to.",
            value=sum(len(each.damaged) for _, each in users.opened()),
        )
        sizes = GaugeMetricFamily(
            "valuetracker_database_bytes", "What a database takes.", labels=DATABASE
        )
        for database, size in sorted(self._service.growth.sizes.items()):
            sizes.add_metric(database, size)
        yield sizes

    def _backups(self) -> Iterator[Metric]:
        last = self._service.backups.health()["lastAt"]
        yield GaugeMetricFamily(
            "valuetracker_backup_last_success_timestamp_seconds",
            "When the newest backup was made; 0 if there is none.",
            value=datetime.fromisoformat(last).timestamp() if last else 0,
        )
