"""Steps shared by metadata changes: reads that tell "missing", writes that refuse with Pulsar's text."""

from collections.abc import Callable

from engine.base.errors import AlreadyExists, NotFound, PreconditionFailed
from engine.metadata.cached import derived, fresh
from engine.metadata.records import Stored, decode_json
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError, NotEmptyError
from engine.metadata.tree import VALUE_MAX
from engine.metadata.update import update


async def children(store: MetadataStore, path: str) -> list[str]:
    """Names of children, sorted; none when the node is missing."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def find_node(store: MetadataStore, path: str) -> Stored | None:
    """The stored document, None when the node is missing."""
    try:
        return await derived(store, path, decode_json)
    except NoNodeError:
        return None


async def read_node(store: MetadataStore, path: str, missing: str) -> Stored:
    """The stored document; NotFound when the node is missing."""
    found = await find_node(store, path)
    if found is None:
        raise NotFound(missing)
    return found


async def create_node(store: MetadataStore, path: str, value: bytes, exists: str) -> None:
    """Create with parents; AlreadyExists when it exists, PreconditionFailed for a value larger than a node takes."""
    try:
        await store.create(path, _fitting(path, value), make_parents=True)
    except NodeExistsError as error:
        raise AlreadyExists(exists) from error


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
