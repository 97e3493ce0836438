"""Reads of topics with transactions: committed messages alone, from the ledgers, without a broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.base.ids import Position
from engine.broker.transactions.buffer.end_markers import marker
from engine.broker.transactions.buffer.snapshots import (
    SINGLE,
    TOPICS,
    BufferSnapshot,
    single_value,
)
from engine.broker.transactions.txn_id import TxnId
from engine.wire.batches import Message, pack_entry
from spark_jobs.pulsar_source.committed import without_aborted
from tests.support.analyses.queries import TOPIC, Query, Topics, read_batch
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Brokers, Sink
from tests.support.raw_client import entry_of

A, B, C = TxnId(0, 1), TxnId(0, 2), TxnId(1, 1)
SNAPSHOTS = f"persistent://public/default/{SINGLE}"


@pytest.fixture
async def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topics]:
    brokers = Brokers(tmp_path)
    await brokers.start()
    yield Topics(brokers, monkeypatch, entries=4)
    await brokers.close()


async def put(topics: Topics, *entries: bytes, topic: str = TOPIC) -> Position:
    """Store entries; return where the last one is."""
    ledger, sink = await topics.open(topic), Sink()
    for i, entry in enumerate(entries):
        ledger.append(run_of(entry), sink)
        await sink.settle(i + 1)
    return ledger.last_confirmed


def message(text: str, txn: TxnId | None = None) -> bytes:
    named = {} if txn is None else {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
    return entry_of(text.encode(), **named)


def end(txn: TxnId, *, commit: bool) -> bytes:
    return marker(txn, commit=commit, now_ms=1)


async def snapshot(topics: Topics, taken: BufferSnapshot) -> None:
    value = TOPICS[SINGLE].types.encode(single_value(TOPIC, taken))
    entry = pack_entry(
        [Message(value, TOPIC)], producer_name="b", publish_ms=1, batched=False, compression=0
    )
    await put(topics, entry, topic=SNAPSHOTS)


async def test_a_read_has_committed_messages_up_to_the_first_open_transaction(
    topics: Topics,
) -> None:
    await snapshot(topics, BufferSnapshot(Position(0, -1), {}))
    await put(topics, message("a", A), message("plain"), message("b", B), message("b2", B))
    await put(topics, end(A, commit=True), end(B, commit=False))
    await put(topics, message("c", C), message("later"))
    assert await read_batch() == ["a", "plain"]
    query = Query(startingOffsets="earliest")
    assert await query.until(2) == ["a", "plain"]
    assert await query.batch() == []
    await put(topics, end(C, commit=True))
    assert await query.until(2) == ["c", "later"]
    assert await read_batch() == ["a", "plain", "c", "later"]


async def test_aborted_transactions_of_the_snapshot_are_not_read(topics: Topics) -> None:
    last = await put(topics, message("a", A), end(A, commit=False), message("plain"))
    await snapshot(topics, BufferSnapshot(last, {A: Position(last.ledger_id, 1)}))
    await put(topics, message("b", B))
    assert await read_batch() == ["plain"]
    await put(topics, end(B, commit=True))
    assert await read_batch() == ["plain", "b"]


async def test_a_namespace_without_snapshots_is_read_whole(topics: Topics) -> None:
    await put(topics, message("a", A), message("plain"))
    assert await read_batch() == ["a", "plain"]


def test_aborted_messages_are_cut_out_of_slices() -> None:
    run = run_of(message("a", A), message("x"), message("y"), message("b", A), message("c", B))
    run.ledger_id, run.first = 3, 10
    parts = without_aborted([run], {A})
    assert [(part.first, part.count) for part in parts] == [(11, 2), (14, 1)]
    assert b"".join(part.entry(i) for part in parts for i in range(part.count)) == b"".join(
        run.entry(i) for i in (1, 2, 4)
    )
    assert without_aborted([run], {C}) == [run]
