"""The conduct of auto-recovery, checked as it happens: who is the auditor, what it and the workers do while they are
turned off, under which locks and when ledgers are repaired, and when a cookie is removed."""

from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.metadata import paths
from engine.repair.checking import ends
from tests.sim.kit.cluster import BOOKIE_PORT, Cluster
from tests.sim.ledgers.record import LedgerRecord

SWITCHED_S = 0.5
"""Time after which no process acts on what it read before auto-recovery was turned off, if nothing is slow."""
STALE_S = 12.0
"""Time after which no writer begins a ledger on a bookie that has left."""


class Conduct:
    """``calm``: nothing fails in this run but disks and bookies for good, so that no process is late."""

    def __init__(self, cluster: Cluster, record: LedgerRecord, *, calm: bool) -> None:
        self._cluster = cluster
        self._record = record
        self._calm = calm
        self._marked_at: dict[int, float] = {}
        self._disabled_at: float | None = None

    def look(self) -> None:
        """Check that no two processes take themselves for the auditor."""
        machines = self._cluster.machines.values()
        leaders = [m.name for m in machines if m.recovery and m.recovery.auditor.election.leads]
        if len(leaders) > 1:
            self._record.anomaly(f"I52 {leaders} are auditors at once")

    def stored(self, path: str, value: bytes | None, conditional: bool) -> None:
        """Check a change of any node but a ledger's."""
        now = self._cluster.loop.now
        if path == paths.REPAIR_DISABLED:
            self._disabled_at = None if value is None else now
        elif path.startswith(f"{paths.REPAIR_LOCKS}/") and value is not None:
            self._refuse_while_disabled(f"{path} was locked")
        elif path.startswith(f"{paths.MARKED_LEDGERS}/") and "/urL" in path:
            ledger = int(path.rpartition("urL")[2])
            if value is not None and ledger not in self._marked_at:
                self._marked_at[ledger] = now
                if not self._names_a_failed_disk(value):
                    self._refuse_while_disabled(f"ledger {ledger} was marked")
            elif value is None:
                self._marked_at.pop(ledger, None)
                if not conditional:
                    self._record.anomaly(f"I35 the mark of ledger {ledger} was removed unread")

    def _refuse_while_disabled(self, what: str) -> None:
        since = self._disabled_at
        if self._calm and since is not None and self._cluster.loop.now - since > SWITCHED_S:
            self._record.anomaly(f"I43 {what} while auto-recovery was turned off")

    def _names_a_failed_disk(self, mark: bytes) -> bool:
        """Return whether a bookie marked the ledger itself, whose disk failed."""
        return any(
            machine.disk.broken and f'"{machine.name}:{BOOKIE_PORT}"'.encode() in mark
            for machine in self._cluster.machines.values()
        )

    def changed(self, ledger: int, before: LedgerMetadata, after: LedgerMetadata) -> None:
        """Check that a ledger which no process of the workload recovers is recovered only after its grace."""
        if before.state is not LedgerState.OPEN or after.state is not LedgerState.IN_RECOVERY:
            return
        marked = self._marked_at.get(ledger)
        settings = self._cluster.shape.repair
        grace = 0.0 if settings is None else settings.open_ledger_rereplication_grace_period_s
        if ledger not in self._record.recoveries and (
            marked is None or self._cluster.loop.now - marked < grace
        ):
            self._record.anomaly(f"I34 ledger {ledger} was taken from its writer within the grace")

    def repaired(self, ledger: int, bookies: tuple[str, ...]) -> None:
        """Check a segment whose members a repair has changed."""
        if len(set(bookies)) != len(bookies):
            self._record.anomaly(f"I46 ledger {ledger}: a bookie has two places in {bookies}")
        if self._calm and not self._cluster.tree.exists(paths.repair_lock(ledger)):
            self._record.anomaly(f"I52 ledger {ledger} was repaired without a lock")

    def left(self, bookie: str, known: dict[int, LedgerMetadata], what: str) -> None:
        """Check that no ledger names a bookie that has left; writers that did not know yet may begin one there."""
        if "cookie" in what and self._is_registered(bookie):
            self._record.anomaly(f"{what}: {bookie} is registered")
        for ledger, metadata in known.items():
            if self._record.born.get(ledger, 0.0) > self._cluster.loop.now - STALE_S:
                continue
            for (first, last), segment in zip(ends(metadata), metadata.segments, strict=False):
                if bookie in segment.bookies and last >= first:
                    self._record.anomaly(f"{what}: ledger {ledger} names {bookie} from {first} on")
                    return

    def _is_registered(self, bookie: str) -> bool:
        tree = self._cluster.tree
        registered = (paths.available_bookie(bookie), paths.read_only_bookie(bookie))
        return any(tree.exists(path) is not None for path in registered)
