"""The broker's metadata before each entry (Pulsar's broker entry metadata): the index of its last message, the time.

Indexes rise by one with each message of the topic, over all ledgers and owners. Whoever opens the log goes on behind
the last entry, and where that was trimmed behind what the list of ledgers says. Entries that fail leave a gap: one
whose outcome is unknown may be found by the next owner, and no index may be given twice.
"""

from collections.abc import Callable

from engine.base.clock import Clock
from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries
from engine.managed.state import LogState
from engine.managed.writing.appends import AppendSink
from engine.managed.writing.rolling import INDEX
from engine.wire.kernels import entry_stamp, stamped

INDEX_DIGITS_MAX = 18
"""An index and all that follow it fit 64 bits."""


class Stamps:
    """Of one log whose configuration asks for indexes, times or both; in front of its appender."""

    __slots__ = ("_append", "_clock", "_state")

    def __init__(
        self, state: LogState, clock: Clock, append: Callable[[Slice, AppendSink], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._append = append

    async def recover(self, entries: LogEntries) -> None:
        """Find out where indexes go on, before anything is appended or trimmed. Raises LedgerError."""
        if not self._state.config.entry_indexes:
            return
        line, stored = entries.line, self._state.properties.get(INDEX, "")
        # A client may have given the topic a property of this name, with anything in it.
        is_index = stored.isascii() and stored.isdigit() and len(stored) <= INDEX_DIGITS_MAX
        highest = int(stored) if is_index else -1
        if line.end > line.base:
            index = entry_stamp((await entries.one(line.end - 1)).entry(0))[1]
            highest = max(highest, -1 if index is None else index)
        self._state.last_index = highest

    def append(self, run: Slice, sink: AppendSink) -> None:
        """See ``ManagedLedger.append``."""
        state = self._state
        time_ms = self._clock.wall_ms() if state.config.entry_times else None
        index = None
        if state.last_index is not None:
            index = state.last_index + 1
            state.last_index += run.messages
        self._append(stamped(run, time_ms, index), _Unstamped(run, sink))


class _Unstamped:
    """Tells ``sink`` of the run that it gave; what is stored, and kept in the cache, is another."""

    __slots__ = ("_run", "_sink")

    def __init__(self, run: Slice, sink: AppendSink) -> None:
        self._run = run
        self._sink = sink

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self._run.ledger_id, self._run.first = run.ledger_id, run.first
        self._sink.appended(self._run, start, stop)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        self._sink.append_failed(self._run, start, error)
