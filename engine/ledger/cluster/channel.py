"""One V2 connection to a bookie: requests in order, answers passed to the sinks of the answer's ledger.

A channel lives as long as its connection. Once down it stays down: every waiting sink is notified once, and the next
request uses a new channel. Requests made before the connection is established are queued and sent in order.

V2 answers carry a ledger and an entry but no request id. Requests whose answers must not be confused therefore use
different channels (C10): one for adds, fencing and recovery, a second for plain reads (``BookieLinks.reading``).
"""

from struct import Struct
from typing import Protocol

from engine.ledger.cluster.link import BookieLink
from engine.wire import bookie_commands as wire
from engine.wire.kernels import NEED, OTHER, take_add_replies, take_read_replies


class AddSink(Protocol):
    """A writer to a ledger. Its methods are called from the channel's receive path and must not block."""

    def add_answered(self, channel: "BookieChannel", rc: int, first: int, count: int) -> None:
        """Handle the answer ``rc`` (0: durable on this bookie) to entries ``first .. first + count - 1``."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None:
        """Handle the end of the channel: no more answers will arrive from it."""
        ...


class ReadSink(Protocol):
    """A reader of a ledger."""

    def awaits(self, channel: "BookieChannel", entry_id: int) -> bool:
        """Return whether an answer for this entry from this channel is still due."""
        ...

    def read_answered(
        self, channel: "BookieChannel", rc: int, entry_id: int, buf: bytes, start: int, stop: int
    ) -> None:
        """Handle an answer; ``buf[start:stop]`` is the stored entry when ``rc`` is 0."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None: ...


class BatchSink(Protocol):
    """The sender of one batch read."""

    def batch_answered(
        self, channel: "BookieChannel", rc: int, buf: bytes, start: int, stop: int
    ) -> None:
        """Handle the answer; ``buf[start:stop]`` holds the entries, each behind its 32-bit size, when ``rc`` is 0."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None: ...


_BATCH_HEAD = Struct(">IIiqqq")
_BATCH_VERSION_2 = wire.VERSION << 24 | wire.BATCH_READ << 16


class BookieChannel(BookieLink):
    """A V2 connection to a bookie, created by ``BookieLinks``. ``batches`` is True once the bookie has answered a batch
    read on this connection other than by refusing it, and None before the first batch read."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(bookie_id, unsent_bytes_max)
        self.batches: bool | None = None
        self._batch_sinks: dict[int, BatchSink] = {}
        self._next_batch = 0
        self._adders: dict[int, list[AddSink]] = {}
        self._readers: dict[int, list[ReadSink]] = {}

    # Sinks

    def add_writer(self, ledger_id: int, sink: AddSink) -> None:
        """Route answers to adds of a ledger to ``sink``. With several sinks, each receives every answer."""
        sinks = self._adders.setdefault(ledger_id, [])
        if sink not in sinks:
            sinks.append(sink)

    def remove_writer(self, ledger_id: int, sink: AddSink) -> None:
        sinks = self._adders.get(ledger_id, [])
        if sink in sinks:
            sinks.remove(sink)
        if not sinks:
            self._adders.pop(ledger_id, None)

    def add_reader(self, ledger_id: int, sink: ReadSink) -> None:
        """Route answers to reads of a ledger to ``sink``. An answer goes to the first sink that awaits the entry."""
        self._readers.setdefault(ledger_id, []).append(sink)

    def remove_reader(self, ledger_id: int, sink: ReadSink) -> None:
        sinks = self._readers.get(ledger_id, [])
        if sink in sinks:
            sinks.remove(sink)
        if not sinks:
            self._readers.pop(ledger_id, None)

    def read_batch(
        self, ledger_id: int, first: int, count_max: int, bytes_max: int, sink: BatchSink
    ) -> int:
        """Request entries from ``first`` on in one answer. Return the number to pass to ``forget_batch``."""
        self._next_batch += 1
        number = self._next_batch
        self._batch_sinks[number] = sink
        if self.batches is None:
            # Until the answer arrives: a bookie that does not support batch reads may close the connection instead.
            self.batches = False
        self.send(wire.batch_read_request(ledger_id, first, number, count_max, bytes_max))
        return number

    def forget_batch(self, number: int) -> None:
        """Drop the answer to a batch read, should it still arrive."""
        self._batch_sinks.pop(number, None)

    def notify_down(self, reason: str) -> None:
        sinks: list[AddSink | ReadSink | BatchSink] = []
        for adders in self._adders.values():
            sinks += adders
        for readers in self._readers.values():
            sinks += readers
        sinks += self._batch_sinks.values()
        self._adders.clear()
        self._readers.clear()
        self._batch_sinks.clear()
        for sink in sinks:
            sink.channel_down(self, reason)

    # Hooks of Connection

    def received(self, buf: bytes, pos: int, end: int) -> int:
        """Pass the answers in ``buf`` to their sinks and return the position behind the last complete frame."""
        while end - pos >= wire.HEAD_BYTES and self.down is None:
            before = pos
            opcode = buf[pos + 5]
            if opcode == wire.ADD:
                pos, why, adds = take_add_replies(buf, pos, end)
                for rc, ledger_id, first, count in adds:
                    for adder in list(self._adders.get(ledger_id, ())):
                        adder.add_answered(self, rc, first, count)
            elif opcode == wire.READ:
                pos, why, reads = take_read_replies(buf, pos, end)
                for rc, ledger_id, entry_id, start, stop in reads:
                    for reader in self._readers.get(ledger_id, ()):
                        if reader.awaits(self, entry_id):
                            reader.read_answered(self, rc, entry_id, buf, start, stop)
                            break
            elif opcode == wire.BATCH_READ:
                pos, why = self._receive_batch(buf, pos, end)
            else:
                raise wire.BookieFrameError(f"answer with opcode {opcode}")
            if pos == before:
                if why != NEED:
                    raise wire.BookieFrameError(f"answer with opcode {opcode} has a wrong form")
                break
        return pos

    def _receive_batch(self, buf: bytes, pos: int, end: int) -> tuple[int, int]:
        if end - pos < _BATCH_HEAD.size:
            return pos, NEED
        size, word, rc, _ledger, _first, number = _BATCH_HEAD.unpack_from(buf, pos)
        stop = pos + 4 + size
        if word != _BATCH_VERSION_2 or stop < pos + _BATCH_HEAD.size:
            return pos, OTHER
        if stop > end:
            return pos, NEED
        self.batches = rc != wire.EBADREQ
        sink = self._batch_sinks.pop(number, None)
        if sink is not None:
            sink.batch_answered(self, rc, buf, pos + _BATCH_HEAD.size, stop)
        return stop, NEED
