"""The record of ledgers during a run: calls of processes and their results, each stored version of metadata, each
bookie's fences. More than any process sees."""

from engine.ledger.ledger_metadata import decode
from engine.metadata import paths
from tests.sim.kit.cluster import Cluster
from tests.sim.kit.scenario import first_of
from tests.sim.ledgers import checkers
from tests.sim.ledgers import history as h


class LedgerRecord:
    """Fills a history. Sees metadata by itself; ``look_at_fences`` has to be called repeatedly."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.history = h.LedgerHistory(quorum=cluster.shape.quorum)
        self.deleted: dict[int, float] = {}
        """Time of the first request to delete a ledger, by ledger."""
        self.born: dict[int, float] = {}
        """Time at which each ledger was first stored in metadata."""
        self.recoveries: dict[int, None] = {}
        """Ledgers that a process of the workload has begun to recover."""
        self._fences: dict[tuple[str, int], bool] = {}
        cluster.tree.taps.append(self._stored)

    def add(self, event: h.Event) -> None:
        self.history.events.append(event)

    def anomaly(self, text: str) -> None:
        self.history.anomalies.append(f"{text} at {self.cluster.loop.now:.3f}")

    def _stored(self, path: str, value: bytes | None, conditional: bool) -> None:
        ledger = paths.ledger_id(path)
        if ledger is not None:
            now = self.cluster.loop.now
            self.born.setdefault(ledger, now)
            metadata = None if value is None else decode(value)
            self.add(h.Version(now, ledger, metadata, conditional or value is None))

    def look_at_fences(self) -> None:
        """Note the fences of each bookie that have changed."""
        for machine in self.cluster.bookies:
            serving = machine.bookie._serving if machine.bookie is not None else None
            storage = None if serving is None else serving.storage
            if storage is None or not machine.ready or machine is self.cluster.lost:
                continue
            for ledger_id in storage.ledgers.live_ids():
                ledger = storage.ledgers.get(ledger_id)
                key = (machine.name, ledger_id)
                if ledger is None or ledger_id in self.deleted:
                    continue
                if self._fences.get(key) != ledger.fence_durable:
                    self._fences[key] = ledger.fence_durable
                    self.add(h.Fence(self.cluster.loop.now, *key, ledger.fence_durable))

    def check(self) -> list[str]:
        """Return the violations of the rules about ledgers in the history."""
        self.history.lost = int(self.cluster.lost is not None)
        violations = []
        for name, check in checkers.CHECKS.items():
            violations += first_of(check(self.history), name)
        return violations
