"""Managed ledgers over the bookies of a test's cluster. A broker here is a factory with its own clients."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.base.entropy import RandomEntropy
from engine.base.slices import Slice, View
from engine.ledger.settings import LedgerSettings
from engine.managed.cursors.cursor import Cursor
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.offload.tiered_storage import TieredStorage
from tests.support.ledger_cluster import PATIENT, Cluster, run_of

NAME = "public/default/persistent/t"
ONE = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1, ledger_age_min_s=0)
EAGER = ManagedSettings(
    cursor_persist_interval_s=0.01,
    retry_initial_s=0.02,
    open_timeout_s=60.0,
    cursor_load_timeout_s=30.0,
)
LAZY = replace(EAGER, cursor_persist_interval_s=3600.0)


def rolling(entries: int) -> LedgerConfig:
    """Return the settings of ledgers that roll over after ``entries`` entries."""
    return LedgerConfig(
        ensemble=1, write_quorum=1, ack_quorum=1, ledger_age_min_s=0, ledger_entries_max=entries
    )


class Sink:
    """The outcomes of appends, in order, for which a test can wait."""

    def __init__(self) -> None:
        self.positions: list[tuple[int, int]] = []
        self.payloads: list[bytes] = []
        self.failures: list[tuple[bytes, Exception]] = []
        self._event = asyncio.Event()

    def appended(self, run: Slice, start: int, stop: int) -> None:
        for i in range(start, stop):
            self.positions.append((run.ledger_id, run.first + i))
            self.payloads.append(run.entry(i))
        self._event.set()

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        self.failures += [(run.entry(i), error) for i in range(start, run.count)]
        self._event.set()

    async def settle(self, count: int) -> None:
        """Wait for ``count`` outcomes in all."""
        while len(self.payloads) + len(self.failures) < count:
            await self._event.wait()
            self._event.clear()


class Brokers:
    """Brokers' factories on one cluster, which is in memory without a ``directory``."""

    def __init__(self, directory: Path | None = None) -> None:
        self.cluster = Cluster(directory)
        self._made: list[tuple[ManagedLedgerFactory, MetadataStore]] = []

    async def start(self, bookies: int = 1) -> None:
        for i in range(bookies):
            await self.cluster.start(f"b{i}")

    def broker(
        self,
        settings: ManagedSettings = EAGER,
        ledgers: LedgerSettings = PATIENT,
        session_timeout_s: float = 10.0,
        wrap: Callable[[MetadataStore], MetadataStore] | None = None,
        tiered: TieredStorage | None = None,
    ) -> ManagedLedgerFactory:
        """Return a factory. ``wrap`` puts a store around the session that all parts of this broker share."""
        store: MetadataStore = self.cluster.server.session(session_timeout_s)
        if wrap is not None:
            store = wrap(store)
        factory = ManagedLedgerFactory(
            store=store,
            ledgers=self.cluster.client(ledgers, store if wrap is not None else None),
            clock=self.cluster.clock,
            entropy=RandomEntropy(),
            settings=settings,
            tiered=tiered,
        )
        self._made.append((factory, store))
        return factory

    @staticmethod
    def crash(factory: ManagedLedgerFactory) -> None:
        """Abandon the ledgers as the death of a broker does: nothing is written any more."""
        for ledger in factory.opened.values():
            ledger.abandon()

    def ledgers(self) -> list[int]:
        """Return the ids below 1000 of all ledgers that are stored."""
        tree = self.cluster.server.tree
        return [i for i in range(1000) if tree.exists(paths.ledger(i)) is not None]

    async def close(self) -> None:
        for factory, _ in self._made:
            self.crash(factory)
            await factory.close()
        await self.cluster.close()


def numbered(first: int, count: int) -> list[bytes]:
    return [b"m%d" % i for i in range(first, first + count)]


async def publish(ledger: object, first: int, count: int, batch: int = 1) -> Sink:
    """Append ``m<first>`` and following in runs of ``batch``; returns when all have an outcome."""
    sink = Sink()
    for at in range(first, first + count, batch):
        payloads = numbered(at, min(batch, first + count - at))
        ledger.append(run_of(*payloads), sink)  # type: ignore[attr-defined]
    await sink.settle(count)
    assert not sink.failures, sink.failures[:3]
    return sink


def texts(views: list[View]) -> list[bytes]:
    return [view.run.entry(i) for view in views for i in range(view.start, view.stop)]


async def drain(cursor: Cursor, entries_max: int = 100) -> list[bytes]:
    """Return all payloads that a cursor can read at present."""
    payloads: list[bytes] = []
    while views := await cursor.read(entries_max, 1 << 20):
        payloads += texts(views)
    return payloads
