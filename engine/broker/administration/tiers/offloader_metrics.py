"""Families of tiered storage on the ``/metrics`` page, by the names of Pulsar's offloaders. Pure.

Bytes are counters: Pulsar's rates over its statistics period are those of the counters. Latencies are in microseconds.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from engine.base.measures.durations import Durations
from engine.base.metrics import described, labels_of
from engine.base.names import decode_name
from engine.offload.meters import Meters

PREFIX = "brk_ledgeroffloader_"
_COUNTERS = {
    "offload_error": "Ledgers that could not be moved to tiered storage.",
    "write_storage_error": "Ledgers that the object store did not take.",
    "read_offload_error": "Reads from tiered storage that failed.",
    "read_bytes": "Bytes read from tiered storage.",
    "offload_bytes": "Bytes of ledgers that were moved to tiered storage.",
}
_SUMMARIES = {
    "read_ledger_latency": "Microseconds of reads of ledgers that are moved.",
    "read_offload_index_latency": "Microseconds of reads of indexes in tiered storage.",
    "read_offload_data_latency": "Microseconds of reads of entries in tiered storage.",
}


class _Row(NamedTuple):
    labels: str
    of: list[Meters]

    def counters(self) -> dict[str, int]:
        return {
            "offload_error": sum(meters.move_errors for meters in self.of),
            "write_storage_error": sum(meters.write_errors for meters in self.of),
            "read_offload_error": sum(meters.read_errors for meters in self.of),
            "read_bytes": sum(meters.read_bytes for meters in self.of),
            "offload_bytes": sum(meters.moved_bytes for meters in self.of),
        }

    def summaries(self) -> dict[str, list[Durations]]:
        return {
            "read_ledger_latency": [meters.bookie_reads for meters in self.of],
            "read_offload_index_latency": [meters.index_reads for meters in self.of],
            "read_offload_data_latency": [meters.data_reads for meters in self.of],
        }


def offloader_families(
    meters: Mapping[str, Meters], cluster: str, *, topics: bool, orphans: int
) -> Iterator[bytes]:
    """Yield the families, by topic with ``topics``, else by namespace. ``meters``: by the names of managed ledgers;
    ``orphans``: objects that this broker removed because no topic names them."""
    rows: dict[str, list[Meters]] = {}
    for log, of_log in meters.items():
        tenant, namespace, domain, topic = log.split("/", 3)
        labels = {"cluster": cluster, "namespace": f"{tenant}/{namespace}"}
        if topics:
            labels["topic"] = f"{domain}://{tenant}/{namespace}/{decode_name(topic)}"
        rows.setdefault(labels_of(**labels), []).append(of_log)
    known = [_Row(labels, of) for labels, of in rows.items()]
    for name, text in _COUNTERS.items():
        samples = [(row.labels, row.counters()[name]) for row in known]
        yield described(PREFIX + name, "counter", text, samples).encode()
    deleted = [
        (f'{row.labels},status="{status}"', sum(getattr(meters, field) for meters in row.of))
        for row in known
        for status, field in (("succeed", "deleted"), ("failed", "not_deleted"))
    ]
    text = "Deletions of ledgers in tiered storage."
    yield described(f"{PREFIX}delete_offload_ops", "counter", text, deleted).encode()
    for name, text in _SUMMARIES.items():
        yield described(PREFIX + name, "summary", text, ()).encode()
        for row in known:
            yield _summary(PREFIX + name, row.labels, row.summaries()[name])
    text = "Objects of tiered storage that no topic named, which this broker removed."
    samples = [(labels_of(cluster=cluster), orphans)]
    yield described("magnetar_orphan_objects_removed_total", "counter", text, samples).encode()


def _summary(name: str, labels: str, parts: list[Durations]) -> bytes:
    """Return count and sum of all ``parts``, and the quantiles of the one with most durations."""
    largest = max(parts, key=lambda part: part.count)
    lines = [
        f'{name}{{{labels},quantile="{quantile}"}} {at_s * 1e6}'
        for quantile, at_s in largest.quantiles_s().items()
    ]
    lines.append(f"{name}_count{{{labels}}} {sum(part.count for part in parts)}")
    lines.append(f"{name}_sum{{{labels}}} {sum(part.total_s for part in parts) * 1e6}")
    return "\n".join([*lines, ""]).encode()
