"""Messages that the console publishes: what a form and a line mean, and what is refused before anything is sent."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from django.test import RequestFactory

from admin_ui.audit.recording import is_change
from admin_ui.messages import publishing, shapes
from admin_ui.messages.given import given_line, given_message
from admin_ui.messages.publishing import MESSAGES_MAX, Prepared
from engine.admin.api.schemas import GivenSchema
from engine.base.errors import InvalidField, NotFound
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.errors import LostError
from engine.client.message_ids import MessageId
from engine.client.producing.partition_producer import SendResult
from engine.metadata import account
from engine.schema.kinds import Schema
from gateway.services.admin import schemas, topics
from gateway.services.publishing import Outgoing, Published, Publisher
from tests.support.admin.bench import AdminBench

TOPIC = TopicName.parse("persistent://public/default/orders")
NOW = 1_700_000_000_000
BIG = 9_007_199_254_740_993
LINES = {
    "type": "array",
    "items": {"type": "record", "name": "L", "fields": [{"name": "price", "type": "double"}]},
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "lines", "type": LINES}],
}
PATH = "/api/v1/clusters/standalone/topics/persistent/public/default/orders/messages"


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    yield made
    await made.close()


async def prepared(bench: AdminBench, *messages: Any, **body: Any) -> Prepared:
    return await publishing.prepare(bench.engine, TOPIC, {"messages": list(messages), **body})


def problems(ready: Prepared) -> list[tuple[int, str]]:
    return [(problem.message, problem.field) for problem in ready.problems]


class OneRefused:
    """A publisher that stores all messages but the second."""

    async def publish(
        self, topics: Sequence[TopicName], messages: Sequence[Outgoing], schema: Schema
    ) -> Published:
        results = [SendResult(None, MessageId(Position(7, n))) for n in range(len(messages))]
        results[1] = SendResult(None, None, LostError("the broker went away"))
        return Published(results, [-1] * len(messages), -1)


def test_all_fields_of_a_message_are_read() -> None:
    message = given_message(
        {
            "value": None,
            "key": "aw==",
            "key_is_base64": True,
            "ordering_key": "bw==",
            "properties": {"a": "1"},
            "event_time": 5,
            "deliver_after_ms": 1_000,
        },
        NOW,
    )
    assert (message.payload, message.key, message.ordering_key) == (None, "aw==", b"o")
    assert (message.event_ms, message.deliver_at_ms) == (5, NOW + 1_000)
    assert given_message({"value_base64": "/w=="}, NOW).payload == b"\xff"


def test_a_line_keeps_all_digits_of_its_value() -> None:
    value = f'{{"id": {BIG}, "price": 1.10}}'
    line = f'{{"key": "a\\"value\\": {{", "value" : {value}, "id": "1:0"}}'
    assert given_line(line, NOW).payload == value
    assert given_line('{"value": "text"}', NOW).payload == "text"
    assert given_line('{"value": 1.0}', NOW).payload == "1.0"
    assert given_line('{"value": true}', NOW).payload == "true"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", "line"),
        ("5", "message"),
        ("{}", "value"),
        ('{"value": "a", "value_base64": ""}', "value"),
        ('{"value": "a", "keey": "b"}', "keey"),
        ('{"value": "a", "key": 5}', "key"),
        ('{"value": "a", "key": "!", "key_is_base64": true}', "key"),
        ('{"value": "a", "key_is_base64": "yes"}', "key_is_base64"),
        ('{"value_base64": "!"}', "value_base64"),
        ('{"value": "a", "properties": {"a": 1}}', "properties"),
        ('{"value": "a", "event_time": "5"}', "event_time"),
        ('{"value": "a", "event_time": -1}', "event_time"),
        ('{"value": "a", "deliver_at": 1, "deliver_after_ms": 1}', "deliver_after_ms"),
        ('{"value": "\\ud800"}', "value"),
    ],
)
def test_a_wrong_field_of_a_line_is_named(line: str, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        given_line(line, NOW)
    assert refused.value.field == field


@pytest.mark.parametrize("kind", ["JSON", "AVRO"])
async def test_a_value_is_checked_against_the_newest_schema(bench: AdminBench, kind: str) -> None:
    await schemas.register(bench.engine, GivenSchema(TOPIC, kind, json.dumps(ORDER), {}))
    right = json.dumps({"id": BIG, "lines": [{"price": 1.5}]})
    wrong = json.dumps({"id": 1, "lines": [{"price": "much"}]})
    ready = await prepared(bench, {"value": right}, {"value": wrong}, {"value": "{"})
    assert problems(ready) == [(1, "value.lines[0].price"), (2, "value")]
    answer = ready.answer
    assert answer.keys() == shapes.PublishPreview().fields.keys()
    assert (answer["messages"], answer["wrong"], answer["schema_type"]) == (3, 2, kind)
    with pytest.raises(InvalidField, match=r"^messages\[1\]\.value\.lines\[0\]\.price: "):
        await publishing.publish(cast(Publisher, OneRefused()), ready)
    bare = await prepared(bench, {"value": "{"}, schema_version=-1)
    assert (bare.problems, bare.messages[0].message.payload) == ([], b"{")


async def test_bytes_that_no_consumer_could_decode_are_refused(bench: AdminBench) -> None:
    await schemas.register(bench.engine, GivenSchema(TOPIC, "AVRO", json.dumps(ORDER), {}))
    ready = await prepared(
        bench, {"value_base64": "/w=="}, {"value_base64": "AgA="}, {"value": None}
    )
    assert problems(ready) == [(0, "value.id")]


async def test_each_message_has_its_answer_and_the_audit_log_has_no_content(
    bench: AdminBench,
) -> None:
    ready = await prepared(bench, {"value": "secret"}, {"value": "b"}, {"value": "c"})
    with account.opened() as accounted:
        receipt = await publishing.publish(cast(Publisher, OneRefused()), ready)
    assert receipt.keys() == shapes.PublishReceipt().fields.keys()
    assert [result["id"] for result in receipt["results"]] == ["7:0", None, "7:2"]
    assert receipt["results"][1]["retriable"]
    assert (receipt["messages"], receipt["stored"]) == (3, 2)
    [change] = accounted.changes
    assert change.after == {"messages": 3, "stored": 2, "first": ["7:0"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "messages"),
        ({"messages": [], "lines": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"lines": []}, "lines"),
        ({"lines": ["{}"] * (MESSAGES_MAX + 1)}, "lines"),
        ({"messages": [{"value": "a"}], "schema_version": "x"}, "schema_version"),
    ],
)
async def test_a_wrong_body_is_refused(bench: AdminBench, body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField, match=f"^{field}:"):
        await publishing.prepare(bench.engine, TOPIC, body)


async def test_no_topic_and_no_version_is_made_up(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await prepared(bench, {"value": "a"}, schema_version=7)
    body = {"messages": [{"value": "a"}]}
    other = TopicName.parse("persistent://public/default/none")
    with pytest.raises(NotFound):
        await publishing.prepare(bench.engine, other, body)


@pytest.mark.parametrize(("preview", "changes"), [(True, False), (False, True)])
def test_only_a_check_is_no_change(preview: bool, changes: bool) -> None:
    body = {"preview": preview, "messages": [{"value": "a"}]}
    request = RequestFactory().post(PATH, body, content_type="application/json")
    assert is_change(request) is changes
