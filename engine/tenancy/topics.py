"""Topics in the metadata store: their existence, and the creation of partitioned topics.

No function here needs a broker; ``engine.admin.partitions`` has the operations that do. A topic exists when the node of
its managed ledger does. A partitioned topic is a record of its own, whose partitions are topics.

When a plain and a partitioned topic of one name are created concurrently, exactly one is created (N1):

* The creator of the partitioned topic stores a claim (a record of 0 partitions), checks that there is no plain topic,
  and replaces the claim with the record by compare-and-set.
* The creator of the plain topic creates its node, checks that there is no record, and removes a claim by
  compare-and-set.

Both then check the namespace again (N2), because its deletion marks it first and checks for topics afterwards.
Functions raise Refusal with Pulsar's texts. After cancellation a change may or may not have happened.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidNameError,
    NotAcceptable,
    NotFound,
    PreconditionFailed,
)
from engine.base.names import (
    DOMAINS,
    PARTITION_SUFFIX,
    PENDING_ACK_SUFFIX,
    PERSISTENT,
    SYSTEM_PREFIX,
    BundleName,
    NamespaceName,
    TopicName,
    bundle_hash,
    decode_name,
    is_transaction_log,
)
from engine.metadata import paths
from engine.metadata.apart.routed import are_together
from engine.metadata.cached import derived, derived_children, fresh
from engine.metadata.records import Document, RecordFormatError, Stored, decode_json, encode_json
from engine.metadata.store import (
    BadVersionError,
    Found,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.metadata.update import turn
from engine.tenancy.checks import check_expected, check_properties_size
from engine.tenancy.geo.shadow_topics import check_unchanged, partition_record
from engine.tenancy.namespaces import get_policies, is_present
from engine.tenancy.nodes import change_node, create_node, find_node

PARTITIONS_MAX = 10_000
PARTITIONS_READ_MAX = 100_000
"""Largest number in a record, which another program may have written, that is read: all partitions are listed by name
in one place or another."""
EXISTS = "This topic already exists"
NO_PARTITIONS: Document = {"partitions": 0, "deleted": False}
CLAIM = encode_json(NO_PARTITIONS)
RACES_MAX = 100
"""Number of lost compare-and-sets after which a creation fails."""
_PARTITION_INSIDE = re.compile(re.escape(PARTITION_SUFFIX) + "[0-9]")


def partitioned_path(topic: TopicName) -> str:
    """Return the path of a partitioned topic's record."""
    return paths.partitioned_topic(str(topic.namespace), topic.local, topic.domain)


def ledger_path(topic: TopicName) -> str:
    """Return the path of a topic's managed ledger, which only persistent topics have."""
    return paths.managed_ledger(topic.managed_ledger_name)


async def list_topics(
    store: MetadataStore,
    namespace: NamespaceName,
    *,
    bundle: str | None = None,
    include_system: bool = False,
) -> Sequence[str]:
    """Return the full names of a namespace's persistent topics and partitions, sorted.

    ``bundle`` selects those of one range, none for an invalid range. Raises NotFound without the namespace.
    """
    await get_policies(store, namespace)
    make = full_names if include_system else users_names
    names = await names_below(store, paths.managed_ledgers(str(namespace)), make)
    if bundle is None:
        return names
    try:
        bundle_name = BundleName.parse(namespace, bundle)
    except InvalidNameError:
        return ()
    return tuple(name for name in names if bundle_name.holds(bundle_hash(name)))


async def list_partitioned(
    store: MetadataStore, namespace: NamespaceName, domain: str = PERSISTENT
) -> Sequence[str]:
    """Return the full names of a namespace's partitioned topics, sorted. Raises NotFound without the namespace."""
    await get_policies(store, namespace)
    path = paths.partitioned_topics(str(namespace), domain)
    return await names_below(store, path, users_names)


Names = tuple[str, ...]


async def names_below(
    store: MetadataStore, path: str, make: Callable[[Sequence[str], str], Names]
) -> Names:
    """Return the names that ``make`` (``full_names`` or ``users_names``) forms of a node's children.

    There are none without the node.
    """
    try:
        return await derived_children(store, path, make)
    except NoNodeError:
        return ()


def full_names(parts: Sequence[str], path: str) -> Names:
    """Return the full topic names, sorted, of the children of ``<tree>/<namespace>/<domain>``.

    The names are not validated, because they were validated before they were stored.
    """
    _, _, below = path.removeprefix("/admin").lstrip("/").partition("/")
    namespace, _, domain = below.rpartition("/")
    start = f"{domain}://{namespace}/"
    return tuple(
        sorted(
            start + (decode_name(part) if "%" in part or "+" in part else part) for part in parts
        )
    )


def users_names(parts: Sequence[str], path: str) -> Names:
    """Return the full topic names without those of system topics; see ``full_names``."""
    shown = [
        part
        for part in parts
        if not part.startswith(SYSTEM_PREFIX) and not part.endswith(PENDING_ACK_SUFFIX)
    ]
    return full_names(shown, path)


async def find_partitions(store: MetadataStore, topic: TopicName) -> Stored | None:
    """Return PartitionedTopicMetadata ``{partitions, deleted, properties?}``; None when the topic is not partitioned.

    Raises RecordFormatError.
    """
    try:
        return await derived(store, partitioned_path(topic), partitioned_record)
    except NoNodeError:
        return None


def partitioned_record(value: bytes, path: str) -> Document | None:
    """Decode PartitionedTopicMetadata; None for an empty node, which is only a parent, and for a creator's claim.

    Raises RecordFormatError when the number of partitions is missing or invalid.
    """
    if not value:
        return None
    record = decode_json(value, path)
    count = record.get("partitions")
    if type(count) is not int or not 0 <= count <= PARTITIONS_READ_MAX:
        raise RecordFormatError(
            f"{path}: partitions: a whole number from 0 to {PARTITIONS_READ_MAX} is needed"
        )
    return record if count else None


async def marked_deleted(store: MetadataStore, topic: TopicName) -> bool:
    """Return whether a partitioned topic's record, or a claim on its name, is marked as being deleted.

    Raises RecordFormatError.
    """
    path = partitioned_path(topic)
    try:
        value, _ = await store.get(path)
    except NoNodeError:
        return False
    return bool(value) and bool(decode_json(value, path).get("deleted"))


async def topic_exists(store: MetadataStore, topic: TopicName) -> bool:
    """Return whether a persistent topic or partition of exactly this name exists."""
    return topic.persistent and await store.exists(ledger_path(topic)) is not None


def twin_of(topic: TopicName) -> TopicName:
    """Return the topic of the same name in the other domain. Both share their schemas."""
    other = next(domain for domain in DOMAINS if domain != topic.domain)
    return topic.namespace.topic(topic.local, other)


async def look_up(store: MetadataStore, topic: TopicName) -> tuple[Stored | None, bool]:
    """Return the results of ``find_partitions`` and ``topic_exists``, read from the service in one request.

    The second is False for a partitioned topic. A server that lags may not have the latest changes yet.
    """
    rows, _ = await store.get_all(nodes_of(topic))
    return kind_of(topic, rows)


def nodes_of(topic: TopicName) -> list[str]:
    """Return the nodes by which ``kind_of`` decides."""
    return [partitioned_path(topic), *([ledger_path(topic)] if topic.persistent else ())]


def kind_of(topic: TopicName, rows: Sequence[Found]) -> tuple[Stored | None, bool]:
    """Return the results of ``look_up`` for the values of ``nodes_of``."""
    partitioned, *ledgers = rows
    if partitioned is not None:
        record = partitioned_record(partitioned[0], partitioned_path(topic))
        if record is not None:
            return record, False
    return None, any(ledger is not None for ledger in ledgers)


async def get_partitions(store: MetadataStore, topic: TopicName) -> Stored:
    """Return the partition metadata of a topic whose namespace exists; a plain topic has 0 partitions.

    Raises NotFound without the topic.
    """
    record = await find_partitions(store, topic)
    if record is not None:
        return record
    if await topic_exists(store, topic):
        return dict(NO_PARTITIONS)
    raise NotFound(f"Topic {topic} not found")


async def create_partitioned(
    store: MetadataStore,
    topic: TopicName,
    partitions: int,
    properties: Mapping[str, str] | None = None,
    *,
    is_loaded: Callable[[], Awaitable[bool]] | None = None,
) -> None:
    """Create a partitioned topic and its partitions.

    The partitions are created before the record, so that they exist and are listed before first use. ``is_loaded``
    returns whether a broker has a plain topic of that name without metadata. Raises NotFound without the namespace,
    AlreadyExists when a topic of that name exists or is created meanwhile, NotAcceptable for a count outside
    1..PARTITIONS_MAX, Conflict after RACES_MAX lost races.
    """
    await require_namespace(store, topic)
    check_count(partitions)
    await _refuse_existing(store, topic)
    record: Document = {"partitions": partitions, "deleted": False}
    if properties:
        check_properties_size(properties)
        record["properties"] = dict(properties)
    path, new_partitions = partitioned_path(topic), []
    async with turn(store, path):
        claim = await _claim(store, path)
        try:
            await _confirm_partitioned(store, topic)
            if is_loaded is not None and await is_loaded():
                raise AlreadyExists(EXISTS)
            new_partitions = await create_missing_partitions(store, topic, partitions, properties)
            await store.put(path, encode_json(record), claim)
        except (BadVersionError, NoNodeError) as error:  # another creator was first
            # Without a record, a plain topic was created. With one, it is another's and so are the partitions (N1).
            if await fresh(store, path).exists(path) is None:
                await _remove_unused(store, new_partitions)
            raise AlreadyExists(EXISTS) from error
        except BaseException:
            await _withdraw(store, path, claim)
            raise


async def _confirm_partitioned(store: MetadataStore, topic: TopicName) -> None:
    """Confirm, after the claim, that the namespace exists and has no plain topic of the name.

    A deletion of the namespace that starts later finds the claim (N2). A creator of the plain topic either is found
    here or finds the claim (N1). Raises NotFound, AlreadyExists.
    """
    nodes = [_policies_path(topic), ledger_path(topic)]
    if are_together(store, partitioned_path(topic), *nodes):
        (policies, plain), _ = await store.get_all(nodes)
    else:
        policies = plain = None
        if await topic_exists(fresh(store, nodes[1]), topic):
            raise AlreadyExists(EXISTS)
    if not is_present(policies, nodes[0]):
        await require_namespace(fresh(store, nodes[0]), topic)
    if plain is not None:
        raise AlreadyExists(EXISTS)


def _policies_path(topic: TopicName) -> str:
    return paths.namespace_policies(str(topic.namespace))


async def _claim(store: MetadataStore, path: str) -> int:
    """Store a claim and return its version; it replaces a claim that is left over or belongs to another creator.

    Raises AlreadyExists for a record, Conflict after RACES_MAX lost races.
    """
    for _ in range(RACES_MAX):
        try:
            await store.create(path, CLAIM, make_parents=True)
            return 0
        except NodeExistsError:
            pass
        try:
            value, stat = await fresh(store, path).get(path)
            if partitioned_record(value, path) is not None:
                raise AlreadyExists(EXISTS)
            return (await store.put(path, CLAIM, stat.version)).version
        except (NoNodeError, BadVersionError):
            continue
    raise Conflict("Concurrent modification")


async def _withdraw(store: MetadataStore, path: str, version: int) -> None:
    """Remove a claim unless it has changed. A claim that remains after a failure blocks no other creation."""
    try:
        await store.delete(path, version)
    except NotEmptyError:  # the node is a parent as well: it stays without a value
        with suppress(NoNodeError, BadVersionError):
            await store.put(path, b"", version)
    except (NoNodeError, BadVersionError, StoreUnavailableError, SessionExpiredError):
        return


async def _remove_unused(store: MetadataStore, parts: Sequence[TopicName]) -> None:
    """Remove partitions of a failed creation, except those that have been used since."""
    for part in parts:
        with suppress(NoNodeError, BadVersionError, NotEmptyError):
            await store.delete(ledger_path(part), 0)


def confirmation_paths(store: MetadataStore, topic: TopicName) -> Sequence[str]:
    """Return the nodes by which ``confirm_plain`` decides; none when the topic's own node is in another store."""
    nodes = (_policies_path(topic), partitioned_path(topic))
    return nodes if are_together(store, ledger_path(topic), *nodes) else ()


async def confirm_plain(store: MetadataStore, topic: TopicName, seen: Sequence[Found] = ()) -> None:
    """Confirm that a newly created topic is a plain one; called before its first use.

    ``seen``: the nodes of ``confirmation_paths`` if they were read together with the topic's node, or after it.

    Raises AlreadyExists when a partitioned topic of its name was created meanwhile, NotFound when its namespace was
    deleted: the caller must delete the topic then. Raises Conflict after RACES_MAX lost races.
    """
    if not seen or not is_present(seen[0], _policies_path(topic)):
        await require_namespace(fresh(store, _policies_path(topic)), topic)
    path = partitioned_path(topic)
    # The request that found the topic's node found every claim that was stored before that node.
    if seen and (seen[1] is None or not seen[1][0]):
        return
    for _ in range(RACES_MAX):
        if await fresh(store, path).exists(path) is None:
            return
        try:
            value, stat = await fresh(store, path).get(path)
            if partitioned_record(value, path) is not None:
                raise AlreadyExists(EXISTS)
            if not value:
                return  # a node that is only a parent
            await store.delete(path, stat.version)
            return
        except NotEmptyError:
            await store.put(path, b"", stat.version)
            return
        except (NoNodeError, BadVersionError):
            continue
    raise Conflict("Concurrent modification")


def is_partitionable(topic: TopicName) -> bool:
    """Return whether a topic that is created by its first use may be partitioned.

    It may not when its name contains a partition's suffix, such as ``t-partition-0-sub-DLQ``, the dead letter topic of
    a partition.
    """
    return _PARTITION_INSIDE.search(topic.local) is None


async def change_properties(
    store: MetadataStore,
    topic: TopicName,
    changes: Mapping[str, str | None],
    *,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Set properties of a partitioned topic; a value of None removes one.

    Raises NotFound without its record, Conflict while it is being deleted or when its properties are not ``expected``,
    PreconditionFailed when all together exceed the limit, or for SHADOW_SOURCE.
    """
    check_unchanged(changes)

    def change(value: bytes) -> bytes:
        record = decode_json(value, "partitioned topic")
        if record.get("deleted"):
            raise Conflict(f"Topic {topic} is being deleted")
        present = record.get("properties") or {}
        check_expected(present, expected)
        merged = {**present, **changes}
        record["properties"] = {key: text for key, text in merged.items() if text is not None}
        if any(text is not None for text in changes.values()):
            check_properties_size(record["properties"])
        return encode_json(record)

    await change_node(store, partitioned_path(topic), change, f"Topic {topic} not found")


async def create_missing_partitions(
    store: MetadataStore, topic: TopicName, stop: int, properties: Mapping[str, str] | None
) -> list[TopicName]:
    """Create the missing ones of the first ``stop`` partitions, and return those that were created.

    ``properties``: see ``create_missing``.
    """
    if not topic.persistent:
        return []
    parts = [topic.partition_at(index) for index in range(stop)]
    return [part for part in parts if await create_missing(store, part, properties)]


async def create_missing(
    store: MetadataStore, topic: TopicName, properties: Mapping[str, str] | None = None
) -> bool:
    """Create a persistent topic as an empty node; return False when it existed before.

    ``properties``: those of the partitioned topic, which may be a shadow topic.
    """
    value = partition_record(properties, topic.partition)
    try:
        await store.create(ledger_path(topic), value, make_parents=True)
    except NodeExistsError:
        return False
    return True


async def require_partitioned(store: MetadataStore, topic: TopicName) -> Stored:
    """Return the record of a partitioned topic to be deleted, or a claim on its name.

    Raises NotFound without a topic, Conflict for a plain topic.
    """
    await require_namespace(store, topic)
    record = await find_node(store, partitioned_path(topic))
    if record:  # deleting also removes a claim that is left over
        return record
    if await topic_exists(store, topic):
        raise Conflict(
            f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.",
        )
    raise NotFound(f"Topic {topic} not found")


async def check_new_topic(store: MetadataStore, topic: TopicName) -> None:
    """Check that a plain topic may be created under this name; ``create_topic`` detects an existing plain topic.

    Raises NotFound without its namespace, AlreadyExists for a partitioned topic, PreconditionFailed for the name of a
    partition that no partitioned topic has, and of a log of transactions.
    """
    if is_transaction_log(topic):
        raise PreconditionFailed(f"Can not create transaction system topic {topic}")
    nodes = [_policies_path(topic), partitioned_path(topic)]
    (policies, partitioned), _ = await store.get_all(nodes)
    if not is_present(policies, nodes[0]):
        await require_namespace(store, topic)
    if partitioned is not None and partitioned_record(partitioned[0], nodes[1]) is not None:
        raise AlreadyExists(EXISTS)
    if topic.partition >= 0:
        parent = topic.partitioned
        record = await find_partitions(store, parent)
        if record is None:
            raise PreconditionFailed(
                f'Can\'t create topic {topic.local} with "{PARTITION_SUFFIX}" followed by numeric value '
                f"if there isn't a partitioned topic {parent.local} created.",
            )
        if topic.partition >= int(record["partitions"]):
            raise PreconditionFailed(
                f'Can\'t create topic {topic.local} with "{PARTITION_SUFFIX}" followed by a number '
                f"smaller than number of partition of partitioned topic {parent.local}",
            )


async def _refuse_existing(store: MetadataStore, topic: TopicName) -> None:
    record, exists = await look_up(store, topic)
    if exists or record is not None:
        raise AlreadyExists(EXISTS)


async def create_topic(store: MetadataStore, topic: TopicName, record: bytes) -> None:
    """Create a persistent topic with its complete record, so that a retry after a lost answer reports it as existing.

    Raises AlreadyExists, also for an empty node: it is a topic that no broker has opened yet.
    """
    await create_node(store, ledger_path(topic), record, EXISTS, fill=False)


def check_count(partitions: Any) -> None:
    """Raise NotAcceptable for a partition count outside 1..PARTITIONS_MAX."""
    if partitions <= 0:
        raise NotAcceptable("Number of partitions should be more than 0")
    if partitions > PARTITIONS_MAX:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {PARTITIONS_MAX}"
        )


def check_parent(topic: TopicName) -> None:
    """Raise PreconditionFailed when the name of a partitioned topic contains a partition's suffix."""
    if PARTITION_SUFFIX in topic.local:
        raise PreconditionFailed("Partitioned Topic Name should not contain '-partition-'")


async def require_namespace(store: MetadataStore, topic: TopicName) -> None:
    """Raise NotFound unless the topic's namespace exists."""
    try:
        await get_policies(store, topic.namespace)
    except NotFound as error:
        raise NotFound("Namespace not found") from error
