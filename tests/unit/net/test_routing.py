"""Answers that are immediate, late, refused or abandoned, and the bound on pending requests."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.judge import ALLOWED, Judgement, Verdict
from engine.auth.resource_names import Resource
from engine.auth.rights import OPENED, PUBLIC, Right
from engine.base.clock import LoopClock
from engine.base.errors import InvalidNameError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.metadata.store import StoreUnavailableError
from engine.net.refused_commands import RefusedCommands
from engine.net.routing import Route, Router, refused
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire.errors import REFUSALS, ProtocolViolation, ServerError
from engine.wire.states import CommandType
from tests.support.net.lines import Line

APP = Identity("app")


class Family:
    """Handlers that answer LOOKUPs once ``ready`` is set, SUBSCRIBEs at once and UNSUBSCRIBEs never."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def lookup(self, body: Any) -> bytes:
        return await asyncio.shield(self.ready)

    def subscribe(self, body: Any) -> bytes:
        return commands.success(body.request_id)

    def unsubscribe(self, body: Any) -> Awaitable[bytes] | None:
        return None

    def close(self, body: Any) -> bytes:
        return commands.success(body.request_id)


def named(body: Any) -> TopicName:
    try:
        return TopicName.parse(body.topic)
    except InvalidNameError as error:
        raise REFUSALS[ServerError.InvalidTopicName](str(error)) from error


def made(
    waiting_max: int = 4, judge: Callable[..., Judgement] = lambda *about: ALLOWED
) -> tuple[Line, Family, Router]:
    line, family = Line(), Family()
    requests = Router(
        line,
        TaskScope("test"),
        waiting_max,
        SimpleNamespace(judge=judge),
        lambda: APP,
        RefusedCommands(LoopClock()),
    )
    requests.add(
        family,
        {
            CommandType.LOOKUP: Route(Family.lookup, Right(Action.LOOKUP, TopicName, named)),
            CommandType.SUBSCRIBE: Route(Family.subscribe, Right(Action.CONSUME, TopicName, named)),
            CommandType.UNSUBSCRIBE: Route(Family.unsubscribe, OPENED),
            CommandType.CLOSE_CONSUMER: Route(Family.close, OPENED),
            CommandType.PING: Route(lambda family, body: commands.pong(), PUBLIC),
            CommandType.NEW_TXN: refused("no"),
        },
    )
    return line, family, requests


def parsed(frame: bytes) -> Any:
    return commands.parse(frame, *frames.command_span(frame, 0, len(frame)))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_each_command_gets_the_answer_of_its_family() -> None:
    line, family, requests = made()
    requests.handle(parsed(say.lookup("t", 1)))
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 2)))
    requests.handle(parsed(say.unsubscribe(1, 3)))
    requests.handle(parsed(commands.command_frame("newTxn", request_id=4)))
    await settled()
    assert [(answer.success.request_id, answer.error.error) for answer in line.said()] == [
        (2, 0),
        (0, ServerError.NotAllowedError),
    ]
    family.ready.set_result(commands.success(1))
    await settled()
    assert [answer.success.request_id for answer in line.said()] == [1]


async def test_a_connection_is_held_while_too_many_requests_wait() -> None:
    line, family, requests = made(waiting_max=4)
    held = []
    for number in range(4):
        requests.handle(parsed(say.lookup("t", number)))
        held.append(line.held)
    assert held == [False, False, False, True]
    family.ready.set_result(b"")
    await settled()
    assert not line.held


async def test_a_request_that_breaks_the_protocol_ends_the_connection() -> None:
    line, family, requests = made()
    requests.handle(parsed(say.lookup("t", 1)))
    family.ready.set_exception(ProtocolViolation("no such thing"))
    await settled()
    assert line.ends == ["closed: no such thing"]
    assert line.said() == []


# --- rights -------------------------------------------------------------------------------------

NO = Verdict(False, "role app lacks consume on the topic")


def test_a_route_states_the_rights_of_its_command() -> None:
    with pytest.raises(TypeError):
        Route(Family.subscribe)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="states the rights"):
        Route(Family.subscribe, ())


async def test_the_judge_receives_the_identity_the_action_and_the_resource() -> None:
    asked: list[tuple[Identity, Action, Resource]] = []

    def judge(*about: Any) -> Judgement:
        asked.append(about)
        return ALLOWED

    line, _, requests = made(judge=judge)
    requests.handle(parsed(say.subscribe("persistent://a/b/t", "s", 0, 1, 2)))
    requests.handle(parsed(say.unsubscribe(1, 3)))
    assert asked == [(APP, Action.CONSUME, TopicName.parse("persistent://a/b/t"))]
    assert [command.success.request_id for command in line.said()] == [2]


async def test_a_refused_command_reaches_no_handler_and_is_answered_with_the_reason() -> None:
    line, _, requests = made(judge=lambda *about: NO)
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 2)))
    (answer,) = line.said()
    assert (answer.error.request_id, answer.error.error, answer.error.message) == (
        2,
        ServerError.AuthorizationError,
        NO.reason,
    )


async def test_a_command_whose_resource_is_not_valid_is_refused_before_the_judge() -> None:
    line, _, requests = made(judge=lambda *about: NO)
    requests.handle(parsed(say.subscribe("x://a/b", "s", 0, 1, 2)))
    assert [command.error.error for command in line.said()] == [ServerError.InvalidTopicName]


@pytest.mark.parametrize("later", [False, True])
async def test_an_unavailable_judge_gives_a_retriable_error(later: bool) -> None:
    async def fail() -> Verdict:
        raise StoreUnavailableError("the store does not answer")

    def judge(*about: Any) -> Judgement:
        if later:
            return fail()
        raise StoreUnavailableError("the store does not answer")

    line, _, requests = made(judge=judge)
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 2)))
    await settled()
    assert [command.error.error for command in line.said()] == [ServerError.ServiceNotReady]
    assert not line.held


async def test_commands_behind_one_that_is_being_judged_keep_their_order() -> None:
    verdicts = [asyncio.get_running_loop().create_future() for _ in range(2)]
    pending = iter(verdicts)
    line, _, requests = made(judge=lambda *about: next(pending))
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 1)))
    requests.handle(parsed(say.close_consumer(1, 2)))
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 3)))
    requests.handle(parsed(say.close_consumer(1, 4)))
    requests.handle(parsed(commands.command_frame("ping")))
    await settled()
    assert line.held
    assert line.kinds() == ["PONG"]
    verdicts[0].set_result(ALLOWED)
    await settled()
    assert line.held
    assert [command.success.request_id for command in line.said()] == [1, 2]
    verdicts[1].set_result(NO)
    await settled()
    assert [max(c.success.request_id, c.error.request_id) for c in line.said()] == [3, 4]
    assert not line.held
    requests.handle(parsed(say.close_consumer(1, 5)))
    assert [command.success.request_id for command in line.said()] == [5]


async def test_a_connection_that_ends_while_the_judge_decides_serves_nothing_more() -> None:
    verdict = asyncio.get_running_loop().create_future()
    line, _, requests = made(judge=lambda *about: verdict)
    requests.handle(parsed(say.subscribe("t", "s", 0, 1, 1)))
    requests.handle(parsed(say.close_consumer(1, 2)))
    await settled()
    line.closing = True
    verdict.set_result(ALLOWED)
    await settled()
    assert line.said() == []
