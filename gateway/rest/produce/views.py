"""``POST /topics/…``: messages published over HTTP.

They are not recorded in the audit log, as the messages of any other client: they change only the contents of topics.
"""

import asyncio
from contextlib import closing
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase

from engine.base.errors import InvalidField, InvalidRequest, NotFound, Unprocessable
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.errors import RefusedError, ServerError
from engine.client.producing.partition_producer import SendResult
from engine.schema.encoding import UnencodableError
from engine.schema.kinds import InvalidSchemaError, Schema, version_bytes
from engine.schema.wire_form import from_wire
from gateway.http.auth.access import acting_role
from gateway.http.bodies import json_answer, object_body
from gateway.http.view import is_of_browser
from gateway.rest.base import AdminResource
from gateway.rest.produce.request import ProduceRequest, parse_request
from gateway.rest.rights import PRODUCE
from gateway.rest.topics import TopicPathResource
from gateway.services.admin import existence
from gateway.services.encoding import outgoing_encoder
from gateway.services.engine_link import Engine
from gateway.services.publishing import Outgoing, failure_of
from gateway.services.source import Ability

TURN_CHARS = 64 << 10
"""Characters of payloads that are encoded on the loop; more are encoded in a thread, so that other requests run."""


class ProduceResource(TopicPathResource):
    """Publishing to a topic, or to all partitions of a partitioned one."""

    write_rights = PRODUCE
    keeps_body = False

    @classmethod
    def may_change(cls, request: HttpRequest) -> bool:
        """Return False for messages, which are no change for the audit log."""
        return request.method != "POST" and super().may_change(request)

    def refuse_method(self, request: HttpRequest) -> HttpResponseBase:
        """Lead a browser, whose user typed a topic's path, to the console's page of the topic."""
        if not is_of_browser(request):
            return super().refuse_method(request)
        place = "/".join(quote(self.kwargs[key], "") for key in ("tenant", "namespace", "topic"))
        search = "" if self.domain == "persistent" else f"?domain={self.domain}"
        return HttpResponseRedirect(f"/c/{quote(self.cluster.name, '')}/t/{place}{search}")

    async def post(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return await self.publish(request, name, lambda engine: _members(engine, name))

    async def publish(self, request: HttpRequest, name: TopicName, members: Any) -> HttpResponse:
        """Publish the messages of a request; ``members`` is work that returns the topics to distribute them over."""
        self.cluster.require(Ability.SOCKETS)
        acting = self.cluster.clients.use(acting_role(self.identity))
        with closing(acting):
            given = parse_request(object_body(request), acting.client.clock.wall_ms())
            targets: list[TopicName] = await self.work(members)
            schema = await _schema(acting.client, name.partitioned, given)
            messages = await _messages(given, schema)
            published = await acting.publisher.publish(targets, messages, schema, given.name)
        version = published.schema_version
        results = [
            _answer(result, partition, version)
            for result, partition in zip(published.results, published.partitions, strict=True)
        ]
        return json_answer({"messagePublishResults": results, "schemaVersion": version})


class ProduceToPartitionResource(ProduceResource):
    """Publishing to one partition of a topic."""

    async def post(  # type: ignore[override]
        self, request: HttpRequest, *, partition: int, **path: str
    ) -> HttpResponse:
        name = self.name(**path)
        if name.partition >= 0:
            raise InvalidRequest("Topic name can't contain '-partition-' suffix.")
        return await self.publish(request, name, lambda engine: _member(engine, name, partition))


class ProduceNonPersistentResource(ProduceResource):
    """Publishing to non-persistent topics, whose messages are confirmed once they were dispatched."""

    domain = "non-persistent"


class ProduceToNonPersistentPartitionResource(ProduceToPartitionResource):
    """Publishing to one partition of a non-persistent topic."""

    domain = "non-persistent"


async def _members(engine: Engine, name: TopicName) -> list[TopicName]:
    """Return a topic's partitions, or the topic itself. Raises NotFound, since REST produce creates no topic."""
    await existence.require_any(engine, name)
    count = await existence.partitions_of(engine, name)
    return [name.partition_at(index) for index in range(count)] or [name]


async def _member(engine: Engine, name: TopicName, number: int) -> list[TopicName]:
    members = await _members(engine, name)
    if members == [name] or not 0 <= number < len(members):
        raise NotFound(f"Topic {name}-partition-{number} not found")
    return [members[number]]


async def _schema(client: PulsarClient, topic: TopicName, given: ProduceRequest) -> Schema:
    """Return the schema that the messages are encoded by. Raises NotFound, Unprocessable."""
    if given.schema_version is None:
        return given.schema
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
    """Encode the messages, long ones in a thread. Raises as ``_encode`` does."""
    if sum(len(message.payload or "") for message in given.messages) <= TURN_CHARS:
        return _encode(given, schema)
    return await asyncio.to_thread(_encode, given, schema)


def _encode(given: ProduceRequest, schema: Schema) -> list[Outgoing]:
    """Encode the messages.

    Raises InvalidField for a message that the schema cannot encode, Unprocessable for a schema that cannot encode any.
    """
    try:
        encode = outgoing_encoder(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(f"valueSchema: {error}") from error
    outgoing = []
    for index, message in enumerate(given.messages):
        try:
            outgoing.append(encode(message))
        except UnencodableError as error:
            raise InvalidField(f"messages[{index}].{error.path}", error.reason) from None
    return outgoing


def _answer(result: SendResult, partition: int, version: int) -> dict[str, Any]:
    if result.message_id is not None:
        ledger_id, entry_id = result.message_id.position
        message_id = f"{ledger_id}:{entry_id}:{partition}"
        return {"messageId": message_id, "errorCode": 0, "schemaVersion": version}
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
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (_PERSISTENT, ProduceResource),
    (f"{_PERSISTENT}/partitions/{{partition}}", ProduceToPartitionResource),
    (_NON_PERSISTENT, ProduceNonPersistentResource),
    (f"{_NON_PERSISTENT}/partitions/{{partition}}", ProduceToNonPersistentPartitionResource),
]
