"""Counters of a bookie: plain attributes on the hot path, made into metric families at a scrape."""

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bookie.storage.codes import Code
from engine.wire.bookie_v3 import operation_name

Readings = dict[str, tuple[str, Callable[[], float]]]
"""Values read at each scrape: name → (help, value)."""


class BookieMetrics(Collector):
    """Metrics of a bookie, to be registered with a CollectorRegistry."""

    def __init__(self) -> None:
        self.added = 0
        self.added_bytes = 0
        self.reads = 0
        self.read_bytes = 0
        self.fenced = 0
        self.malformed = 0
        self.damaged = 0
        self.v3_requests: dict[int, int] = {}  # by the operation's number
        self._add_failures = dict.fromkeys(Code, 0)
        self._read_failures = dict.fromkeys(Code, 0)
        self.gauges: Readings = {}
        self.counters: Readings = {}

    def refused(self, code: Code, entries: int) -> None:
        self._add_failures[code] += entries

    def read(self, code: Code, size: int, entries: int = 1) -> None:
        if code == Code.OK:
            self.reads += entries
            self.read_bytes += size
        else:
            self._read_failures[code] += 1

    def collect(self) -> Iterator[Metric]:
        for name, text, value in (
            ("bookie_entries_added", "Entries made durable and answered", self.added),
            ("bookie_bytes_added", "Bytes of frames of those entries", self.added_bytes),
            ("bookie_entries_read", "Entries answered to reads", self.reads),
            ("bookie_bytes_read", "Bytes of those entries", self.read_bytes),
            ("bookie_ledgers_fenced", "Fences made durable", self.fenced),
            ("bookie_malformed_requests", "Connections closed for what they sent", self.malformed),
            ("bookie_damaged_reads", "Reads that met damaged or missing data", self.damaged),
        ):
            yield CounterMetricFamily(name, text, value=value)
        for name, failures in (
            ("bookie_add_failures", self._add_failures),
            ("bookie_read_failures", self._read_failures),
        ):
            family = CounterMetricFamily(name, "Requests refused, by answer", labels=["code"])
            for code, count in failures.items():
                if count:
                    family.add_metric([code.name], count)
            yield family
        family = CounterMetricFamily(
            "bookie_v3_requests", "Requests of the V3 protocol", labels=["operation"]
        )
        for operation, count in sorted(self.v3_requests.items()):
            family.add_metric([operation_name(operation)], count)
        yield family
        for name, (text, read) in self.counters.items():
            yield CounterMetricFamily(name, text, value=read())
        for name, (text, read) in self.gauges.items():
            yield GaugeMetricFamily(name, text, value=read())
