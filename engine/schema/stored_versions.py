"""The versions of topics' schemas as they are stored: the nodes that name them, their entries, and what was read."""

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
from engine.schema.apart import Apart
from engine.schema.compatibility import meaning
from engine.schema.kept import Kept
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from engine.schema.locator import Registered, SchemaVersion, digest_of, parse_entry, parse_locator

ENTRY_BYTES_MAX = 5 << 20
READS_AT_ONCE = 16
ENTRIES_BYTES = 32 << 20
ENTRY_BYTES = 1 << 10
"""What an entry takes in memory beside its definition, which most kinds have none of."""
NODES_BYTES = 16 << 20
NODE_BYTES, INDEX_BYTES = 512, 256
"""What a node takes in memory beside its bytes, and each version in it."""
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
"""In a ledger's metadata: with the hash of a definition it tells who has what cannot be read any more."""
Place = tuple[int, int]
"""Ledger and entry."""


class UnreadableError(MagnetarError):
    """A version cannot be read now, and the answer depends on it."""

    retriable = True


class LostVersionError(UnreadableError):
    """A version's entry, or the node that names all versions, is gone or damaged for good."""

    retriable = False


class Version(NamedTuple):
    """A version that is registered, and was not deleted."""

    number: int
    found: Registered


@dataclass(slots=True, eq=False)
class Node:
    """The locator as it was read: all versions, oldest first; ``stat_version`` -1: there is none. ``live``: those since
    the last deletion, which has no hash."""

    versions: Sequence[SchemaVersion]
    newest: int
    stat_version: int
    live: Sequence[SchemaVersion] = field(init=False)

    def __post_init__(self) -> None:
        last = max((i for i, one in enumerate(self.versions) if not one.hash), default=-1)
        self.live = self.versions[last + 1 :] if last >= 0 else self.versions


NO_NODE = Node((), -1, ANY_VERSION)


class Meaning(NamedTuple):
    """What two versions of one schema share. ``kind`` None: a deletion."""

    kind: SchemaKind | None
    digest: bytes


DELETION = Meaning(None, b"")


class StoredVersions:
    """For one broker. Entries never change: those that were read are kept, up to ``ENTRIES_BYTES``. Everything raises
    the store's errors and UnreadableError; cancel-safe."""

    def __init__(self, store: MetadataStore, ledgers: LedgerClient, apart: Apart) -> None:
        self._store = store
        self._ledgers = ledgers
        self._apart = apart
        self._entries: Kept[Place, Registered] = Kept(ENTRIES_BYTES)
        self._meanings: Kept[Place, Meaning] = Kept(MEANINGS_BYTES)
        self._nodes: Kept[str, tuple[bytes, Node]] = Kept(NODES_BYTES)

    # --- nodes -----------------------------------------------------------------------------------

    async def node(self, name: str) -> Node:
        """As it is stored now."""
        try:
            value, stat = await self._store.get(paths.schema(name))
        except NoNodeError:
            self._nodes.drop(name)
            return NO_NODE
        kept = self._nodes.get(name)
        if kept is not None and kept[0] == value:
            versions, newest = kept[1].versions, kept[1].newest
            if kept[1].stat_version == stat.version:
                return kept[1]
        else:
            try:
                newest, versions = await self._apart.run(len(value), parse_locator, value)
            except RecordFormatError as error:
                raise LostVersionError(f"the schemas of {name} cannot be read: {error}") from error
        node = Node(versions, newest, stat.version)
        self.keep_node(name, value, node)
        return node

    async def last_node(self, name: str) -> Node:
        """As it was read last while the store does not answer, or what it holds is damaged (S3)."""
        unasked = self.while_suspended(name)
        if unasked is not None:
            return unasked
        try:
            return await self.node(name)
        except (StoreUnavailableError, SessionExpiredError, LostVersionError):
            kept = self._nodes.get(name)
            if kept is None:
                raise
            return kept[1]

    def while_suspended(self, name: str) -> Node | None:
        """As it was read last, if there is no use in asking now: the store would have us wait."""
        suspended = self._store.state is SessionState.SUSPENDED
        kept = self._nodes.get(name) if suspended else None
        return kept[1] if kept is not None else None

    def keep_node(self, name: str, value: bytes, node: Node) -> None:
        """What was written, or read."""
        weight = NODE_BYTES + len(value) + INDEX_BYTES * len(node.versions)
        self._nodes.put(name, (value, node), weight)

    def drop_node(self, name: str) -> None:
        """It is deleted."""
        self._nodes.drop(name)

    # --- entries ---------------------------------------------------------------------------------

    async def live(self, one: SchemaVersion) -> Version | None:
        """None for a deletion. Raises LostVersionError."""
        found = await self._fetch(one)
        return None if found.deleted else Version(one.version, found)

    async def tried(self, one: SchemaVersion) -> Version | UnreadableError | None:
        try:
            return await self.live(one)
        except UnreadableError as error:
            return error

    async def all_live(self, node: Node) -> list[Version]:
        """Those since the last deletion, oldest first. Raises LostVersionError when one is lost."""
        found: list[Version] = []
        for part in _parts(node.live):
            for one in await self.all_tried(part):
                if isinstance(one, UnreadableError):
                    raise one
                if one is None:
                    found.clear()
                else:
                    found.append(one)
        return found

    async def all_tried(
        self, part: Sequence[SchemaVersion]
    ) -> Sequence[Version | UnreadableError | None]:
        """At most ``READS_AT_ONCE``; those that are kept cost no task."""
        if all((one.ledger_id, one.entry_id) in self._entries for one in part):
            return [await self.tried(one) for one in part]
        return await asyncio.gather(*map(self.tried, part))

    async def meant(self, node: Node) -> AsyncIterator[list[tuple[SchemaVersion, Meaning]]]:
        """What the versions since the last deletion mean, oldest first, some at a time; lost ones are left out."""
        for part in _parts(node.live):
            found: Sequence[Meaning | UnreadableError | None]
            found = [self._meanings.get((one.ledger_id, one.entry_id)) for one in part]
            if None in found:
                found = await asyncio.gather(*map(self._meaning, part))
            yield list(_not_lost(part, found))

    async def meaning_of(self, schema: Schema) -> Meaning:
        return Meaning(schema.kind, await self._apart.run(len(schema.data), meaning, schema))

    async def _meaning(self, one: SchemaVersion) -> Meaning | UnreadableError:
        place = one.ledger_id, one.entry_id
        found = self._meanings.get(place)
        if found is None:
            live = await self.tried(one)
            if isinstance(live, UnreadableError):
                return live
            found = DELETION if live is None else await self.meaning_of(live.found.schema)
            self._meanings.put(place, found, MEANING_BYTES)
        return found

    async def kind_said(self, one: SchemaVersion) -> SchemaKind | None:
        """Its kind by its ledger's metadata: Apache's brokers do not write it there."""
        try:
            metadata = await self._ledgers.metadata(one.ledger_id)
            return SchemaKind(metadata.custom.get(KIND, b"").decode())
        except (LedgerError, ValueError):
            return None

    async def sizes(self, node: Node) -> list[tuple[int, int, int]]:
        """Id, entries and bytes of the ledgers that ``node`` names; lost ones are left out."""
        found: list[tuple[int, int, int]] = []
        names = list(dict.fromkeys(one.ledger_id for one in node.versions))
        for start in range(0, len(names), READS_AT_ONCE):
            found += await asyncio.gather(*map(self._size, names[start : start + READS_AT_ONCE]))
        return [each for each in found if each[1] >= 0]

    async def _size(self, ledger_id: int) -> tuple[int, int, int]:
        """-1 entries: it is lost."""
        try:
            metadata = await self._ledgers.metadata(ledger_id)
        except (NoSuchLedgerError, MetadataFormatError):
            return ledger_id, -1, 0
        return ledger_id, metadata.last_entry + 1, metadata.length

    async def _fetch(self, one: SchemaVersion) -> Registered:
        """Its entry, which has the hash that the node says (S2)."""
        place = one.ledger_id, one.entry_id
        found = self._entries.get(place)
        if found is not None:
            return found
        try:
            reader = await self._ledgers.open(one.ledger_id, recover=False)
            (run,) = await reader.read(one.entry_id, one.entry_id, ENTRY_BYTES_MAX)
            found = parse_entry(bytes(run.entry(0)))
            if one.hash and digest_of(found.schema) != one.hash:
                raise RecordFormatError("the definition is not the one that was registered")
        except LOST as error:
            raise LostVersionError(
                f"schema version {one.version} is lost: {error}; its producers go on, for others delete"
                " the topic's schemas"
            ) from error
        except LedgerError as error:
            raise UnreadableError(
                f"schema version {one.version} cannot be read now: {error}"
            ) from error
        self.keep(one, found)
        return found

    def keep(self, one: SchemaVersion, found: Registered) -> None:
        """What was written, or read."""
        place = one.ledger_id, one.entry_id
        self._entries.put(place, found, ENTRY_BYTES + size_of(found.schema))


def _not_lost(
    part: Sequence[SchemaVersion], found: Sequence[Meaning | UnreadableError | None]
) -> Iterator[tuple[SchemaVersion, Meaning]]:
    for one, meant in zip(part, found, strict=True):
        if isinstance(meant, Meaning):
            yield one, meant
        elif meant is not None and not isinstance(meant, LostVersionError):
            raise meant


def size_of(schema: Schema) -> int:
    """Bytes of the definition and the properties. Raises InvalidSchemaError."""
    try:
        texts = [text.encode() for text in chain.from_iterable(schema.properties.items())]
    except UnicodeEncodeError:
        raise InvalidSchemaError("properties: half of a character (a lone surrogate)") from None
    return len(schema.data) + sum(map(len, texts))


def _parts(versions: Sequence[SchemaVersion]) -> Iterator[Sequence[SchemaVersion]]:
    """What is read at once."""
    return (
        versions[start : start + READS_AT_ONCE] for start in range(0, len(versions), READS_AT_ONCE)
    )
