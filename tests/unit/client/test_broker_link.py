"""A link to a broker: its connection, its answers and its end, against real sessions and a scripted broker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.errors import LostError, NoAnswerError, UnreachableError
from engine.client.raw_producer import RawProducer
from engine.net.transport import Connection
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire.errors import REFUSALS, ServerError
from engine.wire.events import Command
from engine.wire.peer import Peer
from tests.support.broker_bench import NAME, PATIENT, link_to, served, until
from tests.support.net.pipe_network import PipeNetwork

pytestmark = pytest.mark.virtual_time

HURRY = LinkSettings(connect_timeout_s=0.1, request_timeout_s=0.1, keep_alive_s=30.0)


class Scripted(Connection):
    """A broker that passes each command to ``answer``."""

    def __init__(self, answer: Callable[["Scripted", Any], None]) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.answer = answer
        self.peer = Peer()

    def received(self, buf: bytes, pos: int, end: int) -> int:
        pos, events = self.peer.take(buf, pos, end)
        for event in events:
            assert isinstance(event, Command), event
            self.answer(self, event.command)
        return pos

    def connected(self) -> None:
        self.peer.sent_connected()
        self.send(commands.connected(server_version="scripted", protocol_version=21))


@asynccontextmanager
async def scripted(answer: Callable[[Scripted, Any], None]) -> AsyncIterator[int]:
    made: list[Scripted] = []

    def accept() -> Scripted:
        made.append(Scripted(answer))
        return made[-1]

    server = await PipeNetwork().listen("127.0.0.1", 0, accept)
    yield server.port
    for broker in made:
        broker.abort()
    server.close()


def connects(broker: Scripted, command: Any) -> None:
    if command.HasField("connect"):
        broker.connected()


async def test_a_request_is_answered_by_its_broker() -> None:
    async with served() as (_, sessions, url):
        link = await link_to(url)
        assert link.server_version.startswith("Pulsar Server")
        rid = link.new_id()
        answer = await link.request(rid, say.lookup(NAME.full, rid))
        assert answer.brokerServiceUrl == url
        link.close()
        await until(lambda: sessions.count == 0)


async def test_an_error_is_raised_as_what_it_is() -> None:
    async with served() as (_, _, url):
        link = await link_to(url)
        for frame, code in (
            (say.unsubscribe(99, 1), ServerError.MetadataError),  # an ERROR
            (say.lookup("bogus://x", 1), ServerError.InvalidTopicName),
            (say.get_schema(NAME.full, 1), ServerError.TopicNotFound),
            (say.consumer_stats(99, 1), ServerError.ConsumerNotFound),
        ):
            with pytest.raises(REFUSALS[code]):
                await link.request(1, frame)
        link.close()


async def test_an_unreachable_or_silent_broker_is_an_error() -> None:
    with pytest.raises(UnreachableError) as refused:
        await BrokerLink.open(PipeNetwork(), "127.0.0.1", 1, HURRY)
    assert refused.value.retriable
    async with scripted(lambda broker, command: None) as port:
        with pytest.raises(UnreachableError):
            await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, HURRY)


async def test_a_broker_that_hangs_up_during_the_handshake() -> None:
    async with scripted(lambda broker, command: broker.abort()) as port:
        with pytest.raises(UnreachableError):
            await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, PATIENT)


async def test_a_refused_connect_has_the_brokers_reason() -> None:
    def refuse(broker: Scripted, command: Any) -> None:
        code = ServerError.AuthenticationError
        broker.send(commands.error(commands.NO_REQUEST, code, "Failed to authenticate"))
        broker.close()

    async with scripted(refuse) as port:
        with pytest.raises(REFUSALS[ServerError.AuthenticationError], match="Failed to"):
            await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, PATIENT)


async def test_challenges_are_answered_before_and_after_connected() -> None:
    received: list[tuple[str, bytes]] = []

    def challenge(broker: Scripted, command: Any) -> None:
        if command.HasField("connect"):
            received.append((command.connect.auth_method_name, command.connect.auth_data))
            broker.peer.sent_challenge()
            broker.send(commands.auth_challenge("token", b"more?", 21))
        elif command.HasField("authResponse"):
            received.append(("response", command.authResponse.response.auth_data))
            if len(received) == 2:
                broker.connected()
                broker.send(commands.auth_challenge("token", commands.AUTH_REFRESH, 21))

    def credentials(asked: bytes) -> tuple[str, bytes]:
        return "token", b"for " + asked

    settings = LinkSettings(credentials=credentials, connect_timeout_s=60.0)
    async with scripted(challenge) as port:
        link = await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, settings)
        await until(lambda: len(received) == 3)
        assert received == [
            ("token", b"for "),
            ("response", b"for more?"),
            ("response", b"for " + commands.AUTH_REFRESH),
        ]
        link.close()


async def test_a_lost_link_fails_pending_and_later_requests() -> None:
    brokers: list[Scripted] = []

    def keep(broker: Scripted, command: Any) -> None:
        connects(broker, command)
        brokers.append(broker)

    async with scripted(keep) as port:
        link = await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, PATIENT)
        waiting = asyncio.ensure_future(link.request(1, say.lookup("t", 1)))
        await until(lambda: len(brokers) == 2)
        brokers[0].abort()
        with pytest.raises(LostError):
            await waiting
        with pytest.raises(LostError):
            await link.request(2, say.lookup("t", 2))
        with pytest.raises(LostError):
            await link.room()


async def test_a_request_without_an_answer_fails() -> None:
    async with scripted(connects) as port:
        link = await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, HURRY)
        with pytest.raises(NoAnswerError):
            await link.request(1, say.lookup("t", 1))
        link.close()


async def test_a_producer_that_came_too_late_leaves_and_the_one_opened_meanwhile_stays() -> None:
    """Open a producer again under its name after its first creation timed out."""
    held: list[Any] = []
    closed: list[int] = []

    def answer(broker: Scripted, command: Any) -> None:
        if command.HasField("connect"):
            broker.connected()
        elif command.HasField("close_producer"):
            closed.append(command.close_producer.producer_id)
        elif command.HasField("producer"):
            held.append((broker, command.producer))
            if len(held) > 1:
                succeed(*held[-1])

    def succeed(broker: Scripted, asked: Any) -> None:
        broker.send(commands.producer_success(asked.request_id, asked.producer_name))

    async with scripted(answer) as port:
        link = await BrokerLink.open(PipeNetwork(), "127.0.0.1", port, HURRY)
        with pytest.raises(NoAnswerError):
            await RawProducer.open(link, NAME.full, name="p", epoch=0)
        second = await RawProducer.open(link, NAME.full, name="p", epoch=1)
        succeed(*held[0])
        await until(lambda: closed)
        assert closed == [held[0][1].producer_id]
        assert second.error is None
        assert list(link.producers.values()) == [second]
        assert not link._undo
        link.close()
