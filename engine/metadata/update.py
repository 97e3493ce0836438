"""Changes of a node by compare-and-set: read, decide, write if unchanged, else repeat."""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary, WeakValueDictionary

from engine.metadata.cached import fresh
from engine.metadata.store import BadVersionError, MetadataStore, NodeExistsError, NoNodeError

ATTEMPTS_MAX = 100
_turns: WeakKeyDictionary[MetadataStore, WeakValueDictionary[str, asyncio.Lock]] = (
    WeakKeyDictionary()
)
"""Locks by path that order the updates of one store. Only updates of other stores race with them, so that many
concurrent updates of a process do not exhaust ATTEMPTS_MAX."""


def turn(store: MetadataStore, path: str) -> asyncio.Lock:
    """Return the lock that an update of ``path`` through this store holds."""
    locks = _turns.setdefault(store, WeakValueDictionary())
    lock = locks.get(path)
    if lock is None:
        lock = locks[path] = asyncio.Lock()
    return lock


async def update(
    store: MetadataStore,
    path: str,
    change: Callable[[bytes], bytes | None],
    *,
    create: Callable[[], bytes] | None = None,
) -> bytes:
    """Replace the value of ``path`` with ``change(value)`` and return the stored value.

    Updates of a node through one store run one after the other, in the order of their calls. ``change`` may be called
    many times; it returns None to leave the node unchanged, or raises to stop. A missing node raises NoNodeError unless
    ``create`` returns its first value; parents are created. Raises BadVersionError after 100 lost races. After
    cancellation or StoreUnavailableError the write may or may not have happened.
    """
    async with turn(store, path):
        return await _update(store, path, change, create)


async def _update(
    store: MetadataStore,
    path: str,
    change: Callable[[bytes], bytes | None],
    create: Callable[[], bytes] | None,
) -> bytes:
    for _ in range(ATTEMPTS_MAX):
        try:
            value, stat = await fresh(store, path).get(path)
        except NoNodeError:
            if create is None:
                raise
            first = create()
            try:
                await store.create(path, first, make_parents=True)
            except NodeExistsError:
                continue
            return first
        changed = change(value)
        if changed is None:
            return value
        try:
            await store.put(path, changed, stat.version)
        except BadVersionError:
            continue
        except NoNodeError:
            continue  # deleted since the read: the next read decides
        return changed
    raise BadVersionError(f"{path} changed under {ATTEMPTS_MAX} attempts to update it")
