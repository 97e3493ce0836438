"""Topics as metadata: which exist, and how partitioned ones begin; no broker needed (``partitions`` has what does).

A topic exists when its managed ledger's node does; a partitioned topic is a record of its own, whose partitions are
topics. Of a plain and a partitioned topic of one name that are made at once exactly one comes to be: who makes the
partitioned one stores a claim (a record of 0 partitions), looks for the plain one, and makes the claim the record by
compare-and-set; who makes the plain one makes its node, looks for the record, and withdraws a claim by compare-and-set
(N1). Each looks for the namespace again then (N2): who deletes it marks it first, and looks for what is in it after.
Raises Refusal with Pulsar's texts. Cancelled: a change may or may not have happened.
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
    PERSISTENT,
    BundleName,
    NamespaceName,
    TopicName,
    bundle_hash,
    decode_name,
)
from engine.metadata import paths
from engine.metadata.cached import derived, derived_children, fresh
from engine.metadata.records import Document, RecordFormatError, Stored, decode_json, encode_json
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.metadata.update import turn
from engine.tenancy.checks import check_expected, check_properties_size
from engine.tenancy.namespaces import get_policies
from engine.tenancy.nodes import change_node, children, create_node, find_node

SYSTEM_PREFIX = "__"
PARTITIONS_MAX = 10_000
EXISTS = "This topic already exists"
NO_PARTITIONS: Document = {"partitions": 0, "deleted": False}
CLAIM = encode_json(NO_PARTITIONS)
RACES_MAX = 100
"""Lost compare-and-sets after which a creation gives up."""
_PARTITION_INSIDE = re.compile(re.escape(PARTITION_SUFFIX) + "[0-9]")


def partitioned_path(topic: TopicName) -> str:
    """Node of a partitioned topic's record."""
    return paths.partitioned_topic(str(topic.namespace), topic.local, topic.domain)


def ledger_path(topic: TopicName) -> str:
    """Node of a topic's managed ledger; only persistent topics have one."""
    return paths.managed_ledger(topic.managed_ledger_name)


async def list_topics(
    store: MetadataStore,
    namespace: NamespaceName,
    *,
    bundle: str | None = None,
    include_system: bool = False,
) -> Sequence[str]:
    """Full names of the persistent topics and partitions of a namespace, sorted; NotFound without it. ``bundle``: only
    those of this range (none when no such range can be)."""
    await get_policies(store, namespace)
    make = full_names if include_system else users_names
    names = await names_below(store, paths.managed_ledgers(str(namespace)), make)
    if bundle is None:
        return names
    try:
        wanted = BundleName.parse(namespace, bundle)
    except InvalidNameError:
        return ()
    return tuple(name for name in names if wanted.holds(bundle_hash(name)))


async def list_partitioned(
    store: MetadataStore, namespace: NamespaceName, domain: str = PERSISTENT
) -> Sequence[str]:
    """Full names of the partitioned topics of a namespace, sorted; NotFound without it."""
    await get_policies(store, namespace)
    path = paths.partitioned_topics(str(namespace), domain)
    return await names_below(store, path, users_names)


Names = tuple[str, ...]


async def names_below(
    store: MetadataStore, path: str, make: Callable[[Sequence[str], str], Names]
) -> Names:
    """``full_names`` or ``users_names`` of a node's children, none without the node."""
    try:
        return await derived_children(store, path, make)
    except NoNodeError:
        return ()


def full_names(parts: Sequence[str], path: str) -> Names:
    """Full topic names, sorted, of the children of ``<tree>/<namespace>/<domain>``. The store's names were checked when
    they were written: they are not parsed again."""
    _, _, below = path.removeprefix("/admin").lstrip("/").partition("/")
    namespace, _, domain = below.rpartition("/")
    start = f"{domain}://{namespace}/"
    return tuple(
        sorted(
            start + (decode_name(part) if "%" in part or "+" in part else part) for part in parts
        )
    )


def users_names(parts: Sequence[str], path: str) -> Names:
    """As ``full_names``, without the system's."""
    return full_names([part for part in parts if not part.startswith(SYSTEM_PREFIX)], path)


async def find_partitions(store: MetadataStore, topic: TopicName) -> Stored | None:
    """PartitionedTopicMetadata ``{partitions, deleted, properties?}``; None when the topic is not partitioned. Raises
    RecordFormatError."""
    try:
        return await derived(store, partitioned_path(topic), partitioned_record)
    except NoNodeError:
        return None


def partitioned_record(value: bytes, path: str) -> Document | None:
    """PartitionedTopicMetadata; None for an empty node, which only holds others, and for a claim of who makes it.
    Raises RecordFormatError for one that does not say how many partitions there are."""
    if not value:
        return None
    record = decode_json(value, path)
    count = record.get("partitions")
    if type(count) is not int or count < 0:
        raise RecordFormatError(f"{path}: partitions: a whole number from 0 is needed")
    return record if count else None


async def marked_deleted(store: MetadataStore, topic: TopicName) -> bool:
    """Whether a partitioned topic's record, or a claim on its name, is marked as being deleted. Raises
    RecordFormatError."""
    path = partitioned_path(topic)
    try:
        value, _ = await store.get(path)
    except NoNodeError:
        return False
    return bool(value) and bool(decode_json(value, path).get("deleted"))


async def topic_exists(store: MetadataStore, topic: TopicName) -> bool:
    """Whether a persistent topic (or partition) of this very name exists."""
    return topic.persistent and await store.exists(ledger_path(topic)) is not None


async def twin_exists(store: MetadataStore, topic: TopicName) -> bool:
    """Whether there is a topic of the other domain with the same name, plain or partitioned, as far as metadata tells:
    both have the same schemas."""
    other = next(domain for domain in DOMAINS if domain != topic.domain)
    twin = topic.namespace.topic(topic.local, other)
    _, exists = await look_up(store, twin)
    return exists or await find_partitions(fresh(store, partitioned_path(twin)), twin) is not None


async def look_up(store: MetadataStore, topic: TopicName) -> tuple[Stored | None, bool]:
    """As ``find_partitions``, and where there are none ``topic_exists``, asked of the service in one request. A server
    that lags behind may not have heard yet of what was made elsewhere."""
    paths = [partitioned_path(topic), *([ledger_path(topic)] if topic.persistent else ())]
    (partitioned, *ledger), _ = await store.get_all(paths)
    record = None if partitioned is None else partitioned_record(partitioned[0], paths[0])
    if record is not None:
        return record, False
    return None, any(one is not None for one in ledger)


async def get_partitions(store: MetadataStore, topic: TopicName) -> Stored:
    """Metadata of a topic whose namespace exists: 0 partitions for a plain one, NotFound without any."""
    found = await find_partitions(store, topic)
    if found is not None:
        return found
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
    """AlreadyExists when a topic of that name does, or comes to be meanwhile; NotAcceptable for a count outside
    1..PARTITIONS_MAX. ``is_loaded``: whether there is a plain topic of that name which no metadata tells of.

    The partitions come before the record: what it promises exists and is listed before first use.
    """
    await require_namespace(store, topic)
    check_count(partitions)
    await _refuse_existing(store, topic)
    record: Document = {"partitions": partitions, "deleted": False}
    if properties:
        check_properties_size(properties)
        record["properties"] = dict(properties)
    path, made = partitioned_path(topic), []
    async with turn(store, path):
        claim = await _claim(store, path)
        try:
            await require_namespace(
                fresh(store, paths.namespace_policies(str(topic.namespace))), topic
            )
            if await topic_exists(fresh(store, ledger_path(topic)), topic):
                raise AlreadyExists(EXISTS)
            if is_loaded is not None and await is_loaded():
                raise AlreadyExists(EXISTS)
            made = await create_missing_partitions(store, topic, 0, partitions)
            await store.put(path, encode_json(record), claim)
        except (BadVersionError, NoNodeError) as error:  # somebody else was quicker
            if await fresh(store, path).exists(path) is None:  # with a plain one
                await _remove_unused(store, made)
            raise AlreadyExists(EXISTS) from error
        except BaseException:
            await _withdraw(store, path, claim)
            raise


async def _claim(store: MetadataStore, path: str) -> int:
    """Store a claim, in the place of one that somebody else left or has under way; its version. AlreadyExists for a
    record."""
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
    """Remove a claim if it is still that. Where this fails the claim stays, which hinders nobody."""
    try:
        await store.delete(path, version)
    except NotEmptyError:  # of another kind of name, something lies below
        with suppress(NoNodeError, BadVersionError):
            await store.put(path, b"", version)
    except (NoNodeError, BadVersionError, StoreUnavailableError, SessionExpiredError):
        return


async def _remove_unused(store: MetadataStore, parts: Sequence[TopicName]) -> None:
    """Remove partitions that were made for nothing, unless somebody has used one since."""
    for part in parts:
        with suppress(NoNodeError, BadVersionError, NotEmptyError):
            await store.delete(ledger_path(part), 0)


async def confirm_plain(store: MetadataStore, topic: TopicName) -> None:
    """Have a topic that was made, and that nobody has used yet, be a plain one for good: to be called before its first
    use. AlreadyExists when it is a partitioned one by now, NotFound when its namespace is gone: it must go then."""
    await require_namespace(fresh(store, paths.namespace_policies(str(topic.namespace))), topic)
    path = partitioned_path(topic)
    for _ in range(RACES_MAX):
        if await fresh(store, path).exists(path) is None:
            return
        try:
            value, stat = await fresh(store, path).get(path)
            if partitioned_record(value, path) is not None:
                raise AlreadyExists(EXISTS)
            if not value:
                return  # a node that others lie below
            await store.delete(path, stat.version)
            return
        except NotEmptyError:
            await store.put(path, b"", stat.version)
            return
        except (NoNodeError, BadVersionError):
            continue
    raise Conflict("Concurrent modification")


def is_partitionable(topic: TopicName) -> bool:
    """Whether a topic that is made by its use may be a partitioned one, where those are the default: no name that has a
    partition's inside, such as ``t-partition-0-sub-DLQ``, the dead letters of a partition."""
    return _PARTITION_INSIDE.search(topic.local) is None


async def change_properties(
    store: MetadataStore,
    topic: TopicName,
    changes: Mapping[str, str | None],
    *,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Set properties of a partitioned topic, or remove those given None. NotFound without its record, Conflict while
    it is being deleted or when it has others than ``expected``, PreconditionFailed when all together are too many
    bytes."""

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
    store: MetadataStore, topic: TopicName, first: int, stop: int
) -> list[TopicName]:
    """Make partitions ``first..stop-1`` exist: an empty node, filled by the broker that opens it first. Those that did
    not before."""
    if not topic.persistent:
        return []
    parts = [topic.partition_at(index) for index in range(first, stop)]
    return [part for part in parts if await create_missing(store, part)]


async def create_missing(store: MetadataStore, topic: TopicName) -> bool:
    """Make a persistent topic exist, as ``create_missing_partitions`` does; False when it did before."""
    try:
        await store.create(ledger_path(topic), make_parents=True)
    except NodeExistsError:
        return False
    return True


async def require_partitioned(store: MetadataStore, topic: TopicName) -> Stored:
    """Metadata of a partitioned topic to be deleted; NotFound for nothing, Conflict for a plain topic."""
    await require_namespace(store, topic)
    record = await find_node(store, partitioned_path(topic))
    if record:  # also a claim that was left behind
        return record
    if await topic_exists(store, topic):
        raise Conflict(
            f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete.",
        )
    raise NotFound(f"Topic {topic} not found")


async def check_new_topic(store: MetadataStore, topic: TopicName) -> None:
    """Whether a plain topic may be created under this name: NotFound without its namespace, AlreadyExists for a
    partitioned topic, PreconditionFailed for a partition's name that fits no partitioned topic. Whether there is a
    plain one, ``create_topic`` says."""
    await require_namespace(store, topic)
    if await find_partitions(fresh(store, partitioned_path(topic)), topic) is not None:
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
    store = fresh(store, ledger_path(topic), partitioned_path(topic))
    if await topic_exists(store, topic) or await find_partitions(store, topic) is not None:
        raise AlreadyExists(EXISTS)


async def create_topic(store: MetadataStore, topic: TopicName, record: bytes) -> None:
    """Make a persistent topic, whole at once: who repeats it after a lost answer finds it. AlreadyExists, also for an
    empty node: it is a topic that nobody has opened yet."""
    await create_node(store, ledger_path(topic), record, EXISTS, fill=False)


async def count_topics(store: MetadataStore, namespace: NamespaceName) -> int:
    """Topics and partitions of a namespace, both domains' records included."""
    count = len(await children(store, paths.managed_ledgers(str(namespace))))
    for domain in DOMAINS:
        count += len(await children(store, paths.partitioned_topics(str(namespace), domain)))
    return count


def check_count(partitions: Any) -> None:
    """Raises NotAcceptable for a partition count outside 1..PARTITIONS_MAX."""
    if partitions <= 0:
        raise NotAcceptable("Number of partitions should be more than 0")
    if partitions > PARTITIONS_MAX:
        raise NotAcceptable(
            f"Number of partitions should be less than or equal to {PARTITIONS_MAX}"
        )


def check_parent(topic: TopicName) -> None:
    """PreconditionFailed for a partition's name where a partitioned topic's is wanted."""
    if PARTITION_SUFFIX in topic.local:
        raise PreconditionFailed("Partitioned Topic Name should not contain '-partition-'")


async def require_namespace(store: MetadataStore, topic: TopicName) -> None:
    """NotFound unless the topic's namespace exists."""
    try:
        await get_policies(store, topic.namespace)
    except NotFound as error:
        raise NotFound("Namespace not found") from error
