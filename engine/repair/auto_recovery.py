"""Auto-recovery of one process: a candidate for the auditor and a replication worker, over one ledger client."""

from collections.abc import Callable, Iterator

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.metrics import described
from engine.base.tasks import TaskScope, restarting
from engine.ledger.client import LedgerClient
from engine.ledger.settings import LedgerSettings
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.repair.auditor import Auditor
from engine.repair.ledger_repair import LedgerRepair, OwnCopies
from engine.repair.marks import RepairRecords
from engine.repair.settings import RepairSettings
from engine.repair.worker import ReplicationWorker

AUDITOR = "replication_auditor_"
WORKER = "replication_replication_worker_"
"""Prefixes of metrics, as BookKeeper has them."""

Reading = tuple[str, str, Callable[[], float]]
"""Name, help and value of a metric."""


class AutoRecovery:
    """``start`` begins to take part; call it and the constructor inside a running event loop. ``identity`` names the
    process in votes and locks, as the bookie's id does in BookKeeper."""

    def __init__(
        self,
        settings: RepairSettings,
        ledger_settings: LedgerSettings,
        identity: str,
        *,
        store: MetadataStore,
        network: Network,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self.identity = identity
        self._clock = clock
        self.client = LedgerClient(
            store=store, network=network, clock=clock, entropy=entropy, settings=ledger_settings
        )
        self.records = RepairRecords(store, clock, entropy)
        self.repair = LedgerRepair(
            store,
            self.client,
            batch_bytes=settings.rereplication_batch_bytes,
            rate_by_bytes=settings.replication_rate_by_bytes,
        )
        self.auditor = Auditor(store, clock, self.records, self.client, settings, identity)
        self.worker = ReplicationWorker(store, self.records, self.repair, settings, identity)
        self.own_copies = OwnCopies(self.client, self.records, self.repair, identity)
        self._tasks = TaskScope("auto-recovery")

    def start(self) -> None:
        self.client.bookies.start()
        self._tasks.spawn("auditor", restarting("auditor", self.auditor.run))
        self._tasks.spawn("worker", restarting("replication worker", self.worker.run))

    async def stop(self) -> None:
        """Stop; the marks stay for other workers, and another auditor is elected."""
        await self._tasks.close()
        await self.auditor.election.resign()
        await self.client.close()

    # Metrics

    def families(self) -> Iterator[str]:
        """Yield the families of the metrics."""
        for name, text, value in self.gauges():
            yield described(name, "gauge", text, [("", value())])
        for name, text, value in self.counters():
            yield described(name, "counter", text, [("", value())])

    def gauges(self) -> Iterator[Reading]:
        """Yield BookKeeper's gauges, and beyond them what an operator wants to know."""
        counts, worker, clock = self.auditor.counts, self.worker, self._clock
        yield (
            "auditor_elected",
            "1 in the process that is the auditor",
            lambda: float(self.auditor.election.leads),
        )
        yield (
            f"{AUDITOR}NUM_UNDER_REPLICATED_LEDGERS",
            "Marked ledgers at the auditor's last look",
            lambda: counts.marked_now,
        )
        yield (
            "auditor_oldest_mark_age_seconds",
            "Age of a mark, 0 without one",
            lambda: (
                max(clock.wall_ms() - counts.oldest_mark_ms, 0) / 1000
                if counts.oldest_mark_ms
                else 0.0
            ),
        )
        yield (
            "auditor_bookies_waited_for",
            "Bookies that are away and whose ledgers are not marked yet",
            lambda: len(self.auditor.waits_for),
        )
        for name, text, value in (
            (
                "NUM_LEDGERS_NOT_ADHERING_TO_PLACEMENT_POLICY",
                "Closed ledgers with too few racks",
                lambda: counts.not_adhering,
            ),
            (
                "NUM_LEDGERS_HAVING_NO_REPLICA_OF_AN_ENTRY",
                "Closed ledgers with an entry without a copy",
                lambda: counts.without_copy,
            ),
            (
                "NUM_LEDGERS_HAVING_LESS_THAN_AQ_REPLICAS_OF_AN_ENTRY",
                "Closed ledgers with an entry below its ack quorum",
                lambda: counts.below_ack_quorum,
            ),
            (
                "NUM_LEDGERS_HAVING_LESS_THAN_WQ_REPLICAS_OF_AN_ENTRY",
                "Closed ledgers with an entry below its write quorum",
                lambda: counts.below_write_quorum,
            ),
        ):
            yield f"{AUDITOR}{name}", text, value
        yield (
            "replication_worker_ledgers_in_repair",
            "Ledgers that this process repairs now",
            lambda: len(worker.working),
        )
        yield (
            "replication_worker_unrecoverable_ledgers",
            "Ledgers that could not be repaired many times",
            lambda: len(worker.unrecoverable),
        )

    def counters(self) -> Iterator[Reading]:
        """Yield BookKeeper's counters."""
        audits, worker, repair = self.auditor.counts, self.worker, self.repair
        copies = repair.counts
        yield "replication_election_attempts", "Elections won", lambda: audits.elections
        for name, text, value in (
            ("NUM_LEDGERS_CHECKED", "Ledgers checked", lambda: audits.ledgers_checked),
            (
                "NUM_BOOKIE_AUDITS_DELAYED",
                "Bookies waited for",
                lambda: audits.audits_delayed,
            ),
            (
                "NUM_DELAYED_BOOKIE_AUDITS_CANCELLED",
                "Of which came back",
                lambda: audits.audits_cancelled,
            ),
            ("AUDIT_BOOKIES_TIME_count", "Audits", lambda: audits.audits),
        ):
            yield f"{AUDITOR}{name}", text, value
        for name, text, value in (
            (
                "NUM_FULL_OR_PARTIAL_LEDGERS_REPLICATED",
                "Ledgers repaired",
                lambda: worker.ledgers_repaired,
            ),
            (
                "NUM_NOT_ADHERING_PLACEMENT_LEDGERS_REPLICATED",
                "Ledgers moved to more racks or regions",
                lambda: worker.ledgers_placed,
            ),
            (
                "NUM_DEFER_LEDGER_LOCK_RELEASE_OF_FAILED_LEDGER",
                "Attempts that failed",
                lambda: worker.deferred,
            ),
            (
                "NUM_ENTRIES_UNABLE_TO_READ_FOR_REPLICATION",
                "Reads without an intact copy",
                lambda: copies.unreadable,
            ),
            ("NUM_ENTRIES_READ", "Entries read", lambda: copies.entries_read),
            ("NUM_BYTES_READ", "Bytes of them", lambda: copies.bytes_read),
            ("NUM_ENTRIES_WRITTEN", "Entries written", lambda: copies.entries_written),
            ("NUM_BYTES_WRITTEN", "Bytes of them", lambda: copies.bytes_written),
        ):
            yield f"{WORKER}{name}", text, value
        yield (
            "replication_worker_ledgers_recovered",
            "Open ledgers of lost bookies that were closed",
            lambda: repair.ledgers_recovered,
        )
