"""Operations about the schemas of topics: versions, verdicts on candidates, registration and deletion."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from engine.admin import api
from engine.admin.api import JsonObject
from engine.admin.operation import Handlers, bind
from engine.base.errors import (
    Conflict,
    Failed,
    InvalidField,
    NotFound,
    NotReady,
    Unprocessable,
)
from engine.base.names import TopicName
from engine.broker.control.catalog import Catalog
from engine.broker.errors import TopicNotFound
from engine.ledger.errors import LedgerError
from engine.schema.compatibility import check
from engine.schema.kinds import (
    CLIENT_SIDE,
    InvalidSchemaError,
    Schema,
    SchemaKind,
    joined,
    key_value,
)
from engine.schema.locator import SchemaVersion
from engine.schema.schema_registry import (
    IncompatibleError,
    SchemaRegistry,
    UnreadableError,
    Version,
)
from engine.tenancy.strategy import Strategy

T = TypeVar("T")


class SchemaOperations:
    """``here`` raises MovedError when another broker owns the topic: changes of one topic's schemas meet there."""

    def __init__(
        self,
        schemas: SchemaRegistry,
        catalog: Catalog,
        here: Callable[[TopicName], Awaitable[None]],
    ) -> None:
        self._schemas = schemas
        self._catalog = catalog
        self._here = here

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(api.SCHEMA, self.schema),
                bind(api.SCHEMAS, self.schemas),
                bind(api.SCHEMA_METADATA, self.metadata),
                bind(api.REGISTER_SCHEMA, self.register),
                bind(api.CHECK_SCHEMA, self.check),
                bind(api.FIND_SCHEMA, self.find),
                bind(api.DELETE_SCHEMA, self.delete),
            ]
        )

    async def schema(self, args: api.OneSchema) -> JsonObject:
        await self._here(args.topic)
        found = await _asked(self._schemas.live(args.topic, args.number))
        if found is None:
            raise NotFound("Schema not found")
        return told(found)

    async def schemas(self, args: api.OnTopic) -> list[JsonObject]:
        await self._here(args.topic)
        return [told(one) for one in await _asked(self._schemas.versions(args.topic))]

    async def metadata(self, args: api.OnTopic) -> JsonObject:
        await self._here(args.topic)
        index = [_place(one) for one in await _asked(self._schemas.index(args.topic))]
        return {"info": index[-1], "index": index} if index else {}

    async def register(self, args: api.GivenSchema) -> int:
        await self._here(args.topic)
        schema = given(args)
        strategy = await self._strategy(args.topic)
        # An administrator adds versions also where clients may not.
        return await _asked(self._schemas.register(args.topic, schema, strategy))

    async def check(self, args: api.GivenSchema) -> JsonObject:
        await self._here(args.topic)
        schema = given(args)
        strategy = await self._strategy(args.topic)
        why = await _asked(self._schemas.refusal(args.topic, schema, strategy))
        said = {"compatibility": why is None, "schemaCompatibilityStrategy": strategy.value}
        return said if why is None else {**said, "reason": why}

    async def find(self, args: api.GivenSchema) -> int:
        await self._here(args.topic)
        found = await _asked(self._schemas.find(args.topic, given(args)))
        return -1 if found is None else found

    async def delete(self, args: api.DeleteSchema) -> int:
        await self._here(args.topic)
        if args.force:
            await _asked(self._schemas.remove(args.topic))
            return -1
        return await _asked(self._schemas.delete(args.topic))

    async def _strategy(self, topic: TopicName) -> Strategy:
        try:
            return (await self._catalog.policies(topic)).schema_strategy
        except TopicNotFound as error:
            raise NotFound("Namespace does not exist") from error


async def _asked(answer: Awaitable[T]) -> T:
    """The registry's answer, its refusals as those of administration."""
    try:
        return await answer
    except IncompatibleError as error:
        raise Conflict(str(error)) from error
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    except UnreadableError as error:
        raise Failed(str(error)) from error
    except LedgerError as error:
        raise NotReady(f"Schemas cannot be stored or read now: {error}") from error


def given(args: api.GivenSchema) -> Schema:
    """The schema of a REST body. Raises InvalidField, Unprocessable."""
    if args.kind in CLIENT_SIDE:
        raise Unprocessable(f"Schema {args.kind} is a client-side schema type")
    name = SchemaKind.NONE.value if args.kind == "BYTES" else args.kind
    try:
        kind = SchemaKind(name)
    except ValueError:
        known = ", ".join(one.value for one in SchemaKind)
        raise InvalidField("type", f"expected one of {known}") from None
    try:
        data = args.definition.encode()
    except UnicodeEncodeError:
        raise InvalidField("schema", "has half of a character (a lone surrogate)") from None
    schema = Schema(kind, _parts(data) if kind is SchemaKind.KEY_VALUE else data, args.properties)
    try:
        check(schema)
    except InvalidSchemaError as error:
        raise Unprocessable(str(error)) from error
    return schema


def _parts(data: bytes) -> bytes:
    """A KEY_VALUE definition of REST as clients send it."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unprocessable(f"schema: not valid JSON: {error}") from None
    if not isinstance(document, dict) or not {"key", "value"} <= document.keys():
        raise Unprocessable("schema: expected a JSON object with key and value")
    return joined(*(_part(document[name]) for name in ("key", "value")))


def _part(document: Any) -> bytes:
    return b"" if document == "" else json.dumps(document, separators=(",", ":")).encode()


def told(one: Version) -> JsonObject:
    """A version as GetSchemaResponse."""
    schema = one.found.schema
    data = schema.data.decode(errors="replace")
    if schema.kind is SchemaKind.KEY_VALUE:
        data = _joined_text(schema)
    return {
        "version": one.number,
        "type": schema.kind.value,
        "timestamp": one.found.at_ms,
        "data": data,
        "properties": dict(schema.properties),
    }


def _joined_text(schema: Schema) -> str:
    try:
        parts = key_value(schema)
    except InvalidSchemaError:
        return schema.data.decode(errors="replace")
    return json.dumps(
        {"key": _document(parts.key), "value": _document(parts.value)}, separators=(",", ":")
    )


def _document(part: Schema) -> Any:
    try:
        return json.loads(part.data) if part.data else ""
    except ValueError:
        return part.data.decode(errors="replace")


def _place(one: SchemaVersion) -> JsonObject:
    return {"ledgerId": one.ledger_id, "entryId": one.entry_id, "version": one.version}
