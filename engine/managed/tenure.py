"""The time for which this process owns a log: until it is closed or abandoned here, or another owner took over.

Fencing is final (M15): a new opening recovers the last ledger and writes the list again, which no old object can undo.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from engine.base.tasks import contained
from engine.managed.errors import (
    ManagedLedgerClosedError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.state import LogState, LogStatus
from engine.metadata.store import MetadataStore

log = logging.getLogger(__name__)


class Tenure:
    """The ownership of one log. It ends once, and lasts at most as long as the metadata session that it was begun
    under."""

    __slots__ = ("_session_id", "_state", "_store", "_when_ended", "_when_fenced")

    def __init__(self, state: LogState, store: MetadataStore) -> None:
        self._state = state
        self._store = store
        self._session_id = store.session_id
        self._when_ended: list[Callable[[], None]] = []
        self._when_fenced: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once at the end, for whatever reason, in order of registration. Its exceptions are
        logged."""
        self._when_ended.append(callback)

    def on_fenced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when another owner took over, after the callbacks of ``on_end``. Must not raise."""
        self._when_fenced.append(callback)

    def proven(self) -> bool:
        """Return whether this process may confirm anything at this moment. Otherwise the log may have another owner
        already, and the tenure ends as if fenced."""
        store = self._store
        if store.session_proven and store.session_id == self._session_id:
            return True
        name = self._state.name
        self.fenced(ManagedLedgerFencedError(f"the ownership of {name} is not proven any more"))
        return False

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Enclose a change that only the owner may make. An error that shows another owner ends the tenure and is
        raised."""
        self._state.check()
        try:
            yield
        except ManagedLedgerFencedError as error:
            self.fenced(error)
            raise

    def fenced(self, error: Exception) -> None:
        """Stop confirming anything, for good: another owner has the log (M15)."""
        if self._state.ended:
            return
        log.warning("fenced log=%s reason=%s", self._state.name, error)
        if not isinstance(error, ManagedLedgerFencedError):
            error = ManagedLedgerFencedError(str(error))
        self._end(LogStatus.FENCED, error)
        for callback in self._when_fenced:
            callback()

    def close(self) -> None:
        """Start nothing more; ``end`` follows when everything in progress has its outcome."""
        self._state.error = ManagedLedgerClosedError(f"{self._state.name} is closed")

    def end(self) -> None:
        """Stop at once, as a crash would. Nothing is written any more."""
        if not self._state.ended:
            self.close()
            assert self._state.error is not None
            self._end(LogStatus.CLOSED, self._state.error)

    def _end(self, status: LogStatus, error: ManagedLedgerError) -> None:
        state = self._state
        state.status, state.error, state.ended = status, error, True
        for callback in self._when_ended:
            with contained(f"end of {state.name}"):
                callback()
