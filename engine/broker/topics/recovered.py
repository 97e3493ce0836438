"""Entries that the recovery of a ledger added to a topic's log, which no append reports.

Their producers were notified that the outcome is unknown and send them again. The topic's counters and deduplication
therefore need them as any other entries (D14). They are read once, in the background; deduplication waits for that.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.context import Context
from engine.broker.topics.ports import AppendableLog, ReadableLog
from engine.ledger.errors import LedgerError
from engine.managed.errors import (
    AppendFailedError,
    ManagedLedgerError,
    ManagedLedgerTerminatedError,
)

log = logging.getLogger(__name__)

RETRY_MAX_S = 5.0


class RecoveredLog(AppendableLog, ReadableLog, Protocol):
    """Parts of a log that recovered entries are read from."""


class RecoveredHost(Protocol):
    """Parts of a topic that its recovered entries use."""

    name: TopicName
    scope: TaskScope
    context: Context

    @property
    def log(self) -> RecoveredLog: ...

    def add_recovered(self, entries: list[tuple[Slice, int]]) -> None: ...


class RecoveredEntries:
    """The recovered entries of one topic, which receives each with its slice and the index in that, in order."""

    __slots__ = ("_host", "_reading")

    def __init__(self, host: RecoveredHost) -> None:
        self._host = host
        self._reading: set[asyncio.Task[None]] = set()
        host.log.on_recovered(self._begin)

    def _begin(self, first: Position, last: Position) -> None:
        if self._host.scope.closed:
            return
        log.info("entries recovered topic=%s first=%s last=%s", self._host.name, first, last)
        task = self._host.scope.spawn("recovered entries", self._read_until_known(first, last))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_until_known(self, first: Position, last: Position) -> None:
        host, backoff = self._host, Backoff(max_s=RETRY_MAX_S)
        while True:
            try:
                entries = await self._read(first, last)
                break
            except Exception as error:
                # Unexpected errors are retried, too: deduplication must not continue without these entries (D14).
                expected = isinstance(error, LedgerError | ManagedLedgerError | WorldError)
                level = logging.DEBUG if expected else logging.WARNING
                text = "recovered entries not read yet topic=%s: %s"
                log.log(level, text, host.name, error, exc_info=None if expected else error)
                await asyncio.sleep(backoff.next_s(host.context.entropy.random()))
        host.add_recovered(entries)

    async def _read(self, first: Position, last: Position) -> list[tuple[Slice, int]]:
        managed = self._host.log
        entries: list[tuple[Slice, int]] = []
        async with aclosing(managed.newest_first(managed.next_position(last))) as newest:
            async for run, i in newest:
                if run.position(i) < first:
                    break
                entries.append((run, i))
        return entries[::-1]

    async def settled(self, refused: Callable[[AppendFailedError], None]) -> None:
        """Return when it is known which of the entries are stored whose append failed until now.

        Then their ledger is closed, and the topic has received what the recovery added to the log. Waits while no
        ledger can be opened; ``refused`` is called after each attempt that failed. Cancel-safe.
        """
        host, backoff = self._host, Backoff(max_s=RETRY_MAX_S)
        while True:
            try:
                await host.log.writable()
                break
            except ManagedLedgerTerminatedError:
                break  # its last ledger is closed
            except AppendFailedError as error:
                refused(error)
            except (LedgerError, ManagedLedgerError, WorldError) as error:
                log.debug("log not writable topic=%s: %s", host.name, error)
            await asyncio.sleep(backoff.next_s(host.context.entropy.random()))
        while self._reading:
            await asyncio.wait(self._reading)
