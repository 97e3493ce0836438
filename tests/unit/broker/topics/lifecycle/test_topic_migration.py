"""Migration of a topic to another cluster: nothing is missed there, and clients follow in time."""

from collections.abc import AsyncIterator, Collection
from typing import Any

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.connection.consume import ConsumeCommands
from engine.broker.connection.produce import ProduceCommands
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ServiceNotReady, TopicMigrated
from engine.broker.ports import MigrationTarget
from engine.broker.topics.geo.topic_replication import TopicReplication
from engine.client.errors import UnreachableError
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, Client, commands_in, opened, round_of, until

pytestmark = pytest.mark.virtual_time

GREEN = MigrationTarget("pulsar://green:6650", "", {"brokerServiceUrl": "pulsar://green:6650"})
EPHEMERAL = TopicName.parse("non-persistent://public/default/now")
Migrated = pb.CommandTopicMigrated


class Green:
    """The other cluster: subscriptions made there."""

    def __init__(self) -> None:
        self.subscriptions: list[str] = []
        self.reachable = True

    async def prepare(
        self, target: MigrationTarget, topic: TopicName, subscriptions: Collection[str]
    ) -> None:
        if not self.reachable:
            raise UnreachableError("no connection to green")
        self.subscriptions += subscriptions


class Seen(Client):
    """A client that keeps each TOPIC_MIGRATED, which must precede the close."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, int, str]] = []

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            if command.HasField("topicMigrated"):
                body = command.topicMigrated
                assert not self.dropped, "told after the close"
                self.told.append((body.resource_type, body.resource_id, body.brokerServiceUrl))
        super().send(data)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        made.context.remotes = Green()  # type: ignore[assignment]
        yield made


def green(bench: Bench) -> Green:
    remotes: Any = bench.context.remotes
    return remotes  # type: ignore[no-any-return]


async def produce(bench: Bench, client: Client, name: TopicName = NAME) -> ProduceCommands:
    commands = ProduceCommands(client, bench.context, bench.registry, bench.schemas)  # type: ignore[arg-type]
    await commands.producer(pb.CommandProducer(topic=str(name), producer_id=4, request_id=1))
    return commands


async def migrate(bench: Bench) -> None:
    bench.everything.target = GREEN
    await round_of(bench, "migration")


async def test_producers_are_sent_on_and_refused_afterwards(bench: Bench) -> None:
    client = Seen()
    await produce(bench, client)
    await migrate(bench)
    assert client.told == [(Migrated.Producer, 4, GREEN.url)]
    assert client.dropped == [4]
    assert bench.topic.log.properties == {"migrated": "true"}
    assert bench.topic.terminated
    again = Seen()
    with pytest.raises(TopicMigrated) as caught:
        await produce(bench, again)
    assert caught.value.retriable
    assert again.told == [(Migrated.Producer, 4, GREEN.url)]


async def test_g5_consumers_follow_once_their_subscription_is_drained(bench: Bench) -> None:
    await bench.publish(2)
    client = Seen()
    consumer, _ = await bench.join(SubscriptionType.SHARED, client=client)
    await until(lambda: len(client.received) == 2)
    await migrate(bench)
    assert green(bench).subscriptions == ["s"]
    assert (client.told, client.dropped) == ([], [])
    bench.subscription.acknowledge(consumer, client.received[:1])
    assert client.told == []
    bench.subscription.acknowledge(consumer, client.received[1:])
    assert client.told == [(Migrated.Consumer, 1, GREEN.url)]
    assert client.dropped == [1]
    assert "REACHED_END_OF_TOPIC" not in client.kinds


async def test_g5_nothing_ends_here_before_the_other_cluster_has_the_subscriptions(
    bench: Bench,
) -> None:
    client = Seen()
    await produce(bench, client)
    await bench.join(SubscriptionType.SHARED)
    green(bench).reachable = False
    await migrate(bench)
    assert not bench.topic.terminated
    assert client.dropped == []
    green(bench).reachable = True
    await round_of(bench, "migration")
    assert bench.topic.terminated
    assert client.told


async def test_a_subscription_made_after_the_end_is_made_there_before_its_consumer_follows(
    bench: Bench,
) -> None:
    await migrate(bench)
    client = Seen()
    await bench.join(SubscriptionType.SHARED, client=client)
    assert (client.told, green(bench).subscriptions) == ([], [])
    await round_of(bench, "migration")
    assert green(bench).subscriptions == ["s"]
    assert client.told == [(Migrated.Consumer, 1, GREEN.url)]


async def test_g5_producers_wait_until_replicators_have_sent_everything(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicReplication, "backlog", 1)
    client = Seen()
    await produce(bench, client)
    await migrate(bench)
    assert (client.told, client.dropped) == ([], [4])
    with pytest.raises(ServiceNotReady, match="sent to all clusters"):
        await produce(bench, client)
    monkeypatch.setattr(TopicReplication, "backlog", 0)
    again = Seen()
    with pytest.raises(TopicMigrated):
        await produce(bench, again)
    assert again.told


async def test_a_migrated_topic_stays_migrated_when_it_is_loaded_again(bench: Bench) -> None:
    await bench.publish(1)
    await bench.join(SubscriptionType.SHARED)
    await migrate(bench)
    await bench.registry.unload(NAME)
    await bench.load()
    assert bench.topic.migration.begun
    with pytest.raises(TopicMigrated):
        await produce(bench, Seen())


async def test_new_topics_are_made_in_the_other_cluster(bench: Bench) -> None:
    bench.everything.target = GREEN
    client = Seen()
    with pytest.raises(TopicMigrated):
        await produce(bench, client, TopicName.parse("persistent://public/default/new"))
    commands = ConsumeCommands(client, bench.context, bench.registry, bench.schemas)  # type: ignore[arg-type]
    commands.subscribe(
        pb.CommandSubscribe(
            topic="persistent://public/default/new",
            subscription="s",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=7,
            request_id=2,
        )
    )
    with pytest.raises(TopicMigrated):
        await client.answers[0]
    assert client.told == [
        (Migrated.Producer, 4, GREEN.url),
        (Migrated.Consumer, 7, GREEN.url),
    ]


async def test_older_clients_are_disconnected_alone(bench: Bench) -> None:
    client = Seen()
    client.protocol_version = 19
    await produce(bench, client)
    await migrate(bench)
    assert (client.told, client.dropped) == ([], [4])


async def test_clients_of_a_non_persistent_topic_follow_at_once(bench: Bench) -> None:
    await bench.load(EPHEMERAL)
    client = Seen()
    await produce(bench, client, EPHEMERAL)
    reader = Seen()
    consumer = Consumer(
        reader,
        1,
        "c",
        SubscriptionType.SHARED,
        settings=bench.context.settings,
        partition=-1,
        now_ms=0,
        acknowledges=False,
    )
    await bench.topic.subscriptions.attach(
        consumer, "s", durable=True, initial=Position(0, 0), properties={}
    )
    await migrate(bench)
    assert client.told == [(Migrated.Producer, 4, GREEN.url)]
    assert reader.told == [(Migrated.Consumer, 1, GREEN.url)]
    assert green(bench).subscriptions == []


async def test_topics_stay_without_a_migration(bench: Bench) -> None:
    client = Seen()
    await produce(bench, client)
    await round_of(bench, "migration")
    assert (client.told, client.dropped) == ([], [])
    assert not bench.topic.terminated
