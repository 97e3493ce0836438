"""The producer endpoint between a real socket and a real broker: receipts, errors by context, bounds both ways."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.broker.errors import NotAllowed, TopicTerminated
from gateway.ws import producer
from tests.support.admin.cluster_socket import ClusterSocket, cluster_with
from tests.support.broker_bench import NAME, Bench, served, until
from tests.support.net.socket_pair import SocketPair
from tests.support.waiting import stays
from tests.unit.client.test_client import client_of

PATH = f"/ws/v2/producer/{NAME.full.replace('://', '/')}"


def frame(content: bytes, **more: Any) -> str:
    payload = base64.b64encode(content).decode()
    return json.dumps({"payload": payload, "context": content.decode(), **more})


@asynccontextmanager
async def opened(query: str = "") -> AsyncIterator[tuple[Bench, ClusterSocket]]:
    async with served() as (bench, _, url):
        cluster = cluster_with(client_of(url, operation_timeout_s=5.0))
        pair = await ClusterSocket(cluster, f"{PATH}{query}").opened()
        try:
            yield bench, pair
        finally:
            await pair.hang_up()
            assert cluster.part(producer.all_in_flight).items == 0
            await cluster.client.close()


async def answers(pair: SocketPair, count: int) -> list[dict[str, Any]]:
    return [json.loads(await pair.receive()) for _ in range(count)]


class Held:
    """Runs published to the topic and held until ``go``."""

    def __init__(self, bench: Bench) -> None:
        self.runs: list[Any] = []
        self._publish = bench.publish_by(lambda run: self.runs.append(run))

    @property
    def count(self) -> int:
        return sum(publication.run.count for publication in self.runs)

    def go(self) -> None:
        runs, self.runs = self.runs, []
        for run in runs:
            self._publish(run)


def sent(held: Held) -> bytes:
    """Return the content of the last message that the topic received."""
    if not held.runs:
        return b""
    run = held.runs[-1].run
    return run.buf[run.spans[-2] : run.spans[-1]][-1:]


async def test_a_message_is_answered_when_the_broker_has_confirmed_it() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(frame(b"a"), frame(b"b"))
        await until(lambda: held.count == 2)
        assert pair.texts.empty(), "sent is not stored"
        held.go()
        replies = await answers(pair, 2)
        assert [(reply["result"], reply["context"]) for reply in replies] == [
            ("ok", "a"),
            ("ok", "b"),
        ]
        assert len({reply["messageId"] for reply in replies}) == 2


async def test_messages_received_together_are_one_run_and_one_write() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(*(frame(b"%d" % number) for number in range(200)))
        await until(lambda: held.count == 200)
        assert len(held.runs) == 1
        before = pair.transport.writes
        held.go()
        replies = await answers(pair, 200)
        assert [reply["context"] for reply in replies] == [str(number) for number in range(200)]
        assert pair.transport.writes - before <= 2


async def test_an_error_is_answered_by_its_own_context_and_harms_no_other() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        for content in (b"a", b"b", b"c"):
            pair.send(frame(content))
            await until(lambda: sent(held) == content)  # noqa: B023
        pair.send(frame(b"d", payload="***"), "no json", "[]")
        held.runs.pop(1).refuse(NotAllowed("not this one"))
        held.go()
        replies = await answers(pair, 6)
        results = {reply.get("context"): reply["result"] for reply in replies}
        assert results == {
            "a": "ok",
            "b": "send-error:8",
            "c": "ok",
            "d": "send-error:7",
            None: "send-error:3",
        }


async def test_a_terminated_topic_is_reported_and_the_socket_stays() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(frame(b"a"))
        await until(lambda: held.runs)
        held.runs.pop().refuse(TopicTerminated("Topic was already terminated"))
        [answer] = await answers(pair, 1)
        assert answer["result"] == "send-error:8"
        assert "terminated" in answer["errorMsg"]
        pair.send(frame(b"b"))
        assert [reply["context"] for reply in await answers(pair, 1)] == ["b"]


async def test_messages_without_a_receipt_are_resent_when_the_topic_moves() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(frame(b"a"), frame(b"b"))
        await until(lambda: held.count == 2)
        await bench.kill()
        pair.send(frame(b"c"))
        replies = await answers(pair, 3)
        assert [(reply["result"], reply["context"]) for reply in replies] == [
            ("ok", "a"),
            ("ok", "b"),
            ("ok", "c"),
        ]


async def test_the_socket_is_not_read_while_too_many_messages_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer, "IN_FLIGHT_MAX", 3)
    async with opened() as (bench, pair):
        held = Held(bench)
        for number in range(8):
            pair.send(frame(b"%d" % number))
        await until(lambda: held.count == 3)
        assert not pair.transport.reading
        held.go()
        await answers(pair, 3)
        await until(lambda: held.count == 5)  # what waited came in one read
        held.go()
        assert [reply["context"] for reply in await answers(pair, 5)] == list("34567")
        assert pair.transport.reading


async def test_the_socket_is_not_read_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "IN_FLIGHT_BYTES_MAX", 6000)
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(frame(b"a" * 2000))
        pair.send(frame(b"b" * 2000))
        pair.send(frame(b"c"))
        await until(lambda: held.count == 2)
        assert not pair.transport.reading
        held.go()
        await answers(pair, 2)
        await until(lambda: held.count == 1)
        held.go()
        assert [reply["context"] for reply in await answers(pair, 1)] == ["c"]


@pytest.mark.parametrize(
    "fields",
    [{"properties": {"k": "v" * 2000}}, {"context": "c" * 2000}, {"key": "k" * 2000}],
)
async def test_fields_beside_the_payload_count_for_the_size(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    monkeypatch.setattr(producer, "IN_FLIGHT_BYTES_MAX", 3000)
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(json.dumps({"payload": "", **fields}))
        pair.send(json.dumps({"payload": "", **fields}))
        await until(lambda: held.count == 2)
        assert not pair.transport.reading
        held.go()
        await answers(pair, 2)
        assert pair.transport.reading


async def test_all_sockets_together_are_bounded() -> None:
    async with opened() as (bench, pair):
        pair.cluster.part(producer.all_in_flight).take(producer.ALL_IN_FLIGHT_BYTES_MAX, 1)
        held = Held(bench)
        pair.send(frame(b"a" * producer.IN_FLIGHT_BYTES_OWN))
        pair.send(frame(b"b"))
        await until(lambda: held.count == 1)
        assert not pair.transport.reading
        pair.cluster.part(producer.all_in_flight).give(producer.ALL_IN_FLIGHT_BYTES_MAX, 1)
        await until(lambda: held.count == 2)
        held.go()
        await answers(pair, 2)


async def test_messages_that_wait_for_ever_stop_no_other_socket() -> None:
    """Fill the budget that all sockets share with messages that no topic accepts."""
    async with opened() as (_, pair):
        pair.cluster.part(producer.all_in_flight).take(producer.ALL_IN_FLIGHT_BYTES_MAX, 1)
        for number in range(5):
            pair.send(frame(b"%d" % number, properties={"large": "x" * 300_000}))
            pair.send(frame(b"small"))
            assert [reply["result"] for reply in await answers(pair, 2)] == ["ok", "ok"]
        large = frame(b"y" * (producer.IN_FLIGHT_BYTES_OWN * 2))
        pair.send(large)
        pair.send(large)
        assert [reply["result"] for reply in await answers(pair, 2)] == ["ok", "ok"]
        pair.cluster.part(producer.all_in_flight).give(producer.ALL_IN_FLIGHT_BYTES_MAX, 1)


async def test_a_client_that_reads_no_answers_is_not_read_from() -> None:
    async with opened() as (_, pair):
        pair.reads = False
        context = "x" * 100_000
        sent = 0
        while pair.transport.reading:
            pair.send(json.dumps({"payload": "", "context": context}))
            sent += 1
            await asyncio.sleep(0.01)
            assert sent < 100, "unread answers are kept without bound"
        pair.send(json.dumps({"payload": "", "context": "last"}))
        await stays(lambda: not pair.transport.reading, 0.05)
        pair.reads = True
        pair.transport.drain()
        replies = await answers(pair, sent + 1)
        assert replies[-1]["context"] == "last"
        assert {reply["result"] for reply in replies} == {"ok"}


async def test_the_parameters_are_those_of_the_producer() -> None:
    query = (
        "?producerName=mine&initialSequenceId=7&batchingEnabled=true&batchingMaxMessages=5"
        "&batchingMaxPublishDelay=60000&compressionType=LZ4&hashingScheme=Murmur3_32Hash"
        "&messageRoutingMode=RoundRobinPartition&sendTimeoutMillis=5000&maxPendingMessages=500"
    )
    async with opened(query) as (bench, pair):
        pair.send(*(frame(b"%d" % number, key="k") for number in range(5)))
        assert [reply["result"] for reply in await answers(pair, 5)] == ["ok"] * 5
        [attached] = bench.topic.producers.values()
        assert attached.name == "mine"
        assert attached.published.messages.total == 5


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("?compressionType=x", 400, "Invalid compressionType x"),
        ("?hashingScheme=x", 400, "Invalid hashingScheme x"),
        ("?batchingEnabled=true&batchingMaxPublishDelay=0", 400, "Delay must be from 1"),
        ("?batchingEnabled=true&maxPendingMessages=-1", 400, "maxPendingMessages must be from 0"),
        ("?producerName=", 400, "producerName cannot be blank"),
        ("?encryptionKeys=k", 500, "without configuring cryptoKeyReader"),
    ],
)
async def test_a_bad_parameter_refuses_the_handshake(query: str, status: int, text: str) -> None:
    async with opened(query) as (bench, pair):
        assert pair.response is not None
        assert pair.response.status_code == status
        assert text in pair.response.body.decode()
        assert bench.topic.producers == {}


async def test_a_name_that_is_taken_is_a_conflict() -> None:
    async with opened("?producerName=mine") as (bench, pair):
        other = await ClusterSocket(pair.cluster, f"{PATH}?producerName=mine").opened()
        assert other.response is not None
        assert other.response.status_code == 409
        assert "already connected" in other.response.body.decode()
        await other.hang_up()
        assert list(bench.topic.producers) == ["mine"]


async def test_a_path_names_the_cluster_that_is_published_to() -> None:
    async with served() as (bench, _, url):
        west = cluster_with(client_of(url, operation_timeout_s=5.0), "west")
        east = cluster_with(client_of("pulsar://127.0.0.1:1", operation_timeout_s=0.1), "east")
        pair = await ClusterSocket(east, f"/clusters/west{PATH}", west).opened()
        assert pair.response is not None
        assert pair.response.status_code == 101
        assert len(bench.topic.producers) == 1
        moon = await ClusterSocket(east, f"/clusters/moon{PATH}", west).opened()
        assert moon.response is not None
        assert moon.response.status_code == 404
        assert "serves the clusters east, west, not moon" in moon.response.body.decode()
        for socket in (pair, moon):
            await socket.hang_up()
        for cluster in (east, west):
            await cluster.client.close()


async def test_nothing_is_left_of_a_socket_that_ended() -> None:
    async with opened() as (bench, pair):
        held = Held(bench)
        pair.send(frame(b"a"))
        await until(lambda: held.count == 1)
        ending = asyncio.ensure_future(pair.hang_up())
        await asyncio.sleep(0)
        held.go()
        await ending
        await until(lambda: not bench.topic.producers)
