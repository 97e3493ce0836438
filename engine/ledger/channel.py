"""One connection to a bookie: requests in order, answers handed to whoever waits for that ledger.

A channel lives as long as its connection. Once down it stays down: everybody who waits is told once, and the next
request goes over a new channel. Requests made before the connection stands are kept and sent in order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from engine.net.network import Network
from engine.wire import bookie_commands as wire
from engine.wire.kernels import NEED, take_add_replies, take_read_replies

log = logging.getLogger(__name__)

JOIN_BELOW = 16384
"""Mean part size below which parts are joined into one write."""


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


class BookieChannel(asyncio.Protocol):
    """Made by ``Bookies.channel``. ``down`` is the reason once it is over, else None."""

    def __init__(self, bookie_id: str) -> None:
        self.bookie_id = bookie_id
        self.down: str | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes | memoryview] = []
        self._flushing = False
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._need = 0
        self._adders: dict[int, list[AddSink]] = {}
        self._readers: dict[int, list[ReadSink]] = {}
        self._watchers: list[Callable[[BookieChannel, str], None]] = []

    async def connect(
        self,
        network: Network,
        address: Callable[[], Awaitable[tuple[str, int]]],
        timeout_s: float,
    ) -> None:
        """Open the connection; on failure the channel goes down."""
        try:
            async with asyncio.timeout(timeout_s):
                host, port = await address()
                await network.connect(host, port, lambda: self)
        except (OSError, TimeoutError) as e:
            self.close(f"connect failed: {type(e).__name__} {e}")
        except asyncio.CancelledError:
            self.close("stopped while connecting")
            raise
        except Exception as e:
            self.close(f"no address: {e}")

    # Requests

    def send(self, parts: list[bytes | memoryview]) -> None:
        """Queue request frames; one write per wake-up. Nothing is sent when the channel is down."""
        if self.down is not None:
            return
        self._out += parts
        if not self._flushing and self._transport is not None:
            self._flushing = True
            self._loop.call_soon(self._flush)

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

    def on_down(self, callback: Callable[["BookieChannel", str], None]) -> None:
        self._watchers.append(callback)

    @property
    def connected(self) -> bool:
        return self._transport is not None and self.down is None

    def close(self, reason: str) -> None:
        """Take the channel down and tell everybody who waits."""
        if self.down is not None:
            return
        self.down = reason
        self._out.clear()
        self._rest.clear()
        if self._transport is not None:
            self._transport.abort()
        told: list[AddSink | ReadSink] = []
        for adders in self._adders.values():
            told += adders
        for readers in self._readers.values():
            told += readers
        self._adders.clear()
        self._readers.clear()
        for sink in told:
            sink.channel_down(self, reason)
        for callback in self._watchers:
            callback(self, reason)

    def _flush(self) -> None:
        self._flushing = False
        transport, out = self._transport, self._out
        if transport is None or not out:
            return
        self._out = []
        size = sum(map(len, out))
        if len(out) == 1:
            transport.write(out[0])
        elif size < JOIN_BELOW * len(out):
            transport.write(b"".join(out))
        else:
            for part in out:
                transport.write(part)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self.down is not None:
            transport.abort()
            return
        self._transport = transport
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.close("connection lost" if error is None else f"connection lost: {error}")

    def data_received(self, data: bytes) -> None:
        if self.down is not None:
            return
        if self._rest:
            self._rest.append(data)
            self._rest_bytes += len(data)
            if self._rest_bytes < self._need:
                return
            data = b"".join(self._rest)
            self._rest.clear()
        pos = self._take(data)
        if pos < len(data) and self.down is None:
            rest = data[pos:]
            self._rest.append(rest)
            self._rest_bytes = len(rest)
            self._need = 4 + int.from_bytes(rest[:4], "big") if len(rest) >= 4 else 4
            if self._need > 4 + wire.FRAME_BYTES_MAX:
                self.close(f"protocol error: frame of {self._need} bytes")

    def _take(self, buf: bytes) -> int:
        """Hand out the answers in ``buf``; returns where the last whole frame ended."""
        pos, end = 0, len(buf)
        while end - pos >= wire.HEAD_BYTES:
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
            else:
                self.close(f"protocol error: opcode {opcode}")
                return end
            if why == NEED and pos == before:
                break
            if pos == before or self.down is not None:
                self.close(f"protocol error: opcode {opcode} with reason {why}")
                return end
        return pos
