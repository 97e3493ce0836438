"""The schemas of topics: versions in ledgers, and a node that names them, changed by compare-and-set.

All partitions of a topic share one registry entry, so several brokers change it. The loser of a race reads the node
again and decides again: a schema that the other broker registered is the same version.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.schema.compatibility import check, refused, same
from engine.schema.kinds import InvalidSchemaError, Schema
from engine.schema.locator import DELETED, Registered, SchemaVersion, digest_of, entry, locator
from engine.schema.offloader import Offloader
from engine.schema.stored_versions import (
    INDEX_BYTES,
    KIND,
    NO_NODE,
    READS_AT_ONCE,
    LostVersionError,
    Node,
    StoredVersions,
    UnreadableError,
    Version,
    size_of,
)
from engine.tenancy.strategy import Strategy

DEFINITION_BYTES_MAX = 4 << 20
"""Bytes of a definition with its properties. A bookie accepts entries of 5 MiB."""
VERSIONS_MAX = 10_000
"""Versions of a topic's schema; the node that names them may have 1 MiB."""
RACES_MAX = 20

log = logging.getLogger(__name__)


class IncompatibleError(MagnetarError):
    """The schema may not follow the existing ones; the text names the strategy and the field."""


class OvertakenError(MagnetarError):
    """The newest version is not the expected one."""


class Page(NamedTuple):
    """A page of the ``total`` versions since the last deletion, newest first; an unreadable version is its error.

    ``newest``: number of the newest version, -1 without any.
    """

    total: int
    newest: int
    versions: Sequence[tuple[int, Version | UnreadableError]]


def schema_id(topic: TopicName) -> str:
    """Return ``tenant/namespace/topic``, encoded as in paths. A partition has its topic's id."""
    partitioned = topic.partitioned
    return f"{partitioned.namespace}/{partitioned.encoded_local}"


class SchemaRegistry:
    """The registry of one broker. All methods raise the store's errors and UnreadableError; cancel-safe unless stated
    otherwise.

    Cached versions (``StoredVersions``) serve readers, and clients with a known schema, also while the store is
    unavailable or holds damaged data.
    """

    def __init__(
        self, store: MetadataStore, ledgers: LedgerClient, config: LedgerConfig, clock: Clock
    ) -> None:
        """Create a registry. ``config``: the replication of versions' ledgers."""
        self._store = store
        self._ledgers = ledgers
        self._config = config
        self._clock = clock
        self._offloader = Offloader()
        self._stored = StoredVersions(store, ledgers, self._offloader)

    # --- reading ---------------------------------------------------------------------------------

    async def index(self, topic: TopicName) -> Sequence[SchemaVersion]:
        """Return the places of all versions, including deletions; oldest first."""
        return (await self._stored.node(schema_id(topic))).versions

    async def ledgers(self, topic: TopicName) -> list[tuple[int, int, int]]:
        """Return id, entries and bytes of the ledgers of all versions, oldest first; lost ledgers are left out."""
        node = await self._stored.last_node(schema_id(topic))
        return await self._stored.sizes(node)

    async def latest(self, topic: TopicName, like: Schema | None = None) -> Version | None:
        """Return the newest version; None when there is none or it was deleted.

        ``like`` is returned in its place when it cannot be read and has those bytes.
        """
        node = await self._stored.last_node(schema_id(topic))
        for version in node.live[-1:]:
            read = await self._stored.try_live(version)
            if not isinstance(read, UnreadableError):
                return read
            if like is None or not await self._stands_for(node, version, like, read):
                raise read
            return Version(version.version, Registered(like, 0))
        return None

    async def live(self, topic: TopicName, number: int | None) -> Version | None:
        """Return a version since the last deletion; the newest for ``number`` None."""
        if number is None:
            return await self.latest(topic)
        node = await self._stored.last_node(schema_id(topic))
        return await self._by_number(node.live, number)

    async def get(self, topic: TopicName, number: int) -> Version | None:
        """Return a version, also from before a deletion, because messages may still have been written by it."""
        node = await self._stored.last_node(schema_id(topic))
        return await self._by_number(node.versions, number)

    async def _by_number(self, versions: Sequence[SchemaVersion], number: int) -> Version | None:
        selected = next((version for version in versions if version.version == number), None)
        return await self._stored.live(selected) if selected is not None else None

    async def versions(self, topic: TopicName) -> list[Version]:
        """Return all versions since the last deletion, oldest first."""
        return await self._stored.all_live(await self._stored.node(schema_id(topic)))

    async def page(self, topic: TopicName, limit: int, before: int | None = None) -> Page:
        """Return the last ``limit`` versions, of those below number ``before`` when it is given."""
        live_versions = (await self._stored.node(schema_id(topic))).live
        selected = [
            version for version in live_versions if before is None or version.version < before
        ][-limit:]
        rows: list[tuple[int, Version | UnreadableError]] = []
        for start in range(0, len(selected), READS_AT_ONCE):
            part = selected[start : start + READS_AT_ONCE]
            read = await self._stored.try_all(part)
            rows += [
                (version.version, row)
                for version, row in zip(part, read, strict=True)
                if row is not None
            ]
        return Page(
            len(live_versions), live_versions[-1].version if live_versions else -1, rows[::-1]
        )

    async def registered(self, topic: TopicName, schema: Schema) -> int | None:
        """Return the version with exactly ``schema``'s bytes; no other definition is read."""
        return await self._by_hash(await self._stored.node(schema_id(topic)), schema)

    async def find(self, topic: TopicName, schema: Schema) -> int | None:
        """Return the version of ``schema``; None when no readable version is the same."""
        node = await self._stored.node(schema_id(topic))
        known = await self._by_hash(node, schema)
        return await self._by_meaning(node, schema) if known is None else known

    async def refusal(self, topic: TopicName, schema: Schema, strategy: Strategy) -> str | None:
        """Return why ``schema`` may not be the next version; None when it may. Raises InvalidSchemaError."""
        await self._check(schema)
        return await self._refusal(await self._stored.node(schema_id(topic)), schema, strategy)

    async def _by_hash(self, node: Node, schema: Schema) -> int | None:
        """Return the version with ``schema``'s bytes, readable or not, without reading any other."""
        digest = digest_of(schema)
        for version in node.live:
            if version.hash == digest:
                read = await self._stored.try_live(version)
                if isinstance(read, UnreadableError):
                    if await self._stands_for(node, version, schema, read):
                        return version.version
                elif read is not None and same(read.registered.schema, schema):
                    return read.number
        return None

    async def _stands_for(
        self, node: Node, version: SchemaVersion, schema: Schema, error: UnreadableError
    ) -> bool:
        """Return whether ``schema`` is the unreadable ``version``: by its bytes, and by its kind from other records
        (S2).

        Raises ``error`` when that cannot be decided now.
        """
        if digest_of(schema) != version.hash:
            return False
        kind = await self._stored.recorded_kind(version)
        if kind is not None:
            return kind is schema.kind
        if not isinstance(error, LostVersionError):
            raise error
        kinds = {other.kind async for batch in self._stored.meanings(node) for _, other in batch}
        # The ledger does not name the kind: the other versions' kinds decide. Without a definition every kind has the
        # same hash, so an empty one proves nothing.
        return bool(schema.data) and (not kinds or schema.kind in kinds)

    async def _by_meaning(self, node: Node, schema: Schema) -> int | None:
        """Return the first version with the same meaning, of those that are not lost."""
        target = await self._stored.meaning_of(schema)
        number = None
        async for batch in self._stored.meanings(node):
            for version, other in batch:
                if other.kind is None:
                    number = None
                elif other == target and number is None:
                    number = version.version
        return number

    async def _refusal(self, node: Node, schema: Schema, strategy: Strategy) -> str | None:
        """Return why ``schema`` may not follow. Only versions that the strategy compares must be readable."""
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            return None
        compared = (
            node if strategy.transitive else Node(node.live[-1:], node.newest, node.stat_version)
        )
        before = [version.registered.schema for version in await self._stored.all_live(compared)]
        return await self.judged(schema, before, strategy)

    async def judged(
        self, schema: Schema, before: Sequence[Schema], strategy: Strategy
    ) -> str | None:
        """Return the result of ``refused``, computed off the event loop when it takes long."""
        size = len(schema.data) + sum(len(version.data) for version in before)
        return await self._offloader.run(size, refused, schema, before, strategy)

    async def _check(self, schema: Schema) -> None:
        """Check size and validity of a definition. Raises InvalidSchemaError."""
        size = size_of(schema)
        if size > DEFINITION_BYTES_MAX:
            raise InvalidSchemaError(
                f"definition and properties of {size} bytes: at most {DEFINITION_BYTES_MAX}"
            )
        await self._offloader.run(size, check, schema)

    # --- changing --------------------------------------------------------------------------------

    async def register(
        self,
        topic: TopicName,
        schema: Schema,
        strategy: Strategy,
        *,
        may_add: bool = True,
        expected: int | None = None,
    ) -> int:
        """Return the version of ``schema``; add one when there is none, unless ``may_add`` is False.

        ``expected``: number of the version that it is to follow, -1 for none.

        Raises InvalidSchemaError, IncompatibleError, OvertakenError, LedgerError. After a cancellation or
        StoreUnavailableError it may become registered, and a ledger may remain that no node names.
        """
        name = schema_id(topic)
        suspended = self._stored.last_if_suspended(name)
        if suspended is not None:
            known = await self._by_hash(suspended, schema)
            if known is not None:
                return known
        checked = False
        for _ in range(RACES_MAX):
            try:
                node = await self._stored.node(name)
            except (StoreUnavailableError, SessionExpiredError, LostVersionError):
                known = await self._by_hash(await self._stored.last_node(name), schema)
                if known is None:
                    raise
                return known
            known = await self._by_hash(node, schema)
            if known is not None:
                return known
            if not checked:
                await self._check(schema)
                checked = True
            known = await self._by_meaning(node, schema)
            if known is not None:
                return known
            _check_expected(node, expected)
            if not may_add:
                raise IncompatibleError(
                    f"Schema not found and schema auto updating is disabled. topic: {name}"
                )
            reason = await self._refusal(node, schema, strategy)
            if reason is not None:
                raise IncompatibleError(reason)
            added = await self._add(name, node, Registered(schema, self._clock.wall_ms()))
            if added is not None:
                return added
        raise BadVersionError(
            f"the schemas of {name} changed under {RACES_MAX} attempts to add one"
        )

    async def delete(self, topic: TopicName, *, expected: int | None = None) -> int:
        """Mark all versions as deleted by a further version and return its number; messages by them stay readable.

        With no live version, return the number of the newest deletion, -1 without one. ``expected``: number of the
        newest version. Raises as ``register``.
        """
        name = schema_id(topic)
        deletion = Registered(DELETED, self._clock.wall_ms(), deleted=True)
        for _ in range(RACES_MAX):
            node = await self._stored.node(name)
            if not node.live:
                return node.newest
            _check_expected(node, expected)
            added = await self._add(name, node, deletion)
            if added is not None:
                return added
        raise BadVersionError(f"the schemas of {name} changed under {RACES_MAX} attempts to delete")

    async def remove(self, topic: TopicName) -> bool:
        """Remove all versions and their ledgers, as when the topic is deleted; return False when there were none.

        The node is deleted last, so that the next call completes an interrupted removal.
        """
        name = schema_id(topic)
        try:
            node = await self._stored.node(name)
        except LostVersionError as error:
            log.error("schemas of %s: their ledgers are left: %s", name, error)
            node = NO_NODE
        self._stored.drop_node(name)
        for version in node.versions:
            try:
                await self._ledgers.delete(version.ledger_id)
            except NoSuchLedgerError:
                continue
        try:
            await self._store.delete(paths.schema(name))
        except NoNodeError:
            return False
        return True

    async def _add(self, name: str, node: Node, registered: Registered) -> int | None:
        """Store a further version and return its number; None when another broker changed the node meanwhile."""
        if len(node.versions) >= VERSIONS_MAX:
            raise IncompatibleError(
                f"{name} has {VERSIONS_MAX} versions of its schema, no more are taken"
            )
        custom = {
            "application": b"pulsar",
            "component": b"schema",
            "pulsar/schemaId": name.encode(),
            KIND: registered.schema.kind.value.encode(),
        }
        ledger = await CursorLedger.create(self._ledgers, self._config, custom)
        try:
            entry_id = await ledger.append(entry(name, registered, node.versions))
            await ledger.close()
        except BaseException as error:
            ledger.abandon("the version was not stored")
            if isinstance(error, LedgerError):
                with suppress(StoreUnavailableError, SessionExpiredError):
                    await self._ledgers.delete(ledger.ledger_id)
            raise
        digest = b"" if registered.deleted else digest_of(registered.schema)
        added = SchemaVersion(node.newest + 1, ledger.ledger_id, entry_id, digest)
        if not await self._swap(name, node, added):
            await self._ledgers.delete(ledger.ledger_id)
            return None
        self._stored.keep(added, registered)
        return added.version

    async def _swap(self, name: str, node: Node, added: SchemaVersion) -> bool:
        """Replace the locator by compare-and-set (S1); return whether ``added`` is in it.

        After a lost answer the node is read once: no other node names this ledger, and other brokers may have added
        versions behind it meanwhile.
        """
        versions = [*node.versions, added]
        value = await self._offloader.run(INDEX_BYTES * len(versions), locator, versions)
        path, stat_version = paths.schema(name), 0
        try:
            if node is NO_NODE:
                await self._store.create(path, value, make_parents=True)
            else:
                stat_version = (await self._store.put(path, value, node.stat_version)).version
        except (BadVersionError, NodeExistsError, NoNodeError):
            # The store client retries: the answer to its first attempt may have been lost, and the version be there.
            return added in (await self._stored.node(name)).versions
        except StoreUnavailableError:
            if added not in (await self._stored.node(name)).versions:
                raise
        else:
            self._stored.keep_node(name, value, Node(versions, added.version, stat_version))
        return True


def _check_expected(node: Node, expected: int | None) -> None:
    """Raise OvertakenError when the newest version is not ``expected``."""
    live_versions = node.live
    newest = live_versions[-1].version if live_versions else -1
    if expected is not None and newest != expected:
        now = f"version {newest} is" if live_versions else "none is there"
        then = f"version {expected} was" if expected >= 0 else "none was"
        raise OvertakenError(
            f"The schema changed meanwhile: {now} now, {then} newest when you looked"
        )
