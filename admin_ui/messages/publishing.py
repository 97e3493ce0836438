"""Messages published from the console: all of a request are checked before the first is sent, and each has an answer.

They are sent under the caller's role, which brokers judge as that of any producer. The audit log keeps their number and
positions, never their contents.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from admin_ui.messages.given import given_line, given_message
from engine.base.errors import InvalidField, NotFound
from engine.base.names import TopicName
from engine.metadata import account
from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.encoding import UnencodableError
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from gateway.http.bodies import kind_of
from gateway.services.admin import existence, schemas
from gateway.services.clock import now_ms
from gateway.services.encoding import GivenMessage, outgoing_encoder
from gateway.services.engine_link import Engine
from gateway.services.publishing import Outgoing, Publisher, failure_of

Body = dict[str, Any]
MESSAGES_MAX = 1_000
"""Messages in a request."""
PROBLEMS_MAX = 100
"""Problems that an answer lists; all are counted."""
NO_SCHEMA = -1
_BYTES = Schema(SchemaKind.NONE, b"", {})


class WrongMessage(NamedTuple):
    """A message that cannot be published: its number in the request, its field, and the reason."""

    message: int
    field: str
    reason: str


class Prepared(NamedTuple):
    """Messages of a request, encoded, with the topics to distribute them over. ``version``: of the schema, NO_SCHEMA
    without one."""

    topics: list[TopicName]
    schema: Schema
    version: int
    messages: list[Outgoing]
    problems: list[WrongMessage]

    @property
    def answer(self) -> Body:
        """The answer to a preview."""
        return {
            "at": now_ms(),
            "messages": len(self.messages) + len(self.problems),
            "bytes": sum(len(outgoing.message.payload) for outgoing in self.messages),
            "partitions": len(self.topics) if self.topics[0].partition >= 0 else 0,
            "schema_version": None if self.version == NO_SCHEMA else self.version,
            "schema_type": None if self.version == NO_SCHEMA else self.schema.kind.value,
            "wrong": len(self.problems),
            "problems": [problem._asdict() for problem in self.problems[:PROBLEMS_MAX]],
        }


async def prepare(engine: Engine, name: TopicName, body: Body) -> Prepared:
    """Return the messages of a body, each checked. Raises InvalidField for a body without them, NotFound."""
    given, read, unit = _items(body)
    await existence.require_any(engine, name)
    count = await existence.partitions_of(engine, name)
    topics = [name.partition_at(index) for index in range(count)] or [name]
    schema, version = await _schema(engine, name, body.get("schema_version"))
    # In a thread: a request may have a megabyte of values to encode and to decode again.
    messages, problems = await asyncio.to_thread(_encoded, given, read, schema, unit)
    return Prepared(topics, schema, version, messages, problems)


async def publish(publisher: Publisher, prepared: Prepared) -> Body:
    """Publish prepared messages; return the answer with the result of each.

    Raises InvalidField for the first problem: nothing was sent then. Raises as ``Publisher.publish`` does.
    """
    if prepared.problems:
        number, field, reason = prepared.problems[0]
        raise InvalidField(f"messages[{number}].{field}", reason)
    published = await publisher.publish(prepared.topics, prepared.messages, prepared.schema)
    results = []
    for result, partition in zip(published.results, published.partitions, strict=True):
        answer: Body = {"id": None, "partition": partition, "problem": None, "retriable": False}
        if (at := result.message_id) is not None:
            index = "" if at.batch_index < 0 else f":{at.batch_index}"
            answer["id"] = f"{at.position.ledger_id}:{at.position.entry_id}{index}"
        elif result.error is not None:
            code, text = failure_of(result.error)
            answer |= {"problem": text, "retriable": code == 1}
        results.append(answer)
    stored = [result["id"] for result in results if result["id"] is not None]
    if (accounted := account.current()) is not None:
        after = {"messages": len(results), "stored": len(stored), "first": stored[:1]}
        accounted.add("publish", None, after)
    return {
        "at": now_ms(),
        "messages": len(results),
        "stored": len(stored),
        "schema_version": None if prepared.version == NO_SCHEMA else prepared.version,
        "results": results,
    }


Read = Callable[[Any, int], GivenMessage]


def _items(body: Body) -> tuple[list[Any], Read, str]:
    fields = [field for field in ("messages", "lines") if body.get(field) is not None]
    if len(fields) != 1:
        raise InvalidField("messages", "give one of messages and lines")
    items = body[fields[0]]
    if not isinstance(items, list):
        raise InvalidField(fields[0], f"expected an array, got {kind_of(items)}")
    if not 0 < len(items) <= MESSAGES_MAX:
        raise InvalidField(fields[0], f"1 to {MESSAGES_MAX} in a request, got {len(items)}")
    return (
        (items, given_message, "message")
        if fields[0] == "messages"
        else (items, given_line, "line")
    )


async def _schema(engine: Engine, name: TopicName, version: Any) -> tuple[Schema, int]:
    """Return the schema that messages are encoded by, and its version. ``version`` None: the topic's newest."""
    if version is None:
        version = (await schemas.page(engine, name.partitioned, 1))["newest"]
    elif type(version) is not int or version < NO_SCHEMA:
        raise InvalidField("schema_version", f"expected a version, or {NO_SCHEMA} for none")
    if version == NO_SCHEMA:
        return _BYTES, NO_SCHEMA
    stored = (await schemas.stored(engine, name.partitioned, [version]))[version]
    if isinstance(stored, str):
        raise NotFound(f"schema_version: {stored}")
    return stored.schema, version


def _encoded(
    given: Sequence[Any], read: Read, schema: Schema, unit: str
) -> tuple[list[Outgoing], list[WrongMessage]]:
    messages: list[Outgoing] = []
    problems: list[WrongMessage] = []
    try:
        encode, check = outgoing_encoder(schema), decoder(schema, schema)
    except InvalidSchemaError as error:
        return [], [WrongMessage(number, unit, str(error)) for number in range(len(given))]
    now = now_ms()
    for number, item in enumerate(given):
        try:
            message = read(item, now)
            outgoing = encode(message)
            if schema.kind is not SchemaKind.NONE and message.payload is not None:
                _check(check, outgoing, message, schema)
        except UnencodableError as error:
            problems.append(WrongMessage(number, _named(error.path), error.reason))
        except UndecodableError as error:
            problems.append(WrongMessage(number, _named(f"payload.{error.path}"), error.reason))
        except InvalidField as error:
            reason = str(error).removeprefix(f"{error.field}: ")
            problems.append(WrongMessage(number, error.field, reason))
        else:
            messages.append(outgoing)
    return messages, problems


def _check(check: Decoder, outgoing: Outgoing, given: GivenMessage, schema: Schema) -> None:
    """Check that consumers can decode a message: a JSON that does not fit its definition, and bytes that are given.

    Raises UndecodableError.
    """
    key = outgoing.message.key
    # The encoder writes the key of a pair in base64; beside a value in bytes it is as it was given.
    is_packed = schema.kind is SchemaKind.KEY_VALUE and isinstance(given.payload, str)
    raw = (
        None
        if key is None
        else b64decode(key)
        if is_packed or given.key_is_base64
        else key.encode()
    )
    check.value(outgoing.message.payload, raw)


def _named(path: str) -> str:
    """Return the place in a payload as one in the value."""
    head, rest = path[: len("payload")], path[len("payload") :]
    return f"value{rest}".rstrip(".") if head == "payload" else path
