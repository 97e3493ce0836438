"""Reads and writes of records that metadata changes share; a refused one raises with Pulsar's text."""

from collections.abc import Callable
from contextlib import suppress

from engine.base.errors import AlreadyExists, NotFound, PreconditionFailed
from engine.metadata import account
from engine.metadata.cached import derived, fresh
from engine.metadata.records import Document, Stored, decode_json
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from engine.metadata.tree import VALUE_MAX
from engine.metadata.update import update


async def children(store: MetadataStore, path: str) -> list[str]:
    """Return the names of a node's children, sorted; none when the node is missing."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def find_node(store: MetadataStore, path: str) -> Stored | None:
    """Return the stored document; None when the node is missing or empty.

    An empty node exists only as the parent of others. Raises RecordFormatError when its value is not a document.
    """
    try:
        return await derived(store, path, _document)
    except NoNodeError:
        return None


def _document(value: bytes, path: str) -> Document | None:
    return decode_json(value, path) if value else None


async def read_node(store: MetadataStore, path: str, missing: str) -> Stored:
    """Return the stored document. Raises NotFound when the node is missing."""
    document = await find_node(store, path)
    if document is None:
        raise NotFound(missing)
    return document


async def create_node(
    store: MetadataStore, path: str, value: bytes, exists: str, *, fill: bool = True
) -> None:
    """Create a record, and its parents as empty nodes.

    With ``fill``, an existing empty node, which was only a parent, receives the value; otherwise it counts as a record.
    Raises AlreadyExists when the record exists, PreconditionFailed for a value that is too large for a node.
    """
    value = _checked_size(path, value)
    try:
        await store.create(path, value, make_parents=True)
        return
    except NodeExistsError as error:
        if not fill:
            raise AlreadyExists(exists) from error
    await _fill(store, path, value, exists)


async def _fill(store: MetadataStore, path: str, value: bytes, exists: str) -> None:
    """Store the value of a node that was only a parent. Raises AlreadyExists when it has a value."""
    try:
        present, stat = await fresh(store, path).get(path)
        if not present:
            await store.put(path, value, stat.version)
            return
    except (NoNodeError, BadVersionError):
        pass  # another writer creates or deletes the node at this moment
    raise AlreadyExists(exists)


async def remove_holder(store: MetadataStore, path: str) -> None:
    """Remove a node that is empty and has no children; return without an error otherwise."""
    try:
        value, stat = await fresh(store, path).get(path)
        if not value:
            await store.delete(path, stat.version)
    except (NoNodeError, NotEmptyError, BadVersionError):
        return


async def create_below(
    store: MetadataStore, parent: str, name: str, value: bytes, *, exists: str, missing: str
) -> None:
    """Create ``parent/name``, without creating the parent.

    ``name`` may contain slashes: folders between the two are created, and an empty node at the end is filled.
    Raises NotFound when the parent, which the caller has read before, was deleted meanwhile: creating it again would
    leave it without its value. Raises AlreadyExists for a record.
    """
    *folders, last = name.split("/")
    path = parent
    try:
        for folder in folders:
            path = f"{path}/{folder}"
            # A separate account, because a folder is not a change that the caller requested.
            with suppress(NodeExistsError), account.opened():
                await store.create(path)
        await store.create(f"{path}/{last}", _checked_size(path, value))
    except NodeExistsError:
        await _fill(store, f"{path}/{last}", value, exists)
    except NoNodeError as error:
        raise NotFound(missing) from error


async def change_below(
    store: MetadataStore,
    parent: str,
    name: str,
    change: Callable[[bytes], bytes],
    missing: str,
) -> None:
    """Change ``parent/name`` by compare-and-set; ``change`` receives no bytes when it is missing.

    Raises NotFound when the parent, which the caller has read before, was deleted meanwhile.
    """
    while True:
        try:
            await update(
                store, f"{parent}/{name}", lambda value: _checked_size(name, change(value))
            )
            return
        except NoNodeError:
            first = change(b"")
        with suppress(AlreadyExists):  # created by another writer: the next turn changes it
            await create_below(store, parent, name, first, exists="", missing=missing)
            return


async def change_node(
    store: MetadataStore, path: str, change: Callable[[bytes], bytes], missing: str
) -> bytes:
    """Change a node by compare-and-set and return the stored value.

    Raises NotFound when the node is missing, PreconditionFailed for a value that is too large for a node.
    """
    try:
        return await update(store, path, lambda value: _checked_size(path, change(value)))
    except NoNodeError as error:
        raise NotFound(missing) from error


def _checked_size(path: str, value: bytes) -> bytes:
    if len(value) > VALUE_MAX:
        raise PreconditionFailed(f"{path}: {len(value)} bytes, at most {VALUE_MAX} are stored")
    return value


async def delete_tree(store: MetadataStore, path: str) -> None:
    """Remove a node and all nodes below it; missing ones are no error."""
    for child in await children(fresh(store, path), path):
        await delete_tree(store, f"{path}/{child}")
    try:
        await store.delete(path)
    except NoNodeError:
        return


async def delete_if_empty(store: MetadataStore, path: str) -> None:
    """Remove a node that has no children; return without an error otherwise."""
    try:
        await store.delete(path)
    except (NoNodeError, NotEmptyError):
        return
