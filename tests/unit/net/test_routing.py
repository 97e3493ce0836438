"""Answers: at once, later, refused, given up; and how many may be waited for."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from engine.base.tasks import TaskScope
from engine.net.routing import Route, Router, refused
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire.errors import ProtocolViolation, ServerError
from engine.wire.states import CommandType
from tests.support.net.lines import Line


class Family:
    """LOOKUPs are answered when ``ready`` says what, SUBSCRIBEs at once, UNSUBSCRIBEs never."""

    def __init__(self) -> None:
        self.ready: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def lookup(self, body: Any) -> bytes:
        return await asyncio.shield(self.ready)

    def subscribe(self, body: Any) -> bytes:
        return commands.success(body.request_id)

    def unsubscribe(self, body: Any) -> Awaitable[bytes] | None:
        return None


def made(waiting_max: int = 4) -> tuple[Line, Family, Router]:
    line, family = Line(), Family()
    requests = Router(line, TaskScope("test"), waiting_max)
    requests.add(
        family,
        {
            CommandType.LOOKUP: Route(Family.lookup),
            CommandType.SUBSCRIBE: Route(Family.subscribe),
            CommandType.UNSUBSCRIBE: Route(Family.unsubscribe),
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
    assert [(one.success.request_id, one.error.error) for one in line.said()] == [
        (2, 0),
        (0, ServerError.NotAllowedError),
    ]
    family.ready.set_result(commands.success(1))
    await settled()
    assert [one.success.request_id for one in line.said()] == [1]


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
