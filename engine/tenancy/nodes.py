"""Steps shared by metadata changes: reads that tell "missing", writes that refuse with Pulsar's text."""

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
    """Names of children, sorted; none when the node is missing."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def find_node(store: MetadataStore, path: str) -> Stored | None:
    """The stored document; None without the node, and for an empty one: that only holds others, made as their parent.
    Raises RecordFormatError for what is no document."""
    try:
        return await derived(store, path, _document)
    except NoNodeError:
        return None


def _document(value: bytes, path: str) -> Document | None:
    return decode_json(value, path) if value else None


async def read_node(store: MetadataStore, path: str, missing: str) -> Stored:
    """The stored document; NotFound when the node is missing."""
    found = await find_node(store, path)
    if found is None:
        raise NotFound(missing)
    return found


async def create_node(
    store: MetadataStore, path: str, value: bytes, exists: str, *, fill: bool = True
) -> None:
    """Create a record with parents that stand for nothing by themselves; AlreadyExists when there is one,
    PreconditionFailed for a value larger than a node takes. ``fill``: an empty node, which only holds others, gets it;
    else it counts as a record."""
    value = _fitting(path, value)
    try:
        await store.create(path, value, make_parents=True)
        return
    except NodeExistsError as error:
        if not fill:
            raise AlreadyExists(exists) from error
    await _fill(store, path, value, exists)


async def _fill(store: MetadataStore, path: str, value: bytes, exists: str) -> None:
    """Have a node that only holds others this value. AlreadyExists when it has one."""
    try:
        present, stat = await fresh(store, path).get(path)
        if not present:
            await store.put(path, value, stat.version)
            return
    except (NoNodeError, BadVersionError):
        pass  # somebody else makes or deletes it right now
    raise AlreadyExists(exists)


async def remove_holder(store: MetadataStore, path: str) -> None:
    """Remove a node that is empty and holds no others; anything else is fine too."""
    try:
        value, stat = await fresh(store, path).get(path)
        if not value:
            await store.delete(path, stat.version)
    except (NoNodeError, NotEmptyError, BadVersionError):
        return


async def create_below(
    store: MetadataStore, parent: str, name: str, value: bytes, *, exists: str, missing: str
) -> None:
    """Create ``parent/name``; NotFound when the parent, which was looked at before, is gone by now: made anew, it would
    be an empty one. ``name`` may hold slashes: folders between the two are made, and one that is there is filled.
    AlreadyExists for a record."""
    *folders, last = name.split("/")
    path = parent
    try:
        for folder in folders:
            path = f"{path}/{folder}"
            # An account of its own: a folder is no change that anybody asked for.
            with suppress(NodeExistsError), account.opened():
                await store.create(path)
        await store.create(f"{path}/{last}", _fitting(path, value))
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
    """Compare-and-set of ``parent/name``, which is made of no value where it is missing. NotFound when the parent,
    which was looked at before, is gone by now: it is not made anew."""
    while True:
        try:
            await update(store, f"{parent}/{name}", lambda value: _fitting(name, change(value)))
            return
        except NoNodeError:
            first = change(b"")
        with suppress(AlreadyExists):  # somebody else made it: changed in the next turn
            await create_below(store, parent, name, first, exists="", missing=missing)
            return


async def change_node(
    store: MetadataStore, path: str, change: Callable[[bytes], bytes], missing: str
) -> bytes:
    """Compare-and-set; NotFound when the node is missing, PreconditionFailed for a value larger than a node takes.
    Returns what is stored."""
    try:
        return await update(store, path, lambda value: _fitting(path, change(value)))
    except NoNodeError as error:
        raise NotFound(missing) from error


def _fitting(path: str, value: bytes) -> bytes:
    if len(value) > VALUE_MAX:
        raise PreconditionFailed(f"{path}: {len(value)} bytes, at most {VALUE_MAX} are stored")
    return value


async def delete_tree(store: MetadataStore, path: str) -> None:
    """Remove a node and all below it; what is gone already is fine."""
    for child in await children(fresh(store, path), path):
        await delete_tree(store, f"{path}/{child}")
    try:
        await store.delete(path)
    except NoNodeError:
        return


async def delete_if_empty(store: MetadataStore, path: str) -> None:
    """Remove a node without children; anything else is fine too."""
    try:
        await store.delete(path)
    except (NoNodeError, NotEmptyError):
        return
