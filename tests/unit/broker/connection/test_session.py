"""A request always gets an answer while its connection lasts."""

import asyncio
import gc
import weakref
from types import SimpleNamespace

import pytest

from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.judge import ALLOWED
from engine.base.ids import EARLIEST
from engine.base.names import TopicName
from engine.broker.connection import consume, lookups, produce, schemas, transactions, watches
from engine.broker.errors import ConsumerBusy, NotAllowed, PersistenceError, ServiceNotReady
from engine.broker.topics.publish import Publish
from engine.broker.topics.topic import Topic
from engine.metadata.store import StoreUnavailableError
from engine.net import handshake, keepalive
from engine.wire import client_commands as say
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes, command_frame
from engine.wire.kernels import take_sends
from engine.wire.states import REQUESTS, CommandType
from tests.support.broker_bench import NAME, opened
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time


async def test_a_request_whose_work_is_cancelled_by_others_is_answered_as_retriable() -> None:
    async with opened() as bench:
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
async def test_a_client_that_ignores_a_retriable_refusal_is_sent_a_close(
    client: str, refusal: BaseException, answers: list[str]
) -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]

        async def get(name: TopicName, *, create: bool) -> Topic:
            raise refusal

        bench.registry.get = get  # type: ignore[method-assign]
        frame = say.subscribe(NAME.full, "s", 0, 5, 7, durable=True)
        session.received(say.connect(client) + frame, 0, len(say.connect(client) + frame))
        async with asyncio.timeout(120):
            while (commands := _commands(sent)[1:]) == []:
                await asyncio.sleep(0)
        assert [pb.BaseCommand.Type.Name(command.type) for command in commands] == answers
        assert commands[0].error.request_id == 7
        assert all(command.close_consumer.consumer_id == 5 for command in commands[1:])
        session.closed(None)


async def test_commands_behind_connect_wait_for_its_answer() -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        judged: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()
        assert session._live is not None
        session._live.handshake._authenticate = lambda credentials: judged
        identities: list[Identity] = []
        session._live.requests._judge = SimpleNamespace(
            judge=lambda identity, *_: identities.append(identity) or ALLOWED
        )
        session.data_received(say.connect("test") + say.lookup(NAME.full, 1))
        await asyncio.sleep(0)
        assert _commands(sent) == []
        assert session.identity == UNAUTHENTICATED
        judged.set_result(Identity("app"))
        async with asyncio.timeout(120):
            while len(commands := _commands(sent)) < 2:
                await asyncio.sleep(0)
        assert [command.type for command in commands] == [
            CommandType.CONNECTED,
            CommandType.LOOKUP_RESPONSE,
        ]
        assert identities == [Identity("app")]
        session.closed(None)
        # Requests that end after the connection still need the identity.
        assert session.identity == Identity("app")


async def test_a_close_received_with_its_open_takes_effect() -> None:
    """Close what the client closed: an exclusive subscription would else be busy until the connection ends."""
    async with opened() as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        watch = command_frame(
            "watchTopicList",
            request_id=3,
            watcher_id=1,
            namespace="public/default",
            topics_pattern=".*",
        )
        opening = say.producer(NAME.full, 1, 1) + say.subscribe(NAME.full, "s", 0, 1, 2) + watch
        closing = say.close_producer(1, 4) + say.close_consumer(1, 5)
        closing += command_frame("watchTopicListClose", request_id=6, watcher_id=1)
        session.data_received(say.connect("test") + opening + closing)
        assert session._live is not None
        async with asyncio.timeout(120):
            while session._live.tasks._tasks:
                await asyncio.sleep(0)
        assert (session.producers, session.consumers) == (0, 0)
        assert not session._live.watches._open
        assert (bench.topic.subscriptions["s"].consumers, bench.topic.publishers.busy) == (
            [],
            False,
        )
        session.closed(None)


def test_every_request_of_the_protocol_has_its_family() -> None:
    families = (handshake, keepalive, produce, consume, lookups, schemas, watches)
    done = [*(kind for family in families for kind in family.ROUTES), *transactions.ROUTES]
    by_run = {CommandType.SEND}
    assert sorted(done) == sorted({CommandType.CONNECT, *REQUESTS} - by_run)


@pytest.mark.parametrize(
    ("name", "kind", "answer"),
    [
        (NAME.full, pb.CommandSubscribe.Exclusive, "success {"),
        (NAME.full, pb.CommandSubscribe.Failover, "success {"),
        (NAME.full, pb.CommandSubscribe.Shared, "only allowed on failover or exclusive"),
        (NAME.full.replace("persistent:", "non-persistent:"), 0, "only valid on persistent topics"),
    ],
)
async def test_a_compacted_read_is_one_of_a_persistent_topic_by_one_consumer(
    name: str, kind: int, answer: str
) -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        request = say.subscribe(name, "s", kind, 5, 7, durable=True, read_compacted=True)
        session.data_received(say.connect("test") + request)
        async with asyncio.timeout(120):
            while not any(answer in str(command) for command in _commands(sent)):
                await asyncio.sleep(0)
        session.closed(None)


async def test_messages_do_not_overtake_the_answer_to_an_earlier_request() -> None:
    async with opened() as bench:
        await bench.publish(3)
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        session.send_parts = lambda parts: sent.extend(b"".join(parts))  # type: ignore[method-assign]
        request = say.subscribe(NAME.full, "r", 0, 5, 7, durable=False, start=EARLIEST)
        session.data_received(say.connect("test") + request)
        async with asyncio.timeout(120):
            while CommandType.SUCCESS not in [command.type for command in _commands(sent)]:
                await asyncio.sleep(0)
            sent.clear()
            session.data_received(say.get_last_message_id(5, 8) + say.flow(5, 10))
            while CommandType.MESSAGE not in [command.type for command in _commands(sent)]:
                await asyncio.sleep(0)
        first = _commands(sent)[0]
        assert first.type == CommandType.GET_LAST_MESSAGE_ID_RESPONSE
        assert first.getLastMessageIdResponse.last_message_id.entryId == 2
        session.closed(None)


async def test_the_last_message_of_a_batch_that_claims_no_messages_has_no_index() -> None:
    async with opened() as bench:
        entry = entry_of(b"v", num_messages_in_batch=-(1 << 31))
        data = frames.payload_frame(
            command_bytes("send", {"producer_id": 1, "sequence_id": 0}), entry
        )
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        Publish(run, bench.producer).start()
        async with asyncio.timeout(120):
            while not bench.publisher.receipts:
                await asyncio.sleep(0.001)
        assert await bench.topic.last_message.read() == (bench.topic.log.last_confirmed, -1)


async def test_a_closed_connection_is_freed_without_the_garbage_collector() -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        requests = say.producer(NAME.full, 3, 1) + say.subscribe(NAME.full, "s", 0, 5, 2)
        session.data_received(say.connect("test") + requests)
        async with asyncio.timeout(120):
            while {CommandType.PRODUCER_SUCCESS, CommandType.SUCCESS} - {
                command.type for command in _commands(sent)
            }:
                await asyncio.sleep(0)
        left = weakref.ref(session)
        gc.disable()
        try:
            session.connection_lost(None)
            del session
            async with asyncio.timeout(120):
                while left() is not None:
                    await asyncio.sleep(0.001)
        finally:
            gc.enable()


def _commands(sent: bytearray) -> list[pb.BaseCommand]:
    commands, pos = [], 0
    while pos < len(sent):
        stop = frames.frame_end(bytes(sent), pos, len(sent), 1 << 24)
        start, end = frames.command_span(bytes(sent), pos, stop)
        commands.append(pb.BaseCommand.FromString(bytes(sent[start:end])))
        pos = stop
    return commands


async def test_a_session_that_has_ended_has_no_parts_and_does_nothing() -> None:
    async with opened() as bench:
        session = bench.sessions().accept()
        session.closed(None)
        assert (session.producers, session.consumers) == (0, 0)
        assert await session.is_alive() is False
        session.drop_consumer(1)
        session.drop_producer(1)
        session.writable()
        assert session.received(b"rest", 0, 4) == 4
