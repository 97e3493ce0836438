"""Families of transactions on the broker's ``/metrics`` page, under Pulsar's names. Pure."""

from collections.abc import Iterable, Iterator

from engine.base.metrics import described, labels_of
from engine.broker.administration.metric_families import Family, counter, gauge
from engine.broker.transactions.coordinator.coordinator import Coordinator
from engine.broker.transactions.coordinator.coordinators import Coordinators
from engine.broker.transactions.coordinator.latencies import BOUNDS_MS

COORDINATOR = (
    gauge("txn_active_count", "Transactions that are not ended."),
    counter("txn_created_total", "Transactions begun since the coordinator was opened."),
    counter("txn_committed_total", "Transactions committed since the coordinator was opened."),
    counter("txn_aborted_total", "Transactions aborted since the coordinator was opened."),
    counter("txn_timeout_total", "Transactions aborted because they timed out."),
    counter("txn_append_log_total", "Entries of the coordinator's log since it was opened."),
)
LATENCY = (
    "Transactions whose commit took at most this many milliseconds, and more than the bound before."
)


def transaction_families(coordinators: Coordinators, cluster: str) -> Iterator[bytes]:
    """Yield the families of the coordinators and of their requests to other brokers."""
    opened = list(coordinators)
    labels = [labels_of(cluster=cluster, coordinator_id=str(of.id)) for of in opened]
    for at, family in enumerate(COORDINATOR):
        values = [_values(coordinator)[at] for coordinator in opened]
        yield _family(family, zip(labels, values, strict=True))
    for at, bound in enumerate((*BOUNDS_MS, "overflow")):
        counts = [coordinator.latencies.counts[at] for coordinator in opened]
        family = counter(f"txn_execution_latency_le_{bound}", LATENCY)
        yield _family(family, zip(labels, counts, strict=True))
    yield from _requests(coordinators, labels_of(cluster=cluster))


def _values(coordinator: Coordinator) -> tuple[int, ...]:
    return (
        len(coordinator.table),
        coordinator.begun,
        coordinator.committed,
        coordinator.aborted,
        coordinator.timed_out,
        coordinator.log.appended,
    )


def _requests(coordinators: Coordinators, labels: str) -> Iterator[bytes]:
    participants = coordinators.participants
    text = "Ends on topics and subscriptions that are not confirmed yet."
    yield _family(gauge("txn_tb_client_pending_requests", text), [(labels, participants.pending)])
    for committed, word in ((True, "commit"), (False, "abort")):
        times = participants.times[committed]
        failed = counter(
            f"txn_tb_client_{word}_failed_total", "Requests that failed and were repeated."
        )
        yield _family(failed, [(labels, times.failed)])
        name = f"pulsar_txn_tb_client_{word}_latency"
        text = "Milliseconds until a topic or subscription confirmed an end."
        yield described(name, "summary", text, ()).encode()
        for quantile, at_s in times.quantiles_s().items():
            yield f'{name}{{{labels},quantile="{quantile}"}} {at_s * 1000}\n'.encode()
        yield f"{name}_count{{{labels}}} {times.count}\n".encode()
        yield f"{name}_sum{{{labels}}} {times.total_s * 1000}\n".encode()


def _family(family: Family, samples: Iterable[tuple[str, float]]) -> bytes:
    return described(family.name, family.kind, family.help, samples).encode()
