"""Deliveries with the values of their messages, decoded by the schema that each names: for sockets that ask for it by
``decode=true``, beside what Pulsar's frames say. Payloads go out as ever, also those that cannot be decoded."""

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
"""Longer payloads are not decoded: all sockets of the process would wait for it."""
TURN_BYTES_MAX = 64 << 10
"""Of payloads that are decoded in one turn of the loop, which one more may exceed."""
VERSIONS_MAX = 100
ASKED_AGAIN_AFTER_S = 10.0
"""For a version that no broker gave."""

_shared: "WeakValueDictionary[tuple[Any, ...], Decoder]" = WeakValueDictionary()
"""Sockets with the same schema share what decodes by it."""
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class _Failure(NamedTuple):
    text: str
    until: float


class Schemas:
    """Of one socket: each version is asked for once. Those of a topic are forgotten when the consumer comes to it
    again, since another one of its name may stand in its place."""

    def __init__(self, client: PulsarClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._topics: dict[Any, tuple[object, str]] = {}
        """By attachment: its consumer at the broker, and the topic whose partition it may be."""
        self._known: dict[tuple[str, int], Decoder | _Failure] = {}

    def knows(self, message: Incoming) -> bool:
        """Whether ``fields`` needs nothing that is not here."""
        version = version_of(message.metadata.schema_version)
        if version is None:
            return True
        found = self._known.get((self._topic(message), version))
        return isinstance(found, Decoder) or (found is not None and self._loop.time() < found.until)

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
        """Ask for the version that a message names. Cancel-safe."""
        version = version_of(message.metadata.schema_version)
        if version is None:
            return
        topic = self._topic(message)
        failed = (topic, version) in self._known
        found = await self._ask(topic, version, patient=not failed)
        if len(self._known) >= VERSIONS_MAX:
            self._known.clear()
        self._known[topic, version] = found

    async def _ask(self, topic: str, version: int, *, patient: bool) -> Decoder | _Failure:
        client = self._client
        ask = partial(client.schema, topic, version_bytes(version))
        try:
            if patient:
                body = await client.patiently(ask, timeout_s=client.operation_timeout_s)
            else:
                body = await ask()
            return _decoder(from_wire(body))
        except InvalidSchemaError as error:
            return _Failure(f"schema version {version}: {error}", float("inf"))
        except MagnetarError as error:
            text = str(error) or type(error).__name__
            until = self._loop.time() + ASKED_AGAIN_AFTER_S
            return _Failure(f"schema version {version}: {text}", until)

    def fields(self, message: Incoming) -> str:
        """Further fields of a message's frame, each behind a comma."""
        version = version_of(message.metadata.schema_version)
        named = "" if version is None else f',"schemaVersion":{version}'
        try:
            return f'{named},"value":{_to_json(self._value(message, version))}'
        except UndecodableError as error:
            return f'{named},"decodeError":{_to_json(str(error))}'

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
        found = self._known[self._topic(message), version]
        if isinstance(found, _Failure):
            raise UndecodableError("", found.text)
        return found.value(content, key_bytes(message.own))


def _decoder(schema: Schema) -> Decoder:
    key = schema.kind, schema.data, frozenset(schema.properties.items())
    found = _shared.get(key)
    if found is None:
        found = _shared[key] = decoder(schema)
    return found


class ValueFrames(DeliveryFrames):
    """Frames with values, of messages whose schema is known."""

    def __init__(self, schemas: Schemas) -> None:
        super().__init__()
        self._schemas = schemas

    def frame(self, message_id: str, message: Incoming) -> str:
        return f"{super().frame(message_id, message)[:-1]}{self._schemas.fields(message)}}}"


class Turns:
    """Hands messages on in their order, as many in one turn of the loop as do not hold it up, and none before its
    schema is known."""

    def __init__(self, schemas: Schemas, deliver: Callable[[Sequence[Incoming]], None]) -> None:
        self._schemas = schemas
        self._deliver = deliver
        self._waiting: deque[Incoming] = deque()
        self.resting = False
        """Somebody waits for ``rest``."""

    def take(self, run: Sequence[Incoming]) -> bool:
        """Whether all could be handed on; else somebody is to wait for ``rest``."""
        self._waiting += run
        self._turn()
        return not self._waiting

    def _turn(self) -> None:
        now: list[Incoming] = []
        size = 0
        while self._waiting and size < TURN_BYTES_MAX and self._schemas.knows(self._waiting[0]):
            now.append(self._waiting.popleft())
            size += len(now[-1].content or b"")
        if now:
            self._deliver(now)

    async def rest(self, port: SocketPort) -> None:
        """Hand on all that waits, at the reader's pace."""
        while self._waiting and not port.closed:
            await port.drained()
            if not self._schemas.knows(self._waiting[0]):
                await self._schemas.learn(self._waiting[0])
            self._turn()
            await asyncio.sleep(0)
        self.resting = False
