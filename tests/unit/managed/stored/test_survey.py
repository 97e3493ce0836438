"""The stored records of a managed ledger, read while its owner changes them."""

import pytest

from engine.base.ids import Position
from engine.managed.errors import ManagedLedgerNotFoundError, StoredRecordError
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.managed.stored.survey import survey
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore

NAME = "public/default/persistent/t"
PATH = paths.managed_ledger(NAME)


async def stored(server: MemoryServer, record: LogRecord, *cursors: str) -> MemoryStore:
    store = server.session()
    await store.create(PATH, record.encode(), make_parents=True)
    for title in cursors:
        cursor = CursorRecord(-1, CursorState(Position(1, 4)), 7)
        await store.create(f"{PATH}/{title}", cursor.encode())
    return store


async def test_records_have_their_nodes_versions_and_cursors_by_name() -> None:
    store = await stored(MemoryServer(), LogRecord([LedgerSpan(1)]), "b%2Fc", "a")
    await store.put(f"{PATH}/a", CursorRecord(9, CursorState(Position(1, 5)), 7).encode())
    surveyed = await survey(store, NAME)
    assert (surveyed.record.ledgers, surveyed.stat.version) == ([LedgerSpan(1)], 0)
    assert list(surveyed.cursors) == ["a", "b/c"]
    cursor, stat = surveyed.cursors["a"]
    assert (cursor.ledger_id, cursor.state.mark_delete, stat.version) == (9, Position(1, 5), 1)
    await store.close()


async def test_a_cursor_deleted_meanwhile_is_left_out() -> None:
    server = MemoryServer()
    store = await stored(server, LogRecord(), "a", "b")

    def one_goes(session: int, operation: str, path: str) -> None:
        if operation == "get_all" and path == f"{PATH}/a":
            server.tree.delete(f"{PATH}/b", -1)

    server.on_call = one_goes
    assert list((await survey(store, NAME)).cursors) == ["a"]
    await store.close()


@pytest.mark.parametrize("record", [None, LogRecord(deleted=True)])
async def test_a_missing_or_half_deleted_managed_ledger_is_not_found(
    record: LogRecord | None,
) -> None:
    server = MemoryServer()
    store = server.session() if record is None else await stored(server, record)
    with pytest.raises(ManagedLedgerNotFoundError):
        await survey(store, NAME)
    await store.close()


async def test_a_cursor_that_is_being_deleted_is_left_out_and_a_broken_one_is_named() -> None:
    store = await stored(MemoryServer(), LogRecord(), "a")
    await store.put(
        f"{PATH}/a", CursorRecord(9, CursorState(Position(1, 5)), 7, deleted=True).encode()
    )
    assert (await survey(store, NAME)).cursors == {}
    await store.put(f"{PATH}/a", b"\xff\xff")
    with pytest.raises(StoredRecordError, match="ManagedCursorInfo"):
        await survey(store, NAME)
    await store.close()
