"""Mistakes in the registry of schemas."""

from engine.base.names import TopicName
from engine.metadata import paths
from engine.metadata.store import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    StoreUnavailableError,
)
from engine.schema.kinds import Schema
from engine.schema.locator import Registered, SchemaVersion, locator
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import NO_NODE, Node, Version
from tests.sim.plants.planting import Patches


def version_listed_over_another() -> Patches:
    """List a version without a check whether another broker listed one meanwhile."""

    async def swap(self: SchemaRegistry, name: str, node: Node, added: SchemaVersion) -> bool:
        path, value = paths.schema(name), locator([*node.versions, added])
        if node is NO_NODE:
            try:
                await self._store.create(path, value, make_parents=True)
                return True
            except NodeExistsError:
                pass
        await self._store.put(path, value)
        return True

    return [(SchemaRegistry, "_swap", swap)]


def version_of_a_lost_answer_loses_its_ledger() -> Patches:
    """Delete a version's ledger when the answer to listing it is lost, as that of a version that lost the race."""

    async def swap(self: SchemaRegistry, name: str, node: Node, added: SchemaVersion) -> bool:
        path, value = paths.schema(name), locator([*node.versions, added])
        try:
            if node is NO_NODE:
                await self._store.create(path, value, make_parents=True)
            else:
                await self._store.put(path, value, node.stat_version)
        except (BadVersionError, NodeExistsError, NoNodeError, StoreUnavailableError):
            return False
        return True

    return [(SchemaRegistry, "_swap", swap)]


def version_told_before_it_is_listed() -> Patches:
    """Return a new version though another broker may have listed a different one under its number."""
    real = SchemaRegistry._add

    async def add(
        self: SchemaRegistry, name: str, node: Node, registered: Registered
    ) -> int | None:
        await real(self, name, node, registered)
        return node.newest + 1

    return [(SchemaRegistry, "_add", add)]


def only_the_newest_version_is_known() -> Patches:
    """Compare a schema with the newest version only: an earlier one becomes a new version."""

    async def by_hash(self: SchemaRegistry, node: Node, schema: Schema) -> int | None:
        return None

    real = SchemaRegistry._by_meaning

    async def newest(self: SchemaRegistry, node: Node, schema: Schema) -> int | None:
        return await real(self, Node(node.live[-1:], node.newest, node.stat_version), schema)

    return [(SchemaRegistry, "_by_hash", by_hash), (SchemaRegistry, "_by_meaning", newest)]


def deleted_versions_are_unknown() -> Patches:
    """Deny the versions before a deletion of a topic's schemas, though messages refer to them."""

    async def get(self: SchemaRegistry, topic: TopicName, number: int) -> Version | None:
        return await self.live(topic, number)

    return [(SchemaRegistry, "get", get)]
