"""Another client changes a ledger's metadata between the read and the write of a change: nothing is overwritten."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from engine.ledger import metadata_update
from engine.ledger.errors import LedgerClosedError, LedgerFencedError, WriteError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore

OPENED = LedgerMetadata(2, 2, 1, (Segment(0, ("a", "b")),), password=b"")
RECOVERING = OPENED.recovering()
CHANGED = OPENED.with_ensemble(5, ("a", "c"))
Change = Callable[[Any], Awaitable[LedgerMetadata]]


class Raced:
    """A store in which ``theirs`` is written just before the first put arrives."""

    def __init__(self, store: MemoryStore, theirs: LedgerMetadata) -> None:
        self.get = store.get
        self._store = store
        self._theirs: LedgerMetadata | None = theirs

    async def put(self, path: str, value: bytes, version: int = -1) -> int:
        if self._theirs is not None:
            theirs, self._theirs = self._theirs, None
            await self._store.put(path, encode(theirs))
        return await self._store.put(path, value, version)


def change_ensemble(store: Any) -> Awaitable[LedgerMetadata]:
    return metadata_update.change_ensemble(store, 1, OPENED, 5, ("a", "c"), 1.0)


def write_closed(store: Any) -> Awaitable[LedgerMetadata]:
    return metadata_update.write_closed(store, 1, OPENED, 7, 70, 1.0)


def start_recovery(store: Any) -> Awaitable[LedgerMetadata]:
    return metadata_update.start_recovery(store, 1, None, 1.0)


def finish_recovery(store: Any) -> Awaitable[LedgerMetadata]:
    return metadata_update.finish_recovery(store, 1, RECOVERING, RECOVERING, 7, 70, 1.0)


@pytest.mark.parametrize(
    ("stored", "ours", "theirs", "error"),
    [
        (OPENED, change_ensemble, RECOVERING, LedgerFencedError),
        (OPENED, change_ensemble, OPENED.closed(3, 30), LedgerClosedError),
        (OPENED, change_ensemble, OPENED.with_ensemble(4, ("b", "d")), LedgerFencedError),
        (OPENED, write_closed, RECOVERING, LedgerFencedError),
        (OPENED, write_closed, OPENED.closed(9, 90), LedgerClosedError),
        (OPENED, start_recovery, OPENED.closed(9, 90), None),
        (OPENED, start_recovery, CHANGED, None),
        (RECOVERING, finish_recovery, RECOVERING.closed(9, 90), None),
    ],
)
async def test_i14_a_change_between_read_and_write_is_not_overwritten(
    stored: LedgerMetadata, ours: Change, theirs: LedgerMetadata, error: type[Exception] | None
) -> None:
    store = MemoryServer().session()
    await store.create(paths.ledger(1), encode(stored), make_parents=True)
    raced = Raced(store, theirs)
    if error is None:
        metadata = await ours(raced)
        assert metadata.segments == theirs.segments
        assert metadata.last_entry == theirs.last_entry
    else:
        with pytest.raises(error):
            await ours(raced)
    now = await metadata_update.read(store, 1)
    assert now.segments == theirs.segments
    assert now.last_entry == theirs.last_entry
    assert now.state is (LedgerState.IN_RECOVERY if theirs is CHANGED else theirs.state)


async def test_a_ledger_with_too_many_ensembles_is_replaced_by_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata_update, "SEGMENTS_MAX", 2)
    store = MemoryServer().session()
    await store.create(paths.ledger(1), encode(OPENED), make_parents=True)
    once = await change_ensemble(store)
    again = await metadata_update.change_ensemble(store, 1, once, 5, ("b", "c"), 1.0)
    assert len(again.segments) == 2  # nothing was written to the former ledger
    with pytest.raises(WriteError, match="has had 2 ensembles"):
        await metadata_update.change_ensemble(store, 1, again, 6, ("a", "c"), 1.0)
