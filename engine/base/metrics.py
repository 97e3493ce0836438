"""Counters and gauges with Pulsar's names. Label children must be bound once, never on the hot path."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CollectorRegistry", "Counter", "Gauge", "Histogram", "generate_latest"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of Prometheus' text format, which ``generate_latest`` returns."""
