"""The records of auto-recovery: BookKeeper's paths and texts, marks that merge, locks of sessions, both elections."""

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MisuseError
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore, NoNodeError
from engine.repair.election import Election, auditor
from engine.repair.marks import MarkFormatError, RepairRecords, decode_mark
from engine.repair.under_replication import under_replication

pytestmark = pytest.mark.virtual_time


def records(store: MetadataStore) -> RepairRecords:
    return RepairRecords(store, LoopClock(), RandomEntropy())


async def test_nodes_and_texts_are_bookkeepers() -> None:
    store = MemoryServer().session()
    own = records(store)
    await own.prepare()
    await own.mark(0x1234_5678_9ABC, ["b1:3181"])
    path = "/ledgers/underreplication/ledgers/0000/1234/5678/9abc/urL20015998343868"
    value, _ = await store.get(path)
    assert value == b'replica: "b1:3181"\nctime: 1700000000000\n'
    assert paths.marked_ledger(7).endswith("/0000/0000/0000/0007/urL0000000007")
    layout, _ = await store.get("/ledgers/underreplication/LAYOUT")
    assert layout == b'type: "BASIC"\nversion: 1\n'
    assert await own.lock(7, "host")
    assert await own.worker(7) == "host"
    lock, stat = await store.get("/ledgers/underreplication/locks/urL0000000007")
    assert lock == b'bookieId: "host"\n'
    assert stat.ephemeral_owner == store.session_id
    await own.set_checked(paths.CHECKED_LEDGERS)
    assert (await store.get(paths.CHECKED_LEDGERS))[0] == bytes.fromhex("0880d095ffbc31")
    assert await own.checked_ms(paths.CHECKED_LEDGERS) == 1_700_000_000_000


async def test_marks_merge_and_a_removal_respects_a_later_one() -> None:
    store = MemoryServer().session()
    own = records(store)
    await own.mark(5, ["b1"])
    seen = await own.read(5)
    await own.mark(5, ["b2", "b1"])
    assert seen is not None
    assert not await own.remove(seen)
    mark = await own.read(5)
    assert mark is not None
    assert mark.bookies == ("b1", "b2")
    await own.mark(5, ["b1"])  # the same again is a new version, too
    assert not await own.remove(mark)
    mark = await own.read(5)
    assert mark is not None
    assert await own.remove(mark)
    assert await store.children(paths.UNDERREPLICATION) == [] or await own.read(5) is None
    assert [n async for n in own.marked()] == []


async def test_removed_marks_leave_no_empty_parents() -> None:
    store = MemoryServer().session()
    own = records(store)
    await own.prepare()
    for ledger in (1, 2, 1 << 40):
        await own.mark(ledger, ["b"])
    assert sorted([n async for n in own.marked()]) == [1, 2, 1 << 40]
    for ledger in (1, 2, 1 << 40):
        mark = await own.read(ledger)
        assert mark is not None
        assert await own.remove(mark)
    assert await store.children(paths.MARKED_LEDGERS) == []


async def test_a_lock_belongs_to_one_session_and_ends_with_it() -> None:
    server = MemoryServer()
    first, second = server.session(), server.session()
    assert await records(first).lock(3, "a")
    assert await records(first).lock(3, "a")  # its own, after a lost answer
    assert not await records(second).lock(3, "b")
    await records(second).unlock(3)  # not its own
    assert not await records(second).lock(3, "b")
    await first.close()
    assert await records(second).lock(3, "b")


async def test_switch_and_delay() -> None:
    store = MemoryServer().session()
    own = records(store)
    assert await own.enabled()
    await own.enable(False)
    await own.enable(False)
    assert not await own.enabled()
    await own.enable(True)
    assert await own.enabled()
    with pytest.raises(NoNodeError):
        await own.trigger_audit()
    assert await own.delay_s(60) == 60
    assert await own.delay_s(10) == 60, "the stored delay holds"
    with pytest.raises(MisuseError, match="-1"):
        await own.set_delay(-1)
    await own.set_delay(0)
    assert await own.delay_s() == 0
    await store.put(paths.LOST_BOOKIE_DELAY, b"soon")
    with pytest.raises(MarkFormatError, match="lostBookieRecoveryDelay"):
        await own.delay_s()


async def test_a_damaged_mark_is_written_anew_and_shown_meanwhile() -> None:
    store = MemoryServer().session()
    own = records(store)
    for ledger in (9, 10):
        await store.create(paths.marked_ledger(ledger), b"replica: }", make_parents=True)
    shown = await under_replication(store, own)
    assert [(row.ledger_id, row.bookies, row.since_ms) for row in shown.rows] == [
        *((n, (), 0) for n in sorted([9, 10], key=[r.ledger_id for r in shown.rows].index))
    ]
    assert shown.oldest_ms is None
    await own.mark(9, ["b1"])
    mark = await own.read(9)
    assert mark is not None
    assert (mark.bookies, mark.version, mark.since_ms > 0) == (("b1",), 1, True)
    assert (await under_replication(store, own)).oldest_ms == mark.since_ms


def test_a_damaged_mark_is_named() -> None:
    with pytest.raises(MarkFormatError, match="urL0000000009"):
        decode_mark(9, b"replica: }", 0)


async def test_one_candidate_leads_in_both_places() -> None:
    server = MemoryServer()
    first, second = server.session(), server.session()
    a, b = Election(first, "a"), Election(second, "b")
    assert await a.stand()
    assert not await b.stand()
    assert a.leads
    assert not b.leads
    assert await auditor(second) == "a"
    value, stat = await second.get(paths.AUDITOR_LEADER)
    assert (value, stat.ephemeral_owner) == (b'"a"', first.session_id)
    assert (await second.get(paths.AUDITOR_VOTES))[0] == b'bookieId: "a"\n'
    await a.resign()
    assert await b.stand()
    assert await auditor(second) == "b"


async def test_a_leader_of_the_other_place_keeps_it() -> None:
    server = MemoryServer()
    apache, ours = server.session(), server.session()
    await apache.create(paths.AUDITOR_LEADER, b'"127.0.0.1:1"', ephemeral=True, make_parents=True)
    candidate = Election(ours, "a")
    assert not await candidate.stand()
    await apache.close()
    assert await candidate.stand()
