"""Properties of subscriptions, read and replaced through the REST interface's services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.base.errors import NotFound, PreconditionFailed, Refusal
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import SubscriptionNotFound
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import CursorRecord
from engine.metadata import paths
from engine.tenancy.checks import PROPERTIES_BYTES_MAX
from gateway.services.admin import (
    cursors,
    lookup,
    partitioned_topics,
    statistics,
    subscriptions,
    topics,
)
from tests.support.admin.bench import AdminBench
from tests.support.broker_bench import Client

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/t")
PARENT = TopicName.parse("persistent://public/default/pt")
ONE, TWO = PARENT.partition_at(0), PARENT.partition_at(1)
MEMORY = TopicName.parse("non-persistent://public/default/np")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, PLAIN, {})
    await partitioned_topics.create(made.engine, PARENT, 2, {})
    yield made
    await made.close()


async def subscribe(bench: AdminBench, name: TopicName, title: str, **properties: str) -> None:
    await subscriptions.create(
        bench.engine, name, title, EARLIEST_MESSAGE, properties, replicated=False
    )


async def put(bench: AdminBench, name: TopicName, title: str, **properties: str) -> None:
    await subscriptions.set_properties(bench.engine, name, title, properties)


async def got(bench: AdminBench, name: TopicName, title: str) -> dict[str, str]:
    return await subscriptions.properties(bench.engine, name, title)


async def refusal(work: Awaitable[Any]) -> tuple[type[Refusal], str]:
    with pytest.raises(Refusal) as caught:
        await work
    return type(caught.value), caught.value.reason


async def stored(bench: AdminBench, title: str) -> CursorRecord:
    value, _ = await bench.store.get(paths.cursor(PLAIN.managed_ledger_name, title))
    return CursorRecord.decode(value)


async def test_properties_are_replaced_and_outlive_the_broker(bench: AdminBench) -> None:
    await subscribe(bench, PLAIN, "s", old="1")
    await bench.publish(PLAIN, 3)
    assert await got(bench, PLAIN, "s") == {"old": "1"}
    await put(bench, PLAIN, "s", new="2", more="3")
    assert (await stored(bench, "s")).cursor_properties == {"new": "2", "more": "3"}
    await bench.restart()
    assert await got(bench, PLAIN, "s") == {"new": "2", "more": "3"}
    await put(bench, PLAIN, "s")
    assert await got(bench, PLAIN, "s") == {}


async def test_acknowledgements_beside_them_stay_whether_in_the_node_or_in_a_ledger(
    bench: AdminBench,
) -> None:
    await subscribe(bench, PLAIN, "s")
    await bench.publish(PLAIN, 6)
    await put(bench, PLAIN, "s", a="1")
    await cursors.skip(bench.engine, PLAIN, "s", 2)
    assert (await stored(bench, "s")).ledger_id >= 0
    await put(bench, PLAIN, "s", b="2")
    await bench.restart()
    stats = await statistics.stats(bench.engine, PLAIN, {})
    assert stats["subscriptions"]["s"]["msgBacklog"] == 4
    assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"b": "2"}


async def test_all_partitions_of_a_partitioned_topic_have_the_properties(bench: AdminBench) -> None:
    await subscribe(bench, PARENT, "s")
    await put(bench, PARENT, "s", k="v")
    assert await got(bench, ONE, "s") == await got(bench, TWO, "s") == {"k": "v"}
    await put(bench, TWO, "s", k="other", x="y")
    assert await got(bench, PARENT, "s") == {"k": "other", "x": "y"}


async def test_a_partition_without_the_subscription_is_named_and_the_others_have_them(
    bench: AdminBench,
) -> None:
    await subscribe(bench, ONE, "s")
    missing = (NotFound, f"Subscription s not found for topic {PARENT}")
    assert await refusal(put(bench, PARENT, "s", k="v")) == missing
    assert await refusal(got(bench, PARENT, "s")) == missing
    assert await got(bench, ONE, "s") == {"k": "v"}


async def test_without_any_partition_the_request_is_refused(bench: AdminBench) -> None:
    for part in (ONE, TWO):
        await topics.delete(bench.engine, part, force=True)
    assert (await refusal(put(bench, PARENT, "s", k="v")))[0] is NotFound


async def test_internal_properties_of_another_broker_stay(bench: AdminBench) -> None:
    await subscribe(bench, PLAIN, "s")
    await topics.unload(bench.engine, PLAIN)
    node = paths.cursor(PLAIN.managed_ledger_name, "s")
    record = await stored(bench, "s")
    record.cursor_properties = {"#pulsar.internal.bucket": "7", "mine": "1"}
    await bench.store.put(node, record.encode())
    await put(bench, PLAIN, "s", mine="2")
    assert (await stored(bench, "s")).cursor_properties == {
        "#pulsar.internal.bucket": "7",
        "mine": "2",
    }


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"#pulsar.internal.x": "1"}, "Property names with #pulsar.internal. are reserved"),
        (
            {"k": "é" * (PROPERTIES_BYTES_MAX // 2)},
            f"properties: {PROPERTIES_BYTES_MAX + 1} bytes, at most {PROPERTIES_BYTES_MAX} are stored",
        ),
    ],
)  # fmt: skip
async def test_reserved_names_and_too_many_bytes_are_refused(
    bench: AdminBench, properties: dict[str, str], text: str
) -> None:
    await subscribe(bench, PLAIN, "s", k="v")
    assert await refusal(put(bench, PLAIN, "s", **properties)) == (PreconditionFailed, text)
    assert await got(bench, PLAIN, "s") == {"k": "v"}
    assert await refusal(subscribe(bench, PLAIN, "new", **properties)) == (PreconditionFailed, text)


async def use(bench: AdminBench, name: TopicName, *, durable: bool) -> None:
    settings = bench.broker.running.context.settings
    consumer = Consumer(
        Client(), 1, "c", SubscriptionType.EXCLUSIVE,
        settings=settings, partition=-1, now_ms=0, acknowledges=False,
    )  # fmt: skip
    await lookup.owner_of(bench.engine, name)
    topic = await bench.broker.running.registry.get(name, create=True)
    await topic.subscriptions.attach(
        consumer, "r", durable=durable, initial=InitialPosition.LATEST, properties={}
    )


@pytest.mark.parametrize(("name", "durable"), [(PLAIN, False), (MEMORY, True)])
async def test_properties_of_a_non_durable_subscription_last_as_long_as_it(
    bench: AdminBench, name: TopicName, durable: bool
) -> None:
    await use(bench, name, durable=durable)
    await put(bench, name, "r", a="b")
    assert await got(bench, name, "r") == {"a": "b"}
    assert await bench.store.exists(paths.cursor(PLAIN.managed_ledger_name, "r")) is None


async def test_a_deletion_at_the_same_time_does_not_look_like_another_owner(
    bench: AdminBench,
) -> None:
    topic = await bench.loaded(PLAIN)
    for turns in range(20):
        await subscribe(bench, PLAIN, "s")
        deleting = asyncio.ensure_future(topic.subscriptions.delete("s"))
        for _ in range(turns):
            await asyncio.sleep(0)
        with suppress(SubscriptionNotFound):
            await topic.subscriptions.set_properties("s", {"a": "b"})
        await deleting
        assert topic.subscriptions.names == []
        assert not topic.log.ended


BASE = "/admin/v2/persistent/public/default/t/subscription/s/properties"


@pytest.mark.parametrize("body", [b"5", b"[]", b"{bad", b'{"a": null}', b'{"a": 1}', b'{"a": "\\ud800"}'])  # fmt: skip
def test_a_body_that_is_no_object_of_texts_is_refused(
    call: Callable[..., Any], body: bytes
) -> None:
    assert call("PUT", BASE, body, content_type="application/json").status == 400


def test_another_type_of_body_is_refused(call: Callable[..., Any]) -> None:
    assert call("PUT", BASE, b"a=b", content_type="text/plain").status == 415
