"""In-memory network of the simulator: listeners by (node name, port); pipes with delay, segmentation, cuts, resets."""

import asyncio
import contextvars
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any

from engine.net.network import TLS_HANDSHAKE_TIMEOUT_S, Interim, ProtocolFactory
from tests.sim.kit.loop import NODE, Node, SimLoop

HIGH_WATER = 256 << 10
LOW_WATER = 64 << 10
CONNECT_TIMEOUT_S = 3.0
CUT_POLL_S = 0.05
CLIENT_HELLO, SERVER_HELLO = b"\x16\x03\x01client hello", b"\x16\x03\x01server hello"
"""A simulated TLS handshake. What follows stays readable: only the order of its steps is simulated."""
RESET_S = 0.004
"""Time after which a write to an end that is closed has its answer, a reset, in seconds."""
TOGETHER_S = 0.01
"""Greatest time between two writes that may be read together, in seconds."""
LATENCIES_S = (0.0001, 0.0002, 0.0005, 0.002)
"""One-way latencies, doubled at most; drawn again whenever bytes leave while none are under way."""


class World:
    """All links of a run. A cut is one-way: bytes from ``source`` to ``target`` wait, as in TCP, until it heals."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.listeners: dict[
            tuple[str, int], tuple[Node, ProtocolFactory, contextvars.Context]
        ] = {}
        self.pipes: list[Pipe] = []
        self.cuts: dict[tuple[str, str], None] = {}
        self.slow: dict[str, float] = {}
        self.slow_pairs: dict[tuple[str, str], float] = {}
        self.tail_loss = 0.0
        """Chance that bytes under way are never read when a process dies or closes a connection."""
        self.half_open: dict[str, list[Pipe]] = {}
        self.segment_chance = 0.05
        self.untrusted: set[str] = set()
        """Nodes with a certificate that no client accepts."""

    def latency(self, source: str, target: str) -> float:
        kind, jitter = divmod(self.loop.rng.random() * len(LATENCIES_S), 1.0)
        base = LATENCIES_S[int(kind)] * (1 + jitter)
        if self.slow:
            base += self.slow.get(source, 0.0) + self.slow.get(target, 0.0)
        if self.slow_pairs:
            base += self.slow_pairs.get((source, target), 0.0)
        return base

    def cut(self, source: str, target: str) -> None:
        self.cuts[source, target] = None
        self.loop.note("cut", source, target)

    def heal(self) -> None:
        self.cuts.clear()
        self.slow.clear()
        self.slow_pairs.clear()
        self.tail_loss = 0.0

    def kill(self, node: Node, silent: bool) -> None:
        """Close a dead process' listeners; its peers receive a reset, or nothing when ``silent`` (power loss)."""
        self.listeners = {
            key: value for key, value in self.listeners.items() if value[0] is not node
        }
        for pipe in [pipe for pipe in self.pipes if pipe.node is node and not pipe.dead]:
            pipe.dead = True
            pipe.silent = silent
            if silent:
                self.half_open.setdefault(node.name, []).append(pipe.peer)
            else:
                pipe.peer.deliver_end()
        self.pipes = [pipe for pipe in self.pipes if not pipe.dead]

    def back(self, name: str) -> None:
        """Reset the old connections of a machine that lost power silently and is up again."""
        for pipe in self.half_open.pop(name, []):
            pipe.peer.silent = False
            pipe.deliver(None)

    def reset_links(self, name: str) -> None:
        """Break every connection of a live node: in-flight bytes are lost in both directions."""
        for pipe in [pipe for pipe in self.pipes if pipe.node.name == name and not pipe.closed]:
            pipe.queue.clear()
            pipe.peer.queue.clear()
            pipe.lose(ConnectionResetError("reset by the simulator"))
            pipe.peer.lose(ConnectionResetError("reset by the simulator"))


class SimServer:
    def __init__(self, world: World, key: tuple[str, int]) -> None:
        self._world = world
        self._key = key

    @property
    def port(self) -> int:
        return self._key[1]

    def close(self) -> None:
        self._world.listeners.pop(self._key, None)

    async def wait_closed(self) -> None:
        pass


def _refuse(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise NotImplementedError("simulated connections start in clear: leave tls=None")


class SimNetwork:
    """The Network seam of one node. The host part of ``listen`` is ignored: a node has one address, its name. TLS
    begins by ``start_tls`` only, with a scripted handshake."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> SimServer:
        _refuse(tls)
        node = NODE.get()
        key = (node.name, port)
        if key in self._world.listeners:
            raise OSError(98, f"{key} is taken")
        self._world.listeners[key] = (node, factory, contextvars.copy_context())
        return SimServer(self._world, key)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        _refuse(tls)
        world, me = self._world, NODE.get()
        await asyncio.sleep(world.latency(me.name, host))
        if (me.name, host) in world.cuts or (host, me.name) in world.cuts:
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(f"{me.name} cannot reach {host}")
        listener = world.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(f"{host}:{port}")
        node, accept, context = listener
        accepted = context.copy().run(accept)
        mine = Pipe(world, me, contextvars.copy_context(), factory())
        theirs = Pipe(world, node, context.copy(), accepted)
        mine.peer, theirs.peer = theirs, mine
        world.pipes += [mine, theirs]
        world.loop.call_soon(accepted.connection_made, theirs, context=theirs.context)
        mine.protocol.connection_made(mine)
        return mine, mine.protocol

    async def start_tls(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.Protocol,
        tls: ssl.SSLContext,
        *,
        host: str | None = None,
    ) -> None:
        assert isinstance(transport, Pipe)
        greeting = Greeting(SERVER_HELLO if host is not None else CLIENT_HELLO)
        try:
            if "sslcontext" in transport.extra:
                raise OSError("the connection has TLS already")
            transport.set_protocol(greeting)
            if host is not None:
                transport.write(CLIENT_HELLO)
            transport.resume_reading()
            async with asyncio.timeout(TLS_HANDSHAKE_TIMEOUT_S):
                await greeting.complete
            if host in self._world.untrusted:
                raise ssl.SSLCertVerificationError(1, f"certificate of {host} is not trusted")
            if host is None:
                transport.write(SERVER_HELLO)
        except BaseException:
            transport.abort()
            raise
        transport.extra["sslcontext"] = tls
        greeting.hand_over(transport, protocol)


class Greeting(Interim):
    """One side of a simulated handshake; ``complete`` once the other side's greeting has arrived."""

    def __init__(self, expected: bytes) -> None:
        super().__init__()
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._expected = expected

    def data_received(self, data: bytes) -> None:
        taken = len(self._expected)
        if not data.startswith(self._expected[: len(data)]):
            self._fail(ssl.SSLError(1, "not a TLS handshake"))
            return
        self._expected = self._expected[len(data) :]
        if not self._expected:
            if not self.complete.done():
                self.complete.set_result(None)
            if data[taken:]:
                super().data_received(data[taken:])

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._fail(ConnectionResetError("the connection ended during the TLS handshake"))

    def _fail(self, error: Exception) -> None:
        if not self.complete.done():
            self.complete.set_exception(error)


class Pipe(asyncio.Transport):
    """One end of a connection. What is written arrives at the peer in order, after a delay, in arbitrary cuts."""

    peer: "Pipe"

    def __init__(
        self, world: World, node: Node, context: contextvars.Context, protocol: asyncio.BaseProtocol
    ) -> None:
        self.extra: dict[str, Any] = {"peername": (node.name, 0), "sockname": (node.name, 0)}
        super().__init__(self.extra)
        self.sent_at = 0.0  # when the peer wrote the first of the bytes now being received
        self.world = world
        self.node = node
        self.context = context
        self.protocol: Any = protocol
        self.dead = False
        self.silent = False
        """True while the machine of this end is off, so that nothing is answered."""
        self.closed = False
        self._reset_at = float("inf")
        """Time at which a reset arrives from a closed peer; later writes fail, also while nothing is read."""
        self.queue: deque[tuple[float, bytes | None]] = deque()
        self._in_flight = 0
        self._paused_writing = False
        self._paused_reading = False
        self._arrival = 0.0
        self._pumping = False

    # -- asyncio.Transport

    def write(self, data: Any) -> None:
        if self.dead or self.closed:
            return
        if self._reset_at <= self.world.loop.now:
            self.lose(BrokenPipeError("peer is gone"))
            return
        data = bytes(data)
        self._in_flight += len(data)
        rng = self.world.loop.rng
        if rng.random() < self.world.segment_chance:
            split = rng.randrange(len(data) + 1)
            for part in (data[:split], data[split:]):
                if part:
                    self.peer.deliver(part)
        elif data:
            self.peer.deliver(data)
        if self._in_flight > HIGH_WATER and not self._paused_writing:
            self._paused_writing = True
            self.protocol.pause_writing()

    def writelines(self, parts: Iterable[Any]) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        if not self.closed and not self.dead:
            self.peer.deliver_end()
            self.lose(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closed or self.dead

    def get_write_buffer_size(self) -> int:
        return self._in_flight

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return not self._paused_reading

    def pause_reading(self) -> None:
        self._paused_reading = True

    def resume_reading(self) -> None:
        self._paused_reading = False
        self._schedule()

    # -- the wire

    def deliver(self, part: bytes | None) -> None:
        """Put bytes, or None for the end of the connection, on their way to this end."""
        if self.dead or self.closed:
            if part is not None and not self.silent:
                self.peer.refuse()
            return
        self.queue.append((self.world.loop.now, part))
        self._schedule()

    def refuse(self) -> None:
        """Have a reset on its way from the peer, which is closed, unless either direction is cut."""
        here, there = self.node.name, self.peer.node.name
        cuts = self.world.cuts
        if (here, there) not in cuts and (there, here) not in cuts:
            self._reset_at = min(self._reset_at, self.world.loop.now + RESET_S)

    def deliver_end(self) -> None:
        """Deliver the end of the peer; bytes that it had sent may be lost with it, as on a reset."""
        tail_loss = self.world.tail_loss
        if tail_loss and self.world.loop.rng.random() < tail_loss:
            self.queue.clear()
        self.deliver(None)

    def _schedule(self) -> None:
        if self._pumping or not self.queue:
            return
        self._pumping = True
        loop = self.world.loop
        delay = self.world.latency(self.peer.node.name, self.node.name)
        self._arrival = max(self._arrival, loop.now + delay)
        loop.call_at(self._arrival, self._pump, context=self.context)

    def _pump(self) -> None:
        self._pumping = False
        if self.dead or self.closed or self._paused_reading:
            return
        loop = self.world.loop
        if self.world.cuts and (self.peer.node.name, self.node.name) in self.world.cuts:
            self._pumping = True
            loop.call_later(CUT_POLL_S, self._pump, context=self.context)
            return
        parts: list[bytes] = []
        if self.queue:
            self.sent_at = self.queue[0][0]
        while self.queue and (part := self.queue[0][1]) is not None and len(parts) < 16:
            if self.queue[0][0] > self.sent_at + TOGETHER_S:
                break
            parts.append(part)
            self.queue.popleft()
        if parts:
            data = b"".join(parts)
            loop.trace.update(b"%.9f %s %d " % (loop.now, self.node.name.encode(), len(data)))
            loop.trace.update(data)
            self.protocol.data_received(data)
            self.peer.acknowledge(len(data))
            self._schedule()
        elif self.queue:
            self.queue.popleft()
            self.lose(ConnectionResetError("peer is gone"))

    def acknowledge(self, count: int) -> None:
        self._in_flight -= count
        if self._paused_writing and self._in_flight < LOW_WATER:
            self._paused_writing = False
            if not (self.dead or self.closed):
                self.world.loop.call_soon(self.protocol.resume_writing, context=self.context)

    def lose(self, error: Exception | None) -> None:
        """Close this end and notify its protocol once."""
        if self.closed or self.dead:
            return
        self.closed = True
        self.world.loop.call_soon(self.protocol.connection_lost, error, context=self.context)
        self.world.pipes = [pipe for pipe in self.world.pipes if pipe is not self]
