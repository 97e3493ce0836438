"""The console's gateway in front of Apache's broker: lists, pages and changes by its REST interface."""

import asyncio
import json
from typing import Any

import pytest

from admin_ui.messages import selectors
from admin_ui.schemas import selectors as schema_selectors
from engine.admin.api.arguments import OnTopic
from engine.admin.api.cursors import MOVE_CURSOR, PREVIEW_CHANGE, MoveCursor, PreviewChange
from engine.admin.api.rows import ROW_COLUMNS, TOPIC_ROWS, RowsSince
from engine.admin.api.schemas import GivenSchema
from engine.admin.api.topics import CREATE_TOPIC, DELETE_TOPIC, HOLDINGS, CreateTopic, DeleteTopic
from engine.base.errors import Conflict
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.namespaces import create_namespace, get_policies, update_policies
from engine.tenancy.tenants import create_tenant
from gateway.services import catalog
from gateway.services.admin import schemas
from gateway.services.engine_link import Engine, EngineLink
from tests.oracle.conftest import Side

NAMESPACE = NamespaceName.parse("before-apache/ns")
TOPIC = NAMESPACE.topic("orders")
MOVED = ("base", "target", "lost", "again", "lost_messages", "again_messages", "exact")


def published(url: str, count: int) -> None:
    import pulsar

    client = pulsar.Client(url)
    producer = client.create_producer(str(TOPIC))
    for number in range(count):
        producer.send(b"%d" % number)
    client.close()


def test_changes_by_the_console_are_those_that_apache_has(
    link: EngineLink, sides: tuple[Side, Side]
) -> None:
    theirs, _ = sides

    async def make(engine: Engine) -> None:
        await create_tenant(engine.store, "before-apache", {"allowedClusters": [engine.cluster]})
        await create_namespace(engine.store, NAMESPACE, None, cluster=engine.cluster)
        await update_policies(
            engine.store, NAMESPACE, lambda policies: policies.update(message_ttl_in_seconds=77)
        )
        await engine.call(CREATE_TOPIC, CreateTopic(TOPIC))

    link.run(make)
    assert theirs.call("GET", f"/admin/v2/namespaces/{NAMESPACE}/messageTTL") == (200, b"77")
    path = f"/admin/v2/persistent/{NAMESPACE}/orders"
    assert theirs.put(f"{path}/subscription/worker", {"ledgerId": -1, "entryId": -1}) == 204
    published(theirs.url, 20)

    async def preview(engine: Engine) -> Any:
        return await engine.call(PREVIEW_CHANGE, PreviewChange(TOPIC, "worker", "skip-all"))

    seen = link.run(preview)
    assert (seen["lost"], seen["lost_messages"]) == (20, None)
    published(theirs.url, 5)

    async def move(engine: Engine) -> Any:
        values = {name: seen[name] for name in MOVED}
        args = MoveCursor(TOPIC, "worker", id="1", change="skip-all", **values)
        return await engine.call(MOVE_CURSOR, args)

    assert link.run(move)["done"]

    async def left(engine: Engine) -> int:
        holdings = await engine.call(HOLDINGS, OnTopic(TOPIC))
        (worker,) = holdings["subscriptions"]
        return int(worker["entries"])

    assert link.run(left) == 5, "messages that were published after the preview stay"


def test_a_deletion_is_refused_for_what_was_published_since(
    link: EngineLink, sides: tuple[Side, Side]
) -> None:
    theirs, _ = sides

    async def held(engine: Engine) -> Any:
        return (await engine.call(HOLDINGS, OnTopic(TOPIC)))["seen"]

    async def delete(engine: Engine, seen: Any) -> None:
        await engine.call(DELETE_TOPIC, DeleteTopic(TOPIC, True, seen))

    seen = link.run(held)
    published(theirs.url, 1)
    with pytest.raises(Conflict, match="published since the preview"):
        link.run(lambda engine: delete(engine, seen))
    again = link.run(held)
    link.run(lambda engine: delete(engine, again))
    assert theirs.call("GET", f"/admin/v2/persistent/{NAMESPACE}/orders/stats")[0] == 404


def test_messages_shown_are_those_that_were_published(
    link: EngineLink, sides: tuple[Side, Side]
) -> None:
    import pulsar

    theirs, _ = sides
    path = f"/admin/v2/persistent/{NAMESPACE}/shown"
    name = NAMESPACE.topic("shown")
    assert theirs.put(path) == 204
    assert theirs.put(f"{path}/subscription/keep", {"ledgerId": -1, "entryId": -1}) == 204
    client = pulsar.Client(theirs.url)
    single = client.create_producer(str(name), batching_enabled=False)
    for number in range(10):
        single.send(
            b"single %d" % number, partition_key=f"k{number}", properties={"n": str(number)}
        )
    batch = client.create_producer(
        str(name),
        compression_type=pulsar.CompressionType.LZ4,
        batching_max_publish_delay_ms=1_000,
    )
    for number in range(10):
        batch.send_async(b"batched %d" % number, lambda *_: None, properties={"n": str(number)})
    batch.flush()
    reader = client.create_reader(str(name), pulsar.MessageId.earliest)
    stored = []
    while reader.has_message_available():
        message = reader.read_next(10_000)
        stored.append((message.data().decode(), message.partition_key(), message.properties()))
    client.close()

    def shown(start: str) -> list[Any]:
        page = link.run(lambda engine: selectors.page(engine, name, {"start": start}))
        assert page["stopped"] == "end"
        return [(row["value"]["text"], row["key"] or "", row["properties"]) for row in page["rows"]]

    assert len(stored) == 20
    assert shown("earliest") == stored
    assert shown("latest") == stored[::-1]
    status, body = theirs.call("GET", f"{path}/subscriptions")
    assert (status, json.loads(body)) == (200, ["keep"]), "nothing is created by reading"


def test_schemas_are_shown_and_registered_behind_the_version_that_was_seen(
    link: EngineLink, sides: tuple[Side, Side]
) -> None:
    name = NAMESPACE.topic("shown")
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
    first = GivenSchema(name, "AVRO", json.dumps(definition))
    assert link.run(lambda engine: schemas.register(engine, first, expected=-1)) == 0
    added = {"name": "b", "type": ["null", "int"], "default": None}
    definition["fields"].append(added)  # type: ignore[attr-defined]
    second = GivenSchema(name, "AVRO", json.dumps(definition))
    assert link.run(lambda engine: schemas.verdict(engine, second)).compatible
    with pytest.raises(Conflict, match="newest version is 0, not -1"):
        link.run(lambda engine: schemas.register(engine, second, expected=-1))
    assert link.run(lambda engine: schemas.register(engine, second, expected=0)) == 1
    bad = GivenSchema(name, "AVRO", json.dumps(definition).replace('"string"', '"int"'))
    verdict = link.run(lambda engine: schemas.verdict(engine, bad))
    assert not verdict.compatible
    assert verdict.reason
    versions = link.run(lambda engine: schema_selectors.versions(engine, name, {}))
    assert [row["version"] for row in versions["versions"]] == [1, 0]
    shown = link.run(lambda engine: schema_selectors.version(engine, name, "1"))
    assert json.loads(shown["definition"]) == definition


def test_lists_have_the_figures_of_the_broker(link: EngineLink) -> None:
    async def rows(engine: Engine) -> list[Any]:
        (broker,) = await engine.admin.brokers()
        for _ in range(20):
            answer = await engine.call_on(broker, TOPIC_ROWS, RowsSince())
            if answer["rows"]:
                break
            await asyncio.sleep(0.5)
        topics = await catalog.topics(engine.store)
        assert (await get_policies(engine.store, NAMESPACE))["message_ttl_in_seconds"] == 77
        assert str(TOPIC) not in topics
        return list(answer["rows"])

    for name, *values in link.run(rows, timeout_s=30):
        TopicName.parse(name)
        assert len(values) == len(ROW_COLUMNS)
