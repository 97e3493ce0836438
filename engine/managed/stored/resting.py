"""Storage and backlogs of topics that no broker has open, computed from their nodes without opening them.

No owner is fenced and nothing is written. The open ledger that a killed owner left counts up to its last stored entry,
where the next owner's recovery will most likely find its end. A value that storage does not return in time is unknown.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.errors import ManagedLedgerNotFoundError, StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.cursor_entries import last_readable
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.managed.stored.survey import StoredLog, read_cursors, survey
from engine.metadata import paths
from engine.metadata.store import MetadataStore, Stat

AT_ONCE = 16
"""Topics read at the same time, for all callers together."""
LEDGER_TIMEOUT_S = 2.0
"""Time limit for each ledger that has to be read for its end or its last state."""
KNOWN_MAX = 10_000
"""Results cached, each while its nodes are unchanged."""


class LogAtRest(NamedTuple):
    """Storage and backlogs of one topic; ``storage_bytes`` None: unknown. ``backlogs``: unacknowledged entries by
    cursor, None where unknown; None instead of the dict: the cursors are unknown."""

    storage_bytes: int | None
    backlogs: dict[str, int | None] | None


UNKNOWN = LogAtRest(None, None)


class _Undecided(Exception):
    """Storage did not answer in time."""


class RestingLogs:
    """Reader of topics that are not open. One per process; on one event loop."""

    def __init__(self, store: MetadataStore, ledgers: LedgerClient) -> None:
        self._store = store
        self._ledgers = ledgers
        self._room = asyncio.Semaphore(AT_ONCE)
        self._known: OrderedDict[str, tuple[object, LogAtRest]] = OrderedDict()

    async def read(self, names: Sequence[str]) -> list[LogAtRest | None]:
        """Return the values by managed ledger's name, in order; None for one that does not exist. Raises the store's
        errors. Cancel-safe."""
        work = (self._read(name) for name in names)
        results = await asyncio.gather(*work, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    async def _read(self, name: str) -> LogAtRest | None:
        async with self._room:
            try:
                stored = await survey(self._store, name)
            except ManagedLedgerNotFoundError:
                return None
            except StoredRecordError:
                return UNKNOWN
            versions = _versions(stored)
            known = self._known.get(name)
            if known is not None and known[0] == versions:
                self._known.move_to_end(name)
                return known[1]
            log, settled = await self._compute(stored.record, stored.cursors)
            self._known.pop(name, None)
            if settled:
                self._known[name] = versions, log
                if len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)
            return log

    async def describe(self, name: str, record: LogRecord, children: Sequence[str]) -> LogAtRest:
        """Return the values of a topic whose record, and names of cursors' nodes, were just read.

        Raises StoredRecordError, the store's errors.
        """
        cursors = await read_cursors(self._store, paths.managed_ledger(name), children)
        log, _ = await self._compute(record, cursors)
        return log

    async def _compute(
        self, log: LogRecord, stored: dict[str, tuple[CursorRecord, Stat]]
    ) -> tuple[LogAtRest, bool]:
        """Return the values, and whether they hold as long as the nodes are unchanged."""
        cursors = {name: record for name, (record, _) in stored.items()}
        try:
            line, settled = await self._line(log.ledgers)
        except _Undecided:
            return LogAtRest(None, dict.fromkeys(cursors)), False
        backlogs: dict[str, int | None] = {}
        for name, record in cursors.items():
            try:
                state, is_last = await self._state(record)
            except _Undecided:
                backlogs[name], settled = None, False
                continue
            backlogs[name] = state.acks(line).backlog(line.durable_to)
            settled = settled and is_last
        return LogAtRest(sum(span.size for span in line.ledgers), backlogs), settled

    async def _line(self, ledgers: list[LedgerSpan]) -> tuple[LedgerLine, bool]:
        """Return the ledgers, and whether they are final. Only the node of the last ledger may be outdated."""
        if not ledgers or ledgers[-1].timestamp_ms:
            return LedgerLine(ledgers), True
        last = ledgers[-1]
        try:
            async with asyncio.timeout(LEDGER_TIMEOUT_S):
                reader = await self._ledgers.open(last.ledger_id, recover=False, unconfirmed=True)
        except NoSuchLedgerError:
            return LedgerLine(ledgers[:-1]), True
        except (LedgerError, TimeoutError) as error:
            raise _Undecided from error
        tail = LedgerSpan(last.ledger_id, reader.last_confirmed + 1, reader.length)
        return LedgerLine([*ledgers[:-1], tail]), reader.closed

    async def _state(self, record: CursorRecord) -> tuple[CursorState, bool]:
        """Return a cursor's last state, and whether no later one can be written without its node being written."""
        if record.ledger_id < 0:
            return record.state, True
        try:
            async with asyncio.timeout(LEDGER_TIMEOUT_S):
                reader = await self._ledgers.open(record.ledger_id, recover=False, unconfirmed=True)
                state = await last_readable(reader, lambda why: None)
        except NoSuchLedgerError:
            return record.state, True
        except (LedgerError, TimeoutError) as error:
            raise _Undecided from error
        return state or record.state, reader.closed


def _versions(stored: StoredLog) -> object:
    """Return a value that changes with any of the nodes, also when one is created again and has version 0 again."""
    nodes = [(name, stat) for name, (_, stat) in stored.cursors.items()] + [("", stored.stat)]
    return [(name, stat.version, stat.creation) for name, stat in nodes]
