"""Network in memory: the same protocols as over sockets, connected by pipes of the running event loop.

A test on it does not depend on the machine: bytes arrive in the next turn of the loop, so its timers may run in virtual
time. Cuts, delays and segments are the simulator's (tests/sim/kit/network.py).
"""

import asyncio
import itertools
import ssl
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from engine.net.network import ProtocolFactory

HIGH_WATER = 64 << 10
PORT_MIN = 20_000


class Listeners(dict[int, ProtocolFactory]):
    """Factories of accepted connections, by port. No port is given twice, since systems hardly ever do it."""

    def __init__(self) -> None:
        super().__init__()
        self._ports = itertools.count(PORT_MIN)

    def free_port(self) -> int:
        return next(self._ports)


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, Listeners] = WeakKeyDictionary()


class PipeServer:
    def __init__(self, listeners: Listeners, port: int) -> None:
        self._listeners = listeners
        self.port = port

    def close(self) -> None:
        self._listeners.pop(self.port, None)

    async def wait_closed(self) -> None:
        pass


class PipeNetwork:
    """The network seam without TLS. All instances of one event loop are the same network; hosts are ignored."""

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> PipeServer:
        assert tls is None, "pipes have no TLS"
        listeners = _listeners.setdefault(asyncio.get_running_loop(), Listeners())
        port = port or listeners.free_port()
        if port in listeners:
            raise OSError(98, f"port {port} is in use")
        listeners[port] = factory
        return PipeServer(listeners, port)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        assert tls is None, "pipes have no TLS"
        await asyncio.sleep(0)
        accept = _listeners.get(asyncio.get_running_loop(), {}).get(port)
        if accept is None:
            raise ConnectionRefusedError(111, f"nothing listens on port {port}")
        near, far = Pipe(port + 10_000, port), Pipe(port, port + 10_000)
        near.peer, far.peer = far, near
        near.set_protocol(factory())
        far.set_protocol(accept())
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol

    async def start_tls(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.Protocol,
        tls: ssl.SSLContext,
        *,
        host: str | None = None,
    ) -> None:
        raise AssertionError("pipes have no TLS")


class Pipe(asyncio.Transport):
    """One end of a connection. Bytes reach the peer in order, in a later turn of the loop."""

    peer: "Pipe"
    protocol: Any

    def __init__(self, own_port: int, peer_port: int) -> None:
        super().__init__(
            {"peername": ("127.0.0.1", peer_port), "sockname": ("127.0.0.1", own_port)}
        )
        self._loop = asyncio.get_running_loop()
        self._incoming: list[bytes] = []
        self._ended = False
        """True once the peer writes nothing more."""
        self._closing = False
        self._reading = True
        self._scheduled = False
        self._writing_paused = False

    def write(self, data: Any) -> None:
        if self._closing or self.peer._closing or not data:
            return
        self.peer._incoming.append(bytes(data))
        self.peer._schedule()
        if not self._writing_paused and self.get_write_buffer_size() > HIGH_WATER:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(parts))

    def write_eof(self) -> None:
        self.peer._end()

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.peer._end()
            self._loop.call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.peer._incoming))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def _end(self) -> None:
        self._ended = True
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and self._reading:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._closing or not self._reading:
            return
        if self._incoming:
            data = b"".join(self._incoming)
            self._incoming.clear()
            self.protocol.data_received(data)
            if self.peer._writing_paused:
                self.peer._writing_paused = False
                self.peer.protocol.resume_writing()
            if self._ended:
                self._schedule()
        elif self._ended:
            # A protocol that answers after the peer's end returns true, which keeps its side open.
            if not self.protocol.eof_received():
                self.close()
            self._ended = False
