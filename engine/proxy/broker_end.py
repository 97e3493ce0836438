"""The proxy's connection to a broker on behalf of one client: its handshake, then bytes in both directions (T9)."""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from engine.base.errors import PeerError
from engine.client.broker_link import Credentials
from engine.net.transport import Connection
from engine.wire import client_commands, commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.states import CommandType

COPY_HIGH_BYTES = 256 * 1024
COPY_LOW_BYTES = 64 * 1024
"""Bytes that wait for one end, above which the other is not read, and below which it is read again."""

TICKS = 2
"""Checks of a broker's silence in the time that it may last."""


class SilentBrokerError(PeerError):
    """A broker sent nothing, although brokers send PING."""


class ClientEnd(Protocol):
    """The other end: the connection to the client."""

    transport: asyncio.Transport | None
    ended: bool
    """True once the client sends nothing more."""

    def broker_connected(self, body: pb.CommandConnected) -> None:
        """Pass on CONNECTED. From now on bytes are copied."""
        ...

    def broker_refused(self, code: int, text: str) -> None:
        """Pass on the broker's refusal and end the connection."""
        ...

    def broker_lost(self, error: Exception | None) -> None:
        """Handle the end of the connection to the broker."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class BrokerEnd(Connection):
    """Connection to the broker that a client named. ``connect`` is its CONNECT, which the broker must answer within
    ``handshake_s``. Once CONNECTED was passed on, received bytes are copied as they are; a broker that is silent for
    ``silence_s`` (0: no limit) is given up.
    """

    def __init__(
        self,
        client: ClientEnd,
        connect: bytes,
        credentials: Credentials | None,
        handshake_s: float,
        silence_s: float,
    ) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.reads = 0
        self.copied_bytes = 0
        self.copying = False
        self.ended = False
        """True once the broker sends nothing more."""
        # None after the end: reference cycles would stay until the garbage collector runs, which is rare.
        self._client: ClientEnd | None = client
        self._connect = connect
        self._credentials = credentials
        self._handshake_s = handshake_s
        self._silence_s = silence_s
        self._write: Callable[[bytes], None] = drop
        self._reads_at_tick = -1
        self._quiet_ticks = 0
        self._was_held = False
        """True when the broker was not read at some time since the last tick, so that silence proves nothing."""
        self._timer: asyncio.TimerHandle | None = None

    # The handshake

    def opened(self) -> None:
        self._timer = self._loop.call_later(self._handshake_s, self._time_out)
        self.send(self._connect)

    def _time_out(self) -> None:
        self.abort(SilentBrokerError(f"no CONNECTED within {self._handshake_s:g} s"))

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while pos < end and not self.closing:
            if self.copying:
                self.data_received(buf[pos:end])
                return end
            stop = frames.frame_end(buf, pos, end, self.frame_max)
            if stop < 0:
                break
            self._handle(commands.parse(buf, *frames.command_span(buf, pos, stop)))
            pos = stop
        return pos

    def _handle(self, command: Any) -> None:
        """Handle a command of the handshake. Raises PeerError for another."""
        match command.type:
            case CommandType.CONNECTED:
                self._begin(command.connected)
            case CommandType.AUTH_CHALLENGE:
                self._answer(command.authChallenge.challenge.auth_data)
            case CommandType.ERROR:
                if self._client is not None:
                    self._client.broker_refused(command.error.error, command.error.message)
                self.close()
            case kind:
                raise PeerError(f"{commands.command_name(kind)} before CONNECTED")

    def _answer(self, challenge: bytes) -> None:
        if self._credentials is None:
            raise PeerError("the broker requires credentials, none are configured")
        try:
            method, data = self._credentials(challenge)
        except OSError as error:  # of the token's file
            raise PeerError(f"the proxy's credentials cannot be read: {error}") from error
        self.send(client_commands.auth_response(method, data))

    # Copying

    def _begin(self, body: pb.CommandConnected) -> None:
        end, transport = self._client, self.transport
        client = None if end is None else end.transport
        if end is None or client is None or client.is_closing() or transport is None:
            self.abort()
            return
        if self._timer is not None:
            self._timer.cancel()
        transport.set_write_buffer_limits(COPY_HIGH_BYTES, COPY_LOW_BYTES)
        self.copying = True
        end.broker_connected(body)
        self._write = client.write
        if self._silence_s:
            self._tick()

    def data_received(self, data: bytes) -> None:
        if not self.copying:
            super().data_received(data)
            return
        self.reads += 1
        self.copied_bytes += len(data)
        self._write(data)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.copying and self._client is not None:
            self._client.pause_reading()

    def writable(self) -> None:
        if self.copying and self._client is not None:
            self._client.resume_reading()

    def pause_reading(self) -> None:
        self._was_held = True
        super().pause_reading()

    def resume_reading(self) -> None:
        if not self.ended:
            super().resume_reading()

    def eof_received(self) -> bool | None:
        self.ended = True
        client = self._client
        if not self.copying or client is None or client.ended:
            return False
        return pass_end(self.transport, client.transport)

    def _tick(self) -> None:
        """Give up a broker that sent nothing in the last two ticks and was read all the time."""
        if self.reads != self._reads_at_tick or self._was_held:
            self._quiet_ticks = 0
        else:
            self._quiet_ticks += 1
        if self._quiet_ticks == TICKS:
            self.abort(SilentBrokerError(f"nothing from the broker within {self._silence_s:g} s"))
            return
        self._reads_at_tick = self.reads
        self._was_held = self.transport is not None and not (
            self.transport.is_reading() or self.ended
        )
        self._timer = self._loop.call_later(self._silence_s / TICKS, self._tick)

    def closed(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        client, self._client = self._client, None
        self._write = drop
        if client is not None:
            client.broker_lost(error)


def drop(data: bytes) -> None:
    """Take the place of a write while there is no other end."""


def pass_end(ended: asyncio.Transport | None, other: asyncio.Transport | None) -> bool:
    """Pass on that a peer sends nothing more; return whether its connection stays open for what it may still receive.

    A connection in TLS has no such half end: both are closed, after what waits was sent.
    """
    if ended is None or other is None or other.is_closing():
        return False
    if not (ended.can_write_eof() and other.can_write_eof()):
        return False
    other.write_eof()
    return True
