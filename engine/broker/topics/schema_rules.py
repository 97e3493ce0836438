"""Which schema a producer or consumer may bring to a topic, and what it becomes: a version, or a refusal."""

from collections.abc import Awaitable
from typing import TypeVar

from engine.base.names import TopicName
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
from engine.tenancy.topics import SYSTEM_PREFIX
from engine.wire import pulsar_pb2 as pb

AUTO_CONSUME = 21
"""In the wire's numbers: whatever the topic has; never registered."""
NO_VERSION = b""
T = TypeVar("T")
AWAY = (
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
    """Raises IncompatibleSchema for what is no version."""
    if not version:
        raise IncompatibleSchema("Empty schema version")
    number = version_of(version)
    if number is None:
        raise IncompatibleSchema(f"schema version: expected 8 bytes, got {len(version)}")
    return number


def given_schema(body: pb.Schema) -> Schema:
    """What a client sent. Raises IncompatibleSchema for an unknown kind."""
    try:
        return from_wire(body)
    except InvalidSchemaError as error:
        raise IncompatibleSchema(str(error)) from None


class SchemaRules:
    """For all topics of a broker. Everything raises BrokerError; cancel-safe: what was asked may become registered."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    async def for_producer(self, topic: Topic, body: pb.Schema | None) -> bytes:
        """The version of the producer's schema, empty without one."""
        if body is not None:
            return version_bytes(await self._register(topic, given_schema(body)))
        enforced = topic.policies.schema_enforced and not of_the_system(topic)
        if enforced and await self.latest(topic) is not None:
            raise IncompatibleSchema(ENFORCED)
        return NO_VERSION

    async def for_version(self, topic: Topic, body: pb.Schema) -> bytes:
        """As for a producer; whoever asks without one (NONE) gets no version."""
        return await self.for_producer(topic, None if body.type == pb.Schema.None_ else body)

    async def for_consumer(self, topic: Topic, body: pb.Schema | None) -> int | None:
        """A consumer's schema must read what the topic has; the first to use a topic gives it its schema. The version
        whose very bytes it is, None without one."""
        if body is None or body.type == AUTO_CONSUME:
            return None
        schema = given_schema(body)
        latest = await self._asked(self._registry.latest(topic.name, like=schema))
        if latest is None and topic.untouched:
            return await self._register(topic, schema)
        if latest is None:
            raise IncompatibleSchema(
                "Failed to add schema to an active topic with empty(BYTES) schema:"
                f" new schema type {schema.kind.value}"
            )
        why = await self._asked(self._unreadable_by(topic, schema, latest))
        if why is not None:
            raise IncompatibleSchema(why)
        newest = latest.registered.schema
        if newest.data == schema.data and same(newest, schema):
            return latest.number
        return await self._asked(self._registry.registered(topic.name, schema))

    async def _unreadable_by(self, topic: Topic, schema: Schema, latest: Version) -> str | None:
        """A consumer reads the newest data under the strategies that look at the newest, else all."""
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
        versions = await self._registry.versions(topic.name)
        before = [one.registered.schema for one in versions]
        return await self._registry.judged(schema, before, strategy)

    async def _register(self, topic: Topic, schema: Schema) -> int:
        """The version that ``schema`` is, a new one if the topic's policies let it be one."""
        may_add = topic.policies.schema_auto_update or of_the_system(topic)
        added = self._registry.register(topic.name, schema, strategy_of(topic), may_add=may_add)
        return await self._asked(added)

    async def latest(self, topic: Topic) -> Version | None:
        return await self._asked(self._registry.latest(topic.name))

    async def version(self, name: TopicName, number: int | None) -> Version | None:
        """Of a topic that need not be loaded here; None for ``number``: the newest."""
        if number is None:
            return await self._asked(self._registry.latest(name))
        return await self._asked(self._registry.get(name, number))

    async def forget(self, name: TopicName) -> None:
        """Delete the schemas of a whole topic that is deleted."""
        await self._asked(self._registry.remove(name))

    async def _asked(self, answer: Awaitable[T]) -> T:
        """The registry's answer, its refusals in the protocol's words."""
        try:
            return await answer
        except (IncompatibleError, InvalidSchemaError) as error:
            raise IncompatibleSchema(str(error)) from error
        except LostVersionError as error:
            raise MetadataError(str(error)) from error
        except AWAY as error:
            raise ServiceNotReady(f"Schemas cannot be stored or read now: {error}") from error


def of_the_system(topic: Topic) -> bool:
    """Topics that begin with ``__`` take what the software that writes them says; topics' own policies are in them."""
    return topic.name.local.startswith(SYSTEM_PREFIX)


def strategy_of(topic: Topic) -> Strategy:
    return Strategy.ALWAYS_COMPATIBLE if of_the_system(topic) else topic.policies.schema_strategy
