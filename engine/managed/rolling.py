"""Following one ledger by the next, and letting consumed ones go: every change of a topic's ledger list.

Order of a roll: the old ledger is closed, the new one made, the list with the new one written by compare-and-set;
only then does an entry go into it. Order of a trim: the list first, the ledgers after. So every ledger with entries is
in the list, and at most one of the list is open.
"""

import asyncio
import logging
from collections.abc import Callable

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.ledger.client import LedgerClient
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    NoSuchLedgerError,
)
from engine.ledger.writer import LedgerWriter, WriterListener
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.lifecycle import trimmable
from engine.managed.positions import LedgerEntry, LedgerLine
from engine.managed.records import TopicRecord
from engine.managed.settings import LedgerConfig
from engine.managed.stored import StoredNode

log = logging.getLogger(__name__)


class LedgerList:
    """The stored list of one topic's ledgers and its mirror ``line``. Changes wait for each other.

    Raises ManagedLedgerFencedError when another owner changed the list; LedgerError and StoreUnavailableError leave
    it as it was, to be tried again.
    """

    def __init__(
        self,
        name: str,
        node: StoredNode,
        record: TopicRecord,
        line: LedgerLine,
        ledgers: LedgerClient,
        clock: Clock,
    ) -> None:
        self.line = line
        self.terminated = record.terminated
        self.properties = record.properties
        self.created_ms = 0
        self._node = node
        self._ledgers = ledgers
        self._clock = clock
        self._lock = asyncio.Lock()
        self._doomed: list[int] = []
        self._custom = {
            "application": b"pulsar",
            "component": b"managed-ledger",
            "pulsar/managed-ledger": name.encode(),
        }

    def custom(self, cursor: str) -> dict[str, bytes]:
        """Custom metadata of a cursor's ledger."""
        return {**self._custom, "pulsar/cursor": cursor.encode()}

    async def recover(self) -> None:
        """Settle the last ledger of the list, fencing whoever writes it, and leave empty ones out of the line."""
        line = self.line
        while line.ledgers:
            last = line.last
            if last.timestamp_ms and last.entries:
                return
            try:
                reader = await self._ledgers.open(last.ledger_id, recover=True)
                entries, size = reader.last_confirmed + 1, reader.length
            except NoSuchLedgerError:
                entries = size = 0
            if entries:
                line.grow(entries - last.entries, size - last.size)
                last.timestamp_ms = self._clock.wall_ms()
                return
            self._drop_empty()

    async def follow(
        self, old: LedgerWriter | None, config: LedgerConfig, listener: WriterListener
    ) -> LedgerWriter:
        """Close ``old`` and give the next ledger. When it fails after the close, call again with the same ``old``."""
        async with self._lock:
            if old is not None:
                await self._settle(old)
            writer = await self._ledgers.create(
                config.ensemble,
                config.write_quorum,
                config.ack_quorum,
                custom=self._custom,
                listener=listener,
            )
            if self.line.ledgers and not self.line.last.entries:
                self._drop_empty()
            fresh = LedgerEntry(writer.ledger_id)
            try:
                await self._write([*self.line.ledgers, fresh])
            except ManagedLedgerFencedError:
                writer.abandon(LedgerClosedError("the topic has another owner"))
                await self._delete(writer.ledger_id)
                raise
            except BaseException:
                # The list may name the new ledger: it must not be deleted. It stays empty.
                writer.abandon(LedgerClosedError("its place in the topic is uncertain"))
                raise
            self.line.push(fresh)
            self.created_ms = self._clock.wall_ms()
            await self._delete_doomed()
            return writer

    async def _settle(self, old: LedgerWriter) -> None:
        """Close the ledger behind its last confirmed entry."""
        last = self.line.ledgers[-1] if self.line.ledgers else None
        if last is None or last.ledger_id != old.ledger_id or last.timestamp_ms:
            return  # done by an earlier attempt
        try:
            await old.close()
        except (LedgerFencedError, LedgerClosedError, NoSuchLedgerError) as error:
            text = f"ledger {old.ledger_id} was taken over: {error}"
            raise ManagedLedgerFencedError(text) from error
        except LedgerError:
            # Recovery settles it too; what it finds behind the last confirmed entry is part of the topic then.
            reader = await self._ledgers.open(old.ledger_id, recover=True)
            self.line.grow(reader.last_confirmed + 1 - last.entries, reader.length - last.size)
        last.timestamp_ms = self._clock.wall_ms()

    async def seal(self, old: LedgerWriter | None) -> Position:
        """Close ``old`` and mark the topic as terminated at its last entry, which is returned."""
        async with self._lock:
            if self.terminated is not None:
                return self.terminated
            if old is not None:
                await self._settle(old)
            position = self.line.before(self.line.end)
            await self._write(self.line.ledgers, terminated=position)
            self.terminated = position
            return position

    async def trim(self, consumed: Callable[[], int | None], config: LedgerConfig) -> list[int]:
        """Take consumed ledgers off the list, then delete them; their ids. ``consumed``: see ``trimmable``."""
        async with self._lock:
            line, now_ms = self.line, self._clock.wall_ms()
            count = trimmable(line.ledgers, line.base, consumed(), now_ms, config)
            if not count:
                return []
            # Out of the line before the first await: no cursor can be set back into them any more.
            gone = [one.ledger_id for one in line.drop_first(count)]
            self._doomed += gone
            await self._write(line.ledgers)
            await self._delete_doomed()
            return gone

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set or remove properties."""
        async with self._lock:
            merged = {**self.properties, **changes}
            properties = {key: value for key, value in merged.items() if value is not None}
            await self._write(self.line.ledgers, properties=properties)
            self.properties = properties

    async def still_ours(self) -> bool:
        """Whether nobody else has changed the list until now."""
        return await self._node.unchanged()

    async def wait_quiet(self) -> None:
        """Return when no change is under way."""
        async with self._lock:
            pass

    def _drop_empty(self) -> None:
        self._doomed.append(self.line.drop_last().ledger_id)

    async def _write(
        self,
        ledgers: list[LedgerEntry],
        terminated: Position | None = None,
        properties: dict[str, str] | None = None,
    ) -> None:
        properties = self.properties if properties is None else properties
        record = TopicRecord(ledgers, terminated or self.terminated, properties)
        await self._node.write(record.encode())

    async def _delete_doomed(self) -> None:
        doomed, self._doomed = self._doomed, []
        for ledger_id in doomed:
            await self._delete(ledger_id)

    async def _delete(self, ledger_id: int) -> None:
        """Delete a ledger that no list names. When that fails it leaks, which costs space and nothing else."""
        try:
            await self._ledgers.delete(ledger_id)
        except MagnetarError as error:
            log.warning("ledger leaks ledger=%d error=%r", ledger_id, error)
