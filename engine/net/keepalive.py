"""Signs of life of the other side of a Pulsar connection: asked for each interval, and when somebody wants to know."""

import asyncio

from engine.base.errors import PeerError
from engine.net.routing import Route, Routes
from engine.net.transport import Connection
from engine.wire import commands
from engine.wire.states import CommandType


class SilentPeerError(PeerError):
    """The other side gave no sign of life when asked for one."""


class KeepAlive:
    """Ends a connection whose other side is silent. Its owner calls ``heard`` whenever something was read.

    While the connection is held we do not read, so that silence says nothing.
    """

    def __init__(self, connection: Connection, interval_s: float) -> None:
        self._connection = connection
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._heard = True
        self._asked_at = float("-inf")
        self._pongs_due = 0
        self._probe: asyncio.Future[bool] | None = None
        self._sign = False
        """Anything was heard since the probe began."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Ask for the first time when the interval is over."""
        self._timer = self._loop.call_later(self._interval_s, self._tick)

    def stop(self) -> None:
        """The connection is gone. Safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
        self._answer_probe(False)

    def heard(self) -> None:
        """Anything at all came."""
        self._heard = self._sign = True

    def pong(self, body: object) -> None:
        """A PONG came."""
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
        could_hear = not connection.held and connection.released_at < self._asked_at
        if not self._heard and could_hear:
            connection.abort(SilentPeerError("no answer to PING"))
            return
        self._heard = False
        self._asked_at = self._loop.time()
        self._ping()
        self._timer = self._loop.call_later(self._interval_s, self._tick)

    async def is_alive(self, timeout_s: float) -> bool:
        """Whether the other side is there; a silent one is cut off after ``timeout_s``. Cancel-safe.

        What it sent before it went may still arrive, its end behind that: so only the PONG to our PING proves it; or,
        if that takes too long, anything heard since. True at once while the connection is held.
        """
        connection = self._connection
        if connection.closing or connection.held:
            return not connection.closing
        if self._probe is None:
            self._probe = self._loop.create_future()
            self._sign = False
            self._ping()
            self._loop.call_later(timeout_s, self._end_probe, self._probe)
        return await asyncio.shield(self._probe)

    def _end_probe(self, probe: "asyncio.Future[bool]") -> None:
        if probe.done():
            return
        alive = self._sign or self._connection.held
        if not alive:
            self._connection.abort(SilentPeerError("no sign of life when asked for one"))
        self._answer_probe(alive)

    def _answer_probe(self, alive: bool) -> None:
        probe, self._probe = self._probe, None
        if probe is not None and not probe.done():
            probe.set_result(alive)


ROUTES: Routes = {
    CommandType.PING: Route(lambda keepalive, body: commands.pong()),
    CommandType.PONG: Route(KeepAlive.pong),
}
