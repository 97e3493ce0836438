"""A request always gets an answer while its connection lasts."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine.base.names import TopicName
from engine.broker.connection.session import Session
from engine.broker.errors import ConsumerBusy, NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.topics.topic import Topic
from engine.metadata.store import StoreUnavailableError
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, opened


async def test_a_request_whose_work_is_cancelled_by_others_is_told_to_try_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        session = Session(bench.registry, lambda ended: None)
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        shared: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        session._start(asyncio.shield(shared), 7)
        await asyncio.sleep(0)
        shared.cancel()
        async with asyncio.timeout(120):
            while not sent:
                await asyncio.sleep(0)
        start, stop = frames.command_span(bytes(sent), 0, len(sent))
        answer = pb.BaseCommand.FromString(bytes(sent[start:stop]))
        assert answer.error.request_id == 7
        assert answer.error.error == pb.ServiceNotReady
        session.closed(None)


@pytest.mark.parametrize(
    ("client", "refusal", "answers"),
    [
        ("Pulsar-CPP-v4.2.0", ServiceNotReady("being unloaded"), ["ERROR", "CLOSE_CONSUMER"]),
        ("Pulsar-CPP-v4.2.0", PersistenceError("not loaded"), ["ERROR", "CLOSE_CONSUMER"]),
        ("Pulsar-CPP-v4.2.0", StoreUnavailableError("silent"), ["ERROR", "CLOSE_CONSUMER"]),
        ("Pulsar-CPP-v4.2.0", asyncio.CancelledError(), ["ERROR", "CLOSE_CONSUMER"]),
        ("Pulsar-CPP-v4.2.0", ConsumerBusy("taken"), ["ERROR", "CLOSE_CONSUMER"]),
        ("Pulsar-CPP-v4.2.0", NotAllowed("never"), ["ERROR"]),
        ("Pulsar-Java-v4.0.8", ServiceNotReady("being unloaded"), ["ERROR"]),
    ],
)
async def test_a_client_that_would_wait_for_ever_after_a_refusal_is_told_to_come_again(
    tmp_path: Path, client: str, refusal: BaseException, answers: list[str]
) -> None:
    async with opened(tmp_path) as bench:
        session = Session(bench.registry, lambda ended: None)
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]

        async def get(name: TopicName, *, create: bool) -> Topic:
            raise refusal

        bench.registry.get = get  # type: ignore[method-assign]
        frame = say.subscribe(NAME.full, "s", 0, 5, 7, durable=True)
        session.received(say.connect(client) + frame, 0, len(say.connect(client) + frame))
        async with asyncio.timeout(120):
            while (told := _commands(sent)[1:]) == []:
                await asyncio.sleep(0)
        assert [pb.BaseCommand.Type.Name(one.type) for one in told] == answers
        assert told[0].error.request_id == 7
        assert all(one.close_consumer.consumer_id == 5 for one in told[1:])
        session.closed(None)


async def test_only_the_answer_to_the_ping_proves_that_a_client_is_there(tmp_path: Path) -> None:
    """Not what it sent before it went: its end may be right behind that."""
    async with opened(tmp_path) as bench:
        session = Session(bench.registry, lambda ended: None)
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        hear(session, say.connect("Pulsar-Go"))

        gone = asyncio.ensure_future(session.is_alive())
        await asyncio.sleep(0)
        hear(session, commands.ping())
        await asyncio.sleep(0)
        assert not gone.done()
        session.closed(None)
        assert await gone is False


async def test_an_answer_to_an_earlier_ping_proves_nothing_and_one_to_each_is_proof(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        session = Session(bench.registry, lambda ended: None)
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        hear(session, say.connect("Pulsar-Go"))
        session._keep_alive()

        asked = asyncio.ensure_future(session.is_alive())
        await asyncio.sleep(0)
        hear(session, commands.pong())
        await asyncio.sleep(0)
        assert not asked.done()
        hear(session, commands.pong())
        assert await asked is True
        session.closed(None)


@pytest.mark.parametrize("heard", [True, False])
async def test_a_client_too_busy_for_the_ping_is_taken_for_alive_and_a_silent_one_is_not(
    tmp_path: Path, heard: bool
) -> None:
    async with opened(tmp_path) as bench:
        settings = replace(bench.registry.settings, connection_liveness_check_timeout_millis=0)
        bench.registry.settings = settings
        session = Session(bench.registry, lambda ended: None)
        session.send = lambda data: None  # type: ignore[method-assign]
        ends: list[object] = []
        session.abort = ends.append  # type: ignore[method-assign, assignment]
        hear(session, say.connect("Pulsar-Go"))

        asked = asyncio.ensure_future(session.is_alive())
        await asyncio.sleep(0)
        if heard:
            hear(session, commands.ping())
        assert await asked is heard
        assert len(ends) == (not heard)
        session.closed(None)


def hear(session: Session, data: bytes) -> None:
    session.received(data, 0, len(data))


def _commands(sent: bytearray) -> list[pb.BaseCommand]:
    found, pos = [], 0
    while pos < len(sent):
        stop = frames.whole_frame(bytes(sent), pos, len(sent), 1 << 24)
        start, end = frames.command_span(bytes(sent), pos, stop)
        found.append(pb.BaseCommand.FromString(bytes(sent[start:end])))
        pos = stop
    return found
