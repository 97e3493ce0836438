"""Ledger ids: unique in a cluster, never used twice, from sequence nodes of the metadata store."""

import contextlib

from engine.metadata import paths
from engine.metadata.store import MetadataStore, NodeExistsError, NoNodeError

LOW_BITS = 31
LOW_MAX = (1 << LOW_BITS) - 1


async def next_ledger_id(store: MetadataStore) -> int:
    """A fresh id. Raises the store's errors; an id whose answer was lost is simply never used."""
    if await store.exists(paths.LONG_ID_GENERATOR) is None:
        ledger_id = await _sequence(store, paths.ID_GENERATOR_PREFIX)
        if ledger_id is not None:
            return ledger_id
        with contextlib.suppress(NodeExistsError):  # another process saw the end of short ids too
            await store.create(paths.LONG_ID_GENERATOR, make_parents=True)
    return await _long_id(store)


async def _long_id(store: MetadataStore) -> int:
    """From the newest directory of high bits; a full one makes the next."""
    while True:
        names = await store.children(paths.LONG_ID_GENERATOR)
        digits = [name.removeprefix("HOB-") for name in names if name.startswith("HOB-")]
        high = max((int(one) for one in digits if one.isdecimal()), default=1)
        low = await _sequence(store, f"{paths.long_id_directory(high)}/ID-")
        if low is not None:
            return high << 32 | low
        try:
            await store.create(paths.long_id_directory(high + 1))
        except NodeExistsError:
            continue


async def _sequence(store: MetadataStore, prefix: str) -> int | None:
    """Next number of a sequence, None when it overflowed (the server then gives a negative or too large one)."""
    path = await store.create(prefix, ephemeral=True, sequence=True, make_parents=True)
    with contextlib.suppress(NoNodeError):  # the session ended in between and took it away
        await store.delete(path)
    digits = path.removeprefix(prefix)
    number = int(digits)
    return number if 0 <= number < LOW_MAX else None
