"""A connection over the binary protocol that lets a simulated client see every frame."""

import asyncio
from collections.abc import Callable

from engine.net.transport import Connection
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import refusal
from tests.sim.kit.network import Pipe

REQUEST_TIMEOUT_S = 5.0
KEEPALIVE_S = 1.0

Heard = Callable[[pb.BaseCommand, bytes], None]


class Refused(Exception):
    """The broker answered with an error. ``passing``: the same request may succeed later."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


class Lost(Exception):
    """The connection or the attachment ended; come again."""


class Link(Connection):
    """One connection. ``request`` waits for the answer to a request; everything else goes to ``heard``."""

    def __init__(self) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.heard: Heard = lambda command, entry: None
        self.wake = asyncio.Event()
        self.over = False
        self.silent = 0
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._keepalive: asyncio.TimerHandle | None = None

    @property
    def sent_at(self) -> float:
        """When the broker wrote what is being received."""
        assert isinstance(self.transport, Pipe)
        return self.transport.sent_at

    def opened(self) -> None:
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def _tick(self) -> None:
        self.silent += 1
        if self.silent > 3:
            self.abort()
            return
        self.send(commands.ping())
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.silent = 0
        while (stop := frames.whole_frame(buf, pos, end, self.frame_max)) > 0:
            start, split = frames.command_span(buf, pos, stop)
            command = commands.parse(buf, start, split)
            self._hear(command, buf[split:stop])
            pos = stop
        return pos

    def _hear(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == pb.BaseCommand.PING:
            self.send(commands.pong())
            return
        body = getattr(command, commands.FIELD_OF_TYPE[command.type])
        request_id = getattr(body, "request_id", -1)
        if command.type == pb.BaseCommand.CONNECTED:
            request_id = 0
        reply = self._replies.pop(request_id, None)
        if reply is not None:
            if not reply.done():
                reply.set_result(command)
        else:
            self.heard(command, entry)

    def closed(self, error: Exception | None) -> None:
        self.over = True
        if self._keepalive is not None:
            self._keepalive.cancel()
        self.wake.set()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(Lost("connection lost"))

    async def request(self, request_id: int, frame: bytes) -> pb.BaseCommand:
        """Raises Lost, Refused, TimeoutError."""
        if self.over:
            raise Lost("connection lost")
        reply: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        self._replies[request_id] = reply
        self.send(frame)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                command = await reply
        finally:
            self._replies.pop(request_id, None)
        if command.type == pb.BaseCommand.ERROR:
            error = refusal(command.error.error, command.error.message)
            raise Refused(f"{error.code.name} {error}", passing=error.retriable)
        return command
