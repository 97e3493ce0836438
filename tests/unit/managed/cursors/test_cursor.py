"""Cursors: acknowledgements survive, unacknowledged entries are delivered again, and resets are durable."""

import asyncio

import pytest

from engine.base.ids import EARLIEST, LATEST, Position
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.cursors.cursor import ACK_SET_WORDS_MAX, Cursor
from engine.managed.errors import (
    AckSetTooLongError,
    CursorMisuseError,
    CursorNotFoundError,
    CursorStateTooLargeError,
    InvalidPositionError,
    InvalidPropertyError,
    ManagedLedgerError,
    ManagedLedgerFencedError,
)
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.memory import Fault
from engine.metadata.store import StoreUnavailableError
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import (
    LAZY,
    NAME,
    ONE,
    Brokers,
    Sink,
    drain,
    numbered,
    publish,
    rolling,
)
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST


async def opened(
    brokers: Brokers, count: int, config: LedgerConfig = ONE, settings: ManagedSettings = LAZY
) -> tuple[ManagedLedgerFactory, ManagedLedger, Cursor, list[Position]]:
    """Open a topic with a cursor before its first entry, and publish ``count`` entries."""
    factory = brokers.broker(settings)
    ledger = await factory.open(NAME, config)
    cursor = await ledger.open_cursor("s", FIRST)
    sink = await publish(ledger, 0, count)
    return factory, ledger, cursor, [Position(*place) for place in sink.positions]


async def reopened(
    brokers: Brokers, old: ManagedLedgerFactory, config: LedgerConfig = ONE
) -> Cursor:
    """Kill the old broker and return the cursor at another one."""
    brokers.crash(old)
    return (await brokers.broker(LAZY).open(NAME, config)).cursors["s"]


async def test_persisted_acknowledgements_survive_a_crash_and_later_ones_may_not(
    brokers: Brokers,
) -> None:
    factory, _, cursor, places = await opened(brokers, 10)
    cursor.acknowledge([places[0], places[1], places[5]])
    cursor.acknowledge_batch(places[7], [0b0110])
    await cursor.persisted()
    cursor.acknowledge([places[2]])
    again = await reopened(brokers, factory)
    assert again.mark_delete == places[1]
    assert again.ack_set(places[7]) == [0b0110]
    assert again.is_acknowledged(places[5])
    assert not again.is_acknowledged(places[2])
    assert await drain(again) == [b"m2", b"m3", b"m4", b"m6", b"m7", b"m8", b"m9"]


async def test_clean_close_keeps_everything_inline_and_leaves_no_cursor_ledger(
    brokers: Brokers,
) -> None:
    factory, _, cursor, places = await opened(brokers, 6)
    cursor.acknowledge([places[0], places[3]])
    await cursor.persisted()
    assert cursor.stats().cursor_ledger_id >= 0
    cursor.acknowledge([places[5]])
    await factory.close()
    value, _ = await brokers.cluster.store.get(paths.cursor(NAME, "s"))
    record = CursorRecord.decode(value)
    assert record.ledger_id == -1
    assert record.state.mark_delete == places[0]
    assert [first for first, _ in record.state.ranges] == [places[3], places[5]]
    assert len(brokers.cluster.server.tree.children(paths.LEDGERS + "/00/0000")) == 1


async def test_mark_delete_moves_over_ledger_boundaries(brokers: Brokers) -> None:
    _, ledger, cursor, places = await opened(brokers, 10, rolling(3))
    cursor.acknowledge(places[1:7])
    assert cursor.mark_delete == Position(places[0].ledger_id, -1)
    assert cursor.backlog_entries() == 4
    cursor.acknowledge(places[:1])
    assert cursor.mark_delete == places[6]
    cursor.acknowledge(places[7:])
    assert cursor.mark_delete == places[9] == ledger.last_confirmed
    assert cursor.backlog_entries() == 0


async def test_acknowledging_what_does_not_exist_changes_nothing(brokers: Brokers) -> None:
    _, _, cursor, places = await opened(brokers, 3)
    ledger_id = places[0].ledger_id
    cursor.acknowledge(
        [Position(ledger_id, 3), Position(ledger_id + 9, 0), Position(ledger_id, -1)]
    )
    with pytest.raises(InvalidPositionError):
        cursor.acknowledge_cumulative(Position(ledger_id, 3))
    assert cursor.backlog_entries() == 3
    assert cursor.mark_delete == Position(ledger_id, -1)


async def test_batches_are_acknowledged_in_parts(brokers: Brokers) -> None:
    _, _, cursor, places = await opened(brokers, 4)
    assert not cursor.acknowledge_batch(places[1], [0b101])
    assert not cursor.acknowledge_batch(places[1], [0b110])
    assert cursor.ack_set(places[1]) == [0b100]
    assert cursor.acknowledge_batch(places[1], [0b011])
    assert cursor.ack_set(places[1]) is None
    cursor.acknowledge_cumulative(places[2], [0b1000])
    assert cursor.mark_delete == places[1]
    assert cursor.ack_set(places[2]) == [0b1000]
    cursor.acknowledge_cumulative(places[2])
    assert cursor.mark_delete == places[2]
    assert cursor.acknowledge_batch(places[0], [0b1])


async def test_it_is_known_what_remains_of_an_entry(brokers: Brokers) -> None:
    _, ledger, cursor, places = await opened(brokers, 5)
    cursor.acknowledge([places[0], places[3]])
    cursor.acknowledge_batch(places[1], [0b100])
    assert [cursor.remains(place) for place in places] == [0, 0b100, -1, 0, -1]
    assert cursor.remains(Position(places[0].ledger_id, 5)) is None
    assert cursor.remains(Position(places[0].ledger_id + 1, 0)) is None
    assert cursor.remains(EARLIEST) == 0
    await ledger.close()


async def test_an_ack_set_of_more_words_than_the_entry_has_messages_is_refused(
    brokers: Brokers,
) -> None:
    _, ledger, cursor, _ = await opened(brokers, 0)
    sink = Sink()
    for messages in (1, 70):
        batch = [Message(b"v")] * messages
        ledger.append(run_of(pack_entry(batch, producer_name="p", publish_ms=1)), sink)
    await sink.settle(2)
    plain, at = (Position(*place) for place in sink.positions)
    for position, most in ((plain, 1), (at, 2)):
        with pytest.raises(AckSetTooLongError, match=f"ack_set: {most + 1} words"):
            cursor.acknowledge_batch(position, [1] * (most + 1))
        with pytest.raises(AckSetTooLongError, match=f"ack_set: {most + 1} words"):
            cursor.acknowledge_cumulative(position, [1] * (most + 1))
    assert (cursor.backlog_entries(), cursor.has_partial_batches) == (2, False)
    cursor.acknowledge_batch(at, [3, 5])
    cursor.acknowledge_batch(at, [1, 4, 9])  # only what was due before is kept
    assert cursor.ack_set(at) == [1, 4]


async def test_an_ack_set_beyond_every_batch_is_refused_unread(brokers: Brokers) -> None:
    _, _, cursor, (place,) = await opened(brokers, 1)
    too_many = range(ACK_SET_WORDS_MAX + 1)
    with pytest.raises(AckSetTooLongError, match=f"at most {ACK_SET_WORDS_MAX}"):
        cursor.acknowledge_batch(place, too_many)
    assert not cursor.has_partial_batches


async def test_reset_is_durable_and_older_marks_cannot_override_it(brokers: Brokers) -> None:
    factory, _, cursor, places = await opened(brokers, 10)
    cursor.acknowledge_cumulative(places[8])
    waiting = asyncio.get_running_loop().create_task(cursor.persisted())
    await asyncio.sleep(0)
    await cursor.reset(places[3])
    await waiting
    assert cursor.read_position == places[3]
    assert cursor.mark_delete == cursor.persisted_mark_delete == places[2]
    again = await reopened(brokers, factory)
    assert again.mark_delete == places[2]
    assert await drain(again) == numbered(3, 7)


@pytest.mark.parametrize(
    ("position", "left"), [(EARLIEST, 5), (LATEST, 0), (Position(10**9, 0), 0)]
)
async def test_reset_to_either_end(brokers: Brokers, position: Position, left: int) -> None:
    factory, _, cursor, places = await opened(brokers, 5)
    cursor.acknowledge([places[0], places[2]])
    await cursor.reset(position)
    assert cursor.backlog_entries() == left
    assert (await reopened(brokers, factory)).backlog_entries() == left


async def test_skip_and_clear_are_durable(brokers: Brokers) -> None:
    factory, _, cursor, places = await opened(brokers, 10)
    cursor.acknowledge([places[1]])
    await cursor.skip(3)
    assert cursor.mark_delete == places[3]
    cursor = await reopened(brokers, factory)
    assert cursor.backlog_entries() == 6
    await cursor.skip(100)
    assert cursor.backlog_entries() == 0
    await cursor.reset(EARLIEST)
    await cursor.clear()
    assert cursor.persisted_mark_delete == places[9]
    assert await cursor.read(10, 1000) == []


async def test_rewind_reads_unacknowledged_entries_again(brokers: Brokers) -> None:
    _, _, cursor, places = await opened(brokers, 6)
    assert await drain(cursor, 4) == numbered(0, 6)
    assert not cursor.has_more()
    cursor.acknowledge([places[0], places[4]])
    cursor.rewind()
    assert cursor.has_more()
    assert await drain(cursor) == [b"m1", b"m2", b"m3", b"m5"]


async def test_two_reads_at_once_are_misuse(brokers: Brokers) -> None:
    _, _, cursor, _ = await opened(brokers, 6, settings=ManagedSettings(cache_bytes_max=1))
    reading = asyncio.get_running_loop().create_task(cursor.read(10, 1000))
    await asyncio.sleep(0)
    with pytest.raises(CursorMisuseError):
        await cursor.read(10, 1000)
    assert cursor.read_nowait(10, 1000) is None
    assert len(await reading) >= 1


async def test_a_cancelled_read_skips_nothing(brokers: Brokers) -> None:
    _, _, cursor, _ = await opened(brokers, 6, settings=ManagedSettings(cache_bytes_max=1))
    reading = asyncio.get_running_loop().create_task(cursor.read(10, 1000))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await drain(cursor) == numbered(0, 6)


async def test_consumed_ledgers_are_trimmed_only_behind_persisted_marks(brokers: Brokers) -> None:
    _, ledger, cursor, places = await opened(brokers, 10, rolling(3))
    slow = await ledger.open_cursor("slow", FIRST)
    reader = await ledger.open_cursor("reader", FIRST, durable=False)
    cursor.acknowledge_cumulative(places[9])
    await cursor.persisted()
    slow.acknowledge_cumulative(places[6])
    assert slow.persisted_mark_delete < slow.mark_delete
    await ledger.trim()
    assert len(ledger.stats().ledgers) == 4
    await slow.persisted()
    await ledger.trim()
    assert [span.ledger_id for span in ledger.stats().ledgers] == [
        places[6].ledger_id,
        places[9].ledger_id,
    ]
    tree = brokers.cluster.server.tree
    record = LogRecord.decode(tree.get(paths.managed_ledger(NAME))[0])
    assert [span.ledger_id for span in record.ledgers] == [places[6].ledger_id, places[9].ledger_id]
    for gone in {place.ledger_id for place in places[:6]}:
        with pytest.raises(Exception, match=str(gone)):
            tree.get(paths.ledger(gone))
    assert await drain(reader) == numbered(6, 4)
    await slow.reset(EARLIEST)
    assert slow.read_position == places[6]


async def test_trimming_follows_acknowledgements_by_itself(brokers: Brokers) -> None:
    _, ledger, cursor, places = await opened(brokers, 7, rolling(3))
    cursor.acknowledge_cumulative(places[6])
    await cursor.persisted()
    async with asyncio.timeout(60):
        while len(ledger.stats().ledgers) != 1:
            await asyncio.sleep(0.01)
    assert cursor.mark_delete == places[6]


async def test_a_fully_consumed_and_trimmed_topic_opens_again(brokers: Brokers) -> None:
    factory, ledger, cursor, places = await opened(brokers, 6, rolling(3))
    cursor.acknowledge_cumulative(places[5])
    await cursor.persisted()
    await ledger.trim()
    again = await reopened(brokers, factory)
    assert again.backlog_entries() == 0
    assert again.read_nowait(10, 100) == []


async def test_cursor_ledger_is_replaced_when_full(brokers: Brokers) -> None:
    settings = ManagedSettings(cursor_ledger_entries_max=3, cursor_persist_interval_s=3600)
    factory, _, cursor, places = await opened(brokers, 8, settings=settings)
    ledgers = []
    for place in places:
        cursor.acknowledge([place])
        await cursor.persisted()
        ledgers.append(cursor.stats().cursor_ledger_id)
    assert len(set(ledgers)) == 3
    assert len(brokers.cluster.server.tree.children(paths.LEDGERS + "/00/0000")) == 2
    assert (await reopened(brokers, factory)).mark_delete == places[7]


async def test_a_lost_cursor_ledger_falls_back_to_the_snapshot(brokers: Brokers) -> None:
    factory, _, cursor, places = await opened(brokers, 5)
    cursor.acknowledge([places[0]])
    await cursor.persisted()
    cursor.acknowledge([places[1]])
    await cursor.persisted()
    lost = cursor.stats().cursor_ledger_id
    brokers.crash(factory)
    await brokers.cluster.store.delete(paths.ledger(lost))
    again = await reopened(brokers, factory)
    assert again.mark_delete == places[0]


async def test_persisting_heals_after_the_bookie_comes_back(brokers: Brokers) -> None:
    factory, _, cursor, places = await opened(brokers, 5)
    cursor.acknowledge([places[0]])
    await cursor.persisted()
    await brokers.cluster.stop("b0")
    cursor.acknowledge([places[1]])
    waiting = asyncio.get_running_loop().create_task(cursor.persisted())
    await stays(lambda: not waiting.done(), 0.1)
    await brokers.cluster.start("b0")
    await asyncio.wait_for(waiting, 120)
    assert (await reopened(brokers, factory)).mark_delete == places[1]


async def test_lazy_writes_happen_without_a_waiting_caller(brokers: Brokers) -> None:
    settings = ManagedSettings(cursor_persist_interval_s=0.05)
    _, _, cursor, places = await opened(brokers, 5, settings=settings)
    for place in places:
        cursor.acknowledge([place])
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        while cursor.persisted_mark_delete != places[4]:
            await asyncio.sleep(0.01)
    assert cursor.stats().cursor_ledger_last_entry <= 2


async def test_too_scattered_acknowledgements_are_kept_and_reported(brokers: Brokers) -> None:
    settings = ManagedSettings(cursor_state_bytes_max=60, cursor_persist_interval_s=3600)
    _, _, cursor, places = await opened(brokers, 20, settings=settings)
    assert cursor.blocked is None
    cursor.acknowledge(places[1::2])
    with pytest.raises(CursorStateTooLargeError, match="60"):
        await cursor.persisted()
    assert cursor.blocked is not None
    assert cursor.backlog_entries() == 10
    cursor.acknowledge(places[::2])
    await cursor.persisted()
    assert cursor.blocked is None
    assert cursor.persisted_mark_delete == places[19]


async def test_cursors_are_made_found_and_deleted(brokers: Brokers) -> None:
    factory, ledger, cursor, places = await opened(brokers, 3)
    assert await ledger.open_cursor("s", InitialPosition.LATEST) is cursor
    late = await ledger.open_cursor(
        "late ~/é", InitialPosition.LATEST, {"x": 7}, cursor_properties={"a": "b"}
    )
    middle = await ledger.open_cursor("middle", places[1])
    assert late.backlog_entries() == 0
    assert middle.mark_delete == places[0]
    await ledger.delete_cursor("middle")
    with pytest.raises(CursorNotFoundError):
        await ledger.delete_cursor("middle")
    await late.update_cursor_properties({"c": "d"})
    late.take_snapshot(late.mark_delete, {"y": 1})
    await late.persisted()
    brokers.crash(factory)
    again = await brokers.broker().open(NAME, ONE)
    assert sorted(again.cursors) == ["late ~/é", "s"]
    assert again.cursors["late ~/é"].properties == {"y": 1}
    assert again.cursors["late ~/é"].cursor_properties == {"c": "d"}


async def test_one_property_is_set_and_removed_with_nothing_acknowledged(brokers: Brokers) -> None:
    factory, _, cursor, _ = await opened(brokers, 1)
    for value, stored in ((7, {"a": 7}), (None, {})):
        cursor.set_property("a", value)
        await cursor.persisted()
        brokers.crash(factory)
        factory = brokers.broker()
        cursor = (await factory.open(NAME, ONE)).cursors["s"]
        assert cursor.properties == stored


async def test_properties_replaced_by_a_former_owner_are_refused_and_fence_it(
    brokers: Brokers,
) -> None:
    _, old, cursor, _ = await opened(brokers, 3)
    new = await brokers.broker().open(NAME, ONE)
    with pytest.raises(ManagedLedgerFencedError):
        await cursor.update_cursor_properties({"a": "b"})
    assert old.ended
    assert new.cursors["s"].cursor_properties == {}


async def test_properties_of_unknown_outcome_are_not_reported(
    brokers: Brokers,
) -> None:
    settings = ManagedSettings(retry_initial_s=0.001, retry_max_s=0.001, metadata_attempts_max=2)
    ledger = await brokers.broker(settings).open(NAME, ONE)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST, cursor_properties={"a": "1"})
    brokers.cluster.server.on_call = lambda session, operation, path: (
        Fault(lose_request=True) if operation == "put" else None
    )
    with pytest.raises(StoreUnavailableError):
        await cursor.update_cursor_properties({"a": "2"})
    assert cursor.cursor_properties == {"a": "1"}
    brokers.cluster.server.on_call = None
    await cursor.update_cursor_properties({"a": "3"})
    assert cursor.cursor_properties == {"a": "3"}


async def test_a_position_for_a_new_cursor_is_the_next_entry_read(brokers: Brokers) -> None:
    _, ledger, _, places = await opened(brokers, 5)
    reader = await ledger.open_cursor("r", places[2], durable=False)
    assert not reader.durable
    await reader.persisted()
    assert await drain(reader) == numbered(2, 3)
    assert not await brokers.cluster.store.exists(paths.cursor(NAME, "r"))


async def test_lost_answers_of_the_metadata_store_do_not_fence_the_owner(brokers: Brokers) -> None:
    factory, ledger, cursor, places = await opened(brokers, 3, rolling(3))
    lost: list[str] = []

    def lose_once(session: int, operation: str, path: str) -> Fault | None:
        if operation == "put" and path.startswith(paths.MANAGED_LEDGERS) and path not in lost:
            lost.append(path)
            return Fault(lose_reply=True)
        return None

    brokers.cluster.server.on_call = lose_once
    cursor.acknowledge(places)
    await cursor.persisted()
    await publish(ledger, 3, 4)
    assert len(lost) == 2
    brokers.cluster.server.on_call = None
    assert (await reopened(brokers, factory, rolling(3))).backlog_entries() == 4


def message(publish_ms: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=publish_ms)
    raw = metadata.SerializeToString()
    return b"\x0e\x01" + bytes(4) + len(raw).to_bytes(4, "big") + raw + b"payload"


@pytest.mark.parametrize(
    ("publish_ms", "index"), [(0, -1), (1000, -1), (1001, 0), (1050, 4), (1055, 5), (9999, 9)]
)
async def test_find_by_time_gives_the_last_entry_published_before(
    brokers: Brokers, publish_ms: int, index: int
) -> None:
    settings = ManagedSettings(cache_bytes_max=200)
    ledger = await brokers.broker(settings).open(NAME, rolling(4))
    await ledger.open_cursor("s", FIRST)
    sink = Sink()
    for i in range(10):
        ledger.append(run_of(message(1000 + 10 * i)), sink)
    await sink.settle(10)
    position = await ledger.find_by_time(publish_ms)
    expected = sink.positions[index] if index >= 0 else (sink.positions[0][0], -1)
    assert position == expected
    if index < 9:
        assert ledger.next_position(position) == sink.positions[index + 1]
    known = Position(*sink.positions[3])
    assert await ledger.find_by_time(publish_ms, known) == max(position, known)


async def test_properties_larger_than_a_node_survive_every_change_of_owner(
    brokers: Brokers,
) -> None:
    """Use the properties that deduplication of 10,000 producers with long names stores."""
    factory, _, cursor, places = await opened(brokers, 3)
    names = {f"{i:05}" + "n" * 105: i for i in range(10_000)}
    cursor.take_snapshot(places[0], names)
    await cursor.persisted()
    again = await reopened(brokers, factory)
    assert (again.mark_delete, again.properties) == (places[0], names)
    again.acknowledge([places[1]])
    await again.close()
    factory = brokers.broker(LAZY)
    last = (await factory.open(NAME, ONE)).cursors["s"]
    assert (last.mark_delete, last.properties) == (places[1], names)


async def test_small_properties_are_kept_in_the_node_for_a_cursor_ledger_that_is_lost(
    brokers: Brokers,
) -> None:
    factory, _, cursor, places = await opened(brokers, 3)
    cursor.take_snapshot(places[0], {"p": 7})
    await cursor.persisted()
    brokers.crash(factory)
    brokers.cluster.server.tree.delete(paths.ledger(cursor.stats().cursor_ledger_id), -1)
    again = (await brokers.broker(LAZY).open(NAME, ONE)).cursors["s"]
    assert (again.mark_delete, again.properties) == (places[0], {"p": 7})


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"k": "v" * (64 << 10)}, "65537 bytes, at most 65536 are stored"),
        ({"#pulsar.internal.magnetar.delay-index.5": "1"}, "names with #pulsar.internal"),
    ],
)
async def test_properties_of_a_subscription_that_are_too_large_or_the_brokers_own_are_refused(
    brokers: Brokers, properties: dict[str, str], why: str
) -> None:
    _, ledger, cursor, _ = await opened(brokers, 1)
    with pytest.raises(InvalidPropertyError, match=why):
        await ledger.open_cursor("new", FIRST, cursor_properties=properties)
    with pytest.raises(InvalidPropertyError, match=why):
        await cursor.update_cursor_properties(properties)
    assert (list(ledger.cursors), ledger.unread_cursors) == (["s"], {})
    assert cursor.cursor_properties == {}


async def test_a_state_that_cannot_be_encoded_fails_its_waiters_and_is_retried_after_a_pause(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ManagedSettings(cursor_persist_interval_s=0.001, retry_max_s=3600)
    factory, _, cursor, places = await opened(brokers, 2, settings=settings)
    attempts = 0

    def encoding(snapshot: AckSnapshot) -> None:
        nonlocal attempts
        attempts += 1
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(AckSnapshot, "encoding", encoding)
    cursor.acknowledge([places[0]])
    async with asyncio.timeout(10):
        with pytest.raises(ManagedLedgerError, match="planted"):
            await cursor.persisted()
    for _ in range(100):
        await asyncio.sleep(0)
    assert attempts == 1
    monkeypatch.undo()
    await cursor.persisted()
    assert (await reopened(brokers, factory)).mark_delete == places[0]
