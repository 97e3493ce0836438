"""max_topics_per_namespace holds however many topics of a namespace are made at the same time."""

import asyncio
from typing import Any

import pytest

from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.errors import PreconditionFailed
from engine.base.names import NamespaceName, TopicName
from engine.broker.errors import MetadataError
from engine.metadata import paths
from engine.tenancy.namespaces import update_policies
from engine.tenancy.topics import list_topics
from tests.support.admin.bench import AdminBench, bench

pytestmark = pytest.mark.virtual_time

__all__ = ["bench"]

NAMESPACE = NamespaceName.parse("public/default")
FULL = "Exceed maximum number of topics in namespace"


def topic(name: str) -> TopicName:
    return NAMESPACE.topic(name)


async def limited(bench: AdminBench, limit: int, **policies: Any) -> None:
    """Limit the topics of the namespace."""

    def change(stored: dict[str, Any]) -> None:
        stored.update(policies, max_topics_per_namespace=limit)

    await update_policies(bench.store, NAMESPACE, change)


async def used(bench: AdminBench, name: str) -> None:
    """Use a topic as a client does, which creates it when it does not exist."""
    running = bench.broker.running
    await running.assignment.place(topic(name), authoritative=True)
    await running.registry.get(topic(name), create=True)


async def present(bench: AdminBench) -> list[str]:
    return [TopicName.parse(name).local for name in await list_topics(bench.store, NAMESPACE)]


async def refused(*makers: Any) -> list[BaseException]:
    """Start all creations at once, and return the errors of the refused ones."""
    ends = await asyncio.gather(*makers, return_exceptions=True)
    return [end for end in ends if isinstance(end, BaseException)]


async def test_topics_created_concurrently_by_clients_stay_within_the_limit(
    bench: AdminBench,
) -> None:
    await limited(bench, 3)
    await used(bench, "t0")
    errors = await refused(*(used(bench, f"t{i}") for i in range(6)))
    assert [type(error) for error in errors] == [MetadataError] * 3, errors
    assert all(FULL in str(error) for error in errors)
    assert len(await present(bench)) == 3
    await used(bench, "__change_events")


async def test_topics_created_concurrently_by_administrators_stay_within_the_limit(
    bench: AdminBench,
) -> None:
    await limited(bench, 2)
    made = [CreateTopic(topic(f"t{i}")) for i in range(5)]
    errors = await refused(*(bench.admin.call(CREATE_TOPIC, args) for args in made))
    assert [type(error) for error in errors] == [PreconditionFailed] * 3, errors
    assert len(await present(bench)) == 2


async def test_all_partitions_of_a_topic_created_by_a_client_count(bench: AdminBench) -> None:
    partitioned = {"topicType": "partitioned", "defaultNumPartitions": 2}
    await limited(
        bench, 5, autoTopicCreationOverride={"allowAutoTopicCreation": True, **partitioned}
    )
    catalog = bench.broker.running.catalog
    errors = await refused(*(catalog.partitions(topic(f"p{i}"), allow_create=True) for i in "abc"))
    assert [type(error) for error in errors] == [MetadataError], errors
    assert len(await present(bench)) == 4
    for name in [*await present(bench), "last-partition-0-retry"]:
        await used(bench, name)
    assert await refused(used(bench, "more"))


async def test_a_failed_creation_frees_its_place(bench: AdminBench) -> None:
    await limited(bench, 1)
    path = paths.managed_ledger(topic("a").managed_ledger_name)
    bench.store.counted = lambda operation, called: (operation, called) == ("create", path)
    bench.store.fail_at(1)
    assert await refused(used(bench, "a"))
    bench.store.heal()
    await used(bench, "b")
