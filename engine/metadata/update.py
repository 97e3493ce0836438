"""Change a node by compare-and-set: read, decide, write if unchanged, else again."""

from collections.abc import Callable

from engine.metadata.cached import fresh
from engine.metadata.store import BadVersionError, MetadataStore, NodeExistsError, NoNodeError

ATTEMPTS_MAX = 100


async def update(
    store: MetadataStore,
    path: str,
    change: Callable[[bytes], bytes | None],
    *,
    create: Callable[[], bytes] | None = None,
) -> bytes:
    """Replace the value of ``path`` by ``change(value)``; returns what is stored afterwards.

    ``change`` may be called many times; it returns None to leave the node as it is, or raises to stop. A missing node
    raises NoNodeError unless ``create`` gives its first value (parents are made). Raises BadVersionError after 100 lost
    races. Cancelled or StoreUnavailableError: the write may or may not have happened.
    """
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
            continue  # deleted since: the next read decides
        return changed
    raise BadVersionError(f"{path} changed under {ATTEMPTS_MAX} attempts to update it")
