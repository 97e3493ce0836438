"""Shadow topics as administrators make, change and delete them."""

import pytest

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.auth.rights import all_of
from engine.base.errors import PreconditionFailed, Unsupported
from engine.base.names import SHADOW_SOURCE, TopicName
from engine.tenancy.policies.table import BY_NAME
from engine.tenancy.topics import find_partitions
from gateway.services.admin import partitioned_topics, policies, topics
from tests.support.admin.bench import AdminBench
from tests.support.admin.bench import bench as bench

pytestmark = pytest.mark.virtual_time

SOURCE = TopicName.parse("persistent://public/default/source")
SHADOW = TopicName.parse("persistent://public/default/shadow")
PROPERTIES = {SHADOW_SOURCE: str(SOURCE)}
SHADOWS = BY_NAME["shadowTopics"]


async def made(bench: AdminBench) -> None:
    await topics.create(bench.engine, SOURCE, {})
    await topics.create(bench.engine, SHADOW, PROPERTIES)


async def test_a_shadow_topic_has_its_source_s_entries(bench: AdminBench) -> None:
    await topics.create(bench.engine, SOURCE, {})
    await bench.publish(SOURCE, 3)
    await topics.create(bench.engine, SHADOW, PROPERTIES)
    topic = await bench.loaded(SHADOW)
    assert topic.shadow_source == SOURCE
    assert topic.log.stats().entries == 3
    await topics.delete(bench.engine, SHADOW, force=False)
    assert (await bench.loaded(SOURCE)).log.stats().entries == 3


async def test_a_shadow_topic_needs_a_source_that_is_none_itself(bench: AdminBench) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        await topics.create(bench.engine, SHADOW, PROPERTIES)
    assert caught.value.reason == f"Source topic [{SOURCE}] not exists."
    await made(bench)
    other = TopicName.parse("persistent://public/default/other")
    with pytest.raises(PreconditionFailed, match="is a shadow topic itself"):
        await topics.create(bench.engine, other, {SHADOW_SOURCE: str(SHADOW)})
    with pytest.raises(PreconditionFailed, match="Only persistent topic"):
        volatile = TopicName.parse("non-persistent://public/default/other")
        await topics.create(bench.engine, volatile, PROPERTIES)


async def test_its_maker_administers_the_source_too(bench: AdminBench) -> None:
    args = CreateTopic(SHADOW, PROPERTIES)
    needs = [right.of(args) for right in all_of(CREATE_TOPIC.rights)]
    assert needs == [(SHADOW,), (SOURCE,)]
    assert all_of(CREATE_TOPIC.rights)[1].of(CreateTopic(SHADOW, {})) == ()


async def test_it_is_not_terminated_and_keeps_its_source(bench: AdminBench) -> None:
    await made(bench)
    from engine.admin.api.arguments import OnTopic
    from engine.admin.api.topics import TERMINATE

    with pytest.raises(Unsupported, match="Terminate is not allowed on shadow topic"):
        await bench.engine.call(TERMINATE, OnTopic(SHADOW))
    with pytest.raises(PreconditionFailed, match="does not change"):
        await topics.remove_property(bench.engine, SHADOW, SHADOW_SOURCE)
    with pytest.raises(PreconditionFailed, match="does not change"):
        await topics.set_properties(bench.engine, SOURCE, {SHADOW_SOURCE: str(SHADOW)})
    await topics.set_properties(bench.engine, SHADOW, {"a": "b"})
    assert await topics.properties(bench.engine, SHADOW) == {**PROPERTIES, "a": "b"}


async def test_partitions_are_shadows_of_the_source_s_partitions(bench: AdminBench) -> None:
    await partitioned_topics.create(bench.engine, SOURCE, 2, {})
    with pytest.raises(PreconditionFailed, match="has 2 partitions, its shadow topic must have"):
        await partitioned_topics.create(bench.engine, SHADOW, 3, PROPERTIES)
    with pytest.raises(PreconditionFailed, match="has 2 partitions, its shadow topic must have"):
        await topics.create(bench.engine, SHADOW, PROPERTIES)
    await partitioned_topics.create(bench.engine, SHADOW, 2, PROPERTIES)
    await partitioned_topics.grow(bench.engine, SOURCE, 3)
    await partitioned_topics.grow(bench.engine, SHADOW, 3)
    for index in range(3):
        topic = await bench.loaded(SHADOW.partition_at(index))
        assert topic.shadow_source == SOURCE.partition_at(index)
    assert await bench.broker.running.registry.source_of(SHADOW) == SOURCE
    with pytest.raises(PreconditionFailed, match="does not change"):
        await topics.set_properties(bench.engine, SHADOW, {SHADOW_SOURCE: "x"})
    record = await find_partitions(bench.store, SHADOW)
    assert record is not None
    assert record["properties"] == PROPERTIES


async def test_the_policy_names_topics_that_exist(bench: AdminBench) -> None:
    await topics.create(bench.engine, SOURCE, {})
    with pytest.raises(PreconditionFailed) as caught:
        await policies.set_on_topic(bench.engine, SOURCE, SHADOWS, [str(SHADOW)])
    assert caught.value.reason == f"Shadow topic [{SHADOW}] not exists."
    await topics.create(bench.engine, SHADOW, PROPERTIES)
    await policies.set_on_topic(bench.engine, SOURCE, SHADOWS, [str(SHADOW)])
    row = (await policies.of_topic(bench.engine, SOURCE))[SHADOWS.name]
    assert row["own"] == [str(SHADOW)]
    in_force = await bench.broker.running.catalog.policies(SOURCE)
    assert in_force.shadows == (str(SHADOW),)
    await policies.set_on_topic(bench.engine, SOURCE, SHADOWS, None)
    assert (await bench.broker.running.catalog.policies(SOURCE)).shadows == ()
