"""A topic states its end to its shadow topics, whose clients read its entries at their positions."""

from collections.abc import AsyncIterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from engine.base.ids import Position
from engine.base.names import SHADOW_SOURCE, NamespaceName, TopicName
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.policies import BacklogPolicies, DeduplicationPolicies, TopicPolicies
from engine.broker.topics.geo.shadow_link import ShadowLink, ShadowLinks
from engine.broker.topics.topic import Topic
from engine.client.errors import RefusedError
from engine.client.raw_producer import RawProducer
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.wire.geo.shadow_statements import shadow_link_name, statement
from tests.support.broker_bench import NAME, Bench, link_to, served, until
from tests.support.instances.replicated_pair import Remotes

pytestmark = pytest.mark.virtual_time

SHADOW = NamespaceName.parse("public/default").topic("shadow")
LINKED = TopicPolicies(shadows=(SHADOW.full,))


class Shadowed:
    """A source topic and its shadow, served by one broker at ``url``."""

    def __init__(self, bench: Bench, url: str, remotes: Remotes) -> None:
        self.bench, self.url, self.remotes = bench, url, remotes

    async def begin(self) -> Topic:
        """Link the source to the shadow topic from now on; return the shadow."""
        store = self.bench.cluster.store
        record = LogRecord(properties={SHADOW_SOURCE: NAME.full})
        path = paths.managed_ledger(SHADOW.managed_ledger_name)
        await store.create(path, record.encode(), make_parents=True)
        self.bench.everything.in_force = LINKED
        await self.bench.registry.unload(NAME)
        await self.bench.load()
        return await self.shadow()

    async def shadow(self) -> Topic:
        return await self.bench.registry.get(SHADOW, create=False)

    @property
    def link(self) -> ShadowLink:
        return self.bench.topic.shadows.links[SHADOW]

    def caught_up(self, shadow: Topic) -> bool:
        return shadow.log.last_readable == self.bench.topic.log.last_readable


@pytest.fixture
async def pair() -> AsyncIterator[Shadowed]:
    async with served() as (bench, _, url):
        remotes = Remotes(bench, {bench.context.identity.cluster: url})
        bench.context.remotes = remotes  # type: ignore[assignment]
        yield Shadowed(bench, url, remotes)
        await bench.registry.close()
        await remotes.close()


async def test_a_shadow_topic_has_the_entries_at_their_positions(pair: Shadowed) -> None:
    shadow = await pair.begin()
    cursor = await shadow.log.open_cursor(
        "s", InitialPosition.EARLIEST, durable=True, cursor_properties={}
    )
    await pair.bench.publish(20)
    await until(lambda: pair.caught_up(shadow))
    assert cursor.backlog_entries() == 20
    source = pair.bench.topic.log
    assert shadow.log.bytes_behind(Position(-1, -1)) == source.bytes_behind(Position(-1, -1))
    assert shadow.shadow_source == NAME
    (producer,) = shadow.producers
    assert producer == f"pulsar.repl-{NAME}-->{SHADOW}"


async def test_a_new_owner_of_the_shadow_topic_receives_the_end_again(pair: Shadowed) -> None:
    await pair.begin()
    await pair.bench.publish(3)
    await pair.bench.registry.unload(SHADOW)
    await until(lambda: SHADOW.full in {str(topic.name) for topic in pair.bench.registry})
    shadow = await pair.shadow()
    await pair.bench.publish(1)
    await until(lambda: pair.caught_up(shadow))


async def test_the_reason_why_nothing_is_stated_is_kept_until_something_is(pair: Shadowed) -> None:
    pair.remotes.reachable = False
    shadow = await pair.begin()
    await until(lambda: pair.link.error)
    assert pair.link.error == "no connection to test"
    await pair.bench.publish(1)
    pair.remotes.reachable = True
    await until(lambda: pair.caught_up(shadow))
    assert not pair.link.error


async def test_a_topic_that_is_no_shadow_takes_no_statements(pair: Shadowed) -> None:
    await pair.bench.registry.get(SHADOW, create=True)
    pair.bench.everything.in_force = LINKED
    await pair.bench.registry.unload(NAME)
    await pair.bench.load()
    await until(lambda: pair.link.error)
    assert pair.link.error == f"Topic {SHADOW} is no shadow topic"


@pytest.mark.parametrize(
    "name", ["p", None, f"pulsar.repl-persistent://public/default/other-->{SHADOW}"]
)
async def test_only_its_source_publishes_to_a_shadow_topic(
    pair: Shadowed, name: str | None
) -> None:
    await pair.begin()
    link = await link_to(pair.url)
    with pytest.raises(RefusedError, match=f"is a shadow topic: publish to its source {NAME}"):
        await RawProducer.open(link, SHADOW.full, name=name)
    link.close()


async def test_an_entry_with_a_position_is_refused_by_other_topics(pair: Shadowed) -> None:
    link = await link_to(pair.url)
    producer = await RawProducer.open(link, NAME.full)
    producer.send_position(0, statement("p", Position(0, 0), 1, 1), Position(0, 0))
    with pytest.raises(RefusedError, match="Only shadow topics take messages with a message id"):
        await producer.drained()
    link.close()


async def test_links_end_with_the_policy(pair: Shadowed) -> None:
    shadow = await pair.begin()
    await until(lambda: shadow.producers)
    topic = pair.bench.topic
    topic.shadows.apply((), topic.scope)
    await until(lambda: not shadow.producers)
    assert not topic.shadows.links


async def test_a_partition_is_linked_to_the_partition_of_its_number(
    pair: Shadowed,
) -> None:
    part = NAME.partition_at(2)
    links = ShadowLinks(await pair.bench.registry.get(part, create=True))
    links.apply((SHADOW.full, "nonsense://x"), pair.bench.topic.scope)
    assert list(links.links) == [SHADOW.partition_at(2)]
    await links.close()


async def test_consumers_of_a_shadow_topic_are_notified_of_the_end_of_its_source(
    pair: Shadowed,
) -> None:
    shadow = await pair.begin()
    source, pair.bench.topic = pair.bench.topic, shadow
    consumer, _ = await pair.bench.join(SubscriptionType.EXCLUSIVE)
    with patch.object(consumer, "tell_end") as notified:
        await source.terminate()
        await until(lambda: notified.called)
    assert shadow.terminated


async def test_policies_of_what_is_stored_do_not_apply_to_a_shadow_topic(pair: Shadowed) -> None:
    shadow = await pair.begin()
    policies = TopicPolicies(
        clusters=("test", "eu"),
        shadows=("persistent://public/default/x",),
        backlog=BacklogPolicies(message_ttl_s=7),
        deduplication=DeduplicationPolicies(enabled=True),
    )
    await shadow.apply(policies, pair.bench.everything.ledger_config(policies))
    in_force = shadow.policies
    assert (in_force.clusters, in_force.shadows, in_force.deduplication.enabled) == ((), (), False)
    assert in_force.backlog == replace(BacklogPolicies(), message_ttl_s=7)
    assert not shadow.replication.replicators
    assert not shadow.shadows.links


async def test_schemas_of_a_shadow_topic_are_those_of_its_source(pair: Shadowed) -> None:
    shadow = await pair.begin()
    assert shadow.schema_topic == NAME
    registry = pair.bench.registry
    assert await registry.source_of(SHADOW) == NAME
    assert await registry.source_of(NAME) is None
    assert await registry.source_of(TopicName.parse("persistent://public/default/no")) is None
    assert await registry.source_of(TopicName.parse("non-persistent://public/default/no")) is None


async def test_a_link_has_the_name_that_apache_gives_it(pair: Shadowed) -> None:
    assert shadow_link_name(NAME, SHADOW).startswith("pulsar.repl-persistent://")
