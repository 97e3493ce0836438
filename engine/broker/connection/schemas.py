"""GET_SCHEMA and GET_OR_CREATE_SCHEMA, which Java and Go also send for dead letters, readers and several schemas."""

from engine.broker.connection.lookups import LOOKUP_TOPIC, parse_topic
from engine.broker.errors import BrokerError
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.schema_rules import (
    SchemaRules,
    version_number,
)
from engine.net.routing import Route, Routes
from engine.schema.kinds import version_bytes
from engine.schema.schema_registry import schema_id
from engine.schema.wire_form import to_wire
from engine.wire import commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType


class SchemaCommands:
    """Schema commands, shared by all connections of a broker."""

    def __init__(self, registry: TopicRegistry, schemas: SchemaRules) -> None:
        self._registry = registry
        self._schemas = schemas

    async def get(self, body: pb.CommandGetSchema) -> bytes:
        """Return the newest version of a topic's schema, or the requested one. Any broker answers."""
        try:
            name = parse_topic(body.topic)
            number = (
                version_number(body.schema_version) if body.HasField("schema_version") else None
            )
            version = await self._schemas.version(name, number)
            if version is None and (source := await self._registry.source_of(name)) is not None:
                version = await self._schemas.version(source, number)
        except BrokerError as error:
            return commands.schema_failed(body.request_id, error.code, str(error))
        if version is None:
            text = f"Topic not found or no-schema {body.topic}"
            return commands.schema_failed(body.request_id, ServerError.TopicNotFound, text)
        schema = to_wire(schema_id(name), version.registered.schema)
        return commands.schema(body.request_id, schema, version_bytes(version.number))

    def refuse(self, body: pb.CommandGetSchema, code: ServerError, text: str) -> bytes:
        """Return the answer to a client that may not read the topic's schema."""
        return commands.schema_failed(body.request_id, code, text)

    def refuse_version(
        self, body: pb.CommandGetOrCreateSchema, code: ServerError, text: str
    ) -> bytes:
        """Return the answer to a client that may not add a version of the topic's schema."""
        return commands.schema_version_failed(body.request_id, code, text)

    async def get_or_create(self, body: pb.CommandGetOrCreateSchema) -> bytes:
        """Return the version of a schema, which is registered first if it is new and allowed. The topic's owner
        answers."""
        try:
            topic = await self._registry.get(parse_topic(body.topic), create=False)
            version = await self._schemas.for_version(topic, body.schema)
        except BrokerError as error:
            return commands.schema_version_failed(body.request_id, error.code, str(error))
        return commands.schema_version(body.request_id, version)


ROUTES: Routes = {
    CommandType.GET_SCHEMA: Route(SchemaCommands.get, LOOKUP_TOPIC, refuse=SchemaCommands.refuse),
    CommandType.GET_OR_CREATE_SCHEMA: Route(
        SchemaCommands.get_or_create,
        # Producers and consumers may add a version, as by PRODUCER and SUBSCRIBE: Go's readers send this command.
        LOOKUP_TOPIC,
        refuse=SchemaCommands.refuse_version,
    ),
}
