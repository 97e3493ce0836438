"""Versions of topics' schemas in storage: the nodes that name them, their entries, and a cache of both."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.ledger.client import LedgerClient
from engine.ledger.errors import (
    CorruptEntryError,
    LedgerError,
    MetadataFormatError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from engine.metadata import paths
from engine.metadata.records import RecordFormatError
from engine.metadata.store import (
    ANY_VERSION,
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.schema.bounded_cache import BoundedCache
from engine.schema.compatibility import meaning
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from engine.schema.locator import Registered, SchemaVersion, digest_of, parse_entry, parse_locator
from engine.schema.offloader import Offloader

ENTRY_BYTES_MAX = 5 << 20
READS_AT_ONCE = 16
ENTRIES_BYTES = 32 << 20
ENTRY_BYTES = 1 << 10
"""Memory of an entry beside its definition; most kinds have no definition."""
NODES_BYTES = 16 << 20
NODE_BYTES, INDEX_BYTES = 512, 256
"""Memory of a node beside its bytes, and of each version in it."""
MEANINGS_BYTES = 8 << 20
MEANING_BYTES = 384
LOST = (
    CorruptEntryError,
    MetadataFormatError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RecordFormatError,
    UnauthorizedError,
)
KIND = "magnetar/schemaKind"
"""Key in a ledger's metadata. With the hash of a definition it identifies a schema that cannot be read any more."""
Place = tuple[int, int]
"""Ledger and entry."""


class UnreadableError(MagnetarError):
    """A version cannot be read now, and the answer depends on it."""

    retriable = True


class LostVersionError(UnreadableError):
    """A version's entry, or the node that names all versions, is missing or damaged for good."""

    retriable = False


class Version(NamedTuple):
    """A registered version that was not deleted."""

    number: int
    registered: Registered


@dataclass(slots=True, eq=False)
class Node:
    """The locator as it was read: all versions, oldest first; ``stat_version`` is -1 without a node.

    ``live``: versions since the last deletion, which has no hash.
    """

    versions: Sequence[SchemaVersion]
    newest: int
    stat_version: int
    live: Sequence[SchemaVersion] = field(init=False)

    def __post_init__(self) -> None:
        last = max((i for i, version in enumerate(self.versions) if not version.hash), default=-1)
        self.live = self.versions[last + 1 :] if last >= 0 else self.versions


NO_NODE = Node((), -1, ANY_VERSION)


class Meaning(NamedTuple):
    """The identity of a schema, equal for two versions of the same schema. ``kind`` is None for a deletion."""

    kind: SchemaKind | None
    digest: bytes


DELETION = Meaning(None, b"")


class StoredVersions:
    """Reads versions, for one broker. Entries never change; those read are cached up to ``ENTRIES_BYTES``.

    All methods raise the store's errors and UnreadableError; cancel-safe.
    """

    def __init__(self, store: MetadataStore, ledgers: LedgerClient, offloader: Offloader) -> None:
        self._store = store
        self._ledgers = ledgers
        self._offloader = offloader
        self._entries: BoundedCache[Place, Registered] = BoundedCache(ENTRIES_BYTES)
        self._meanings: BoundedCache[Place, Meaning] = BoundedCache(MEANINGS_BYTES)
        self._nodes: BoundedCache[str, tuple[bytes, Node]] = BoundedCache(NODES_BYTES)

    # --- nodes -----------------------------------------------------------------------------------

    async def node(self, name: str) -> Node:
        """Read the node from the store."""
        try:
            value, stat = await self._store.get(paths.schema(name))
        except NoNodeError:
            self._nodes.drop(name)
            return NO_NODE
        cached = self._nodes.get(name)
        if cached is not None and cached[0] == value:
            versions, newest = cached[1].versions, cached[1].newest
            if cached[1].stat_version == stat.version:
                return cached[1]
        else:
            try:
                newest, versions = await self._offloader.run(len(value), parse_locator, value)
            except RecordFormatError as error:
                raise LostVersionError(f"the schemas of {name} cannot be read: {error}") from error
        node = Node(versions, newest, stat.version)
        self.keep_node(name, value, node)
        return node

    async def last_node(self, name: str) -> Node:
        """Read the node; return the last one read while the store is unavailable or holds damaged data (S3)."""
        suspended = self.last_if_suspended(name)
        if suspended is not None:
            return suspended
        try:
            return await self.node(name)
        except (StoreUnavailableError, SessionExpiredError, LostVersionError):
            cached = self._nodes.get(name)
            if cached is None:
                raise
            return cached[1]

    def last_if_suspended(self, name: str) -> Node | None:
        """Return the last node read while the session is suspended, when a request would only wait; else None."""
        suspended = self._store.state is SessionState.SUSPENDED
        cached = self._nodes.get(name) if suspended else None
        return cached[1] if cached is not None else None

    def keep_node(self, name: str, value: bytes, node: Node) -> None:
        """Cache a node that was written or read."""
        weight = NODE_BYTES + len(value) + INDEX_BYTES * len(node.versions)
        self._nodes.put(name, (value, node), weight)

    def drop_node(self, name: str) -> None:
        """Remove a deleted node from the cache."""
        self._nodes.drop(name)

    # --- entries ---------------------------------------------------------------------------------

    async def live(self, version: SchemaVersion) -> Version | None:
        """Return a version; None for a deletion. Raises LostVersionError."""
        registered = await self._fetch(version)
        return None if registered.deleted else Version(version.version, registered)

    async def try_live(self, version: SchemaVersion) -> Version | UnreadableError | None:
        """Return what ``live`` returns, or its error."""
        try:
            return await self.live(version)
        except UnreadableError as error:
            return error

    async def all_live(self, node: Node) -> list[Version]:
        """Return the versions since the last deletion, oldest first. Raises LostVersionError when one is lost."""
        versions: list[Version] = []
        for part in _parts(node.live):
            for version in await self.try_all(part):
                if isinstance(version, UnreadableError):
                    raise version
                if version is None:
                    versions.clear()
                else:
                    versions.append(version)
        return versions

    async def try_all(
        self, part: Sequence[SchemaVersion]
    ) -> Sequence[Version | UnreadableError | None]:
        """Return what ``try_live`` returns for at most ``READS_AT_ONCE`` versions; no task is created when all are
        cached."""
        if all((version.ledger_id, version.entry_id) in self._entries for version in part):
            return [await self.try_live(version) for version in part]
        return await asyncio.gather(*map(self.try_live, part))

    async def meanings(self, node: Node) -> AsyncIterator[list[tuple[SchemaVersion, Meaning]]]:
        """Yield the meanings of the versions since the last deletion, oldest first, in batches; lost versions are left
        out."""
        for part in _parts(node.live):
            meanings: Sequence[Meaning | UnreadableError | None]
            meanings = [
                self._meanings.get((version.ledger_id, version.entry_id)) for version in part
            ]
            if None in meanings:
                meanings = await asyncio.gather(*map(self._meaning, part))
            yield list(_not_lost(part, meanings))

    async def meaning_of(self, schema: Schema) -> Meaning:
        return Meaning(schema.kind, await self._offloader.run(len(schema.data), meaning, schema))

    async def _meaning(self, version: SchemaVersion) -> Meaning | UnreadableError:
        place = version.ledger_id, version.entry_id
        known = self._meanings.get(place)
        if known is None:
            live = await self.try_live(version)
            if isinstance(live, UnreadableError):
                return live
            known = DELETION if live is None else await self.meaning_of(live.registered.schema)
            self._meanings.put(place, known, MEANING_BYTES)
        return known

    async def recorded_kind(self, version: SchemaVersion) -> SchemaKind | None:
        """Return a version's kind from its ledger's metadata; None for ledgers of Apache's brokers, which do not record
        it."""
        try:
            metadata = await self._ledgers.metadata(version.ledger_id)
            return SchemaKind(metadata.custom.get(KIND, b"").decode())
        except (LedgerError, ValueError):
            return None

    async def sizes(self, node: Node) -> list[tuple[int, int, int]]:
        """Return id, entries and bytes of the ledgers that ``node`` names; lost ones are left out."""
        sizes: list[tuple[int, int, int]] = []
        ledger_ids = list(dict.fromkeys(version.ledger_id for version in node.versions))
        for start in range(0, len(ledger_ids), READS_AT_ONCE):
            sizes += await asyncio.gather(
                *map(self._size, ledger_ids[start : start + READS_AT_ONCE])
            )
        return [size for size in sizes if size[1] >= 0]

    async def _size(self, ledger_id: int) -> tuple[int, int, int]:
        """Return id, entries and bytes of a ledger; -1 entries when it is lost."""
        try:
            metadata = await self._ledgers.metadata(ledger_id)
        except (NoSuchLedgerError, MetadataFormatError):
            return ledger_id, -1, 0
        return ledger_id, metadata.last_entry + 1, metadata.length

    async def _fetch(self, version: SchemaVersion) -> Registered:
        """Return a version's entry, which must have the hash in the node (S2)."""
        place = version.ledger_id, version.entry_id
        registered = self._entries.get(place)
        if registered is not None:
            return registered
        try:
            reader = await self._ledgers.open(version.ledger_id, recover=False)
            (run,) = await reader.read(version.entry_id, version.entry_id, ENTRY_BYTES_MAX)
            registered = parse_entry(bytes(run.entry(0)))
            if version.hash and digest_of(registered.schema) != version.hash:
                raise RecordFormatError("the definition is not the one that was registered")
        except LOST as error:
            raise LostVersionError(
                f"schema version {version.version} is lost: {error}; its producers go on, for others delete"
                " the topic's schemas"
            ) from error
        except LedgerError as error:
            raise UnreadableError(
                f"schema version {version.version} cannot be read now: {error}"
            ) from error
        self.keep(version, registered)
        return registered

    def keep(self, version: SchemaVersion, registered: Registered) -> None:
        """Cache an entry that was written or read."""
        place = version.ledger_id, version.entry_id
        self._entries.put(place, registered, ENTRY_BYTES + size_of(registered.schema))


def _not_lost(
    part: Sequence[SchemaVersion], meanings: Sequence[Meaning | UnreadableError | None]
) -> Iterator[tuple[SchemaVersion, Meaning]]:
    for version, meaning_or_error in zip(part, meanings, strict=True):
        if isinstance(meaning_or_error, Meaning):
            yield version, meaning_or_error
        elif meaning_or_error is not None and not isinstance(meaning_or_error, LostVersionError):
            raise meaning_or_error


def size_of(schema: Schema) -> int:
    """Return the bytes of definition and properties. Raises InvalidSchemaError."""
    try:
        texts = [text.encode() for text in chain.from_iterable(schema.properties.items())]
    except UnicodeEncodeError:
        raise InvalidSchemaError("properties: half of a character (a lone surrogate)") from None
    return len(schema.data) + sum(map(len, texts))


def _parts(versions: Sequence[SchemaVersion]) -> Iterator[Sequence[SchemaVersion]]:
    """Return the versions in batches of ``READS_AT_ONCE``."""
    return (
        versions[start : start + READS_AT_ONCE] for start in range(0, len(versions), READS_AT_ONCE)
    )
