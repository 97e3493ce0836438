"""Administrative operations on schemas of topics: versions, checks of candidates, registration and deletion."""

from base64 import b64encode
from collections.abc import Awaitable
from typing import TypeVar

from engine.admin.api.arguments import JsonObject, OnTopic
from engine.admin.api.schemas import (
    CHECK_SCHEMA,
    DELETE_SCHEMA,
    FIND_SCHEMA,
    REGISTER_SCHEMA,
    SCHEMA,
    SCHEMA_METADATA,
    SCHEMA_PAGE,
    SCHEMAS,
    STORED_SCHEMAS,
    DeleteSchema,
    GivenSchema,
    OneSchema,
    RegisterSchema,
    SchemaPage,
    StoredSchemas,
)
from engine.base.errors import (
    Conflict,
    Failed,
    NotFound,
    NotReady,
    Unprocessable,
)
from engine.base.names import TopicName
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.control.catalog import Catalog
from engine.broker.errors import TopicNotFound
from engine.ledger.errors import LedgerError
from engine.rpc.operation import Handlers, bind
from engine.schema.kinds import InvalidSchemaError
from engine.schema.locator import SchemaVersion
from engine.schema.rest_form import definition_text, given
from engine.schema.schema_registry import (
    IncompatibleError,
    OvertakenError,
    SchemaRegistry,
)
from engine.schema.stored_versions import LostVersionError, UnreadableError, Version
from engine.tenancy.strategy import Strategy

T = TypeVar("T")


class SchemaOperations:
    """Handlers of the operations, which ``engine.admin.api.schemas`` describes. All changes of a topic's schemas are
    made by its owner."""

    def __init__(self, topics: OwnedTopics, schemas: SchemaRegistry, catalog: Catalog) -> None:
        self._topics = topics
        self._schemas = schemas
        self._catalog = catalog

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(SCHEMA, self.schema),
                bind(SCHEMAS, self.schemas),
                bind(SCHEMA_PAGE, self.page),
                bind(STORED_SCHEMAS, self.stored),
                bind(SCHEMA_METADATA, self.metadata),
                bind(REGISTER_SCHEMA, self.register),
                bind(CHECK_SCHEMA, self.check),
                bind(FIND_SCHEMA, self.find),
                bind(DELETE_SCHEMA, self.delete),
            ]
        )

    async def schema(self, args: OneSchema) -> JsonObject:
        await self._topics.check_owned(args.topic)
        version = await _refusing(self._schemas.live(args.topic, args.number))
        if version is None:
            raise NotFound("Schema not found")
        return schema_answer(version)

    async def schemas(self, args: OnTopic) -> list[JsonObject]:
        await self._topics.check_owned(args.topic)
        versions = await _refusing(self._schemas.versions(args.topic))
        return [schema_answer(version) for version in versions]

    async def page(self, args: SchemaPage) -> JsonObject:
        await self._topics.check_owned(args.topic)
        page = await _refusing(self._schemas.page(args.topic, args.limit, args.before))
        versions = [_line(number, version) for number, version in page.versions]
        return {"total": page.total, "newest": page.newest, "versions": versions}

    async def stored(self, args: StoredSchemas) -> list[JsonObject]:
        await self._topics.check_owned(args.topic)
        return [await self._stored(args.topic, number) for number in args.numbers]

    async def _stored(self, topic: TopicName, number: int) -> JsonObject:
        try:
            version = await self._schemas.get(topic, number)
        except UnreadableError as error:
            return {"version": number, "reason": str(error)}
        if version is None:
            return {"version": number, "reason": f"schema version {number} is not there"}
        schema = version.registered.schema
        return {
            "version": number,
            "type": schema.kind.value,
            "timestamp": version.registered.at_ms,
            "data": b64encode(schema.data).decode(),
            "properties": dict(schema.properties),
        }

    async def metadata(self, args: OnTopic) -> JsonObject:
        await self._topics.check_owned(args.topic)
        versions = await _refusing(self._schemas.index(args.topic))
        index = [_position(version) for version in versions]
        return {"info": index[-1], "index": index} if index else {}

    async def register(self, args: RegisterSchema) -> JsonObject:
        await self._topics.check_owned(args.topic)
        schema = given(args.kind, args.definition, args.properties)
        strategy = await self._strategy(args.topic)
        before = await self._newest(args.topic)
        # Without a check whether clients may register schemas: an administrator always may.
        version = await _refusing(
            self._schemas.register(args.topic, schema, strategy, expected=args.expected)
        )
        return {"version": version, "before": before, "after": {"version": version}}

    async def check(self, args: GivenSchema) -> JsonObject:
        await self._topics.check_owned(args.topic)
        schema = given(args.kind, args.definition, args.properties)
        strategy = await self._strategy(args.topic)
        reason = await _refusing(self._schemas.refusal(args.topic, schema, strategy))
        answer = {"compatibility": reason is None, "schemaCompatibilityStrategy": strategy.value}
        return answer if reason is None else {**answer, "reason": reason}

    async def find(self, args: GivenSchema) -> int:
        await self._topics.check_owned(args.topic)
        schema = given(args.kind, args.definition, args.properties)
        version = await _refusing(self._schemas.find(args.topic, schema))
        return -1 if version is None else version

    async def delete(self, args: DeleteSchema) -> JsonObject:
        await self._topics.check_owned(args.topic)
        before = await self._newest(args.topic)
        if args.force:
            await _refusing(self._schemas.remove(args.topic))
            return {"version": -1, "before": before}
        version = await _refusing(self._schemas.delete(args.topic, expected=args.expected))
        return {"version": version, "before": before}

    async def _newest(self, topic: TopicName) -> JsonObject | None:
        """Return the newest version for the audit log, without its definition, which the topic keeps."""
        versions = (await _refusing(self._schemas.page(topic, 1))).versions
        return _line(*versions[0]) if versions else None

    async def _strategy(self, topic: TopicName) -> Strategy:
        try:
            return (await self._catalog.policies(topic)).schema.strategy
        except TopicNotFound as error:
            raise NotFound("Namespace does not exist") from error


async def _refusing(answer: Awaitable[T]) -> T:
    """Await the registry's answer, and raise its errors as refusals of the administration."""
    try:
        return await answer
    except (IncompatibleError, OvertakenError) as error:
        raise Conflict(str(error)) from error
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    except LostVersionError as error:
        raise Failed(str(error)) from error
    except (UnreadableError, LedgerError) as error:
        raise NotReady(f"Schemas cannot be stored or read now: {error}") from error


def schema_answer(version: Version) -> JsonObject:
    """Return a version as GetSchemaResponse."""
    schema = version.registered.schema
    return {
        "version": version.number,
        "type": schema.kind.value,
        "timestamp": version.registered.at_ms,
        "data": definition_text(schema),
        "properties": dict(schema.properties),
    }


def _line(number: int, version: Version | UnreadableError) -> JsonObject:
    if isinstance(version, UnreadableError):
        return {"version": number, "reason": str(version)}
    schema = version.registered.schema
    size = len(schema.data)
    return {
        "version": number,
        "type": schema.kind.value,
        "timestamp": version.registered.at_ms,
        "size": size,
    }


def _position(stored: SchemaVersion) -> JsonObject:
    return {"ledgerId": stored.ledger_id, "entryId": stored.entry_id, "version": stored.version}
