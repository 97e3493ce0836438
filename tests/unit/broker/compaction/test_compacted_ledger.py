"""Compacted ledgers, searched and read by positions in the topic."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence

import pytest

from engine.base.ids import EARLIEST, Position
from engine.broker.compaction import compacted_ledger
from engine.broker.compaction.compacted_ledger import CompactedLedger, behind
from engine.broker.compaction.compactor import Sink
from engine.broker.compaction.kept_entries import pack_kept
from engine.wire.batches import Message, pack_entry
from tests.support.broker_bench import Bench, opened
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

HORIZON = Position(9, 0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def written(bench: Bench, entries: Sequence[tuple[Position, bytes]]) -> CompactedLedger:
    sink = Sink()
    sink.writer = await bench.topic.log.new_ledger({}, sink)
    for position, entry in entries:
        await sink.add(pack_kept(position, -1, entry))
    await sink.close()
    reader = await bench.topic.log.open_ledger(sink.writer.ledger_id)
    return await CompactedLedger.opened(reader, HORIZON)


async def test_reading_starts_at_any_position(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_ledger, "PLACES_MAX", 5)
    places = [Position(3, i) for i in (0, 1, 7, 200)] + [Position(4, 2), Position(6, 0)]
    ledger = await written(
        bench, [(position, entry_of(b"%d" % position.entry_id)) for position in places]
    )
    starts = [EARLIEST, *(Position(i, j) for i in range(2, 8) for j in (0, 1, 2, 3, 199, 201))]
    for position in starts:
        number = await ledger.find(position)
        assert number == bisect_left(places, position)
        for entries_max in (1, 2, 100):
            views, after, at = await ledger.read(number, position, entries_max, 1 << 20)
            positions = [view.run.position(i) for view in views for i in view.indexes]
            assert positions == places[number : number + entries_max]
            assert at == (behind(positions[-1]) if positions else behind(HORIZON))
            assert after == number + len(positions)
    assert ledger.last == (places[-1], -1)


async def test_the_last_message_of_a_batch_is_its_last_remaining_one(bench: Bench) -> None:
    messages = [Message(b"1", "a"), Message(b"2", "b"), Message(b"", compacted_out=True)]
    for left, expected in ((messages, 1), (messages[:2], 1), (messages[2:], 0)):
        entry = pack_entry(left, producer_name="p", publish_ms=1, batched=True)
        ledger = await written(bench, [(Position(3, 4), entry)])
        assert ledger.last == (Position(3, 4), expected)


async def test_an_empty_compacted_ledger_is_read_to_its_end(bench: Bench) -> None:
    ledger = await written(bench, [])
    assert ledger.last == (EARLIEST, -1)
    assert await ledger.find(EARLIEST) == ledger.entries == 0
    assert await ledger.read(0, EARLIEST, 10, 10) == ([], 0, behind(HORIZON))


async def test_writing_waits_for_room_and_ends_with_its_ledger(bench: Bench) -> None:
    big = entry_of(bytes(1 << 20))
    ledger = await written(bench, [(Position(3, i), big) for i in range(12)])
    assert ledger.entries == 12
    assert ledger.reader.closed
