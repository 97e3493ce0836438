"""Bookies and ledger clients of one process, with metadata in memory; slices and listeners.

Without a directory, bookies have disks and connections in memory and clocks of the event loop: a test then runs in
virtual time (``pytest.mark.virtual_time``) and its result does not depend on the machine. With a directory they have
real disks, threads and sockets.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.base.clock import Clock, LoopClock, SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import IndexDisk, SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError
from engine.ledger.settings import LedgerSettings
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork, Network
from tests.sim.kit.disk import FaultDisk, InlineLane
from tests.support.net.pipe_network import PipeNetwork

PATIENT = LedgerSettings(
    add_entry_timeout_s=60.0,
    add_entry_age_max_s=60.0,
    read_entry_timeout_s=60.0,
    speculative_read_timeout_s=0.0,
    recovery_timeout_s=60.0,
    metadata_timeout_s=60.0,
    connect_timeout_s=60.0,
    suspect_s=60.0,
)
"""Settings whose timeouts do not fire while a busy machine gives a bookie no time. A test of a timeout shortens it."""


DISK_S = 0.0002
"""Time that a disk in memory takes for a lane's work, in seconds."""


class Listener:
    """A writer's listener that records what is reported, for which a test can wait."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.errors: list[LedgerError] = []
        self._event = asyncio.Event()

    def confirmed(self, below: int) -> None:
        self.marks.append(below)
        self._event.set()

    def failed(self, error: LedgerError) -> None:
        self.errors.append(error)
        self._event.set()

    @property
    def below(self) -> int:
        return self.marks[-1] if self.marks else 0

    async def reach(self, below: int) -> None:
        """Wait until everything below is confirmed; fails when the writer failed instead."""
        while self.below < below:
            assert not self.errors, self.errors
            await self.next()

    async def fail(self, confirmed: int | None = None) -> LedgerError:
        """Wait until the writer failed; fails when anything at or above ``confirmed`` was confirmed instead."""
        while not self.errors:
            assert confirmed is None or self.below <= confirmed
            await self.next()
        return self.errors[0]

    async def next(self) -> None:
        await self._event.wait()
        self._event.clear()


class Cluster:
    """Bookies ``b0``, ``b1``, … with the settings ``changes``, and clients on one metadata server.

    In memory without a ``directory``.
    """

    def __init__(self, directory: Path | None = None, **changes: Any) -> None:
        self._changes = changes
        self.clock: Clock = LoopClock() if directory is None else SystemClock()
        self.network: Network = PipeNetwork() if directory is None else LoopNetwork()
        self.server = MemoryServer(self.clock)
        self.bookies: dict[str, Bookie] = {}
        self.disks: dict[str, IndexDisk] = {}
        self._directory = directory
        self._settings: dict[str, BookieSettings] = {}
        self._clients: list[LedgerClient] = []
        self.store = self.server.session(10.0)

    async def start(self, name: str) -> Bookie:
        """Start a bookie, or start it again on its old disks and port."""
        directory = self._directory
        settings = self._settings.get(name) or BookieSettings(
            data_dir=f"/{name}" if directory is None else str(directory / name),
            bookie_port=0,
            bookie_id=name,
            journal_file_bytes=1 << 20,
            write_cache_bytes=1 << 20,
            **{"min_usable_size_for_high_priority_writes": 1 << 20} | self._changes,
        )
        if name not in self.disks:
            self.disks[name] = FaultDisk() if directory is None else SystemIndexDisk()
        bookie = Bookie(
            settings,
            clock=self.clock,
            entropy=RandomEntropy(),
            network=self.network,
            store=self.server.session(10.0),
            disk=self.disks[name],
            lanes=lambda lane: (
                InlineLane(lambda: DISK_S) if directory is None else ThreadLane(f"{name}-{lane}")
            ),
        )
        self.bookies[name] = bookie
        await bookie.start()
        self._settings[name] = replace(settings, bookie_port=bookie.port)
        return bookie

    async def stop(self, name: str) -> None:
        await self.bookies.pop(name).stop()

    def client(
        self, settings: LedgerSettings = PATIENT, store: MetadataStore | None = None
    ) -> LedgerClient:
        """Return a client with a session of its own, or on ``store``."""
        made = LedgerClient(
            store=self.server.session(10.0) if store is None else store,
            network=self.network,
            clock=self.clock,
            entropy=RandomEntropy(),
            settings=settings,
        )
        self._clients.append(made)
        return made

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for name in list(self.bookies):
            await self.stop(name)


def run_of(*payloads: bytes) -> Slice:
    """Return a slice whose entries lie in a buffer with other bytes between them."""
    buf = b"".join(b"<head>" + payload for payload in payloads)
    spans: list[int] = []
    at = 0
    for payload in payloads:
        spans += (at + 6, at + 6 + len(payload))
        at += 6 + len(payload)
    return Slice(buf, spans, sum(map(len, payloads)))


def payloads_of(slices: list[Slice]) -> list[bytes]:
    return [run.entry(i) for run in slices for i in range(run.count)]
