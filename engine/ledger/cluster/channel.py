"""One connection to a bookie: requests in order, answers handed to whoever waits for that ledger.

A channel lives as long as its connection. Once down it stays down: everybody who waits is told once, and the next
request goes over a new channel. Requests made before the connection stands are kept and sent in order.

V2 answers name no request but a ledger and an entry, so requests of which one answer must not stand for another go over
different channels (C10): adds, fencing and recovery over one, plain reads over a second (``BookieLinks.reading``).
"""

from struct import Struct
from typing import Protocol

from engine.ledger.cluster.link import BookieLink
from engine.wire import bookie_commands as wire
from engine.wire.kernels import NEED, OTHER, take_add_replies, take_read_replies


class AddSink(Protocol):
    """Who writes to a ledger. Calls come from the channel's receive path and must not block."""

    def add_answered(self, channel: "BookieChannel", rc: int, first: int, count: int) -> None:
        """Entries ``first .. first + count - 1`` were answered with ``rc`` (0: durable there)."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None:
        """No more answers will come from this channel."""
        ...


class ReadSink(Protocol):
    """Who reads from a ledger."""

    def awaits(self, channel: "BookieChannel", entry_id: int) -> bool:
        """Whether an answer for this entry from this channel is still due."""
        ...

    def read_answered(
        self, channel: "BookieChannel", rc: int, entry_id: int, buf: bytes, start: int, stop: int
    ) -> None:
        """``buf[start:stop]`` is the stored entry when ``rc`` is 0."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None: ...


class BatchSink(Protocol):
    """Who made one batch read."""

    def batch_answered(
        self, channel: "BookieChannel", rc: int, buf: bytes, start: int, stop: int
    ) -> None:
        """``buf[start:stop]`` holds the entries, each behind its 32-bit size, when ``rc`` is 0."""
        ...

    def channel_down(self, channel: "BookieChannel", reason: str) -> None: ...


_BATCH_HEAD = Struct(">IIiqqq")
_BATCH_VERSION_2 = wire.VERSION << 24 | wire.BATCH_READ << 16


class BookieChannel(BookieLink):
    """Made by ``BookieLinks``. ``batches`` tells whether the bookie has answered a batch read on this connection;
    None while it was not asked for one."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(bookie_id, unsent_bytes_max)
        self.batches: bool | None = None
        self._batch_sinks: dict[int, BatchSink] = {}
        self._next_batch = 0
        self._adders: dict[int, list[AddSink]] = {}
        self._readers: dict[int, list[ReadSink]] = {}

    # Who waits

    def add_writer(self, ledger_id: int, sink: AddSink) -> None:
        """Route answers to adds of a ledger to ``sink``; with several, each gets every answer."""
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
        """Route answers to reads of a ledger: each to the first sink that awaits the entry."""
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
        """Ask for entries from ``first`` on in one answer; returns the number to ``forget_batch`` with."""
        self._next_batch += 1
        number = self._next_batch
        self._batch_sinks[number] = sink
        if self.batches is None:
            self.batches = False
        self.send(wire.batch_read_request(ledger_id, first, number, count_max, bytes_max))
        return number

    def forget_batch(self, number: int) -> None:
        """The answer, if it still comes, interests nobody."""
        self._batch_sinks.pop(number, None)

    def tell_down(self, reason: str) -> None:
        told: list[AddSink | ReadSink | BatchSink] = []
        for adders in self._adders.values():
            told += adders
        for readers in self._readers.values():
            told += readers
        told += self._batch_sinks.values()
        self._adders.clear()
        self._readers.clear()
        self._batch_sinks.clear()
        for sink in told:
            sink.channel_down(self, reason)

    # Hooks of Connection

    def received(self, buf: bytes, pos: int, end: int) -> int:
        """Hand out the answers in ``buf``; returns where the last whole frame ended."""
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
                pos, why = self._take_batch(buf, pos, end)
            else:
                raise wire.BookieFrameError(f"answer with opcode {opcode}")
            if pos == before:
                if why != NEED:
                    raise wire.BookieFrameError(f"answer with opcode {opcode} has a wrong form")
                break
        return pos

    def _take_batch(self, buf: bytes, pos: int, end: int) -> tuple[int, int]:
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
