"""Exclusive access of producers to a topic: admission, waiting, fencing, and the epoch after a restart."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from engine.broker.connection.produce import ProduceCommands
from engine.broker.errors import ProducerBusy, ProducerFenced, ServiceNotReady, TopicTerminated
from engine.broker.topics.publish import Producer
from engine.broker.topics.publishers import ADOPTED_MAX, EPOCH, stored_epoch
from engine.broker.topics.quotas import BacklogQuotas
from engine.managed.errors import ManagedLedgerError
from engine.managed.ledger import ManagedLedger
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time

ALONE, WAITS, FENCES = pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


def someone(
    bench: Bench,
    name: str,
    mode: pb.ProducerAccessMode = pb.Shared,
    *,
    client: Client | None = None,
    reconnects: int = 0,
    topic_epoch: int | None = None,
) -> Producer:
    return Producer(
        client or Client(),
        1,
        name,
        bench.topic,
        now_ms=0,
        epoch=reconnects,
        access_mode=mode,
        topic_epoch=topic_epoch,
    )


async def joined(bench: Bench, name: str, mode: pb.ProducerAccessMode = pb.Shared) -> Producer:
    producer = someone(bench, name, mode)
    assert not isinstance(await bench.topic.publishers.admit(producer), asyncio.Future)
    return producer


async def waiting(bench: Bench, name: str) -> tuple[Producer, "asyncio.Future[int]"]:
    producer = someone(bench, name, WAITS)
    future = await bench.topic.publishers.admit(producer)
    assert isinstance(future, asyncio.Future)
    return producer, future


async def refused(bench: Bench, producer: Producer, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{text}$"):
        await bench.topic.publishers.admit(producer)
    assert bench.topic.publishers.attached.get(producer.name) is not producer


async def test_an_exclusive_producer_keeps_all_others_out_until_it_leaves(bench: Bench) -> None:
    publishers = bench.topic.publishers
    assert await publishers.admit(someone(bench, "before")) is None
    await refused(
        bench, someone(bench, "e", ALONE), ProducerFenced, "Topic has existing shared producers"
    )
    publishers.attached["before"].leave()
    first = someone(bench, "e", ALONE)
    assert await publishers.admit(first) == 0
    taken = "Topic has an existing exclusive producer: e"
    await refused(bench, someone(bench, "s"), ProducerBusy, taken)
    await refused(bench, someone(bench, "f", ALONE), ProducerFenced, taken)
    first.leave()
    assert await publishers.admit(someone(bench, "s")) == 0
    publishers.attached["s"].leave()
    assert await publishers.admit(someone(bench, "f", ALONE)) == 1
    assert bench.topic.log.properties[EPOCH] == "1"


async def test_waiting_producers_are_admitted_one_after_the_other(bench: Bench) -> None:
    first = await joined(bench, "first", ALONE)
    second, second_turn = await waiting(bench, "second")
    third, third_turn = await waiting(bench, "third")
    _, fourth_turn = await waiting(bench, "fourth")
    third.leave()
    assert third_turn.cancelled()
    first.leave()
    assert await second_turn == 1
    assert list(bench.topic.producers.values()) == [second]
    assert not fourth_turn.done()
    second.leave()
    assert await fourth_turn == 2
    assert list(bench.topic.publishers.waiting) == []


async def test_a_waiting_producer_waits_for_shared_producers_and_keeps_new_ones_out(
    bench: Bench,
) -> None:
    first, second = [await joined(bench, name) for name in ("one", "two")]
    _, turn = await waiting(bench, "w")
    busy = "Topic has an existing exclusive producer: w"
    await refused(bench, someone(bench, "late"), ProducerBusy, busy)
    await refused(
        bench, someone(bench, "e", ALONE), ProducerFenced, "Topic has existing shared producers"
    )
    first.leave()
    await stays(lambda: not turn.done(), 0.05)
    second.leave()
    assert await turn == 0


async def test_a_refusal_without_a_waiting_client_logs_no_failure(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await joined(bench, "leader", ALONE)
    turn = await bench.topic.publishers.admit(someone(bench, "w", WAITS))
    assert isinstance(turn, asyncio.Future)
    await bench.topic.publishers.admit(someone(bench, "f", FENCES))
    await asyncio.sleep(0)
    del turn  # its client has stopped waiting
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_fencing_disconnects_all_other_producers_and_refuses_waiting_ones(
    bench: Bench,
) -> None:
    leader = await joined(bench, "leader", ALONE)
    _, turn = await waiting(bench, "w")
    fencing = someone(bench, "f", FENCES)
    assert await bench.topic.publishers.admit(fencing) == 1
    assert leader.closed
    assert leader.outlet.dropped == [1]  # type: ignore[attr-defined]
    with pytest.raises(ProducerFenced, match="Fenced by f"):
        await turn
    assert list(bench.topic.producers.values()) == [fencing]
    back = someone(bench, "leader", ALONE, reconnects=1, topic_epoch=0)
    moved = "Topic epoch has already moved. Current epoch: 1, Producer epoch: 0"
    await refused(bench, back, ProducerFenced, moved)
    for mode in (WAITS, FENCES):
        back = someone(bench, "leader", mode, reconnects=1, topic_epoch=0)
        await refused(bench, back, ProducerFenced, moved)


async def test_producers_that_fence_at_once_get_different_epochs(bench: Bench) -> None:
    first, second = (someone(bench, name, FENCES) for name in ("one", "two"))
    admit = bench.topic.publishers.admit
    assert await asyncio.gather(admit(first), admit(second)) == [0, 1]
    assert list(bench.topic.producers.values()) == [second]
    assert first.closed


async def test_a_producer_that_reconnects_keeps_its_epoch(bench: Bench) -> None:
    client = Client()
    publishers = bench.topic.publishers
    assert await publishers.admit(someone(bench, "e", ALONE, client=client)) == 0
    _, turn = await waiting(bench, "w")
    again = someone(bench, "e", ALONE, client=client, reconnects=1, topic_epoch=0)
    assert await publishers.admit(again) == 0
    assert not turn.done()
    assert client.dropped == []
    fencing = someone(bench, "e", FENCES, client=client, reconnects=2, topic_epoch=0)
    assert await publishers.admit(fencing) == 0
    assert (again.closed, client.dropped) == (True, [])


async def test_an_exclusive_producer_on_a_dead_connection_is_replaced(bench: Bench) -> None:
    client = Client()
    publishers = bench.topic.publishers
    await publishers.admit(someone(bench, "e", ALONE, client=client))
    client.alive = False
    assert await publishers.admit(someone(bench, "e", ALONE, reconnects=1, topic_epoch=0)) == 0
    publishers.attached["e"].outlet.alive = False  # type: ignore[attr-defined]
    assert await publishers.admit(someone(bench, "s")) == 0


async def test_the_epoch_outlives_the_broker(bench: Bench) -> None:
    await joined(bench, "e", ALONE)
    await bench.kill()
    topic = await bench.load(NAME)
    assert topic.publishers.epoch == 0
    late = someone(bench, "late", ALONE)
    assert await topic.publishers.admit(late) == 1
    late.leave()
    old = someone(bench, "e", ALONE, reconnects=1, topic_epoch=0)
    with pytest.raises(ProducerFenced, match="already moved"):
        await topic.publishers.admit(old)


async def test_an_epoch_that_no_broker_assigned_keeps_no_producer_out(bench: Bench) -> None:
    for claimed in (2**63 - 1, 2**64 - 1):
        claims = someone(bench, "claims", ALONE, topic_epoch=claimed)
        epoch = await bench.topic.publishers.admit(claims)
        assert isinstance(epoch, int)
        assert epoch < 2
        claims.leave()
    largest = someone(bench, "largest", ALONE, topic_epoch=ADOPTED_MAX)
    assert await bench.topic.publishers.admit(largest) == ADOPTED_MAX
    largest.leave()
    (await joined(bench, "next", ALONE)).leave()
    back = someone(bench, "next", ALONE, reconnects=1, topic_epoch=ADOPTED_MAX + 1)
    assert await bench.topic.publishers.admit(back) == ADOPTED_MAX + 1


@pytest.mark.parametrize(
    ("stored", "epoch"),
    [
        ("", None),
        ("7", 7),
        (str(2**63 - 2), 2**63 - 2),
        (str(2**63 - 1), None),
        (str(2**64 - 1), None),
        ("9" * 5000, None),
        ("-1", None),
        ("٣", None),
    ],
)
def test_a_stored_epoch_that_is_not_a_valid_number_is_none(stored: str, epoch: int | None) -> None:
    assert stored_epoch(stored) == epoch


async def test_an_epoch_that_cannot_be_stored_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    publishers = bench.topic.publishers
    shared = await joined(bench, "s")

    async def fails(*given: object) -> None:
        raise ManagedLedgerError("silent")

    with monkeypatch.context() as patch:
        patch.setattr(ManagedLedger, "update_properties", fails)
        with pytest.raises(ServiceNotReady, match="may not be stored: silent"):
            await publishers.admit(someone(bench, "f", FENCES))
        assert (publishers.attached, shared.closed) == ({"s": shared}, False)
        _, turn = await waiting(bench, "w")
        shared.leave()
        with pytest.raises(ServiceNotReady, match="silent"):
            await turn
    assert await publishers.admit(someone(bench, "e", ALONE)) == 0


async def test_a_waiting_producer_is_refused_when_the_topic_is_terminated(bench: Bench) -> None:
    await joined(bench, "e", ALONE)
    _, turn = await waiting(bench, "w")
    await bench.topic.terminate()
    with pytest.raises(TopicTerminated):
        await turn


async def test_a_client_is_answered_twice_when_its_producer_waits(bench: Bench) -> None:
    client = Client()
    commands = ProduceCommands(client, bench.context, bench.registry, bench.schemas)
    holder = await joined(bench, "e", ALONE)
    answers: list[pb.CommandProducerSuccess | pb.CommandError] = []

    def send(data: bytes) -> None:
        command = pb.BaseCommand.FromString(data[8:])
        answers.append(
            command.producer_success if command.HasField("producer_success") else command.error
        )

    client.send = send  # type: ignore[method-assign]

    async def ask(producer_id: int) -> None:
        client.send(
            await commands.producer(
                pb.CommandProducer(
                    topic=str(NAME),
                    producer_id=producer_id,
                    request_id=producer_id + 100,
                    producer_name=f"w{producer_id}",
                    producer_access_mode=WAITS,
                )
            )
        )

    for producer_id in (1, 2, 3):
        await ask(producer_id)
    assert [(answer.request_id, answer.producer_ready) for answer in answers] == [
        (101, False),
        (102, False),
        (103, False),
    ]
    await commands.close(pb.CommandCloseProducer(producer_id=1, request_id=9))
    holder.leave()
    await until(lambda: len(answers) == 4)
    ready = answers[3]
    assert (ready.request_id, ready.producer_ready, ready.topic_epoch) == (102, True, 1)
    assert list(commands.producers) == [2]
    await bench.registry.unload(NAME)
    await until(lambda: len(answers) == 5)
    assert (answers[4].request_id, answers[4].error) == (103, pb.ServiceNotReady)
    commands.disconnected()


async def test_a_client_that_disconnects_no_longer_waits(bench: Bench) -> None:
    commands = ProduceCommands(Client(), bench.context, bench.registry, bench.schemas)
    holder = await joined(bench, "e", ALONE)
    await commands.producer(
        pb.CommandProducer(
            topic=str(NAME),
            producer_id=1,
            request_id=1,
            producer_name="w",
            producer_access_mode=WAITS,
        )
    )
    assert len(bench.topic.publishers.waiting) == 1
    commands.disconnected()
    assert bench.topic.publishers.waiting == {}
    holder.leave()
    await joined(bench, "s")


async def test_a_producer_closed_during_its_creation_is_not_attached(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ProduceCommands(Client(), bench.context, bench.registry, bench.schemas)
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow(self: BacklogQuotas) -> None:
        asked.set()
        await go.wait()

    body = pb.CommandProducer(topic=str(NAME), producer_id=1, request_id=7, producer_name="p")
    with monkeypatch.context() as patch:
        patch.setattr(BacklogQuotas, "admit", slow)
        making = asyncio.ensure_future(commands.producer(body))
        await asked.wait()
        await commands.close(pb.CommandCloseProducer(producer_id=1, request_id=8))
        go.set()
        with pytest.raises(ServiceNotReady, match="closed while it was being created"):
            await making
    assert not bench.topic.producers
    await commands.producer(body)
    assert list(bench.topic.producers) == ["p"]
