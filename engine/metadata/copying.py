"""Copy of a metadata store into another one: complete, compared, and continued where it was interrupted.

Ephemeral nodes are not copied, because they belong to sessions of the source. Neither are versions, times and ACLs: the
copied nodes are new. Numbers of sequential nodes continue above those of the source, because ids of ledgers, for
example, must never be given again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from engine.base.errors import MagnetarError
from engine.metadata.incomplete import COPYING, RESTORING
from engine.metadata.store import (
    Found,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Stat,
)

T = TypeVar("T")
MARK = COPYING
RESERVED = ("/zookeeper", MARK, RESTORING)
"""Nodes of the root that belong to a store itself."""
BATCH = 100
"""Nodes that are read or written at once."""
NUMBERS_AT_ONCE = 500


class CopyError(MagnetarError):
    """The copy was refused or is not equal to its source; the text is one line for the operator."""


@dataclass(slots=True)
class CopiedNodes:
    """Numbers of nodes."""

    nodes: int = 0
    ephemerals: int = 0
    """Nodes of the source that were left out."""


class SourceNode(NamedTuple):
    """A persistent node. ``children``: names of its children, ephemeral ones included."""

    path: str
    value: bytes
    stat: Stat
    children: tuple[str, ...]


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Return the results of concurrent calls; when one fails, raise its error after all have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    values = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        values.append(result)
    return values


def _child(path: str, name: str) -> str:
    return f"{path if path != '/' else ''}/{name}"


async def _read(store: MetadataStore, paths: Sequence[str]) -> list[SourceNode | None]:
    """Read nodes with the names of their children; None stands for a missing node."""

    async def read(path: str, record: Found) -> SourceNode | None:
        if record is None:
            return None
        value, stat = record
        try:
            # The number of children is not known in every store.
            names = await store.children(path) if not stat.ephemeral_owner else []
        except NoNodeError:
            return None
        return SourceNode(path, value, stat, tuple(names))

    values, _ = await store.get_all(paths)
    return await all_of(map(read, paths, values))


async def walk(
    store: MetadataStore, start: str = "/", left_out: Collection[str] = RESERVED
) -> AsyncIterator[SourceNode]:
    """Yield the node ``start`` and all below it, each before its children, without those of ``left_out``.

    Nodes that are deleted meanwhile may be left out.
    """
    level = [start]
    while level:
        following: list[str] = []
        for at in range(0, len(level), BATCH):
            for node in await _read(store, level[at : at + BATCH]):
                if node is None:
                    continue
                yield node
                children = (_child(node.path, name) for name in node.children)
                following += (path for path in children if path not in left_out)
        level = following


async def copy(
    source: MetadataStore,
    target: MetadataStore,
    name: str,
    progress: Callable[[int], None] = lambda nodes: None,
    *,
    inside: str | None = None,
) -> CopiedNodes:
    """Copy all persistent nodes of ``source`` into an empty ``target``, then compare both.

    ``name`` identifies the source: a target with an interrupted copy of the same source is continued. ``progress`` is
    called with the number of nodes. ``inside``: path that the target's root would have in the source if one server had
    both under two names; None when neither is below the other. No other client may write to either store meanwhile.
    Cancel-safe.

    Raises CopyError, and the stores' errors; the target is left incomplete then, and marked as such.
    """
    await _refuse_incomplete(source)
    begun = await _begin(target, name)
    if inside is not None:
        await _refuse_inside(source, target, inside, undo=begun)
    copied = CopiedNodes()
    pending: list[SourceNode] = []
    owners: set[str] = set()

    async def write() -> None:
        await all_of(_write(target, node) for node in pending)
        copied.nodes += len(pending)
        pending.clear()
        progress(copied.nodes)

    depth = 0
    async for node in walk(source):
        if node.path.endswith(MARK) and node.value == name.encode():
            raise CopyError(f"the target is in the source, which has {node.path}: choose another")
        if node.stat.ephemeral_owner:
            copied.ephemerals += 1
            owners.add(node.path.rpartition("/")[0] or "/")
            continue
        # Nodes of one level do not need each other, so they are written together.
        if len(pending) == BATCH or node.path.count("/") != depth:
            await write()
            depth = node.path.count("/")
        pending.append(node)
    await write()
    await _count_left_out(source, target, sorted(owners))
    await _compare(source, target)
    await target.delete(MARK)
    return copied


async def _refuse_incomplete(source: MetadataStore) -> None:
    """Raise CopyError when the source is an interrupted copy itself."""
    try:
        mark, _ = await source.get(MARK)
    except NoNodeError:
        return
    raise CopyError(
        f"the source holds an interrupted copy of {mark.decode(errors='replace')}: complete that one before"
    )


async def _begin(target: MetadataStore, name: str) -> bool:
    """Mark the target as incomplete; return False when it is. Raises CopyError when it has other nodes."""
    try:
        mark, _ = await target.get(MARK)
    except NoNodeError:
        names = [child for child in await target.children("/") if f"/{child}" not in RESERVED]
        if names:
            raise CopyError(
                f"the target is not empty: it has /{names[0]}; nothing was changed"
            ) from None
        await target.create(MARK, name.encode())
        return True
    if mark != name.encode():
        raise CopyError(
            f"the target holds an interrupted copy of {mark.decode(errors='replace')}, not of {name}: continue that"
            f" one, or delete {MARK} and all other nodes of the target"
        )
    return False


async def _refuse_inside(
    source: MetadataStore, target: MetadataStore, inside: str, *, undo: bool
) -> None:
    """Raise CopyError when the target's mark is also in the source: one server has both. ``undo`` deletes the mark."""
    path = inside + MARK
    [marked], _ = await source.get_all([path])
    if marked is None or marked != await target.get(MARK):
        return
    if undo:
        await target.delete(MARK)
    raise CopyError(
        f"the target is in the source, which has it at {inside or '/'}: choose another; nothing was copied"
    )


async def _write(target: MetadataStore, node: SourceNode) -> None:
    """Create a node or correct the one of an interrupted copy, then let its sequential numbers continue."""
    if node.path == "/":
        if node.value:
            await target.put("/", node.value)
    else:
        try:
            await target.create(node.path, node.value)
        except NodeExistsError:
            value, _ = await target.get(node.path)
            if value != node.value:
                await target.put(node.path, node.value)
    wanted = next_number(node)
    if wanted > len(node.children):
        await continue_numbers(target, node.path, wanted)


async def _count_left_out(
    source: MetadataStore, target: MetadataStore, parents: Sequence[str]
) -> None:
    """Let the sequential numbers of nodes continue whose ephemeral children were not copied.

    Until here only the copied children have advanced them.
    """
    for start in range(0, len(parents), BATCH):
        for node in await _read(source, parents[start : start + BATCH]):
            if node is not None:
                await continue_numbers(target, node.path, next_number(node))


def next_number(node: SourceNode) -> int:
    """Return a number that no sequential child of the node in the source has reached."""
    if node.stat.children_version is not None:
        return node.stat.children_version
    # On etcd the numbers are versions of the parent, which holds no record then.
    return node.stat.version + 2 if not node.value else 0


async def continue_numbers(target: MetadataStore, parent: str, wanted: int) -> None:
    """Create and delete sequential nodes until the next number under ``parent`` is at least ``wanted``."""

    async def taken() -> int:
        created = await target.create(_child(parent, "copy-"), sequence=True)
        await target.delete(created)
        return int(created[-10:]) + 1

    number = await taken()
    while number < wanted:
        # Each of them adds at least one.
        many = min((wanted - number + 1) // 2, NUMBERS_AT_ONCE)
        number = max(await all_of(taken() for _ in range(many)))


async def _compare(source: MetadataStore, target: MetadataStore) -> None:
    """Raise CopyError unless both stores have the same persistent nodes with equal values."""
    copies = {node.path: node.value async for node in walk(target)}
    async for node in walk(source):
        if node.stat.ephemeral_owner:
            continue
        if node.path not in copies:
            raise CopyError(
                f"{node.path} is missing in the copy: was the source changed meanwhile?"
            )
        if copies.pop(node.path) != node.value:
            raise CopyError(f"{node.path} differs in the copy: was the source changed meanwhile?")
    if copies:
        raise CopyError(
            f"{next(iter(copies))} is only in the copy: was the source changed meanwhile?"
        )
