"""A handshake that takes its time: nothing read meanwhile is lost, or judged by the wrong state."""

import asyncio
from collections.abc import Awaitable

import pytest

from engine.base.tasks import TaskScope
from engine.net.handshake import Authenticate, Challenge, Handshake, Verdict, allow_all
from engine.wire import client_commands as say
from engine.wire import commands
from engine.wire.errors import CodedError, ServerError
from engine.wire.events import Command, Event, Violation
from engine.wire.peer import Peer
from tests.support.net.lines import Line

pytestmark = pytest.mark.virtual_time
CONNECT = say.connect("test", auth_method_name="token", auth_data=b"good")
BEHIND = commands.ping() + say.flow(1, 5) + say.lookup("t", 9)


class NotGood(CodedError):
    code = ServerError.AuthenticationError


class Served(Line):
    """The serving side with nothing behind its handshake: other commands are noted."""

    def __init__(self, authenticate: Authenticate) -> None:
        super().__init__()
        self.done: list[str] = []
        self.connected = 0
        self._peer = Peer()
        self._handshake = Handshake(
            self,
            self._peer,
            TaskScope("test"),
            authenticate,
            server_version="test",
            max_message_size=1000,
            feature_flags={},
            connected=self._connected,
        )
        self._handshake.start(10.0)

    def _connected(self) -> None:
        self.connected += 1

    def received(self, buf: bytes, pos: int, end: int) -> int:
        before = -1
        while pos != before and not self.closing:
            if self._handshake.waiting:
                self._handshake.defer(buf[pos:end])
                return end
            before = pos
            pos, events = self._peer.take(buf, pos, end)
            for event in events:
                self._do(event)
        return pos

    def _do(self, event: Event) -> None:
        if isinstance(event, Violation):
            self.close(event.error)
            return
        assert isinstance(event, Command)
        command = event.command
        if command.HasField("connect"):
            self._handshake.connect(command.connect)
        elif command.HasField("authResponse"):
            self._handshake.auth_response(command.authResponse)
        else:
            self.done.append(commands.command_name(command.type))


class Judge:
    """Decides when told. Asks once more for those who show "half"."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.decide = asyncio.Event()

    def __call__(self, method: str, data: bytes) -> Awaitable[Verdict]:
        self.asked.append((method, data))
        return self._judge(data)

    async def _judge(self, data: bytes) -> Verdict:
        await self.decide.wait()
        if data == b"half":
            return Challenge("token", b"and the rest?")
        if data != b"good":
            raise NotGood("Failed to authenticate")
        return None


async def settled() -> None:
    await asyncio.sleep(0.001)


@pytest.mark.parametrize("cut", range(0, len(CONNECT + BEHIND), 7))
async def test_what_came_behind_connect_is_done_in_order_once_the_judge_is_content(
    cut: int,
) -> None:
    judge = Judge()
    served = Served(judge)
    stream = CONNECT + BEHIND
    served.data_received(stream[:cut])
    await settled()
    served.data_received(stream[cut:-3])
    await settled()
    assert (served.done, served.kinds(), served.held) == ([], [], True)
    judge.decide.set()
    await settled()
    assert judge.asked == [("token", b"good")]
    assert served.kinds() == ["CONNECTED"]
    assert (served.done, served.held) == (["PING", "FLOW"], False)
    served.data_received(stream[-3:])
    assert served.done == ["PING", "FLOW", "LOOKUP"]
    assert served.connected == 1


async def test_a_judge_who_decides_at_once_needs_no_waiting() -> None:
    served = Served(allow_all)
    served.data_received(CONNECT + BEHIND)
    assert served.kinds() == ["CONNECTED"]
    assert served.done == ["PING", "FLOW", "LOOKUP"]


async def test_a_challenge_is_answered_before_anything_else() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    served.data_received(say.connect("test", auth_method_name="token", auth_data=b"half"))
    await settled()
    [challenge] = served.said()
    assert challenge.authChallenge.challenge.auth_data == b"and the rest?"
    served.data_received(say.auth_response("token", b"good") + BEHIND)
    await settled()
    assert served.kinds() == ["CONNECTED"]
    assert served.done == ["PING", "FLOW", "LOOKUP"]


async def test_other_commands_do_not_answer_a_challenge() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    half = say.connect("test", auth_method_name="token", auth_data=b"half")
    served.data_received(half + commands.ping())
    await settled()
    assert served.ends == ["closed: PING in state challenged"]
    assert served.done == []


async def test_who_is_refused_is_told_why_and_leaves() -> None:
    judge = Judge()
    judge.decide.set()
    served = Served(judge)
    served.data_received(say.connect("test", auth_method_name="token", auth_data=b"bad") + BEHIND)
    await settled()
    [error] = served.said()
    assert error.error.request_id == commands.NO_REQUEST
    assert error.error.error == ServerError.AuthenticationError
    assert error.error.message == "Failed to authenticate"
    assert served.ends == ["closed: refused: Failed to authenticate"]
    assert served.done == []


async def test_a_client_that_says_nothing_is_not_waited_for() -> None:
    served = Served(allow_all)
    await asyncio.sleep(11)
    assert served.ends == ["closed: no CONNECT within 10 s"]


async def test_nor_is_a_judge_who_never_decides() -> None:
    served = Served(Judge())
    served.data_received(CONNECT)
    await asyncio.sleep(11)
    assert served.ends == ["closed: not authenticated within 10 s"]


async def test_a_finished_handshake_has_no_deadline() -> None:
    served = Served(allow_all)
    served.data_received(CONNECT)
    await asyncio.sleep(11)
    assert served.ends == []
