"""Appends of single entries to a log, of which those of one turn of the event loop are appended together as one run.

An entry of a transaction is small, and its append costs more than its bytes do.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine.base.ids import Position
from engine.base.loop import last_call
from engine.base.slices import Slice
from engine.managed.writing.appends import Appendable


class EntryReceiver(Protocol):
    """The receiver of the outcome of an entry. Must not raise; may append again."""

    def stored(self, position: Position) -> None:
        """Handle that the entry is durable."""
        ...

    def failed(self, error: Exception) -> None:
        """Handle that the entry was refused, or that it is not known whether it is stored."""
        ...


class _Run:
    """The append of a run. An ``AppendSink``."""

    __slots__ = ("_receivers", "_reported")

    def __init__(self, receivers: list[EntryReceiver], reported: Callable[[], None] | None) -> None:
        self._receivers = receivers
        self._reported = reported

    def appended(self, run: Slice, start: int, stop: int) -> None:
        for i in range(start, stop):
            self._receivers[i].stored(run.position(i))
        if self._reported is not None:
            self._reported()

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        for receiver in self._receivers[start:]:
            receiver.failed(error)


class EntryRuns:
    """Entries are stored in the order of ``append``. Created inside a running loop.

    ``reported`` is called once after the receivers of entries that became durable together.
    """

    __slots__ = ("_call_last", "_entries", "_log", "_receivers", "_reported")

    def __init__(self, log: Appendable, reported: Callable[[], None] | None = None) -> None:
        self._log = log
        self._reported = reported
        self._call_last = last_call(asyncio.get_running_loop())
        self._entries: list[bytes] = []
        self._receivers: list[EntryReceiver] = []

    def append(self, entry: bytes, receiver: EntryReceiver) -> None:
        """Append an entry at the end of this turn of the loop."""
        if not self._entries:
            self._call_last(self.flush)
        self._entries.append(entry)
        self._receivers.append(receiver)

    def flush(self) -> None:
        """Append now what waits."""
        entries, receivers = self._entries, self._receivers
        if not entries:
            return
        self._entries, self._receivers = [], []
        spans: list[int] = []
        end = 0
        for entry in entries:
            spans.append(end)
            end += len(entry)
            spans.append(end)
        self._log.append(Slice(b"".join(entries), spans, end), _Run(receivers, self._reported))
