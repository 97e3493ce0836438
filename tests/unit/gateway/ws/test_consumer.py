"""The consumer and reader endpoints between a real socket and the client: permits, acknowledgements, bounds."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import Attachment, ConsumerSettings
from engine.client.consuming.incoming import Incoming
from engine.client.consuming.topic_consumer import TopicConsumer
from engine.client.message_ids import MessageId
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message
from gateway.clusters.registry import KEY, Clusters
from gateway.ws import consumer, sockets
from gateway.ws.replies import PERMITS_MAX
from gateway.ws.rights import Opening
from tests.support.admin.cluster_socket import ClusterSocket, cluster_with
from tests.support.admin.clusters import cluster_without_link
from tests.support.broker_bench import NAME, Bench, served
from tests.support.net.socket_pair import SocketPair
from tests.unit.client.consuming.client_bench import Publisher, until
from tests.unit.client.test_client import client_of

TOPIC = NAME.full.replace("://", "/")
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)


def text_of(number: int) -> str:
    return base64.b64encode(MessageId(Position(7, number)).serialized()).decode()


async def settled() -> None:
    """Let everything run that is ready."""
    for _ in range(12):
        await asyncio.sleep(0)


class Talk:
    """A socket's life under way, its messages played by the test. ``out``: deliveries that the client has not answered,
    by message."""

    def __init__(self, endpoint: consumer.ConsumerEndpoint) -> None:
        self.endpoint = endpoint
        made = ConsumerSettings("s", nack_delay_s=3600.0)
        endpoint.consumer = TopicConsumer(client_of(), made, endpoint.deliver, endpoint.end)
        self.source = Attachment(endpoint.consumer.client, endpoint.consumer, made, NAME.full)
        endpoint.consumer._attachments[NAME.full] = self.source
        self.pair = SocketPair(self._application, "/")
        self.out: Counter[int] = Counter()

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        async def opened(client: PulsarClient) -> consumer.ConsumerEndpoint:
            return self.endpoint

        names, cluster = Opening(("persistent://t/n/x",)), cluster_without_link()
        scope[KEY] = Clusters(cluster)
        await sockets.run(scope, receive, send, "reader", cluster, lambda: names, opened)

    def deliver(self, *numbers: int) -> None:
        """Deliver a run from the broker."""
        run = [
            Incoming(self.source, Position(7, number), 0, METADATA, METADATA, b"%d" % number)
            for number in numbers
        ]
        self.endpoint.consumer.receive(self.source, run)

    async def newly_sent(self) -> list[int]:
        """Return the numbers of the messages sent to the client since the last call, once everything has settled."""
        await settled()
        numbers = []
        while not self.pair.texts.empty():
            numbers.append(
                int(base64.b64decode(json.loads(self.pair.texts.get_nowait())["payload"]))
            )
        self.out.update(numbers)
        return numbers

    async def say(self, **frame: Any) -> None:
        self.pair.send(json.dumps(frame))
        await settled()

    async def answer(self, number: int, kind: str | None = None) -> None:
        self.out.pop(number, None)
        await self.say(messageId=text_of(number), **({"type": kind} if kind else {}))

    @property
    def acknowledged(self) -> list[int]:
        return [position.entry_id for position in self.source._acks]


@asynccontextmanager
async def talking(
    size: int = 1, *, pull: bool = False, reader: bool = False
) -> AsyncIterator[Talk]:
    talk = Talk(
        consumer.ReaderEndpoint(size) if reader else consumer.ConsumerEndpoint(size, pull=pull)
    )
    await talk.pair.opened()
    await settled()
    try:
        yield talk
    finally:
        await talk.pair.hang_up()
        await talk.endpoint.consumer.client.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["ack", "negativeAcknowledge", "bogus"]), st.integers(0, 7)),
    ),
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 4), steps=STEPS)
async def test_permits_are_conserved_in_push_mode(size: int, steps: list[tuple[str, int]]) -> None:
    """Deliver, redeliver and answer in any order: unanswered messages stay within the permits, which all return."""
    async with talking(size) as talk:
        waiting = talk.endpoint.consumer._queue
        for what, number in steps:
            if what == "deliver":
                talk.deliver(number)
            else:
                await talk.answer(number, None if what == "ack" else what)
            await talk.newly_sent()
            assert talk.out.total() <= size
            assert talk.out.total() == size or not waiting, "held back with room left"
        while talk.out:
            await talk.answer(next(iter(talk.out)))
            await talk.newly_sent()
        talk.deliver(*range(100, 101 + size))
        assert await talk.newly_sent() == list(range(100, 100 + size)), "the window is whole again"


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.one_of(STEPS.map(lambda s: s[:3]), st.integers(1, 3)), max_size=10))
async def test_permits_are_conserved_in_pull_mode(steps: list[Any]) -> None:
    """Check that as many messages are delivered as the client permitted, redelivered ones too; answers permit none."""
    permitted = sent = 0
    async with talking(pull=True) as talk:
        for step in steps:
            if isinstance(step, int):
                await talk.say(type="permit", permitMessages=step)
                permitted += step
            else:
                for what, number in step:
                    if what == "deliver":
                        talk.deliver(number)
                    else:
                        await talk.answer(number, None if what == "ack" else what)
            sent += len(await talk.newly_sent())
            assert sent <= permitted
            assert sent == permitted or not talk.endpoint.consumer._queue


async def test_redelivered_messages_use_no_budget_for_good() -> None:
    async with talking(4) as talk:
        for _ in range(10):  # as after as many restarts of the broker
            talk.deliver(1, 2, 1, 2)
            assert await talk.newly_sent() == [1, 2, 1, 2]
            for number in (1, 2, 1, 2):  # a client answers every frame
                await talk.answer(number)
        talk.deliver(1, 2, 3, 4)
        assert await talk.newly_sent() == [1, 2, 3, 4]


async def test_a_run_leaves_in_one_write_and_answers_go_together() -> None:
    async with talking(1000) as talk:
        before = talk.pair.transport.writes
        talk.deliver(*range(200))
        assert await talk.newly_sent() == list(range(200))
        assert talk.pair.transport.writes - before <= 2
        talk.pair.send(*(json.dumps({"messageId": text_of(number)}) for number in range(200)))
        await settled()
        assert talk.acknowledged == list(range(200))


async def test_a_message_is_acknowledged_only_when_the_client_acknowledges_it() -> None:
    async with talking(9) as talk:
        talk.deliver(1, 2, 3)
        await talk.newly_sent()
        await talk.answer(2, "negativeAcknowledge")
        await talk.say(type="isEndOfTopic")
        assert json.loads(talk.pair.texts.get_nowait()) == {"endOfTopic": False}
        await talk.answer(3)
    assert talk.acknowledged == [3]


async def test_one_permit_frame_may_add_to_another_without_bound() -> None:
    async with talking(pull=True) as talk:
        for _ in range(3):
            await talk.say(type="permit", permitMessages=PERMITS_MAX)
        talk.deliver(1)
        assert await talk.newly_sent() == [1]


async def test_an_answer_is_accepted_in_any_spelling() -> None:
    async with talking(9) as talk:
        talk.deliver(*range(5))
        await talk.newly_sent()
        spellings = [
            '{"messageId":"%s"}',
            '{"messageId": "%s"}',
            ' {"x":[1],"messageId":"%s"} rest',
        ]
        spellings += ['{"messageId":"%s","type":5}', '{"type":null,"messageId":"%s"}']
        talk.pair.send(*(spelling % text_of(at) for at, spelling in enumerate(spellings)))
        await settled()
        assert talk.acknowledged == list(range(5))


async def test_messages_sent_to_an_earlier_socket_can_be_answered_here() -> None:
    async with talking(1) as talk:
        await talk.answer(3)
        await talk.answer(4, "negativeAcknowledge")
        assert talk.acknowledged == [3]
        assert len(talk.endpoint.consumer._refused) == 1
        talk.deliver(8, 9)
        assert await talk.newly_sent() == [8], "that made no room"


async def test_a_client_that_does_not_read_is_given_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with talking(1000) as talk:
        talk.pair.reads = False
        for start in range(0, 500, 10):
            run = [
                Incoming(talk.source, Position(7, start + i), 0, METADATA, METADATA, b"x" * 40_000)
                for i in range(10)
            ]
            talk.endpoint.consumer.receive(talk.source, run)
            await settled()
        port = talk.endpoint._port
        assert port is not None
        assert not port.writable
        assert port.buffered_bytes() < 3 << 20
        assert talk.endpoint.consumer.full, "so that the broker is asked for no more"
        talk.pair.reads = True
        while not port.writable or talk.endpoint.consumer._queue:
            talk.pair.transport.drain()
            await settled()
        await settled()
        assert talk.pair.texts.qsize() == 500


async def test_a_reader_continues_with_any_answer_but_never_beyond_its_size() -> None:
    async with talking(2, reader=True) as talk:
        talk.deliver(*range(6))
        assert await talk.newly_sent() == [0, 1]
        await talk.say(anything=1)
        assert await talk.newly_sent() == [2]
        await talk.say(messageId=None)
        await talk.say(messageId="***")
        assert await talk.newly_sent() == [3, 4]
        for _ in range(9):
            await talk.answer(0)
        assert await talk.newly_sent() == [5]
        talk.deliver(*range(10, 20))
        assert await talk.newly_sent() == [10, 11]


@asynccontextmanager
async def opened(*paths: str) -> AsyncIterator[tuple[Bench, list[ClusterSocket]]]:
    """Sockets of a real broker."""
    async with served() as (bench, _, url):
        cluster = cluster_with(client_of(url, operation_timeout_s=5.0))
        pairs = [await ClusterSocket(cluster, f"/ws/v2/{path}").opened() for path in paths]
        try:
            yield bench, pairs
        finally:
            for pair in pairs:
                await pair.hang_up()
            await cluster.client.close()


async def test_messages_of_every_form_are_one_frame_each() -> None:
    paths = (
        f"consumer/{TOPIC}/s?cryptoFailureAction=CONSUME",
        f"reader/{TOPIC}?messageId=earliest",
    )
    async with opened(*paths) as (_, pairs):
        publisher = await Publisher.to(pairs[0].cluster.client)
        await publisher.entry(Message(b"one", "k", properties={"a": 'ü"\\'}, event_ms=1000))
        await publisher.entry(b"two", b"three", compression=1)
        for index in range(2):
            about = {"uuid": "u", "chunk_id": index, "num_chunks_from_msg": 2}
            await publisher.entry(b"%d" % index, extra=about)
        secret = {"encryption_keys": [{"key": "k1", "value": b"v"}], "encryption_param": b"p"}
        await publisher.entry(b"?", b"?", extra=secret)
        for pair, is_reader in zip(pairs, (False, True), strict=True):
            frames = [json.loads(await pair.receive()) for _ in range(4 if is_reader else 5)]
            assert [base64.b64decode(frame["payload"]) for frame in frames[:4]] == [
                *(b"one", b"two", b"three", b"01")
            ]
            ledger = MessageId.parse(base64.b64decode(frames[0]["messageId"])).position.ledger_id
            assert frames[0] == {
                "messageId": frames[0]["messageId"],
                "payload": "b25l",
                "properties": {"a": 'ü"\\'},
                "publishTime": "1970-01-01T00:00:01Z",
                "redeliveryCount": 0,
                "eventTime": "1970-01-01T00:00:01Z",
                "key": "k",
            }
            ids = [MessageId.parse(base64.b64decode(frame["messageId"])) for frame in frames[1:4]]
            assert ids == [
                MessageId(Position(ledger, 1), -1, 0, 2),
                MessageId(Position(ledger, 1), -1, 1, 2),
                MessageId(Position(ledger, 3), first_chunk=Position(ledger, 2)),
            ]
            assert is_reader or frames[4]["encryptionContext"] == {
                "keys": {"k1": {"keyValue": "dg==", "metadata": {}}},
                "param": "cA==",
                "compressionType": "NONE",
                "uncompressedMessageSize": 0,
                "batchSize": 2,
            }


async def test_a_subscription_that_is_gone_ends_the_socket() -> None:
    async with opened(f"consumer/{TOPIC}/s") as (bench, (pair,)):
        attached = pair.client
        await until(lambda: bench.subscription.consumers)
        assert attached.close_rcvd is None
        pair.send(json.dumps({"type": "unsubscribe"}))
        await until(lambda: not bench.topic.subscriptions)
        pair.send(json.dumps({"messageId": text_of(1)}), json.dumps({"type": "isEndOfTopic"}))
        assert json.loads(await pair.receive()) == {"endOfTopic": False}
        assert attached.close_rcvd is None
