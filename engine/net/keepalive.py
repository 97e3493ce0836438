"""Detection of a silent peer on a Pulsar connection: by a PING at each interval, and on request.

While the connection is held nothing is read, so that silence proves nothing. A peer that is gone is then found by
writing: its host answers the first PING with a reset, and the next write fails.
"""

import asyncio

from engine.auth.rights import PUBLIC
from engine.base.errors import PeerError
from engine.net.routing import Route, Routes
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire.states import CommandType

HELD_PROBE_SHARE = 0.1
"""Share of a probe's time between the two PINGs that find out whether the peer of a held connection is gone."""


class SilentPeerError(PeerError):
    """The peer sent nothing in answer to a PING."""


class KeepAlive:
    """Keepalive that ends a connection whose peer is silent. The connection's owner notifies it of received bytes."""

    def __init__(self, connection: Connection, interval_s: float) -> None:
        self._connection = connection
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._received = True
        """True when bytes arrived since the last PING of the interval."""
        self._pinged_at = float("-inf")
        self._pongs_due = 0
        self._probe: asyncio.Future[bool] | None = None
        self._received_in_probe = False
        """True when bytes arrived since the probe began."""
        self._probed_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule the first PING at the end of the interval."""
        self._timer = self._loop.call_later(self._interval_s, self._tick)

    def stop(self) -> None:
        """Stop, when the connection has ended. Safe to repeat."""
        if self._timer is not None:
            self._timer.cancel()
        self._answer_probe(False)

    def received(self) -> None:
        """Record that bytes arrived."""
        self._received = self._received_in_probe = True

    def pong(self, body: object) -> None:
        """Handle a PONG."""
        self._pongs_due = max(0, self._pongs_due - 1)
        if not self._pongs_due:
            self._answer_probe(True)

    def _ping(self) -> None:
        self._pongs_due += 1
        self._connection.send(commands.ping())

    def _tick(self) -> None:
        connection = self._connection
        if connection.closing:
            return
        if not self._received and self._was_read_since(self._pinged_at):
            connection.abort(SilentPeerError("no answer to PING"))
            return
        self._received = False
        self._pinged_at = self._loop.time()
        self._ping()
        self._timer = self._loop.call_later(self._interval_s, self._tick)

    def _was_read_since(self, start_s: float) -> bool:
        """Return whether the connection was read at all times since ``start_s``, so that silence counts."""
        return not self._connection.held and self._connection.released_at < start_s

    async def is_alive(self, timeout_s: float) -> bool:
        """Return whether the peer is alive; the connection to a silent one is aborted after ``timeout_s``. Cancel-safe.

        Bytes that a peer sent before it died may still arrive. So only the PONG to the PING sent here proves that it is
        alive, or, if that takes too long, any bytes received since. The peer of a held connection counts as alive
        unless it resets the connection within HELD_PROBE_SHARE of ``timeout_s``.
        """
        connection = self._connection
        if connection.closing:
            return False
        if self._probe is None:
            self._probe = self._loop.create_future()
            self._received_in_probe = False
            self._probed_at = self._loop.time()
            self._ping()
            wait_s = timeout_s * HELD_PROBE_SHARE if connection.held else timeout_s
            self._loop.call_later(wait_s, self._end_probe, self._probe)
        return await asyncio.shield(self._probe)

    def _end_probe(self, probe: asyncio.Future[bool]) -> None:
        if probe.done():
            return
        if self._received_in_probe:
            self._answer_probe(True)
        elif self._was_read_since(self._probed_at):
            self._connection.abort(SilentPeerError("no sign of life when asked for one"))
            self._answer_probe(False)
        else:
            self._ping()
            self._connection.flush()
            # A write that fails ends the connection, and with it the probe, before this call.
            self._loop.call_soon(self._answer_probe, True)

    def _answer_probe(self, alive: bool) -> None:
        probe, self._probe = self._probe, None
        if probe is not None and not probe.done():
            probe.set_result(alive)


ROUTES: Routes = {
    CommandType.PING: Route(lambda keepalive, body: commands.pong(), PUBLIC),
    CommandType.PONG: Route(KeepAlive.pong, PUBLIC),
}
