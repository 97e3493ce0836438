"""Rules for the schemas of producers and consumers: a schema becomes a version of its topic or is refused."""

from collections.abc import Awaitable
from typing import TypeVar

from engine.base.names import SYSTEM_PREFIX, TopicName
from engine.broker.errors import IncompatibleSchema, MetadataError, ServiceNotReady
from engine.broker.topics.topic import Topic
from engine.ledger.errors import LedgerError
from engine.metadata.store import BadVersionError, SessionExpiredError, StoreUnavailableError
from engine.schema.compatibility import same
from engine.schema.kinds import (
    InvalidSchemaError,
    Schema,
    version_bytes,
    version_of,
)
from engine.schema.schema_registry import (
    IncompatibleError,
    SchemaRegistry,
)
from engine.schema.stored_versions import LostVersionError, UnreadableError, Version
from engine.schema.wire_form import from_wire
from engine.tenancy.strategy import Strategy
from engine.wire import pulsar_pb2 as pb

AUTO_CONSUME = 21
"""Schema type on the wire of a consumer that reads every schema; it is never registered."""
NO_VERSION = b""
T = TypeVar("T")
UNAVAILABLE = (
    BadVersionError,
    LedgerError,
    SessionExpiredError,
    StoreUnavailableError,
    UnreadableError,
)
ENFORCED = (
    "Producers cannot connect or send message without a schema to topics with a schema"
    " when SchemaValidationEnforced is enabled"
)


def version_number(version: bytes) -> int:
    """Return the number of an encoded version. Raises IncompatibleSchema when ``version`` is none."""
    if not version:
        raise IncompatibleSchema("Empty schema version")
    number = version_of(version)
    if number is None:
        raise IncompatibleSchema(f"schema version: expected 8 bytes, got {len(version)}")
    return number


def given_schema(body: pb.Schema) -> Schema:
    """Decode a schema that a client sent. Raises IncompatibleSchema for an unknown type."""
    try:
        return from_wire(body)
    except InvalidSchemaError as error:
        raise IncompatibleSchema(str(error)) from None


class SchemaRules:
    """The schema rules of a broker's topics.

    All methods raise BrokerError. They are cancel-safe: after a cancellation the schema may be registered or not.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    async def for_producer(self, topic: Topic, body: pb.Schema | None) -> bytes:
        """Return the version of a producer's schema, registering it if necessary; empty without a schema."""
        if body is not None:
            return version_bytes(await self._register(topic, given_schema(body)))
        enforced = topic.policies.schema.enforced and not is_system_topic(topic)
        if enforced and await self.latest(topic) is not None:
            raise IncompatibleSchema(ENFORCED)
        return NO_VERSION

    async def for_version(self, topic: Topic, body: pb.Schema) -> bytes:
        """Return the version of a schema as ``for_producer`` does; empty for the type NONE."""
        return await self.for_producer(topic, None if body.type == pb.Schema.None_ else body)

    async def for_consumer(self, topic: Topic, body: pb.Schema | None) -> int | None:
        """Check that a consumer's schema reads the topic's data, and return the version that equals it, else None.

        The first client of a topic without data sets its schema.
        """
        if body is None or body.type == AUTO_CONSUME:
            return None
        schema = given_schema(body)
        latest = await self._answer(self._registry.latest(topic.schema_topic, like=schema))
        if latest is None and topic.accepts_first_schema:
            return await self._register(topic, schema)
        if latest is None:
            raise IncompatibleSchema(
                "Failed to add schema to an active topic with empty(BYTES) schema:"
                f" new schema type {schema.kind.value}"
            )
        reason = await self._answer(self._unreadable_by(topic, schema, latest))
        if reason is not None:
            raise IncompatibleSchema(reason)
        newest = latest.registered.schema
        if newest.data == schema.data and same(newest, schema):
            return latest.number
        return await self._answer(self._registry.registered(topic.schema_topic, schema))

    async def _unreadable_by(self, topic: Topic, schema: Schema, latest: Version) -> str | None:
        """Return why a consumer's schema cannot read the topic's data; None when it can.

        Under strategies that compare with the newest version it must read that one, under transitive ones all.
        """
        strategy = strategy_of(topic)
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            return None
        newest = latest.registered.schema
        if strategy in (
            Strategy.BACKWARD,
            Strategy.FORWARD,
            Strategy.FORWARD_TRANSITIVE,
            Strategy.FULL,
        ):
            return await self._registry.judged(schema, [newest], Strategy.BACKWARD)
        versions = await self._registry.versions(topic.schema_topic)
        schemas = [version.registered.schema for version in versions]
        return await self._registry.judged(schema, schemas, strategy)

    async def _register(self, topic: Topic, schema: Schema) -> int:
        """Return the version of ``schema``, which is added as a new one when the topic's policies permit it."""
        may_add = topic.policies.schema.auto_update or is_system_topic(topic)
        added = self._registry.register(
            topic.schema_topic, schema, strategy_of(topic), may_add=may_add
        )
        return await self._answer(added)

    async def latest(self, topic: Topic) -> Version | None:
        return await self._answer(self._registry.latest(topic.schema_topic))

    async def version(self, name: TopicName, number: int | None) -> Version | None:
        """Return a version of a topic that need not be loaded here; the newest when ``number`` is None."""
        if number is None:
            return await self._answer(self._registry.latest(name))
        return await self._answer(self._registry.get(name, number))

    async def forget(self, name: TopicName) -> None:
        """Delete all schemas of a topic that is deleted."""
        await self._answer(self._registry.remove(name))

    async def _answer(self, answer: Awaitable[T]) -> T:
        """Return the registry's answer; its refusals are raised as the protocol's errors."""
        try:
            return await answer
        except (IncompatibleError, InvalidSchemaError) as error:
            raise IncompatibleSchema(str(error)) from error
        except LostVersionError as error:
            raise MetadataError(str(error)) from error
        except UNAVAILABLE as error:
            raise ServiceNotReady(f"Schemas cannot be stored or read now: {error}") from error


def is_system_topic(topic: Topic) -> bool:
    """Return whether it is a system topic (``__``), whose schemas are not restricted: its writers define them."""
    return topic.schema_topic.local.startswith(SYSTEM_PREFIX)


def strategy_of(topic: Topic) -> Strategy:
    return Strategy.ALWAYS_COMPATIBLE if is_system_topic(topic) else topic.policies.schema.strategy
