"""``POST /topics/…``: messages published over HTTP.

Not recorded in the audit log, as messages of any other client are not: what they change are the contents of topics.
"""

import asyncio
from base64 import b64encode
from typing import Any

from django.http import HttpRequest, HttpResponse

from engine.base.errors import InvalidField, InvalidRequest, NotFound, Unprocessable
from engine.base.names import TopicName
from engine.client.errors import RefusedError, ServerError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import SendResult
from engine.schema.encoding import Encode, UnencodableError, encoder
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind, version_bytes
from engine.schema.wire_form import from_wire
from engine.wire import pulsar_pb2 as pb
from gateway.http.bodies import json_answer, object_body
from gateway.rest.base import AdminView
from gateway.rest.produce.request import GivenMessage, ProduceRequest, parse_request
from gateway.rest.topics import TopicView
from gateway.services import clients, topics
from gateway.services.engine_link import Engine
from gateway.services.publishing import Outgoing, failure_of, publisher

TURN_CHARS = 64 << 10
"""Of payloads that are encoded on the loop; more of them in a thread, so that other requests get their turns."""
PROPERTY_OVERHEAD_BYTES = 100
"""What a property costs in memory besides its texts."""
_KEY_IN_BASE64 = pb.MessageMetadata(partition_key_b64_encoded=True).SerializePartialToString()


class Produce(TopicView):
    """To a topic, or all partitions of one."""

    reading_methods = frozenset({"POST"})
    keeps_body = False

    async def post(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return await self.publish(request, name, lambda engine: _members(engine, name))

    async def publish(self, request: HttpRequest, name: TopicName, members: Any) -> HttpResponse:
        """``members``: work that names the topics among which the messages are spread."""
        given = parse_request(object_body(request), clients.client().clock.wall_ms())
        among: list[TopicName] = await self.work(members)
        schema = await _schema(name.partitioned, given)
        messages = await _messages(given, schema)
        found = await publisher().publish(among, messages, schema, given.name)
        version = found.schema_version
        results = [
            _answer(result, partition, version)
            for result, partition in zip(found.results, found.partitions, strict=True)
        ]
        return json_answer({"messagePublishResults": results, "schemaVersion": version})


class ProduceToPartition(Produce):
    """To one partition."""

    async def post(  # type: ignore[override]
        self, request: HttpRequest, *, partition: int, **where: str
    ) -> HttpResponse:
        name = self.name(**where)
        if name.partition >= 0:
            raise InvalidRequest("Topic name can't contain '-partition-' suffix.")
        return await self.publish(request, name, lambda engine: _member(engine, name, partition))


class ProduceNonPersistent(Produce):
    """Of non-persistent topics, whose messages are confirmed when they were handed on."""

    domain = "non-persistent"


class ProduceToNonPersistentPartition(ProduceToPartition):
    """To one partition of a non-persistent topic."""

    domain = "non-persistent"


async def _members(engine: Engine, name: TopicName) -> list[TopicName]:
    """A topic's partitions, or itself. Raises NotFound: publishing by REST makes no topic."""
    await topics.require_any(engine, name)
    count = await topics.partitions_of(engine, name)
    return [name.partition_at(index) for index in range(count)] or [name]


async def _member(engine: Engine, name: TopicName, number: int) -> list[TopicName]:
    members = await _members(engine, name)
    if members == [name] or not 0 <= number < len(members):
        raise NotFound(f"Topic {name}-partition-{number} not found")
    return [members[number]]


async def _schema(topic: TopicName, given: ProduceRequest) -> Schema:
    """What the messages are written by."""
    if given.schema_version is None:
        return given.schema
    client = clients.client()
    version = version_bytes(given.schema_version)
    try:
        body = await client.patiently(
            lambda: client.schema(str(topic), version), timeout_s=client.operation_timeout_s
        )
        return from_wire(body)
    except RefusedError as error:
        if error.code is not ServerError.TopicNotFound:
            raise
        text = f"schemaVersion: {topic} has no version {given.schema_version}"
        raise NotFound(text) from error
    except InvalidSchemaError as error:
        raise Unprocessable(f"schemaVersion: {error}") from error


async def _messages(given: ProduceRequest, schema: Schema) -> list[Outgoing]:
    """Raises as ``_encoded``."""
    if sum(len(one.payload) for one in given.messages) <= TURN_CHARS:
        return _encoded(given, schema)
    return await asyncio.to_thread(_encoded, given, schema)


def _encoded(given: ProduceRequest, schema: Schema) -> list[Outgoing]:
    """Raises InvalidField for a message that the schema cannot write, Unprocessable when it can write none."""
    try:
        encode = encoder(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(f"valueSchema: {error}") from error
    is_pair = schema.kind is SchemaKind.KEY_VALUE
    return [
        Outgoing(_outgoing(one, encode, index, is_pair=is_pair), one.sequence_id)
        for index, one in enumerate(given.messages)
    ]


def _outgoing(one: GivenMessage, encode: Encode, index: int, *, is_pair: bool) -> OutgoingMessage:
    try:
        payload, key_bytes = encode(one.payload, one.key)
    except UnencodableError as error:
        raise InvalidField(f"messages[{index}].{error.path}", error.reason) from None
    key, extra = one.key, b""
    if is_pair:
        key = None if key_bytes is None else b64encode(key_bytes).decode()
        extra = b"" if key_bytes is None else _KEY_IN_BASE64
    texts = sum(len(name) + len(value) for name, value in one.properties.items())
    return OutgoingMessage(
        payload,
        key=key,
        properties=one.properties,
        event_ms=one.event_ms,
        deliver_at_ms=one.deliver_at_ms,
        replicate_to=one.replicate_to,
        extra_metadata=extra,
        beside_bytes=texts + len(key or "") + PROPERTY_OVERHEAD_BYTES * len(one.properties),
    )


def _answer(result: SendResult, partition: int, version: int) -> dict[str, Any]:
    if result.message_id is not None:
        ledger_id, entry_id = result.message_id.position
        where = f"{ledger_id}:{entry_id}:{partition}"
        return {"messageId": where, "errorCode": 0, "schemaVersion": version}
    assert result.error is not None
    code, text = failure_of(result.error)
    return {
        "errorMsg": text,
        "messageId": str(partition),
        "errorCode": code,
        "schemaVersion": version,
    }


_PERSISTENT = "/topics/persistent/{tenant}/{namespace}/{topic}"
_NON_PERSISTENT = "/topics/non-persistent/{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (_PERSISTENT, Produce),
    (f"{_PERSISTENT}/partitions/{{partition}}", ProduceToPartition),
    (_NON_PERSISTENT, ProduceNonPersistent),
    (f"{_NON_PERSISTENT}/partitions/{{partition}}", ProduceToNonPersistentPartition),
]
