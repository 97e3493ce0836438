"""Handshakes of a broker's clients: CONNECT, AUTH_RESPONSE and other commands in any order, their bytes changed or not.

Whatever arrives, nothing is served before credentials were accepted, and the role stays the first accepted one.
"""

import asyncio
from collections.abc import Awaitable

from engine.auth.credentials import AuthenticationFailed, Challenge, Credentials, RolesRefused
from engine.auth.identity import Identity
from engine.base.clock import LoopClock
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.net.handshake import Handshake, Verdict
from engine.net.keepalive import KeepAlive
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire.events import Command, Event, Violation
from engine.wire.peer import Peer
from engine.wire.states import SERVING
from tests.fuzz.target import Target
from tests.support.net.lines import Line

GOOD, OTHER, HALF, LATER, ENDED = b"good", b"other", b"half", b"later", b"ended"


class Judge:
    """Accepts ``good`` and ``other`` as roles, ``half`` by a challenge, ``later`` as ``good`` but not at once, and
    ``ended`` as ``good`` with an end that is past."""

    def __init__(self) -> None:
        self.accepted: list[str] = []

    def __call__(self, credentials: Credentials) -> Verdict | Awaitable[Verdict]:
        if credentials.method != "token":
            raise AuthenticationFailed("another method")
        if credentials.original_principal is not None:
            raise RolesRefused("Invalid roles.")
        match credentials.data:
            case b"half":
                return Challenge("token", b"and the rest?")
            case b"later":
                return self._later()
            case b"good" | b"ended":
                return self._accept("good", 1.0 if credentials.data == ENDED else None)
            case b"other":
                return self._accept("other", None)
            case _:
                raise AuthenticationFailed("bad data")

    def _accept(self, role: str, expires_at: float | None) -> Identity:
        self.accepted.append(role)
        return Identity(role, method="token", expires_at=expires_at)

    async def _later(self) -> Verdict:
        await asyncio.sleep(0)
        return self._accept("good", None)


class Served(Line):
    """The serving side of a connection, which checks each command that passes its handshake."""

    def __init__(self) -> None:
        super().__init__()
        self.judge = Judge()
        self.done: list[str] = []
        self.tasks = TaskScope("handshakes")
        self._peer = Peer(self.frame_max)
        self._keepalive = KeepAlive(self, 30.0)
        self.handshake = Handshake(
            self,
            self._peer,
            self.tasks,
            self.judge,
            clock=LoopClock(),
            server_version="test",
            max_message_size=1000,
            feature_flags={},
            connected=lambda: None,
        )
        self.handshake.start(10.0)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        before = -1
        while pos != before and not self.closing:
            if self.handshake.waiting:
                self.handshake.defer(buf[pos:end])
                return end
            before = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                if self.closing:
                    break
                self._handle(event)
        return pos

    def _handle(self, event: Event) -> None:
        if isinstance(event, Violation):
            self.close(event.error)
            return
        name = type(event).__name__
        if isinstance(event, Command):
            command = event.command
            if command.HasField("connect"):
                self.handshake.connect(command.connect)
                return
            if command.HasField("authResponse"):
                self.handshake.auth_response(command.authResponse)
                return
            name = commands.command_name(command.type)
        assert self.handshake.client.connected, f"{name} before CONNECTED"
        assert self._peer.state in SERVING
        self.done.append(name)

    def check(self) -> None:
        """Check what must hold after any bytes."""
        role, accepted = self.handshake.client.identity.role, self.judge.accepted
        assert self.handshake.client.connected == bool(accepted)
        assert role == (accepted[0] if accepted else None)
        assert not self.done or accepted
        kinds = self.kinds()
        assert kinds.count("CONNECTED") == bool(accepted)
        assert kinds.count("ERROR") <= 1


async def play(data: bytes, cut: int = 0) -> Served:
    """Return the serving side after these bytes, received in two parts."""
    served = Served()
    served.data_received(data[:cut])
    await asyncio.sleep(0)
    if not served.closing:
        served.data_received(data[cut:])
    for _ in range(4):
        await asyncio.sleep(0)
    served.handshake.stop()
    served.tasks.cancel()
    served.check()
    return served


LOOP = asyncio.new_event_loop()


def handshake(data: bytes) -> None:
    served = LOOP.run_until_complete(play(data, len(data) // 2))
    if not served.judge.accepted:
        raise MagnetarError("not accepted")


def shows(data: bytes, method: str = "token") -> bytes:
    return say.connect("test", auth_method_name=method, auth_data=data)


STEPS: dict[str, bytes] = {
    **{f"CONNECT {data.decode()}": shows(data) for data in (GOOD, HALF, LATER, ENDED, b"bad")},
    "CONNECT of no method": say.connect("test"),
    "CONNECT for another": say.connect(
        "test", auth_method_name="token", auth_data=GOOD, original_principal="root"
    ),
    **{
        f"AUTH_RESPONSE {data.decode()}": say.auth_response("token", data)
        for data in (GOOD, OTHER, HALF, b"bad")
    },
    "AUTH_RESPONSE of another method": say.auth_response("basic", GOOD),
    "AUTH_RESPONSE without data": commands.command_frame("authResponse", client_version="test"),
    "PING": commands.ping(),
    "LOOKUP": say.lookup("t", 1),
}
"""Commands of which a handshake may be made, in any order."""
HANDSHAKES = (
    Target(
        "handshakes",
        handshake,
        [
            STEPS["CONNECT good"] + STEPS["PING"],
            STEPS["CONNECT half"] + STEPS["AUTH_RESPONSE good"] + STEPS["LOOKUP"],
            STEPS["CONNECT later"] + STEPS["LOOKUP"] + STEPS["AUTH_RESPONSE other"],
            STEPS["CONNECT bad"] + STEPS["PING"],
        ],
        (MagnetarError,),
        words=[GOOD, OTHER, HALF, LATER, ENDED, *STEPS.values()],
    ),
)
