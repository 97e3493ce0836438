"""The use of a missing topic creates it, or is refused, as its namespace's policy requires."""

import json
from typing import Any

import pytest

from engine.base.errors import NotFound, PreconditionFailed
from engine.base.names import TopicName
from engine.metadata import paths
from engine.tenancy.namespaces import get_bundles, set_policy
from engine.tenancy.policies.table import BY_NAME
from gateway.services.admin import existence, lookup, partitioned_topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

MISSING = TopicName.parse("persistent://public/default/missing")
RULES: dict[str, Any] = {
    "none": {"allowAutoTopicCreation": False},
    "plain": {"allowAutoTopicCreation": True, "topicType": "non-partitioned"},
    "parts": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": 3,
    },
}


async def rule(bench: AdminBench, name: str) -> None:
    policy = BY_NAME["autoTopicCreation"]
    await set_policy(bench.store, MISSING.namespace, policy, policy.read(RULES[name]), cluster="")


@pytest.mark.parametrize(("name", "count"), [("plain", 0), ("parts", 3)])
async def test_a_missing_topic_is_created_by_the_namespaces_policy(
    bench: AdminBench, name: str, count: int
) -> None:
    await rule(bench, name)
    answer = await partitioned_topics.get_metadata(bench.engine, MISSING, allow_missing=True)
    assert answer == {"partitions": count, "deleted": False}
    assert await existence.partitions_of(bench.engine, MISSING) == count
    assert (await lookup.owner_of(bench.engine, MISSING))["brokerUrl"]


async def test_a_lookup_by_http_answers_with_the_addresses_of_a_listener(bench: AdminBench) -> None:
    await rule(bench, "plain")
    inside = await lookup.owner_of(bench.engine, MISSING)
    with pytest.raises(PreconditionFailed, match="the broker do not have outer listener"):
        await lookup.owner_of(bench.engine, MISSING, "outer")
    bundle = (await get_bundles(bench.store, MISSING.namespace)).of_topic(MISSING)
    path = paths.bundle_owner(str(MISSING.namespace), bundle.range)
    record = json.loads((await bench.store.get(path))[0])
    record["advertisedListeners"] = {"outer": {"brokerServiceUrlTls": "pulsar+ssl://outside:1"}}
    await bench.store.put(path, json.dumps(record).encode())
    answer = await lookup.owner_of(bench.engine, MISSING, "outer")
    assert (answer["brokerUrl"], answer["brokerUrlTls"]) == ("", "pulsar+ssl://outside:1")
    assert await lookup.owner_of(bench.engine, MISSING) == inside


async def test_without_automatic_creation_the_topic_is_not_found(bench: AdminBench) -> None:
    await rule(bench, "none")
    with pytest.raises(NotFound, match=f"Topic {MISSING} not found"):
        await partitioned_topics.get_metadata(bench.engine, MISSING, allow_missing=True)
    with pytest.raises(NotFound, match=f"Topic not found {MISSING}"):
        await lookup.owner_of(bench.engine, MISSING)


async def test_a_request_without_creation_creates_no_topic(bench: AdminBench) -> None:
    await rule(bench, "parts")
    with pytest.raises(NotFound):
        await partitioned_topics.get_metadata(bench.engine, MISSING, allow_missing=False)
    assert await existence.partitions_of(bench.engine, MISSING) == 0
