"""The record of managed ledgers during a run, besides the record of their ledgers."""

from engine.base.ids import Position
from engine.ledger.ledger_metadata import LedgerState, decode
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.store import NoNodeError
from tests.sim.kit.cluster import Cluster
from tests.sim.kit.scenario import first_of
from tests.sim.managed import checkers
from tests.sim.managed import history as m

CURSORS = ("c1", "c2")


class ManagedRecord:
    """Fills a history. Sees each version of each topic's list of ledgers by itself."""

    def __init__(self, cluster: Cluster, topics: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.history = m.ManagedHistory(CURSORS)
        self.stored: dict[str, dict[Position, m.Entry]] = {}
        """Confirmed entries by topic."""
        self.made: dict[str, set[str]] = {}
        """Cursors besides ``CURSORS``, by topic, whose creation was confirmed."""
        self.deleted: dict[str, set[str]] = {}
        """Cursors besides ``CURSORS``, by topic, whose deletion was requested."""
        self._topics = topics
        cluster.tree.taps.append(self._listed)

    def note(self, event: m.Event) -> None:
        self.history.events.append(event)

    def _listed(self, path: str, value: bytes | None, conditional: bool) -> None:
        topic = path.removeprefix(f"{paths.MANAGED_LEDGERS}/")
        if value and topic in self._topics:
            ledgers = tuple(info.ledger_id for info in LogRecord.decode(value).ledgers)
            closed = tuple(ledger for ledger in ledgers if self._is_closed(ledger))
            self.note(m.Listed(self.cluster.loop.now, topic, ledgers, closed))

    def _is_closed(self, ledger: int) -> bool:
        try:
            value, _ = self.cluster.tree.get(paths.ledger(ledger))
        except NoNodeError:
            return True
        return decode(value).state is LedgerState.CLOSED

    def check(self) -> list[str]:
        """Return the violations of the rules about managed ledgers in the history."""
        violations = []
        for name, check in checkers.CHECKS.items():
            violations += first_of(check(self.history), name)
        return violations
