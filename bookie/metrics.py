"""Counters of a bookie: plain attributes on the hot path, made into metric families at a scrape."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bookie.storage.codes import Code
from engine.base.metrics import described
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

    @property
    def adds_refused(self) -> int:
        """Number of entries that were not added."""
        return sum(self._add_failures.values())

    @property
    def reads_refused(self) -> int:
        """Number of reads without an entry."""
        return sum(self._read_failures.values())

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


JOURNAL = 'journalIndex="0",success="true"'
"""Labels of the only journal. What it did not write ends the bookie, so there are no failures."""


class Alias(NamedTuple):
    """A family of BookKeeper's, with the own reading that has its value."""

    name: str
    kind: str
    help: str
    reading: str


ALIASES = (
    Alias("bookie_ledgers_count", "gauge", "Ledgers stored", "bookie_ledgers"),
    Alias("bookie_ACTIVE_LEDGER_TOTAL", "gauge", "Ledgers stored", "bookie_ledgers"),
    Alias("bookie_ACTIVE_ENTRY_LOG_TOTAL", "gauge", "Entry log files", "bookie_entry_logs"),
    Alias(
        "bookie_ACTIVE_ENTRY_LOG_SPACE_BYTES",
        "gauge",
        "Bytes in entry log files",
        "bookie_entry_log_bytes",
    ),
    Alias(
        "bookie_write_cache_size",
        "gauge",
        "Bytes not yet in entry logs",
        "bookie_write_cache_bytes",
    ),
    Alias("bookie_DELETED_LEDGER_TOTAL", "counter", "Ledgers deleted", "bookie_ledgers_deleted"),
    Alias(
        "bookie_RECLAIMED_COMPACTION_SPACE_BYTES",
        "counter",
        "Bytes freed by compaction",
        "bookie_compaction_freed_bytes",
    ),
    Alias(
        "bookie_read_cache_hits", "counter", "Reads of blocks in memory", "bookie_read_cache_hits"
    ),
    Alias(
        "bookie_read_cache_misses",
        "counter",
        "Reads of blocks from disk",
        "bookie_read_cache_misses",
    ),
)


def bookkeeper_families(metrics: BookieMetrics, *, ledger_dirs: int) -> Iterator[str]:
    """Yield BookKeeper's names of what a bookie counts, so that dashboards and alerts made for BookKeeper show it.

    ``ledger_dirs``: number of ledger directories. The families of the storage need an open storage. Latencies have
    none: nothing is measured per entry.
    """
    readings = {name: read for name, (_, read) in {**metrics.counters, **metrics.gauges}.items()}
    is_ready, is_read_only = readings["bookie_ready"](), readings.get("bookie_read_only")
    status = -1 if not is_ready or is_read_only is None else int(not is_read_only())
    yield _family(
        "bookie_SERVER_STATUS",
        "gauge",
        "1 writable, 0 read-only, -1 not registered",
        [("", status)],
    )
    yield _family("bookie_WRITE_BYTES", "counter", "Bytes added", [("", metrics.added_bytes)])
    yield _family("bookie_READ_BYTES", "counter", "Bytes read", [("", metrics.read_bytes)])
    for operation, done, failed in (
        ("ADD_ENTRY", metrics.added, metrics.adds_refused),
        ("READ_ENTRY", metrics.reads, metrics.reads_refused),
    ):
        for name in (f"bookkeeper_server_{operation}", f"bookkeeper_server_{operation}_REQUEST"):
            yield _counts(name, [('success="true"', done), ('success="false"', failed)])
    yield _counts("bookie_journal_JOURNAL_ADD_ENTRY", [(JOURNAL, metrics.added)])
    if is_read_only is None:
        return
    yield _counts("bookie_journal_JOURNAL_SYNC", [(JOURNAL, readings["bookie_journal_groups"]())])
    writable = ledger_dirs - readings["bookie_ledger_dirs_full"]()
    yield _family(
        "bookie_ledger_writable_dirs", "gauge", "Ledger directories with room", [("", writable)]
    )
    for alias in ALIASES:
        yield _family(alias.name, alias.kind, alias.help, [("", readings[alias.reading]())])


def _family(name: str, kind: str, text: str, samples: Sequence[tuple[str, float]]) -> str:
    return described(name, kind, f"{text} (BookKeeper's name)", samples)


def _counts(name: str, samples: Sequence[tuple[str, float]]) -> str:
    """Return a summary that has only its count."""
    lines = [f"# HELP {name} Requests by success, without times (BookKeeper's name)"]
    lines += [f"# TYPE {name} summary"]
    lines += [f"{name}_count{{{labels}}} {count}" for labels, count in samples]
    return "\n".join([*lines, ""])
