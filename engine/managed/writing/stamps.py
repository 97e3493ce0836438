"""The broker's metadata before each entry (Pulsar's broker entry metadata): the index of its last message, the time.

Indexes rise by one with each message of the topic, over all ledgers and owners. A new owner continues behind the last
entry, or, where that was trimmed, behind the index stored with the list of ledgers. Entries that fail leave a gap: the
next owner may find an entry whose outcome is unknown, and no index may be given twice.
"""

from engine.base.clock import Clock
from engine.base.slices import Slice
from engine.managed.reading.entries import LogEntries
from engine.managed.state import LogState
from engine.managed.writing.appends import Appendable, AppendSink
from engine.managed.writing.rolling import INDEX
from engine.wire.kernels import entry_stamp, stamped

INDEX_DIGITS_MAX = 18
"""Digits of an index that is valid: it and all following ones fit 64 bits."""


class Stamps:
    """Adds indexes, times or both to the entries of one log, as its configuration requires, and passes them to the
    appender."""

    __slots__ = ("_appender", "_clock", "_state")

    def __init__(self, state: LogState, clock: Clock, appender: Appendable) -> None:
        self._state = state
        self._clock = clock
        self._appender = appender

    async def recover(self, entries: LogEntries) -> None:
        """Find where indexes continue, before anything is appended or trimmed. Raises LedgerError."""
        if not self._state.config.entry_indexes:
            return
        line, stored = entries.line, self._state.properties.get(INDEX, "")
        # A client may have given the topic a property of this name, with anything in it.
        is_index = stored.isascii() and stored.isdigit() and len(stored) <= INDEX_DIGITS_MAX
        highest = int(stored) if is_index else -1
        if line.durable_to > line.base:
            index = entry_stamp((await entries.entry(line.durable_to - 1)).entry(0))[1]
            highest = max(highest, -1 if index is None else index)
        self._state.last_index = highest

    def append(self, run: Slice, sink: AppendSink) -> None:
        """Append as ``ManagedLedger.append``."""
        state = self._state
        time_ms = self._clock.wall_ms() if state.config.entry_times else None
        index = None
        if state.last_index is not None:
            index = state.last_index + 1
            state.last_index += run.messages
        self._appender.append(stamped(run, time_ms, index), _Unstamped(run, sink))


class _Unstamped:
    """A sink that reports to ``sink`` about the run that was passed in, while the stamped copy is stored and cached."""

    __slots__ = ("_run", "_sink")

    def __init__(self, run: Slice, sink: AppendSink) -> None:
        self._run = run
        self._sink = sink

    def appended(self, run: Slice, start: int, stop: int) -> None:
        self._run.ledger_id, self._run.first = run.ledger_id, run.first
        self._sink.appended(self._run, start, stop)

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        self._sink.append_failed(self._run, start, error)
