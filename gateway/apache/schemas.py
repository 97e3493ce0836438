"""Schemas of topics at an Apache Pulsar cluster. Apache lists the versions since the last deletion, in one answer.

A registration and a deletion are refused when the newest version is not the expected one, which is read just before:
Apache itself cannot bind them to it.
"""

from base64 import b64encode
from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.schemas import (
    CHECK_SCHEMA,
    DELETE_SCHEMA,
    FIND_SCHEMA,
    REGISTER_SCHEMA,
    SCHEMA,
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
from engine.base.errors import Conflict, Failed, NotFound
from engine.base.names import TopicName
from engine.schema.rest_form import given
from engine.tenancy.strategy import Strategy
from gateway.apache.brokers import Handlers, Target
from gateway.apache.policies import namespace_policies_of
from gateway.apache.rest import part, topic_path

Json = dict[str, Any]
STRATEGY = "schemaCompatibilityStrategy"


def _path(topic: TopicName, *after: str) -> str:
    segments = (*str(topic.namespace).split("/"), topic.partitioned.local, *after)
    return f"/admin/v2/schemas/{'/'.join(map(part, segments))}"


async def _versions(target: Target, topic: TopicName) -> list[Json]:
    """Return all versions since the last deletion, oldest first."""
    answer = await target.rest.get(_path(topic, "schemas"))
    versions: list[Json] = (answer or {}).get("getSchemaResponses") or []
    return sorted(versions, key=lambda version: int(version["version"]))


async def _schemas(target: Target, args: OnTopic) -> list[Json]:
    return await _versions(target, args.topic)


async def _schema(target: Target, args: OneSchema) -> Json:
    after = () if args.number is None else (str(args.number),)
    answer: Json = await target.rest.get(_path(args.topic, "schema", *after))
    return answer


async def _page(target: Target, args: SchemaPage) -> Json:
    versions = await _versions(target, args.topic)
    before = [
        version
        for version in reversed(versions)
        if args.before is None or int(version["version"]) < args.before
    ]
    return {
        "total": len(versions),
        "newest": int(versions[-1]["version"]) if versions else -1,
        "versions": [_line(version) for version in before[: args.limit]],
    }


def _line(version: Json) -> Json:
    return {
        "version": int(version["version"]),
        "type": version["type"],
        "timestamp": int(version["timestamp"]),
        "size": len(_definition(version)),
    }


def _definition(version: Json) -> bytes:
    """Return a definition's bytes; of KEY_VALUE those of both parts, as clients send them."""
    text = str(version.get("data") or "")
    if version["type"] == "KEY_VALUE":
        return given("KEY_VALUE", text, version.get("properties") or {}).data
    return text.encode()


async def _stored(target: Target, args: StoredSchemas) -> list[Json]:
    answers = []
    for number in args.numbers:
        try:
            version = await target.rest.get(_path(args.topic, "schema", str(number)))
            answers.append(
                {
                    "version": number,
                    "type": version["type"],
                    "timestamp": int(version["timestamp"]),
                    "data": b64encode(_definition(version)).decode(),
                    "properties": dict(version.get("properties") or {}),
                }
            )
        except NotFound:
            reason = f"Apache does not return the schema version {number}; it may have been deleted"
            answers.append({"version": number, "reason": reason})
    return answers


def _body(args: GivenSchema) -> Json:
    # Checked here, because Apache answers an invalid definition with a failure of its own.
    given(args.kind, args.definition, args.properties)
    return {"type": args.kind, "schema": args.definition, "properties": dict(args.properties)}


async def _check(target: Target, args: GivenSchema) -> Json:
    try:
        answer = await target.rest.send("POST", _path(args.topic, "compatibility"), _body(args))
    except Failed as error:
        # Of an incompatible schema, Apache states the reason in place of a verdict.
        if "compatib" not in str(error).lower():
            raise
        strategy = await _strategy(target, args.topic)
        return {"compatibility": False, STRATEGY: strategy, "reason": str(error)}
    return dict(answer)


async def _find(target: Target, args: GivenSchema) -> int:
    answer = await target.rest.send("POST", _path(args.topic, "version"), _body(args))
    version = (answer or {}).get("version")
    return -1 if version is None else int(version)


async def _expect(target: Target, topic: TopicName, expected: int | None) -> Json | None:
    """Return the newest version for the audit log. Raises Conflict when it is not the expected one."""
    versions = await _versions(target, topic)
    newest = int(versions[-1]["version"]) if versions else -1
    if expected is not None and newest != expected:
        raise Conflict(f"The newest version is {newest}, not {expected}: look at it again")
    return _line(versions[-1]) if versions else None


async def _register(target: Target, args: RegisterSchema) -> Json:
    body = _body(args)
    before = await _expect(target, args.topic, args.expected)
    answer = await target.rest.send("POST", _path(args.topic, "schema"), body)
    version = int(answer["version"]["version"])
    return {"version": version, "before": before, "after": {"version": version}}


async def _delete(target: Target, args: DeleteSchema) -> Json:
    before = await _expect(target, args.topic, args.expected)
    answer = await target.rest.send("DELETE", _path(args.topic, "schema"), force=args.force)
    version = ((answer or {}).get("version") or {}).get("version", -1)
    return {"version": int(version), "before": before}


async def _strategy(target: Target, topic: TopicName) -> str:
    """Return the compatibility strategy that is in force."""
    own = await target.rest.get(topic_path(topic.partitioned, STRATEGY), applied=False)
    if own and own != Strategy.UNDEFINED.value:
        return str(own)
    policies = await namespace_policies_of(target, topic.namespace)
    return str(policies[STRATEGY]["value"])


SCHEMA_CALLS: Handlers = {
    SCHEMA.name: _schema,
    SCHEMAS.name: _schemas,
    SCHEMA_PAGE.name: _page,
    STORED_SCHEMAS.name: _stored,
    CHECK_SCHEMA.name: _check,
    FIND_SCHEMA.name: _find,
    REGISTER_SCHEMA.name: _register,
    DELETE_SCHEMA.name: _delete,
}
