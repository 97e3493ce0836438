"""Conflicts of acknowledgements of open transactions, and the part of a batch that they leave."""

from time import process_time

import pytest

from engine.base.ids import Position
from engine.broker.errors import NotAllowed, TransactionConflict
from engine.broker.transactions.pending.pending_state import PendingAck, PendingState
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId

ONE, TWO = TxnId(0, 1), TxnId(1, 1)
PLACES = [Position(3, i) for i in range(5)]
MANY = 20_000


class Acked:
    """A cursor over PLACES."""

    def __init__(self) -> None:
        self.mark_delete = Position(3, -1)
        self.parts: dict[Position, int] = {}

    def is_acknowledged(self, position: Position) -> bool:
        return position <= self.mark_delete

    def remains(self, position: Position) -> int | None:
        if position <= self.mark_delete:
            return 0
        return self.parts.get(position, -1) if position in PLACES else None

    async def persisted(self) -> None: ...


def _add(state: PendingState, cursor: Acked, txn: TxnId, *acks: PendingAck) -> None:
    state.add(txn, acks, cursor, "t", "s")


def _cumulate(state: PendingState, cursor: Acked, txn: TxnId, ack: PendingAck) -> None:
    state.add_cumulative(txn, ack, cursor, "t", "s")


def test_parts_of_a_batch_add_up() -> None:
    state, cursor = PendingState(), Acked()
    _add(state, cursor, ONE, PendingAck(PLACES[0], 0b0111, 4))
    _add(state, cursor, TWO, PendingAck(PLACES[0], 0b1110, 4))
    assert state.kept(PLACES[0]) == 0b0110
    assert state.has_parts
    _add(state, cursor, ONE, PendingAck(PLACES[0], 0b1101, 4))
    assert state.kept(PLACES[0]) == 0b0100
    state.remove(ONE)
    assert state.kept(PLACES[0]) == 0b1110
    state.remove(TWO)
    assert state.kept(PLACES[0]) is None
    assert not state


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PendingAck(PLACES[0]), PendingAck(PLACES[0])),
        (PendingAck(PLACES[0]), PendingAck(PLACES[0], 0b10, 2)),
        (PendingAck(PLACES[0], 0b10, 2), PendingAck(PLACES[0])),
        (PendingAck(PLACES[0], 0b110, 3), PendingAck(PLACES[0], 0b100, 3)),
        (PendingAck(PLACES[0], 0b110), PendingAck(PLACES[0], 0b100)),
        # The last message of three, which has no bit in either set.
        (PendingAck(PLACES[0], 0b001, 3), PendingAck(PLACES[0], 0b010, 3)),
    ],
)
@pytest.mark.parametrize("other", [ONE, TWO])
def test_a_message_is_acknowledged_by_one_transaction(
    first: PendingAck, second: PendingAck, other: TxnId
) -> None:
    state, cursor = PendingState(), Acked()
    _add(state, cursor, ONE, first)
    with pytest.raises(TransactionConflict, match=r"\[t\]\[s\] Transaction:.*3:0"):
        _add(state, cursor, other, second)
    assert state.kept(PLACES[0]) == first.kept


def test_a_request_that_names_a_message_twice_is_refused() -> None:
    state, cursor = PendingState(), Acked()
    with pytest.raises(TransactionConflict):
        _add(state, cursor, ONE, PendingAck(PLACES[0]), PendingAck(PLACES[0]))
    assert not state


def test_messages_acknowledged_for_good_conflict() -> None:
    state, cursor = PendingState(), Acked()
    cursor.mark_delete = PLACES[0]
    cursor.parts[PLACES[1]] = 0b101
    with pytest.raises(TransactionConflict, match="already acked before"):
        _add(state, cursor, ONE, PendingAck(PLACES[0]))
    with pytest.raises(TransactionConflict, match="already acked before"):
        _add(state, cursor, ONE, PendingAck(PLACES[1], 0b001, 3))
    _add(state, cursor, ONE, PendingAck(PLACES[1], 0b011, 3))
    _add(state, cursor, TWO, PendingAck(PLACES[1], 0b110, 3))
    with pytest.raises(NotAllowed, match="does not exist"):
        _add(state, cursor, ONE, PendingAck(Position(3, 9)))


def test_a_cumulative_acknowledgement_belongs_to_one_transaction() -> None:
    state, cursor = PendingState(), Acked()
    cursor.mark_delete = PLACES[0]
    with pytest.raises(TransactionConflict, match="markDeletePosition"):
        _cumulate(state, cursor, ONE, PendingAck(PLACES[0]))
    _cumulate(state, cursor, ONE, PendingAck(PLACES[2]))
    assert [state.kept(place) for place in PLACES] == [0, 0, 0, None, None]
    for txn, place in ((TWO, PLACES[3]), (ONE, PLACES[2]), (ONE, PLACES[1])):
        with pytest.raises(TransactionConflict, match="currentPosition"):
            _cumulate(state, cursor, txn, PendingAck(place))
    with pytest.raises(TransactionConflict):
        _add(state, cursor, TWO, PendingAck(PLACES[1]))
    _add(state, cursor, TWO, PendingAck(PLACES[4]))
    with pytest.raises(TransactionConflict, match="has messages"):
        _cumulate(state, cursor, ONE, PendingAck(PLACES[4]))
    _cumulate(state, cursor, ONE, PendingAck(PLACES[3]))
    state.remove(ONE)
    assert state.up_to is None
    assert state.kept(PLACES[1]) is None


def test_a_cumulative_acknowledgement_inside_a_batch() -> None:
    state, cursor = PendingState(), Acked()
    _cumulate(state, cursor, ONE, PendingAck(PLACES[2], 0b1100, 4))
    assert state.has_parts
    assert state.kept(PLACES[2]) == 0b1100
    assert state.kept(PLACES[1]) == 0
    with pytest.raises(TransactionConflict):
        _cumulate(state, cursor, ONE, PendingAck(PLACES[2], 0b1110, 4))
    _cumulate(state, cursor, ONE, PendingAck(PLACES[2], 0b1000, 4))
    assert state.batch_size(PLACES[2]) == 4
    _cumulate(state, cursor, ONE, PendingAck(PLACES[2]))
    assert state.kept(PLACES[2]) == 0


def test_acknowledgements_are_stated_as_on_the_wire() -> None:
    for stated in (StatedAck(PLACES[0], [-2, 5], 70), StatedAck(PLACES[0], [], 0)):
        assert PendingAck.of(stated).stated == stated


def test_very_many_open_transactions_end_in_any_order() -> None:
    state = PendingState()
    for least in range(MANY):
        # Each has a message of a batch that it shares with nine others, and an entry.
        acks = (
            PendingAck(Position(1, least // 10), 1023 ^ 1 << least % 10, 10),
            PendingAck(Position(2, least)),
        )
        state.restore(TxnId(least % 3, least), acks)
    began_s = process_time()
    for least in sorted(range(MANY), key=lambda at: at * 7919 % MANY):
        txn = TxnId(least % 3, least)
        assert state.first_up_to(txn.most, MANY) is not None
        state.remove(txn)
        assert state.first_up_to(txn.most, least) != txn
    # time: a search through all that are open takes minutes, this a second
    assert process_time() - began_s < 10
    assert (state.count, state.has_parts, bool(state)) == (0, False, False)


def test_lowest_transactions_are_known_by_coordinator() -> None:
    state = PendingState()
    for txn in (TxnId(1, 5), TxnId(1, 3), TxnId(2, 1)):
        state.restore(txn, [PendingAck(Position(3, txn.least))])
    assert state.first_up_to(1, 2) is None
    assert state.first_up_to(1, 3) == state.first_up_to(1, 9) == TxnId(1, 3)
    state.remove(TxnId(1, 3))
    assert state.first_up_to(1, 4) is None
    assert state.first_up_to(1, 5) == TxnId(1, 5)
    assert state.first_up_to(7, 5) is None
    for least in range(6, 6000):
        state.restore(TxnId(1, least), [PendingAck(Position(4, least))])
        state.remove(TxnId(1, least))
    assert state.first_up_to(1, 9000) == TxnId(1, 5)


def test_acknowledgements_that_conflict_in_a_log_of_apaches_brokers_end_one_by_one() -> None:
    state = PendingState()
    state.restore(ONE, [PendingAck(PLACES[0])])
    state.restore(TWO, [PendingAck(PLACES[0], 0b01, 2)])
    state.restore(ONE, [PendingAck(PLACES[1], 0b01, 2)])
    state.restore(TWO, [PendingAck(PLACES[1])])
    assert state.kept(PLACES[0]) == state.kept(PLACES[1]) == 0
    state.remove(ONE)
    assert (state.kept(PLACES[0]), state.kept(PLACES[1])) == (0b01, 0)
    state.remove(TWO)
    assert (state.kept(PLACES[0]), state.kept(PLACES[1])) == (None, None)
