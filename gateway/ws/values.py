"""Frames with the decoded values of messages, for sockets with ``decode=true``.

A value is decoded by the schema version that its message names. It is added to the fields of Pulsar's frames, whose
payloads are sent unchanged, also when a value cannot be decoded.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.client.consuming.incoming import Incoming
from engine.schema.decoding import Decoder, JsonValue, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema, version_bytes, version_of
from engine.schema.wire_form import from_wire
from engine.wire.batches import key_bytes
from gateway.http.socket_port import SocketPort
from gateway.ws.deliveries import DeliveryFrames

VALUE_BYTES_MAX = 256 << 10
"""Size of a payload up to which it is decoded; longer ones would delay all sockets of the process."""
TURN_BYTES_MAX = 64 << 10
"""Bytes of payloads decoded in one turn of the loop; the last of them may exceed it."""
VERSIONS_MAX = 100
RETRY_AFTER_S = 10.0
"""Time after which a schema version is requested again that no broker returned."""

_shared: "WeakValueDictionary[tuple[Any, ...], Decoder]" = WeakValueDictionary()
"""Decoders by schema, shared by all sockets."""
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class _Failure(NamedTuple):
    text: str
    until: float


class SchemaCache:
    """The schemas of one socket, each version requested once.

    Those of a topic are dropped when the consumer attaches to it again, since the topic may have been deleted and
    created again with other schemas.
    """

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._topics: dict[Any, tuple[object, str]] = {}
        """The consumer at the broker, and the name of the (partitioned) topic, by attachment."""
        self._known: dict[tuple[str, int], Decoder | _Failure] = {}

    def knows(self, message: Incoming) -> bool:
        """Return whether ``fields`` can be called without a request to a broker."""
        version = version_of(message.metadata.schema_version)
        if version is None:
            return True
        known = self._known.get((self._topic(message), version))
        return isinstance(known, Decoder) or (known is not None and self._loop.time() < known.until)

    def _topic(self, message: Incoming) -> str:
        source = message.source
        raw, topic = self._topics.get(source, (None, ""))
        if topic and raw is source.raw:
            return topic
        if topic:
            for key in [key for key in self._known if key[0] == topic]:
                del self._known[key]
        else:
            topic = str(TopicName.parse(source.topic).partitioned)
        self._topics[source] = source.raw, topic
        return topic

    async def learn(self, message: Incoming) -> None:
        """Request the schema version that a message names. Cancel-safe."""
        version = version_of(message.metadata.schema_version)
        if version is None:
            return
        topic = self._topic(message)
        failed = (topic, version) in self._known
        # Only the first request is retried, so that a missing schema delays the messages once.
        outcome = await self._request(topic, version, patient=not failed)
        if len(self._known) >= VERSIONS_MAX:
            self._known.clear()
        self._known[topic, version] = outcome

    async def _request(self, topic: str, version: int, *, patient: bool) -> Decoder | _Failure:
        client = self._client
        request = partial(client.schema, topic, version_bytes(version))
        try:
            if patient:
                body = await client.patiently(request, timeout_s=client.operation_timeout_s)
            else:
                body = await request()
            return _decoder(from_wire(body))
        except InvalidSchemaError as error:
            return _Failure(f"schema version {version}: {error}", float("inf"))
        except MagnetarError as error:
            text = str(error) or type(error).__name__
            until = self._loop.time() + RETRY_AFTER_S
            return _Failure(f"schema version {version}: {text}", until)

    def fields(self, message: Incoming) -> str:
        """Return the additional fields of a message's frame, each with a comma before it."""
        version = version_of(message.metadata.schema_version)
        version_field = "" if version is None else f',"schemaVersion":{version}'
        try:
            return f'{version_field},"value":{_to_json(self._value(message, version))}'
        except UndecodableError as error:
            return f'{version_field},"decodeError":{_to_json(str(error))}'

    def _value(self, message: Incoming, version: int | None) -> JsonValue:
        content = message.content
        if message.encrypted:
            raise UndecodableError("", "encrypted")
        if content is None:
            return None
        if version is None:
            raise UndecodableError("", "its producer named no schema version")
        if len(content) > VALUE_BYTES_MAX:
            text = f"{len(content)} bytes, at most {VALUE_BYTES_MAX} are decoded here"
            raise UndecodableError("", text)
        known = self._known[self._topic(message), version]
        if isinstance(known, _Failure):
            raise UndecodableError("", known.text)
        return known.value(content, key_bytes(message.own))


def _decoder(schema: Schema) -> Decoder:
    key = schema.kind, schema.data, frozenset(schema.properties.items())
    shared = _shared.get(key)
    if shared is None:
        shared = _shared[key] = decoder(schema)
    return shared


class ValueFrames(DeliveryFrames):
    """Frames with values, for messages whose schema is known."""

    def __init__(self, schemas: SchemaCache) -> None:
        super().__init__()
        self._schemas = schemas

    def frame(self, message_id: str, message: Incoming) -> str:
        return f"{super().frame(message_id, message)[:-1]}{self._schemas.fields(message)}}}"


class DecodeQueue:
    """Messages that are delivered in order, a bounded number of bytes in each turn of the loop.

    No message is delivered before its schema is known.
    """

    def __init__(self, schemas: SchemaCache, deliver: Callable[[Sequence[Incoming]], None]) -> None:
        self._schemas = schemas
        self._deliver = deliver
        self._waiting: deque[Incoming] = deque()
        self.draining = False
        """True while a task runs ``drain``."""

    def add(self, run: Sequence[Incoming]) -> bool:
        """Deliver messages; return whether all were delivered. Else ``drain`` must be run."""
        self._waiting += run
        self._deliver_turn()
        return not self._waiting

    def _deliver_turn(self) -> None:
        messages: list[Incoming] = []
        size = 0
        while self._waiting and size < TURN_BYTES_MAX and self._schemas.knows(self._waiting[0]):
            messages.append(self._waiting.popleft())
            size += len(messages[-1].content or b"")
        if messages:
            self._deliver(messages)

    async def drain(self, port: SocketPort) -> None:
        """Deliver all waiting messages, as fast as the client reads them."""
        while self._waiting and not port.closed:
            await port.drained()
            if not self._schemas.knows(self._waiting[0]):
                await self._schemas.learn(self._waiting[0])
            self._deliver_turn()
            await asyncio.sleep(0)
        self.draining = False
