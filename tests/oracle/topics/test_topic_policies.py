"""Topics' own policies go over from Apache's broker to ours and back: each reads and changes what the other wrote."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.policies import SET_TOPIC_POLICY, TOPIC_POLICIES, SetTopicPolicy
from engine.admin.client import AdminClient
from engine.base.names import TopicName
from engine.net.network import LoopNetwork
from engine.tenancy import topics
from tests.oracle.servers import connected
from tests.oracle.test_apache_broker import Mixed

pytestmark = pytest.mark.slow

TOKEN = "oracle-tests-only"
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def mixed(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    made = Mixed(tmp_path_factory.mktemp("policies"), f"{zookeeper}/policies")
    with made.bookies:
        try:
            made.apache.start()
            yield made
        finally:
            made.running.stop()


def rest(mixed: Mixed, method: str, path: str, body: Any = None) -> Any:
    """Ask Apache's broker, again while it is not ready to say."""
    data = None if body is None else json.dumps(body).encode()
    url = f"{mixed.apache.http}/admin/v2/{path}"
    until = time.monotonic() + PATIENCE_S
    while True:
        request = urllib.request.Request(
            url, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                text = reply.read()
            return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode()
            if error.code < 500 or time.monotonic() > until:
                raise AssertionError(f"{method} {path}: {error.code} {reason}") from error
            time.sleep(0.5)


def ours(mixed: Mixed, topic: str, **changes: Any) -> dict[str, Any]:
    """Change policies at our broker and give what the topic has of its own then, by our names."""

    async def ask() -> dict[str, Any]:
        store = await connected(mixed.zk)
        client = AdminClient(store, LoopNetwork(), TOKEN)
        try:
            await topics.create_missing(store, TopicName.parse(topic))
            for name, value in changes.items():
                given = SetTopicPolicy(TopicName.parse(topic), name, value)
                await client.call(SET_TOPIC_POLICY, given)
            policies = await client.call(TOPIC_POLICIES, OnTopic(TopicName.parse(topic)))
        finally:
            client.close()
            await store.close()
        return {
            name: policy["own"] for name, policy in policies.items() if policy["own"] is not None
        }

    return asyncio.run(ask())


def theirs(mixed: Mixed, topic: str, what: str) -> Any:
    return rest(mixed, "GET", f"persistent/{topic}/{what}")


def set_theirs(mixed: Mixed, topic: str, what: str, value: Any) -> None:
    rest(mixed, "POST", f"persistent/{topic}/{what}", value)


def test_each_reads_and_changes_what_the_other_wrote(mixed: Mixed) -> None:
    first, second, third = "public/theirs/a", "public/theirs/b", "public/mine/a"
    for namespace in ("theirs", "mine"):
        rest(mixed, "PUT", f"namespaces/public/{namespace}")
    for topic in (first, second):
        rest(mixed, "PUT", f"persistent/{topic}")
        set_theirs(mixed, topic, "maxConsumers", 5)
    set_theirs(mixed, first, "maxProducers", 6)
    rest(mixed, "DELETE", f"persistent/{second}/maxConsumers")

    mixed.change_to(mixed.ours)
    assert ours(mixed, first) == {"maxConsumersPerTopic": 5, "maxProducersPerTopic": 6}
    assert ours(mixed, second) == {}
    ours(mixed, first, maxProducersPerTopic=None, messageTTL=7)
    ours(mixed, second, messageTTL=8)
    assert ours(mixed, third, messageTTL=9) == {"messageTTL": 9}

    mixed.change_to(mixed.apache)
    for topic, ttl_s in zip((first, second, third), (7, 8, 9), strict=True):
        assert theirs(mixed, topic, "messageTTL") == ttl_s
    assert theirs(mixed, first, "maxConsumers") == 5
    assert theirs(mixed, first, "maxProducers") is None
    set_theirs(mixed, third, "maxConsumers", 10)
    rest(mixed, "DELETE", f"persistent/{second}")

    mixed.change_to(mixed.ours)
    assert ours(mixed, third) == {"messageTTL": 9, "maxConsumersPerTopic": 10}
    assert ours(mixed, second) == {}


def test_policies_in_apaches_compacted_ledger_are_read(mixed: Mixed) -> None:
    if mixed.running is not mixed.apache:
        mixed.change_to(mixed.apache)
    rest(mixed, "PUT", "namespaces/public/compacted")
    topic, log = "public/compacted/a", "persistent/public/compacted/__change_events"
    rest(mixed, "PUT", f"persistent/{topic}")
    for count in range(1, 6):
        set_theirs(mixed, topic, "maxConsumers", count)
    rest(mixed, "PUT", f"{log}/compaction")
    until = time.monotonic() + PATIENCE_S
    while rest(mixed, "GET", f"{log}/compaction")["status"] != "SUCCESS":
        assert time.monotonic() < until
        time.sleep(0.2)
    rest(mixed, "PUT", f"{log}/unload")
    while rest(mixed, "GET", f"{log}/internalStats")["ledgers"][0]["entries"]:
        assert time.monotonic() < until
        time.sleep(0.2)

    mixed.change_to(mixed.ours)
    assert ours(mixed, topic) == {"maxConsumersPerTopic": 5}
    assert ours(mixed, topic, messageTTL=3) == {"maxConsumersPerTopic": 5, "messageTTL": 3}

    mixed.change_to(mixed.apache)
    assert theirs(mixed, topic, "messageTTL") == 3
    assert theirs(mixed, topic, "maxConsumers") == 5
