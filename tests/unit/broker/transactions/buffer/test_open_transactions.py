"""The end to which a topic may be read, from the order in which messages and markers are stored."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.broker.errors import NotAllowed
from engine.broker.transactions.buffer.end_markers import marker
from engine.broker.transactions.buffer.open_transactions import ENDED_MAX, OpenTransactions
from engine.broker.transactions.txn_id import TxnId
from tests.support.ledger_cluster import run_of
from tests.support.raw_client import entry_of

IDS = [TxnId(0, i) for i in range(4)]
MANY = 100_000


def at(entry: int) -> Position:
    return Position(1, entry)


def test_x2_the_limit_is_the_first_entry_of_the_oldest_open_transaction() -> None:
    known = OpenTransactions()
    first, second, *_ = IDS
    known.enter(first, at(5))
    known.enter(second, at(5))
    assert known.limit == at(5)
    assert known.stored(first, at(7))
    assert not known.stored(first, at(8))
    assert known.limit == at(7)
    known.stored(second, at(9))
    known.ended(first, at(10), commit=True)
    assert known.limit == at(9)
    known.ended(second, at(11), commit=False)
    assert (known.limit, known.aborted) == (None, {second: at(11)})
    assert (known.committed_total, known.aborted_total) == (1, 1)


def test_only_the_oldest_open_transaction_is_taken_for_lost() -> None:
    known = OpenTransactions()
    for txn in (IDS[2], IDS[0]):
        known.enter(txn, at(0))
    known.raise_mark(0, 1)
    assert known.lost is None
    known.raise_mark(0, 2)
    known.raise_mark(0, 0)
    assert (known.lost, known.low_water_marks) == (IDS[2], {0: 2})
    with pytest.raises(NotAllowed):
        known.check_open(IDS[1])


def test_ended_transactions_are_remembered_in_a_bounded_number() -> None:
    known = OpenTransactions()
    for i in range(ENDED_MAX + 1):
        known.ending(TxnId(0, i), commit=True)
    known.check_open(TxnId(0, 0))
    with pytest.raises(NotAllowed):
        known.check_open(TxnId(0, 1))


@given(st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(["put", "commit", "abort"]))))
def test_x2_what_is_read_of_a_log_is_what_was_known_when_it_was_written(
    steps: list[tuple[TxnId, str]],
) -> None:
    """Messages of ended transactions are not sent; a marker may be stored twice."""
    live, stored = OpenTransactions(), []
    ended: dict[TxnId, str] = {}
    for txn, step in steps:
        position = at(len(stored))
        if step == "put":
            if txn in ended:
                continue
            live.enter(txn, position)
            live.stored(txn, position)
            named = {"txnid_most_bits": txn.most, "txnid_least_bits": txn.least}
            stored.append(entry_of(b"v", **named))
        elif txn in live.ongoing or ended.get(txn) == step:
            ended[txn] = step
            live.ended(txn, position, commit=step == "commit")
            stored.append(marker(txn, commit=step == "commit", now_ms=1))
    restored = OpenTransactions()
    if stored:
        run = run_of(*stored)
        run.ledger_id, run.first = 1, 0
        restored.read(run, range(run.count))
    assert restored.ongoing == live.ongoing
    assert restored.aborted.keys() == live.aborted.keys()
    assert restored.limit == live.limit


def test_very_many_open_transactions_end_in_the_order_in_which_they_began() -> None:
    known = OpenTransactions()
    for least in range(MANY):
        known.enter(TxnId(0, least), Position(1, least))
        known.stored(TxnId(0, least), Position(1, least))
    began_s = process_time()
    for least in range(MANY):
        known.ending(TxnId(0, least), commit=True)
        known.ended(TxnId(0, least), Position(2, least), commit=True)
        known.raise_mark(0, least - 1)
        assert known.lost is None
        assert known.limit == (Position(1, least + 1) if least + 1 < MANY else None)
    # time: a search for the first one from where the first one was takes a quarter of a minute, this a second
    assert process_time() - began_s < 10
