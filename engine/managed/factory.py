"""Opens managed ledgers: one factory per broker."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, UnderWay, contained
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.errors import (
    ManagedLedgerClosedError,
    ManagedLedgerFencedError,
    ManagedLedgerLoadError,
    ManagedLedgerNotFoundError,
)
from engine.managed.ledger import ManagedLedger
from engine.managed.reading.backlog import BacklogCache
from engine.managed.reading.entry_cache import EntryCache
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.shared import Shared
from engine.managed.stats import CursorInfo, LedgerInfo, ManagedLedgerInfo
from engine.managed.stored.node import StoredNode, read_record, read_to_open
from engine.managed.stored.removal import discard_cursor, mark_deleted
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError, NotEmptyError

Forget = Callable[[], Awaitable[None]]
"""Deletes what is stored elsewhere of a topic that is deleted. Done again, it changes nothing."""

CLOSE_AT_ONCE = 16
OPEN_ATTEMPTS = 4


class ManagedLedgerFactory:
    """Owns the entry cache's byte budget. ``ledgers`` is the process's ``LedgerClient``, closed by its owner."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        ledgers: LedgerClient,
        clock: Clock,
        entropy: Entropy,
        settings: ManagedSettings | None = None,
    ) -> None:
        self.settings = settings if settings is not None else ManagedSettings()
        self.cache = EntryCache(self.settings.cache_bytes_max)
        self._store = store
        self._ledgers = ledgers
        backlog_cache = BacklogCache(self.settings.read_ahead_total_bytes_max)
        self._shared = Shared(
            store, ledgers, clock, entropy, self.settings, self.cache, backlog_cache
        )
        self._tasks = TaskScope("managed ledgers", lambda name, error: None)
        self._opening = UnderWay[str, ManagedLedger](self._tasks)
        self._open: dict[str, ManagedLedger] = {}
        self._closed = False

    @property
    def opened(self) -> dict[str, ManagedLedger]:
        """Managed ledgers open here, by name."""
        return {name: one for name, one in self._open.items() if not one.ended}

    async def open(
        self,
        name: str,
        config: LedgerConfig,
        properties: dict[str, str] | None = None,
        *,
        make: bool = True,
        admit: Callable[[], Awaitable[None]] | None = None,
        forget: Forget | None = None,
    ) -> ManagedLedger:
        """Open ``tenant/ns/persistent/encoded-topic``, made if missing and ``make``, fencing its previous owner.

        Opening twice in one process: the second waits for the first and gets the same object. ``properties`` are those
        of a topic that is made now. ``forget`` is called first when an earlier ``delete`` was cut off. ``admit`` is
        awaited before a managed ledger that never had a ledger gets its first one: when it raises, the node is removed
        and the opening ends by that. Cancel-safe: the opening goes on.
        Raises LedgerError, ManagedLedgerFencedError (another owner opens it again and again), StoreUnavailableError,
        ManagedLedgerLoadError (nothing of these, but not in time), ManagedLedgerNotFoundError without ``make``.
        """
        if self._closed:
            raise ManagedLedgerClosedError("the broker's managed ledgers are closed")
        ready = self._open.get(name)
        if ready is not None and not ready.ended:
            await ready.update_config(config)
            return ready
        opening = self._opening.of(name) or self._opening.begin(
            name,
            f"open {name}",
            self._start(
                partial(self._start_once, name, config, properties or {}, make, admit, forget)
            ),
        )
        return await asyncio.shield(opening)

    async def _start(self, start_once: Callable[[], Awaitable[ManagedLedger]]) -> ManagedLedger:
        for attempt in range(OPEN_ATTEMPTS):
            try:
                return await start_once()
            except ManagedLedgerFencedError:
                # The previous owner may just have opened its next ledger: that one is to be fenced too.
                if attempt + 1 == OPEN_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _start_once(
        self,
        name: str,
        config: LedgerConfig,
        properties: dict[str, str],
        make: bool,
        admit: Callable[[], Awaitable[None]] | None,
        forget: Forget | None,
    ) -> ManagedLedger:
        node = self._shared.node(paths.managed_ledger(name))
        try:
            record = await read_to_open(node, make=make)
        except NoNodeError:
            raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}") from None
        if record.deleted:
            # Its ledgers are deleted with what else the record dooms.
            await self._remove_cursors(node)
            if forget is not None:
                await forget()
        if not record.ledgers and admit is not None:
            await self._admit(node, admit)
        if not record.ledgers and not record.properties:
            record.properties = dict(properties)
        ledger = ManagedLedger(name, config, node, record, self._shared)
        limit_s = self.settings.open_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await ledger.start()
        except TimeoutError:  # M14
            ledger.abandon()
            raise ManagedLedgerLoadError(
                f"{name} was not opened within {limit_s:g} s: {ledger.step} did not end"
            ) from None
        except BaseException:
            ledger.abandon()
            raise
        self._open[name] = ledger
        ledger.on_ended(partial(self._ended, name, ledger))
        return ledger

    async def _admit(self, node: StoredNode, admit: Callable[[], Awaitable[None]]) -> None:
        try:
            await admit()
        except MagnetarError as error:
            if not error.retriable:  # else it is not decided yet
                with suppress(ManagedLedgerFencedError, NotEmptyError):
                    await node.delete()
            raise

    def _ended(self, name: str, ledger: ManagedLedger) -> None:
        if self._open.get(name) is ledger:
            del self._open[name]

    async def delete(self, name: str, forget: Forget | None = None) -> None:
        """Delete a managed ledger with cursors and ledgers, closing it first. Raises ManagedLedgerNotFoundError.

        ``forget`` is called once it is deleted for good, before its node goes. Raises ManagedLedgerFencedError when
        another owner has it, the store's errors and those of ``forget``. Cut off half-way it is there whole, or
        deleted: then ``delete`` or ``open``, which begins anew, removes what is left (M17).
        """
        ledger = self._open.get(name)
        if ledger is not None:
            await ledger.close()
        path = paths.managed_ledger(name)
        node = self._shared.node(path)
        try:
            record = await read_record(node)
        except NoNodeError:
            raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}") from None
        record = await mark_deleted(node, record)
        await self._remove_cursors(node)
        for ledger_id in record.doomed:
            await self._ledgers.delete(ledger_id)
        if forget is not None:
            await forget()
        await node.delete()

    async def _remove_cursors(self, topic: StoredNode) -> None:
        """Of a topic that is marked as deleted."""
        for child in await self._store.children(topic.path):
            node = self._shared.node(f"{topic.path}/{child}")
            await discard_cursor(node, self._ledgers, topic.unchanged)

    async def exists(self, name: str) -> bool:
        """Whether a managed ledger of this name is stored."""
        return await self._store.exists(paths.managed_ledger(name)) is not None

    async def info(self, name: str) -> ManagedLedgerInfo:
        """What is stored, without opening. Raises ManagedLedgerNotFoundError.

        The open ledger's ``entries`` and ``size`` are those its bookies report as confirmed; nobody is fenced. A size
        that nobody knows yet is 0.
        """
        stored = await survey(self._store, name)
        ledgers = []
        for one in stored.record.ledgers:
            if one.timestamp_ms:
                info = LedgerInfo(one.ledger_id, one.entries, one.size, one.timestamp_ms, True)
                ledgers.append(info)
                continue
            try:
                reader = await self._ledgers.open(one.ledger_id, recover=False, unconfirmed=True)
            except NoSuchLedgerError:
                continue
            entries = reader.last_confirmed + 1
            ledgers.append(LedgerInfo(one.ledger_id, entries, reader.length, 0, reader.closed))
        cursors = tuple(
            CursorInfo(
                title,
                cursor.ledger_id,
                cursor.state.mark_delete,
                cursor.last_active_ms,
                cursor.cursor_properties,
            )
            for title, (cursor, _) in stored.cursors.items()
        )
        record = stored.record
        return ManagedLedgerInfo(
            name, tuple(ledgers), cursors, record.properties, record.terminated
        )

    async def close(self) -> None:
        """Close all managed ledgers, some at a time."""
        self._closed = True
        await self._tasks.close()
        left = list(self._open.values())
        closers = TaskScope("closing managed ledgers")
        workers = [closers.spawn(str(i), _close_some(left)) for i in range(CLOSE_AT_ONCE)]
        await asyncio.wait(workers)


async def _close_some(left: list[ManagedLedger]) -> None:
    while left:
        ledger = left.pop()
        with contained(f"close of {ledger.name}"):
            await ledger.close()
