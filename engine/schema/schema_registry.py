"""The schemas of topics: versions in ledgers, and a node that names them; each change by compare-and-set of that node.

All partitions of a topic have one registry entry, so several brokers change it. Whoever loses the race reads again and
decides again: a schema that the other registered is the same version.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.records import RecordFormatError
from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreUnavailableError,
)
from engine.schema.compatibility import check, refused, same
from engine.schema.kinds import Schema
from engine.schema.locator import (
    DELETED,
    Registered,
    SchemaVersion,
    digest_of,
    entry,
    locator,
    parse_entry,
    parse_locator,
)
from engine.tenancy.strategy import Strategy

ENTRY_BYTES_MAX = 5 << 20
READS_AT_ONCE = 16
CACHE_BYTES = 32 << 20
ENTRY_BYTES = 1 << 10
"""What an entry takes in memory beside its definition, which most kinds have none of."""
VERSIONS_MAX = 10_000
"""The node that names them may be 1 MiB."""
RACES_MAX = 20

log = logging.getLogger(__name__)


class IncompatibleError(MagnetarError):
    """The schema may not follow those that there are; the text says under which strategy and at which field."""


class UnreadableError(MagnetarError):
    """A version's entry is lost or damaged, and the answer depends on it."""

    retriable = True


class Version(NamedTuple):
    """A version that is registered, and was not deleted."""

    number: int
    found: Registered


class _Node(NamedTuple):
    """The locator as it was read; ``stat_version`` -1: there is none."""

    versions: Sequence[SchemaVersion]
    newest: int
    stat_version: int


NONE = _Node((), -1, ANY_VERSION)


def schema_id(topic: TopicName) -> str:
    """``tenant/namespace/topic``, encoded as in paths: that of a partition is its topic's."""
    whole = topic.partitioned
    return f"{whole.namespace}/{whole.encoded_local}"


class SchemaRegistry:
    """For one broker. Entries that were read are kept, up to ``CACHE_BYTES``: they never change.

    All calls raise the store's errors; those that need a version's definition UnreadableError, too. Cancel-safe unless
    said otherwise.
    """

    def __init__(
        self, store: MetadataStore, ledgers: LedgerClient, config: LedgerConfig, clock: Clock
    ) -> None:
        """``config``: how a version's ledger is replicated."""
        self._store = store
        self._ledgers = ledgers
        self._config = config
        self._clock = clock
        self._entries: OrderedDict[tuple[int, int], Registered] = OrderedDict()
        self._bytes = 0

    # --- reading ---------------------------------------------------------------------------------

    async def index(self, topic: TopicName) -> Sequence[SchemaVersion]:
        """Where all versions are, deletions among them; oldest first."""
        return (await self._node(schema_id(topic))).versions

    async def latest(self, topic: TopicName) -> Version | None:
        """The newest version; None when there is none or it was deleted."""
        return await self.live(topic, None)

    async def live(self, topic: TopicName, number: int | None) -> Version | None:
        """A version since the last deletion, None for ``number``: the newest."""
        kept = _since_deletion(await self._node(schema_id(topic)))
        for one in reversed(kept):
            if number is None or one.version == number:
                return await self._live(one)
        return None

    async def get(self, topic: TopicName, number: int) -> Version | None:
        """One version, also from before a deletion: there may be messages by it."""
        node = await self._node(schema_id(topic))
        wanted = next((one for one in node.versions if one.version == number), None)
        return await self._live(wanted) if wanted is not None else None

    async def versions(self, topic: TopicName) -> list[Version]:
        """All versions since the last deletion, oldest first."""
        return [_readable(one) for one in await self._all_live(await self._node(schema_id(topic)))]

    async def find(self, topic: TopicName, schema: Schema) -> int | None:
        """The version that ``schema`` is, None when it is none of those that can be read."""
        node = await self._node(schema_id(topic))
        known = await self._by_hash(node, schema)
        return _number_of(schema, await self._all_live(node)) if known is None else known

    async def refusal(self, topic: TopicName, schema: Schema, strategy: Strategy) -> str | None:
        """Why ``schema`` may not be the next version, None when it may. Raises InvalidSchemaError."""
        check(schema)
        return _refusal(schema, await self._all_live(await self._node(schema_id(topic))), strategy)

    async def _live(self, one: SchemaVersion) -> Version | None:
        found = await self._fetch(one)
        return None if found.deleted else Version(one.version, found)

    async def _all_live(self, node: _Node) -> "list[Version | UnreadableError]":
        """Those since the last deletion, oldest first; what cannot be read holds its place."""
        wanted = _since_deletion(node)
        found: list[Version | UnreadableError] = []
        for start in range(0, len(wanted), READS_AT_ONCE):
            part = wanted[start : start + READS_AT_ONCE]
            for one in await asyncio.gather(*(self._tried(each) for each in part)):
                if one is None:
                    found.clear()
                else:
                    found.append(one)
        return found

    async def _tried(self, one: SchemaVersion) -> "Version | UnreadableError | None":
        try:
            return await self._live(one)
        except UnreadableError as error:
            return error

    async def _by_hash(self, node: _Node, schema: Schema) -> int | None:
        """The version whose bytes ``schema`` is, without a look at any other."""
        digest = digest_of(schema)
        for one in _since_deletion(node):
            if one.hash == digest:
                live = await self._live(one)
                if live is not None and live.found.schema.kind is schema.kind:
                    return live.number
        return None

    async def _node(self, name: str) -> _Node:
        try:
            value, stat = await self._store.get(paths.schema(name))
        except NoNodeError:
            return NONE
        try:
            newest, versions = parse_locator(value)
        except RecordFormatError as error:
            raise UnreadableError(f"the schemas of {name} cannot be read: {error}") from error
        return _Node(versions, newest, stat.version)

    async def _fetch(self, one: SchemaVersion) -> Registered:
        place = one.ledger_id, one.entry_id
        found = self._entries.get(place)
        if found is not None:
            self._entries.move_to_end(place)
            return found
        try:
            reader = await self._ledgers.open(one.ledger_id, recover=False)
            (run,) = await reader.read(one.entry_id, one.entry_id, ENTRY_BYTES_MAX)
            found = parse_entry(bytes(run.entry(0)))
        except (LedgerError, RecordFormatError) as error:
            raise UnreadableError(
                f"schema version {one.version} cannot be read: {error}"
            ) from error
        self._keep(place, found)
        return found

    def _keep(self, place: tuple[int, int], found: Registered) -> None:
        if place not in self._entries:
            self._entries[place] = found
            self._bytes += _weight(found)
        while self._bytes > CACHE_BYTES:
            _, dropped = self._entries.popitem(last=False)
            self._bytes -= _weight(dropped)

    # --- changing --------------------------------------------------------------------------------

    async def register(
        self, topic: TopicName, schema: Schema, strategy: Strategy, *, may_add: bool = True
    ) -> int:
        """The version that ``schema`` is, a new one if it is none yet; not ``may_add``: none but the first is added.

        Raises InvalidSchemaError, IncompatibleError, LedgerError. Cancelled or StoreUnavailableError: it may become
        registered, and a ledger may be left that nobody names.
        """
        check(schema)
        name = schema_id(topic)
        for _ in range(RACES_MAX):
            node = await self._node(name)
            known = await self._by_hash(node, schema)
            if known is not None:
                return known
            live = await self._all_live(node)
            known = _number_of(schema, live)
            if known is not None:
                return known
            if live and not may_add:
                raise IncompatibleError(
                    f"Schema not found and schema auto updating is disabled. topic: {name}"
                )
            why = _refusal(schema, live, strategy)
            if why is not None:
                raise IncompatibleError(why)
            added = await self._add(name, node, Registered(schema, self._clock.wall_ms()))
            if added is not None:
                return added
        raise BadVersionError(
            f"the schemas of {name} changed under {RACES_MAX} attempts to add one"
        )

    async def delete(self, topic: TopicName) -> int:
        """Mark all versions as deleted by a further version, whose number it returns; messages by them stay readable.
        With none to delete, the number of the newest deletion, -1 without one. Raises as ``register``."""
        name = schema_id(topic)
        gone = Registered(DELETED, self._clock.wall_ms(), deleted=True)
        for _ in range(RACES_MAX):
            node = await self._node(name)
            if not _since_deletion(node):
                return node.newest
            added = await self._add(name, node, gone)
            if added is not None:
                return added
        raise BadVersionError(f"the schemas of {name} changed under {RACES_MAX} attempts to delete")

    async def remove(self, topic: TopicName) -> bool:
        """Remove all versions and their ledgers, as with the topic itself; False when there were none. The node goes
        last: what was cut off is finished by the next call."""
        name = schema_id(topic)
        try:
            node = await self._node(name)
        except UnreadableError as error:
            log.error("schemas of %s: their ledgers are left: %s", name, error)
            node = NONE
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

    async def _add(self, name: str, node: _Node, one: Registered) -> int | None:
        """Store a further version; None when somebody else changed the node meanwhile."""
        if len(node.versions) >= VERSIONS_MAX:
            raise IncompatibleError(
                f"{name} has {VERSIONS_MAX} versions of its schema, no more are taken"
            )
        custom = {
            "application": b"pulsar",
            "component": b"schema",
            "pulsar/schemaId": name.encode(),
        }
        ledger = await CursorLedger.create(self._ledgers, self._config, custom)
        entry_id = await ledger.append(entry(name, one, node.versions))
        await ledger.close()
        digest = b"" if one.deleted else digest_of(one.schema)
        added = SchemaVersion(node.newest + 1, ledger.ledger_id, entry_id, digest)
        if not await self._swap(name, node, added):
            await self._ledgers.delete(ledger.ledger_id)
            return None
        self._keep((added.ledger_id, added.entry_id), one)
        return added.version

    async def _swap(self, name: str, node: _Node, added: SchemaVersion) -> bool:
        """Compare-and-set of the locator. A lost answer is looked after once: nobody else names our ledger, and others
        may have added theirs behind it meanwhile."""
        path, value = paths.schema(name), locator([*node.versions, added])
        try:
            if node is NONE:
                await self._store.create(path, value, make_parents=True)
            else:
                await self._store.put(path, value, node.stat_version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            # The answer of an earlier try of the store's own may have been lost: then it is there.
            return added in (await self._node(name)).versions
        except StoreUnavailableError:
            if added not in (await self._node(name)).versions:
                raise
        return True


def _weight(one: Registered) -> int:
    return ENTRY_BYTES + len(one.schema.data)


def _since_deletion(node: _Node) -> Sequence[SchemaVersion]:
    """A deletion has no hash."""
    last = max((i for i, one in enumerate(node.versions) if not one.hash), default=-1)
    return node.versions[last + 1 :]


def _readable(one: Version | UnreadableError) -> Version:
    if isinstance(one, UnreadableError):
        raise one
    return one


def _number_of(schema: Schema, live: Sequence[Version | UnreadableError]) -> int | None:
    for one in live:
        if isinstance(one, Version) and same(one.found.schema, schema):
            return one.number
    return None


def _refusal(
    schema: Schema, live: Sequence[Version | UnreadableError], strategy: Strategy
) -> str | None:
    """Only what the strategy looks at must be readable."""
    looked_at = live if strategy.transitive else live[-1:]
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        looked_at = ()
    return refused(schema, [_readable(one).found.schema for one in looked_at], strategy)
