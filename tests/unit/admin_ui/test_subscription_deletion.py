"""A subscription deleted, and a consumer disconnected, through the console's API: previewed, confirmed, refused when
something differs, and reported by partition when only a part was done."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    SUBSCRIPTIONS,
    CreateSubscription,
    DeleteSubscription,
)
from engine.base.errors import NotReady
from engine.base.names import NamespaceName, TopicName
from engine.rpc.operation import Operation
from gateway.services.admin import partitioned_topics, topics
from gateway.services.engine_link import Engine
from tests.support.admin.attached import attach
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

NAMESPACE = NamespaceName.of("public", "default")
PLAIN, MANY = NAMESPACE.topic("plain"), NAMESPACE.topic("many")
PARTS = [MANY.partition_at(index) for index in range(3)]
PATH = "/api/v1/clusters/standalone/topics/persistent/public/default"
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


async def filled(engine: Engine) -> None:
    await partitioned_topics.create(engine, MANY, 3, {})
    await topics.create(engine, PLAIN, {})
    for name in (PLAIN, *PARTS):
        await subscribe(engine, name)


async def subscribe(engine: Engine, name: TopicName) -> None:
    args = CreateSubscription(name, "s/1", EARLIEST_MESSAGE)
    await engine.call(CREATE_SUBSCRIPTION, args)


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def publish(link: BenchLink, name: TopicName, count: int) -> None:
    link.run(lambda engine: link.bench.publish(name, count))


def connect(link: BenchLink, topic: TopicName, name: str, **how: Any) -> Any:
    return link.run(lambda engine: attach(link.bench, topic, name, "s/1", **how))[1]


def ask(call: Call, topic: str, verb: str, **body: Any) -> Answer:
    return call("POST", f"{PATH}/{topic}/subscriptions/s%2F1/{verb}", body)


def preview(call: Call, topic: str, verb: str, **body: Any) -> Any:
    answer = ask(call, topic, verb, preview=True, **body)
    assert answer.status == 200, answer.json
    return answer.json


def left(link: BenchLink, *names: TopicName) -> list[bool]:
    async def work(engine: Engine) -> list[bool]:
        subscriptions = [await engine.call(SUBSCRIPTIONS, OnTopic(name)) for name in names]
        return ["s/1" in titles for titles in subscriptions]

    return link.run(work)


def test_a_deletion_reports_the_lost_entries_and_counts_later_ones(
    call: Call, link: BenchLink
) -> None:
    for index, part in enumerate(PARTS):
        publish(link, part, index + 2)
    before = AuditEntry.objects.count()
    previewed = preview(call, "many", "delete")
    assert AuditEntry.objects.count() == before, "a preview changes nothing"
    assert (previewed["entries"], previewed["messages"], previewed["exact"]) == (9, 9, True)
    assert (previewed["partitions"], previewed["consumers"], previewed["unread"]) == (3, [], [])
    publish(link, PARTS[1], 4)
    done = ask(call, "many", "delete", token=previewed["token"])
    assert (done.status, done.json["done"]) == (200, True)
    assert (done.json["entries"], done.json["later"]) == (13, 4)
    assert [part["entries"] for part in done.json["parts"]] == [2, 7, 4]
    assert left(link, *PARTS) == [False, False, False]
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target.endswith("/subscriptions/s%2F1/delete"), entry.status) == (True, 200)
    assert '"entries": 7' in entry.changes
    assert ask(call, "many", "delete", token=previewed["token"]).status == 404
    assert ask(call, "many", "delete", preview=True).status == 404


def test_nothing_is_deleted_when_one_partition_refuses(call: Call, link: BenchLink) -> None:
    previewed = preview(call, "many", "delete")
    client = connect(link, PARTS[2], "late")
    refused = ask(call, "many", "delete", token=previewed["token"])
    assert refused.status == 409
    assert refused.json["reason"].startswith("A consumer connected since the preview: late at")
    assert [part["done"] for part in refused.json["parts"]] == [False, False, False]
    assert [part.get("why") for part in refused.json["parts"]] == [None, None, "refused"]
    assert (left(link, *PARTS), client.dropped) == ([True, True, True], [])


def test_connected_consumers_prevent_a_deletion_unless_it_is_forced(
    call: Call, link: BenchLink
) -> None:
    client = connect(link, PLAIN, "c")
    previewed = preview(call, "plain", "delete")
    (consumer,) = previewed["consumers"]
    assert (consumer["name"], consumer["address"], consumer["partition"]) == ("c", "c:1", None)
    refused = ask(call, "plain", "delete", token=previewed["token"])
    assert refused.status == 409
    assert refused.json["reason"].startswith("1 consumer is connected to subscription s/1")
    assert (left(link, PLAIN), client.dropped) == ([True], [])
    forced = preview(call, "plain", "delete", force=True)
    assert ask(call, "plain", "delete", token=forced["token"]).status == 200
    assert (left(link, PLAIN), client.dropped) == ([False], [1])


def failing(link: BenchLink, part: TopicName, *, after: bool) -> None:
    """Make the broker unavailable when it is to delete on ``part``: before it does, or ``after``."""
    asking = link.bench.admin._rpc._request

    async def broken(url: str, operation: Operation[Any, Any], body: bytes) -> Any:
        is_it = operation is DELETE_SUBSCRIPTION and str(part).encode() in body
        if not is_it or b'"dry": true' in body:
            return await asking(url, operation, body)
        if after:
            await asking(url, operation, body)
        raise NotReady("Broker did not answer")

    link.bench.admin._rpc._request = broken  # type: ignore[method-assign]


@pytest.mark.parametrize("after", [False, True])
def test_a_partly_done_deletion_is_reported_by_partition(
    call: Call, link: BenchLink, after: bool
) -> None:
    publish(link, PARTS[0], 2)
    previewed = preview(call, "many", "delete")
    failing(link, PARTS[1], after=after)
    done = ask(call, "many", "delete", token=previewed["token"])
    assert (done.status, done.json["done"]) == (503, False)
    assert "not known" in done.json["reason"]
    assert "deleted on 2 of 3 partitions" in done.json["reason"]
    assert [part["done"] for part in done.json["parts"]] == [True, False, True]
    assert done.json["parts"][1]["why"] == "unknown"
    assert left(link, *PARTS) == [False, not after, False]
    assert AuditEntry.objects.latest("pk").status == 503


def test_a_partly_done_deletion_can_be_previewed_again_and_completed(
    call: Call, link: BenchLink
) -> None:
    previewed = preview(call, "many", "delete")
    asking = link.bench.admin._rpc._request
    failing(link, PARTS[1], after=False)
    assert ask(call, "many", "delete", token=previewed["token"]).status == 503
    link.bench.admin._rpc._request = asking  # type: ignore[method-assign]
    again = preview(call, "many", "delete")
    assert again["partitions"] == 1
    assert ask(call, "many", "delete", token=again["token"]).status == 200
    assert left(link, *PARTS) == [False, False, False]


def test_a_subscription_created_on_a_partition_since_the_preview_is_a_conflict(
    call: Call, link: BenchLink
) -> None:
    async def leave(engine: Engine) -> None:
        args = DeleteSubscription(PARTS[0], "s/1")
        await engine.call(DELETE_SUBSCRIPTION, args)

    link.run(leave)
    previewed = preview(call, "many", "delete")
    assert previewed["partitions"] == 2
    link.run(lambda engine: subscribe(engine, PARTS[0]))
    refused = ask(call, "many", "delete", token=previewed["token"])
    assert (refused.status, "made on partition 0" in refused.json["reason"]) == (409, True)
    link.run(lambda engine: partitioned_topics.grow(engine, MANY, 4))
    refused = ask(call, "many", "delete", token=previewed["token"])
    assert (refused.status, "number of partitions" in refused.json["reason"]) == (409, True)
    assert left(link, *PARTS) == [True, True, True]


def test_a_token_is_of_one_subscription_and_one_change(call: Call) -> None:
    token = preview(call, "plain", "delete")["token"]
    for topic, verb in (("many", "delete"), ("plain", "disconnect"), ("plain", "skip-all")):
        refused = ask(call, topic, verb, token=token)
        assert (refused.status, refused.json["field"]) == (400, "token")
    assert ask(call, "plain", "delete").json["field"] == "token"
    assert ask(call, "plain", "delete", preview=True, force=[]).json["field"] == "force"


def test_one_consumer_is_disconnected_and_may_reconnect(call: Call, link: BenchLink) -> None:
    publish(link, PARTS[1], 5)
    client = connect(link, PARTS[1], "c", permits=0)
    other = connect(link, PARTS[1], "d", id=2, permits=0)
    identity = {"name": "c", "address": "c:1", "partition": 1}
    previewed = preview(call, "many", "disconnect", **identity)
    assert (previewed["others"], previewed["type"], previewed["durable"]) == (1, "Shared", True)
    assert [consumer["name"] for consumer in previewed["consumers"]] == ["c"]
    done = ask(call, "many", "disconnect", token=previewed["token"])
    assert (done.status, done.json["disconnected"]) == (200, 1)
    assert (client.dropped, other.dropped) == ([1], [])
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target.endswith("/s%2F1/disconnect"), entry.status) == (True, 200)
    assert '"name": "c"' in entry.changes
    assert ask(call, "many", "disconnect", token=previewed["token"]).status == 404
    connect(link, PARTS[1], "c", connected_ms=2_000)
    refused = ask(call, "many", "disconnect", token=previewed["token"])
    assert (refused.status, "reconnected since" in refused.json["reason"]) == (409, True)


def test_disconnecting_an_unknown_consumer_is_refused(call: Call, link: BenchLink) -> None:
    connect(link, PARTS[1], "c")
    who = {"name": "c", "address": "c:1"}
    for partition, status in ((0, 404), (None, 400), (3, 400)):
        answer = ask(call, "many", "disconnect", preview=True, **who, partition=partition)
        assert answer.status == status, partition
    assert ask(call, "plain", "disconnect", preview=True, **who, partition=1).status == 400
    assert ask(call, "plain", "disconnect", preview=True).json["field"] == "name"
