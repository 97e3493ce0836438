"""Operations on plain topics, partitions, and on all partitions of a topic."""

from collections.abc import Sequence
from typing import Any

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.topics import (
    CHANGE_PROPERTIES,
    COMPACT,
    COMPACTION_STATUS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    OFFLOAD,
    OFFLOAD_STATUS,
    TERMINATE,
    TOPIC_PROPERTIES,
    TRIM,
    TRUNCATE,
    UNLOAD,
    ChangeProperties,
    CreateTopic,
    DeleteTopic,
    MoveLedgers,
)
from engine.base.errors import NotFound, PreconditionFailed
from engine.base.names import PERSISTENT, NamespaceName, TopicName
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import get_bundles, get_policies
from gateway.services.admin import existence, messages
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def list_topics(
    engine: Engine,
    domain: str,
    namespace: NamespaceName,
    *,
    bundle: str | None = None,
    include_system: bool = False,
) -> Sequence[str]:
    """Return the concrete topics of a namespace: persistent ones that exist, or non-persistent ones that are
    loaded."""
    if domain == PERSISTENT:
        if bundle and bundle not in (await get_bundles(engine.store, namespace)).ranges:
            return []
        return await metadata.list_topics(
            engine.store, namespace, bundle=bundle, include_system=include_system
        )
    await get_policies(engine.store, namespace)
    return await existence.loaded_nonpersistent(engine, namespace)


async def create(engine: Engine, name: TopicName, properties: dict[str, str]) -> None:
    """Create a plain topic. Its broker decides whether it may exist."""
    await engine.call(CREATE_TOPIC, CreateTopic(name, properties))


async def delete(engine: Engine, name: TopicName, *, force: bool, seen: Any = None) -> None:
    """Delete a plain topic or one partition. Its broker decides whether it may be deleted; ``seen``: see
    ``DeleteTopic``."""
    try:
        await engine.call(DELETE_TOPIC, DeleteTopic(name, force, seen))
    except NotFound as error:
        if name.persistent:  # a non-persistent topic that is not loaded is deleted already
            raise NotFound(f"Topic {name} not found") from error


async def properties(engine: Engine, name: TopicName) -> dict[str, str]:
    """Return the properties of a plain topic, a partition or a partitioned topic: each has its own."""
    existence.require_persistent(name)
    record = await metadata.find_partitions(engine.store, name)
    if record is not None:
        return record.get("properties") or {}
    await existence.require(engine, name)
    return await engine.call(TOPIC_PROPERTIES, OnTopic(name))


async def set_properties(engine: Engine, name: TopicName, properties: dict[str, str]) -> None:
    """Set properties, and keep those with other keys."""
    await change_properties(engine, ChangeProperties(name, properties))


async def remove_property(engine: Engine, name: TopicName, key: str) -> None:
    """Remove a property; a missing one is no error."""
    await change_properties(engine, ChangeProperties(name, removed=[key]))


async def change_properties(engine: Engine, args: ChangeProperties) -> None:
    """Change the properties of a plain topic, a partition or a partitioned topic. Raises Conflict when they are not as
    expected."""
    existence.require_persistent(args.topic)
    if await existence.partitions_of(engine, args.topic):
        await metadata.change_properties(
            engine.store, args.topic, args.changes, expected=args.expected
        )
        return
    await existence.require(engine, args.topic)
    await engine.call(CHANGE_PROPERTIES, args)


async def offload_status(engine: Engine, name: TopicName) -> Json:
    """Return OffloadProcessStatus of a plain topic or one partition."""
    await existence.require_plain(engine, name)
    status = await engine.call(OFFLOAD_STATUS, OnTopic(name))
    first = status["first"] or {"ledgerId": -1, "entryId": -1}
    return {
        "status": status["status"],
        "lastError": status["lastError"],
        "firstUnoffloadedMessage": messages.message_id(first),
    }


async def offload(engine: Engine, name: TopicName, before: MessagePosition) -> None:
    """Start to move the closed ledgers of a plain topic or one partition before that of a position."""
    await existence.require_plain(engine, name)
    await engine.call(OFFLOAD, MoveLedgers(name, before))


async def terminate(engine: Engine, name: TopicName) -> Json:
    """Terminate the topic and return its last MessageId."""
    existence.require_persistent(name)
    await existence.refuse_parent(engine, name, "Termination of a partitioned topic is not allowed")
    return messages.message_id((await engine.call(TERMINATE, OnTopic(name)))["last"])


async def unload(engine: Engine, name: TopicName) -> None:
    """Unload the topic, or every partition, from its broker."""
    await existence.on_each_member(engine, UNLOAD, OnTopic(name))


async def trim(engine: Engine, name: TopicName) -> None:
    """Delete the ledgers of the topic, or of every partition, that no cursor and no retention needs."""
    await existence.on_each_member(engine, TRIM, OnTopic(name))


async def truncate(engine: Engine, name: TopicName) -> None:
    """Delete all messages but those of the open ledger, of the topic or every partition; all subscriptions then have
    them acknowledged."""
    if not name.persistent:
        raise PreconditionFailed("unsupport truncate")
    await existence.on_each_member(engine, TRUNCATE, OnTopic(name))


async def compact(engine: Engine, name: TopicName) -> None:
    """Start to compact the topic, or every partition."""
    await existence.on_each_member(engine, COMPACT, OnTopic(name))


async def compaction_status(engine: Engine, name: TopicName) -> Json:
    """Return the status of the last compaction of the topic, or of its partitions together."""
    return await engine.call(COMPACTION_STATUS, OnTopic(name))
