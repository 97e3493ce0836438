"""The schemas of topics: versions in ledgers, and a node that names them; each change by compare-and-set of that node.

All partitions of a topic have one registry entry, so several brokers change it. Whoever loses the race reads again and
decides again: a schema that the other registered is the same version.
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
from engine.schema.apart import Apart
from engine.schema.compatibility import check, refused, same
from engine.schema.kinds import InvalidSchemaError, Schema
from engine.schema.locator import DELETED, Registered, SchemaVersion, digest_of, entry, locator
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
"""With its properties. A bookie takes an entry of 5 MiB."""
VERSIONS_MAX = 10_000
"""The node that names them may be 1 MiB."""
RACES_MAX = 20

log = logging.getLogger(__name__)


class IncompatibleError(MagnetarError):
    """The schema may not follow those that there are; the text says under which strategy and at which field."""


class OvertakenError(MagnetarError):
    """The newest version is not the one that was expected."""


class Page(NamedTuple):
    """Some of the ``total`` versions since the last deletion, newest first; those that cannot be read with the reason.
    ``newest``: number of the newest, -1 without any."""

    total: int
    newest: int
    versions: Sequence[tuple[int, Version | UnreadableError]]


def schema_id(topic: TopicName) -> str:
    """``tenant/namespace/topic``, encoded as in paths: that of a partition is its topic's."""
    whole = topic.partitioned
    return f"{whole.namespace}/{whole.encoded_local}"


class SchemaRegistry:
    """For one broker. All calls raise the store's errors and UnreadableError. Cancel-safe unless said otherwise.

    What was read before (``StoredVersions``) serves readers, and clients that come with a known schema, also while the
    store does not answer or what it holds is damaged.
    """

    def __init__(
        self, store: MetadataStore, ledgers: LedgerClient, config: LedgerConfig, clock: Clock
    ) -> None:
        """``config``: how a version's ledger is replicated."""
        self._store = store
        self._ledgers = ledgers
        self._config = config
        self._clock = clock
        self._apart = Apart()
        self._stored = StoredVersions(store, ledgers, self._apart)

    # --- reading ---------------------------------------------------------------------------------

    async def index(self, topic: TopicName) -> Sequence[SchemaVersion]:
        """Where all versions are, deletions among them; oldest first."""
        return (await self._stored.node(schema_id(topic))).versions

    async def ledgers(self, topic: TopicName) -> list[tuple[int, int, int]]:
        """Those that keep the versions, oldest first: id, entries and bytes. Those that are lost are left out."""
        node = await self._stored.last_node(schema_id(topic))
        return await self._stored.sizes(node)

    async def latest(self, topic: TopicName, like: Schema | None = None) -> Version | None:
        """The newest version; None when there is none or it was deleted. ``like`` stands for it when it cannot
        be read and these are its bytes."""
        node = await self._stored.last_node(schema_id(topic))
        for one in node.live[-1:]:
            found = await self._stored.tried(one)
            if not isinstance(found, UnreadableError):
                return found
            if like is None or not await self._stands_for(node, one, like, found):
                raise found
            return Version(one.version, Registered(like, 0))
        return None

    async def live(self, topic: TopicName, number: int | None) -> Version | None:
        """A version since the last deletion, None for ``number``: the newest."""
        if number is None:
            return await self.latest(topic)
        node = await self._stored.last_node(schema_id(topic))
        return await self._one(node.live, number)

    async def get(self, topic: TopicName, number: int) -> Version | None:
        """One version, also from before a deletion: there may be messages by it."""
        node = await self._stored.last_node(schema_id(topic))
        return await self._one(node.versions, number)

    async def _one(self, versions: Sequence[SchemaVersion], number: int) -> Version | None:
        wanted = next((one for one in versions if one.version == number), None)
        return await self._stored.live(wanted) if wanted is not None else None

    async def versions(self, topic: TopicName) -> list[Version]:
        """All versions since the last deletion, oldest first."""
        return await self._stored.all_live(await self._stored.node(schema_id(topic)))

    async def page(self, topic: TopicName, limit: int, before: int | None = None) -> Page:
        """The last ``limit`` versions, of those before number ``before`` when it is given."""
        kept = (await self._stored.node(schema_id(topic))).live
        wanted = [one for one in kept if before is None or one.version < before][-limit:]
        found: list[tuple[int, Version | UnreadableError]] = []
        for start in range(0, len(wanted), READS_AT_ONCE):
            part = wanted[start : start + READS_AT_ONCE]
            read = await self._stored.all_tried(part)
            found += [
                (one.version, live)
                for one, live in zip(part, read, strict=True)
                if live is not None
            ]
        return Page(len(kept), kept[-1].version if kept else -1, found[::-1])

    async def registered(self, topic: TopicName, schema: Schema) -> int | None:
        """The version that has ``schema``'s very bytes; no other definition is read."""
        return await self._by_hash(await self._stored.node(schema_id(topic)), schema)

    async def find(self, topic: TopicName, schema: Schema) -> int | None:
        """The version that ``schema`` is, None when it is none of those that are not lost."""
        node = await self._stored.node(schema_id(topic))
        known = await self._by_hash(node, schema)
        return await self._by_meaning(node, schema) if known is None else known

    async def refusal(self, topic: TopicName, schema: Schema, strategy: Strategy) -> str | None:
        """Why ``schema`` may not be the next version, None when it may. Raises InvalidSchemaError."""
        await self._check(schema)
        return await self._refusal(await self._stored.node(schema_id(topic)), schema, strategy)

    async def _by_hash(self, node: Node, schema: Schema) -> int | None:
        """The version whose bytes ``schema`` is, readable or not, without a look at any other."""
        digest = digest_of(schema)
        for one in node.live:
            if one.hash == digest:
                found = await self._stored.tried(one)
                if isinstance(found, UnreadableError):
                    if await self._stands_for(node, one, schema, found):
                        return one.version
                elif found is not None and same(found.found.schema, schema):
                    return found.number
        return None

    async def _stands_for(
        self, node: Node, one: SchemaVersion, schema: Schema, error: UnreadableError
    ) -> bool:
        """Whether ``schema`` is ``one``, which cannot be read: by its bytes, and its kind as it is said elsewhere (S2).
        Raises ``error`` when that is not known now."""
        if digest_of(schema) != one.hash:
            return False
        kind = await self._stored.kind_said(one)
        if kind is not None:
            return kind is schema.kind
        if not isinstance(error, LostVersionError):
            raise error
        kinds = {found.kind async for part in self._stored.meant(node) for _, found in part}
        return bool(schema.data) and (not kinds or schema.kind in kinds)

    async def _by_meaning(self, node: Node, schema: Schema) -> int | None:
        """The first version that means the same, of those that are not lost."""
        wanted = await self._stored.meaning_of(schema)
        number = None
        async for part in self._stored.meant(node):
            for one, found in part:
                if found.kind is None:
                    number = None
                elif found == wanted and number is None:
                    number = one.version
        return number

    async def _refusal(self, node: Node, schema: Schema, strategy: Strategy) -> str | None:
        """Only what the strategy looks at must be readable."""
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            return None
        looked_at = (
            node if strategy.transitive else Node(node.live[-1:], node.newest, node.stat_version)
        )
        before = [one.found.schema for one in await self._stored.all_live(looked_at)]
        return await self.judged(schema, before, strategy)

    async def judged(
        self, schema: Schema, before: Sequence[Schema], strategy: Strategy
    ) -> str | None:
        """What ``refused`` says."""
        size = len(schema.data) + sum(len(one.data) for one in before)
        return await self._apart.run(size, refused, schema, before, strategy)

    async def _check(self, schema: Schema) -> None:
        """Raises InvalidSchemaError."""
        size = size_of(schema)
        if size > DEFINITION_BYTES_MAX:
            raise InvalidSchemaError(
                f"definition and properties of {size} bytes: at most {DEFINITION_BYTES_MAX}"
            )
        await self._apart.run(size, check, schema)

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
        """The version that ``schema`` is, a new one if it is none yet; not ``may_add``: none is added.
        ``expected``: number of the version that it is to follow, -1 for none.

        Raises InvalidSchemaError, IncompatibleError, OvertakenError, LedgerError. Cancelled or StoreUnavailableError:
        it may become registered, and a ledger may be left that nobody names.
        """
        name = schema_id(topic)
        unasked = self._stored.while_suspended(name)
        if unasked is not None:
            known = await self._by_hash(unasked, schema)
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
            why = await self._refusal(node, schema, strategy)
            if why is not None:
                raise IncompatibleError(why)
            added = await self._add(name, node, Registered(schema, self._clock.wall_ms()))
            if added is not None:
                return added
        raise BadVersionError(
            f"the schemas of {name} changed under {RACES_MAX} attempts to add one"
        )

    async def delete(self, topic: TopicName, *, expected: int | None = None) -> int:
        """Mark all versions as deleted by a further version, whose number it returns; messages by them stay readable.
        With none to delete, the number of the newest deletion, -1 without one. ``expected``: number of the newest
        version. Raises as ``register``."""
        name = schema_id(topic)
        gone = Registered(DELETED, self._clock.wall_ms(), deleted=True)
        for _ in range(RACES_MAX):
            node = await self._stored.node(name)
            if not node.live:
                return node.newest
            _check_expected(node, expected)
            added = await self._add(name, node, gone)
            if added is not None:
                return added
        raise BadVersionError(f"the schemas of {name} changed under {RACES_MAX} attempts to delete")

    async def remove(self, topic: TopicName) -> bool:
        """Remove all versions and their ledgers, as with the topic itself; False when there were none. The node goes
        last: what was cut off is finished by the next call."""
        name = schema_id(topic)
        try:
            node = await self._stored.node(name)
        except LostVersionError as error:
            log.error("schemas of %s: their ledgers are left: %s", name, error)
            node = NO_NODE
        self._stored.drop_node(name)
        for one in node.versions:
            try:
                await self._ledgers.delete(one.ledger_id)
            except NoSuchLedgerError:
                continue
        try:
            await self._store.delete(paths.schema(name))
        except NoNodeError:
            return False
        return True

    async def _add(self, name: str, node: Node, one: Registered) -> int | None:
        """Store a further version; None when somebody else changed the node meanwhile."""
        if len(node.versions) >= VERSIONS_MAX:
            raise IncompatibleError(
                f"{name} has {VERSIONS_MAX} versions of its schema, no more are taken"
            )
        custom = {
            "application": b"pulsar",
            "component": b"schema",
            "pulsar/schemaId": name.encode(),
            KIND: one.schema.kind.value.encode(),
        }
        ledger = await CursorLedger.create(self._ledgers, self._config, custom)
        try:
            entry_id = await ledger.append(entry(name, one, node.versions))
            await ledger.close()
        except BaseException as error:
            ledger.abandon("the version was not stored")
            if isinstance(error, LedgerError):
                with suppress(StoreUnavailableError, SessionExpiredError):
                    await self._ledgers.delete(ledger.ledger_id)
            raise
        digest = b"" if one.deleted else digest_of(one.schema)
        added = SchemaVersion(node.newest + 1, ledger.ledger_id, entry_id, digest)
        if not await self._swap(name, node, added):
            await self._ledgers.delete(ledger.ledger_id)
            return None
        self._stored.keep(added, one)
        return added.version

    async def _swap(self, name: str, node: Node, added: SchemaVersion) -> bool:
        """Compare-and-set of the locator (S1). A lost answer is looked after once: nobody else names our ledger, and
        others may have added theirs behind it meanwhile."""
        versions = [*node.versions, added]
        value = await self._apart.run(INDEX_BYTES * len(versions), locator, versions)
        path, stat_version = paths.schema(name), 0
        try:
            if node is NO_NODE:
                await self._store.create(path, value, make_parents=True)
            else:
                stat_version = (await self._store.put(path, value, node.stat_version)).version
        except (BadVersionError, NodeExistsError, NoNodeError):
            # The answer of an earlier try of the store's own may have been lost: then it is there.
            return added in (await self._stored.node(name)).versions
        except StoreUnavailableError:
            if added not in (await self._stored.node(name)).versions:
                raise
        else:
            self._stored.keep_node(name, value, Node(versions, added.version, stat_version))
        return True


def _check_expected(node: Node, expected: int | None) -> None:
    """Raises OvertakenError."""
    kept = node.live
    newest = kept[-1].version if kept else -1
    if expected is not None and newest != expected:
        now = f"version {newest} is" if kept else "none is there"
        then = f"version {expected} was" if expected >= 0 else "none was"
        raise OvertakenError(
            f"The schema changed meanwhile: {now} now, {then} newest when you looked"
        )
