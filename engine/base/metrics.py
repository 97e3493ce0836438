"""Counters and gauges under Pulsar's names. Bind label children once, never on the hot path."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["CollectorRegistry", "Counter", "Gauge", "Histogram", "generate_latest"]
