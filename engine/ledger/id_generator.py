"""Ledger ids, unique in a cluster and never reused, generated from sequence nodes of the metadata store."""

import contextlib
from collections.abc import Callable

from engine.metadata import paths
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError

LOW_BITS = 31
LOW_MAX = (1 << LOW_BITS) - 1


class LedgerIds:
    """Generator of ledger ids. It caches that no long ids exist until the watch on their node reports a change."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._unwatch: Callable[[], None] | None = None
        self._changes = 0
        self._short_at = -1
        """Value of ``_changes`` when the node of long ids was last seen to be missing."""

    async def next(self) -> int:
        """Return a new id. Raises the store's errors; an id whose answer was lost is never used."""
        if await self._are_short():
            ledger_id = await _sequence(self._store, paths.ID_GENERATOR_PREFIX)
            if ledger_id is not None:
                return ledger_id
            # Another process may have reached the end of the short ids at the same time.
            with contextlib.suppress(NodeExistsError):
                await self._store.create(paths.LONG_ID_GENERATOR, make_parents=True)
        return await _long_id(self._store)

    async def _are_short(self) -> bool:
        if self._unwatch is None:
            self._unwatch = self._store.watch(paths.LONG_ID_GENERATOR, self._changed)
        if self._short_at != self._changes:
            seen = self._changes
            if await self._store.exists(paths.LONG_ID_GENERATOR) is not None:
                return False
            self._short_at = seen
        return True

    def _changed(self, path: str) -> None:
        self._changes += 1

    def close(self) -> None:
        """Stop watching."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
            self._short_at = -1


async def _long_id(store: MetadataStore) -> int:
    """Return an id from the newest directory of high bits, creating the next directory when that is full."""
    while True:
        names = await store.children(paths.LONG_ID_GENERATOR)
        digits = [name.removeprefix("HOB-") for name in names if name.startswith("HOB-")]
        high = max((int(text) for text in digits if text.isdecimal()), default=1)
        low = await _sequence(store, f"{paths.long_id_directory(high)}/ID-")
        if low is not None:
            return high << 32 | low
        try:
            await store.create(paths.long_id_directory(high + 1))
        except NodeExistsError:
            continue


async def _sequence(store: MetadataStore, prefix: str) -> int | None:
    """Return the next number of a sequence; None when it overflowed (the server then returns a negative number or one
    that is too large)."""
    path = await store.create(prefix, ephemeral=True, sequence=True, make_parents=True)
    with contextlib.suppress(NoNodeError):  # the session ended in between, which deletes the node
        await store.delete(path)
    digits = path.removeprefix(prefix)
    number = int(digits)
    return number if 0 <= number < LOW_MAX else None
