"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pricekit.plugin.runners import TEXT_FIELDS, Counts, Sketch

SECONDS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03, 0.06, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

DRIFT = {
    "rows": "Priced rows that were counted for drift.",
    "outside_rows": "Counted rows with a feature beyond the range of the training rows.",
    "missing_cells": "Empty labelled lines and columns of counted rows.",
    "unseen_values": "Values of lines and columns that few training rows had, in counted rows.",
    "words": "Distinct words of counted rows.",
    "unknown_words": "Distinct words of counted rows that few training rows had.",
}
"""Counters of drift by name."""


class Metrics:
    """The metrics of one server, in a registry of their own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self._registry), partial(Gauge, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self._requests = counter(
            "pricekit_requests", "Requests by route and HTTP status.", ["route", "status"]
        )
        self._seconds = histogram(
            "pricekit_request_seconds", "Time until the answer of a request.", ["route"], buckets=SECONDS
        )
        self._rows = counter("pricekit_rows", "Rows that were priced.", ["model"])
        self._batches = histogram(
            "pricekit_batch_rows", "Rows that were priced together.", ["model"], buckets=ROWS
        )
        self._waits = histogram(
            "pricekit_queue_seconds", "Time that a request waited in the queue.", ["model"], buckets=SECONDS
        )
        self._waiting = gauge("pricekit_queue_rows", "Rows that wait to be priced.", ["model"])
        self._reloads = counter("pricekit_reloads", "Reloads of a bundle by result.", ["model", "result"])
        self._models = gauge(
            "pricekit_model", "1 for the model that is served.", ["model", "digest", "engine"]
        )

        self._connections = gauge("pricekit_connections", "Open connections.")
        self._closed = counter(
            "pricekit_closed_connections", "Connections that the server closed without an answer.", ["reason"]
        )
        self._drift = {
            name: counter(f"pricekit_drift_{name}", text, ["model"]) for name, text in DRIFT.items()
        }

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def connections(self, number: int) -> None:
        """Show how many connections are open."""
        self._connections.set(number)

    def closed(self, reason: str) -> None:
        """Count a connection that was closed without an answer."""
        self._closed.labels(reason).inc()

    def reloaded(self, model: str, result: str) -> None:
        """Count a reload: "replaced", "unchanged" or "refused"."""
        self._reloads.labels(model, result).inc()

    def serves(self, model: str, digest: str, engine: str) -> None:
        """Name the model that is served now."""
        for labels in [sample.labels for family in self._models.collect() for sample in family.samples]:
            if labels["model"] == model:
                self._models.remove(labels["model"], labels["digest"], labels["engine"])
        self._models.labels(model, digest, engine).set(1)

    def drifted(self, model: str, counts: Counts, sketch: Sketch) -> None:
        """Count what rows have that training rows hardly had."""
        fields = {name: each for name, each in counts.fields.items() if name not in TEXT_FIELDS}
        found = {
            "rows": counts.rows,
            "outside_rows": counts.outside,
            "missing_cells": sum(counts.rows - each.filled for each in fields.values()),
            "unseen_values": sum(
                each.filled - sum(each.values.get(value, 0) for value in sketch.fields[name].values)
                for name, each in fields.items()
                if sketch.fields[name].values
            ),
            "words": counts.word_pairs,
            "unknown_words": counts.unknown_words,
        }
        for name, number in found.items():
            self._drift[name].labels(model).inc(number)

    def of_queue(self, model: str) -> QueueMetrics:
        """Return what counts the work of a model's queue."""
        return QueueMetrics(
            self._rows.labels(model),
            self._batches.labels(model),
            self._waits.labels(model),
            self._waiting.labels(model),
        )

    def text(self) -> bytes:
        """Return all metrics."""
        return bytes(generate_latest(self._registry))


class QueueMetrics:
    """Counts the work of one queue."""

    def __init__(self, rows: Counter, batches: Histogram, waits: Histogram, waiting: Gauge) -> None:
        self._rows, self._batches, self._waits, self._waiting = rows, batches, waits, waiting

    def batch(self, rows: int, waited: Sequence[float]) -> None:
        """Count rows that are priced together, and the seconds that their requests waited."""
        self._rows.inc(rows)
        self._batches.observe(rows)
        for seconds in waited:
            self._waits.observe(seconds)

    def waiting(self, rows: int) -> None:
        """Show how many rows are in the queue."""
        self._waiting.set(rows)
