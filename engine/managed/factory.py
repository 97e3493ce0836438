"""The factory that opens managed ledgers, one per broker."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import MagnetarError
from engine.base.names import SHADOW_SOURCE
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
from engine.managed.shadow_ledger import ShadowLedger
from engine.managed.shared import Shared
from engine.managed.stats import CursorInfo, LedgerInfo, ManagedLedgerInfo
from engine.managed.stored.node import StoredNode, read_to_open
from engine.managed.stored.records import LogRecord
from engine.managed.stored.removal import Deletion, Forget, discard_cursor, mark_deleted
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.store import Found, MetadataStore, NoNodeError, NotEmptyError
from engine.offload.tiered_storage import TieredStorage


class CreationCheck(NamedTuple):
    """Condition of a new managed ledger. ``check`` receives the nodes ``paths`` as they were read in one request with
    the managed ledger's own, or nothing when they were not read."""

    paths: Sequence[str]
    check: Callable[[Sequence[Found]], Awaitable[None]]


Inspect = Callable[[LogRecord, Sequence[str]], Awaitable[None]]
"""Function of a stored record, whose last ledger is settled, and of the names of its cursors' nodes."""

CLOSE_AT_ONCE = 16
"""Managed ledgers closed at the same time."""
OPEN_ATTEMPTS = 4
"""Attempts to open while another owner opens the same managed ledger."""


class ManagedLedgerFactory:
    """Opens and deletes managed ledgers and owns the byte budget of their caches. ``ledgers`` is the process's
    ``LedgerClient``, which its owner closes; ``tiered`` is its tiered storage."""

    def __init__(
        self,
        *,
        store: MetadataStore,
        ledgers: LedgerClient,
        clock: Clock,
        entropy: Entropy,
        settings: ManagedSettings | None = None,
        tiered: TieredStorage | None = None,
    ) -> None:
        self.settings = settings if settings is not None else ManagedSettings()
        self.cache = EntryCache(self.settings.cache_bytes_max)
        self.tiered = tiered
        self._store = store
        self._ledgers = ledgers
        backlog_cache = BacklogCache(self.settings.read_ahead_total_bytes_max)
        self._shared = Shared(
            store, ledgers, clock, entropy, self.settings, self.cache, backlog_cache, tiered
        )
        self._tasks = TaskScope("managed ledgers", lambda name, error: None)
        self._opening = UnderWay[str, ManagedLedger](self._tasks)
        self._open: dict[str, ManagedLedger] = {}
        self._closed = False

    @property
    def opened(self) -> dict[str, ManagedLedger]:
        """Managed ledgers open in this process, by name."""
        return {name: ledger for name, ledger in self._open.items() if not ledger.ended}

    async def open(
        self,
        name: str,
        config: LedgerConfig,
        properties: dict[str, str] | None = None,
        *,
        make: bool = True,
        admit: CreationCheck | None = None,
        forget: Forget | None = None,
    ) -> ManagedLedger:
        """Open ``tenant/ns/persistent/encoded-topic`` and fence its previous owner. Create it when it is missing and
        ``make``.

        When it is opened twice in one process, the second caller waits for the first and receives the same object.
        ``properties`` are those of a topic that is created by this call. ``forget`` is called first when an earlier
        ``delete`` was interrupted. ``admit`` decides before a managed ledger that never had a ledger receives its
        first one. When its check raises an error that is not retriable, the node is removed; its error ends the opening
        in any case. Cancel-safe: the opening continues.

        Raises LedgerError, ManagedLedgerFencedError (another owner opens it again and again), StoreUnavailableError,
        ManagedLedgerLoadError (not opened in time, without another error), ManagedLedgerNotFoundError without ``make``.
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
                # The previous owner may have opened its next ledger since the record was read, which has to be fenced
                # too.
                if attempt + 1 == OPEN_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    async def _start_once(
        self,
        name: str,
        config: LedgerConfig,
        properties: dict[str, str],
        make: bool,
        admit: CreationCheck | None,
        forget: Forget | None,
    ) -> ManagedLedger:
        node = self._shared.node(paths.managed_ledger(name))
        try:
            # Not for a topic that need not be created: nearly every one has a ledger and was admitted before.
            others = admit.paths if make and admit is not None else ()
            record, seen = await read_to_open(node, others, make=make)
        except NoNodeError:
            raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}") from None
        if record.deleted:
            # Its ledgers are among the record's doomed ones and are deleted with them.
            await self._remove_cursors(node)
            if forget is not None:
                await forget()
        if not record.ledgers and admit is not None:
            await self._admit(node, partial(admit.check, seen))
        if not record.ledgers and not record.properties:
            record.properties = dict(properties)
        kind = ShadowLedger if SHADOW_SOURCE in record.properties else ManagedLedger
        ledger = kind(name, config, node, record, self._shared)
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
            if not error.retriable:  # a retriable error decides nothing yet
                with suppress(ManagedLedgerFencedError, NotEmptyError):
                    await node.delete()
            raise

    def _ended(self, name: str, ledger: ManagedLedger) -> None:
        if self._open.get(name) is ledger:
            del self._open[name]

    async def delete(self, name: str, forget: Forget | None = None) -> None:
        """Delete a managed ledger with its cursors and ledgers; end it when it is open. Raises
        ManagedLedgerNotFoundError.

        ``forget`` is called once the deletion is final, before the node is removed. Raises ManagedLedgerFencedError
        when another owner has it, the store's errors and those of ``forget``. After an interruption the managed ledger
        is complete or deleted. When it is deleted, ``delete``, or ``open`` of a new one, removes what remains (M17).
        """
        await (await self.begin_deletion(name, forget)).finish()

    async def begin_deletion(
        self, name: str, forget: Forget | None = None, inspect: Inspect | None = None
    ) -> Deletion:
        """Delete a managed ledger up to the step that is final, and end it when it is open; see ``delete``.

        ``inspect`` is awaited before that step when the managed ledger is not open. Then an owner elsewhere, which was
        not noticed to have lost it, is fenced first, as by ``open``.
        """
        opening = self._opening.of(name)
        if opening is not None:
            await asyncio.wait([opening])
        ledger = self._open.get(name)
        if ledger is not None and not ledger.ended:
            return await ledger.begin_deletion(forget)
        node = self._shared.node(paths.managed_ledger(name))
        try:
            record = LogRecord.decode((await node.read_with_children())[0])
        except NoNodeError:
            raise ManagedLedgerNotFoundError(f"there is no managed ledger {name}") from None
        if SHADOW_SOURCE in record.properties:
            # Apache's brokers list the source's ledgers here, which are not deleted with the shadow topic.
            record.ledgers = []
        children: Sequence[str] | None = node.children
        if inspect is not None and not record.deleted:
            await self._settle_last(record)
            await inspect(record, node.children)
        if record.ledgers or record.has_doomed or node.children or forget is not None:
            record = await mark_deleted(node, record)
            if not node.children_hold:
                children = None
        objects = self._shared.objects(name)
        return Deletion(self._store, self._ledgers, objects, node, record, children, forget)

    async def _settle_last(self, record: LogRecord) -> None:
        """Note the last ledger's end; recover it if it may be open, so that its writer confirms nothing more (I39)."""
        last = record.ledgers[-1] if record.ledgers else None
        if last is None or last.timestamp_ms:
            return
        with suppress(NoSuchLedgerError):
            reader = await self._ledgers.open(last.ledger_id, recover=True)
            last.entries, last.size = reader.last_confirmed + 1, reader.length
            last.timestamp_ms = self._shared.clock.wall_ms()

    async def _remove_cursors(self, topic: StoredNode) -> None:
        """Delete the cursors of a topic that is marked as deleted."""
        for child in await self._store.children(topic.path):
            await discard_cursor(topic.child(child), self._ledgers, topic.unchanged)

    async def exists(self, name: str) -> bool:
        """Return whether a managed ledger of this name is stored."""
        return await self._store.exists(paths.managed_ledger(name)) is not None

    async def properties(self, name: str) -> dict[str, str]:
        """Return the stored properties of a managed ledger. Raises NoNodeError, StoredRecordError, the store's
        errors."""
        return LogRecord.decode((await self._store.get(paths.managed_ledger(name)))[0]).properties

    async def info(self, name: str) -> ManagedLedgerInfo:
        """Return what is stored, without opening it. Raises ManagedLedgerNotFoundError.

        The open ledger's ``entries`` and ``size`` are those that its bookies report as confirmed; no owner is fenced. A
        size that is not known yet is 0.
        """
        stored = await survey(self._store, name)
        ledgers = []
        for span in stored.record.ledgers:
            if span.timestamp_ms:
                info = LedgerInfo(
                    span.ledger_id, span.entries, span.size, span.timestamp_ms, True, span.extra
                )
                ledgers.append(info)
                continue
            try:
                reader = await self._ledgers.open(span.ledger_id, recover=False, unconfirmed=True)
            except NoSuchLedgerError:
                continue
            entries = reader.last_confirmed + 1
            ledgers.append(LedgerInfo(span.ledger_id, entries, reader.length, 0, reader.closed))
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
        """Close all managed ledgers, CLOSE_AT_ONCE at a time."""
        self._closed = True
        await self._tasks.close()
        open_ledgers = list(self._open.values())
        closers = TaskScope("closing managed ledgers")
        workers = [closers.spawn(str(i), _close_some(open_ledgers)) for i in range(CLOSE_AT_ONCE)]
        await asyncio.wait(workers)
        if self.tiered is not None:
            await self.tiered.close()


async def _close_some(open_ledgers: list[ManagedLedger]) -> None:
    while open_ledgers:
        ledger = open_ledgers.pop()
        with contained(f"close of {ledger.name}"):
            await ledger.close()
