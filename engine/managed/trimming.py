"""Trimming: the one place that decides when consumed ledgers are dropped, and notifies the parts that use them."""

import logging
from collections.abc import Callable

from engine.base.errors import WorldError
from engine.base.tasks import TaskScope
from engine.ledger.errors import LedgerError
from engine.managed.errors import ManagedLedgerError
from engine.managed.reading.reads import LedgerReads
from engine.managed.state import LogState
from engine.managed.tenure import Tenure
from engine.managed.writing.rolling import LedgerList

log = logging.getLogger(__name__)


class Trimmer:
    """Trims a log in the background. Drops nothing before ``begin``: until the cursors are loaded, it is unknown what
    is consumed."""

    __slots__ = (
        "_consumed",
        "_list",
        "_notify_trimmed",
        "_reads",
        "_state",
        "_tasks",
        "_tenure",
        "_trimming",
    )

    def __init__(
        self,
        state: LogState,
        tenure: Tenure,
        ledger_list: LedgerList,
        reads: LedgerReads,
        tasks: TaskScope,
    ) -> None:
        self._state = state
        self._tenure = tenure
        self._list = ledger_list
        self._reads = reads
        self._tasks = tasks
        self._consumed: Callable[[], int] | None = None
        self._notify_trimmed: Callable[[], None] = lambda: None
        self._trimming = False

    def begin(self, consumed: Callable[[], int], trimmed: Callable[[], None]) -> None:
        """Start trimming. ``consumed``: see ``lifecycle.trimmable``. ``trimmed`` is called whenever the line begins
        later than before."""
        self._consumed, self._notify_trimmed = consumed, trimmed
        self._sweep_soon()

    def stored(self, limit: int) -> None:
        """Trim soon if a cursor's stored state, which needs nothing below ordinal ``limit`` any more, may free a
        ledger."""
        line = self._state.line
        if len(line.ledgers) > 1 and limit >= line.base + line.ledgers[0].entries:
            self.soon()

    def soon(self) -> None:
        """Trim in the background. Further requests have no effect while a trim is in progress."""
        if self._trimming or self._state.ended or self._consumed is None:
            return
        if len(self._state.line.ledgers) > 1:
            self._trimming = True
            self._tasks.spawn("trim", self._trim_quietly())
        else:
            self._sweep_soon()

    async def _trim_quietly(self) -> None:
        try:
            await self.trim()
        except (LedgerError, WorldError, ManagedLedgerError) as error:
            log.warning("not trimmed log=%s error=%s", self._state.name, error)
        finally:
            self._trimming = False

    async def trim(self, *, retention: bool = True) -> None:
        """Trim as ``ManagedLedger.trim``."""
        self._state.check()
        try:
            with self._tenure.owned():
                if self._consumed is not None:
                    await self._list.trim(self._consumed, self._dropped, retention=retention)
        finally:
            await self._list.sweep()

    def _dropped(self, ledger_ids: list[int]) -> None:
        """Stop reading ledgers that were dropped from the front of the line, before anything else is awaited."""
        for ledger_id in ledger_ids:
            self._reads.forget(ledger_id)
        self._notify_trimmed()

    def _sweep_soon(self) -> None:
        if self._list.has_doomed and not self._state.ended:
            self._tasks.spawn("sweep", self._list.sweep())
