"""A request always gets an answer while its connection lasts."""

import asyncio
from pathlib import Path

import pytest

from engine.base.names import TopicName
from engine.broker.connection import consume, lookups, produce, schemas
from engine.broker.connection.session import TRANSACTIONS
from engine.broker.errors import ConsumerBusy, NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.topics.topic import Topic
from engine.metadata.store import StoreUnavailableError
from engine.net import handshake, keepalive
from engine.wire import client_commands as say
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.states import REQUESTS, CommandType
from tests.support.broker_bench import NAME, opened


async def test_a_request_whose_work_is_cancelled_by_others_is_told_to_try_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        shared: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        session.answer_later(asyncio.shield(shared), 7)
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
        session = bench.sessions().accept()
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


async def test_what_comes_behind_connect_waits_for_its_answer(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        judged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session._handshake._authenticate = lambda method, data: judged
        session.data_received(say.connect("test") + say.lookup(NAME.full, 1))
        await asyncio.sleep(0)
        assert _commands(sent) == []
        judged.set_result(None)
        async with asyncio.timeout(120):
            while len(told := _commands(sent)) < 2:
                await asyncio.sleep(0)
        assert [one.type for one in told] == [CommandType.CONNECTED, CommandType.LOOKUP_RESPONSE]
        session.closed(None)


def test_every_request_of_the_protocol_has_its_family() -> None:
    families = (handshake, keepalive, produce, consume, lookups, schemas)
    done = [*(kind for family in families for kind in family.ROUTES), *TRANSACTIONS]
    by_run = {CommandType.SEND}
    assert sorted(done) == sorted({CommandType.CONNECT, *REQUESTS} - by_run)


def _commands(sent: bytearray) -> list[pb.BaseCommand]:
    found, pos = [], 0
    while pos < len(sent):
        stop = frames.whole_frame(bytes(sent), pos, len(sent), 1 << 24)
        start, end = frames.command_span(bytes(sent), pos, stop)
        found.append(pb.BaseCommand.FromString(bytes(sent[start:end])))
        pos = stop
    return found
