"""The ledger line numbers entries across ledgers, whatever is trimmed or empty."""

import pytest

from engine.base.errors import MisuseError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.managed.positions import LedgerLine, LedgerSpan


def line() -> LedgerLine:
    return LedgerLine([LedgerSpan(5, 3), LedgerSpan(7, 0), LedgerSpan(8, 2), LedgerSpan(11, 0)])


def test_every_entry_has_one_ordinal_and_back() -> None:
    places = [Position(5, 0), Position(5, 1), Position(5, 2), Position(8, 0), Position(8, 1)]
    assert [line().ordinal(place) for place in places] == list(range(5))
    assert [line().exact(*place) for place in places] == list(range(5))
    assert [line().position(ordinal) for ordinal in range(5)] == places
    assert line().position(5) == Position(11, 0)
    assert [line().before(ordinal) for ordinal in range(6)] == [Position(5, -1), *places]


@pytest.mark.parametrize(
    ("position", "ordinal"),
    [
        (EARLIEST, 0), (LATEST, 5), (Position(5, -1), 0), (Position(5, 99), 3), (Position(6, 4), 3),
        (Position(7, 0), 3), (Position(2, 9), 0), (Position(12, 0), 5), (Position(11, 0), 5),
    ],
)  # fmt: skip
def test_positions_without_an_entry_go_to_the_next_one(position: Position, ordinal: int) -> None:
    assert line().ordinal(position) == ordinal
    assert line().exact(*position) == -1


def test_trimming_keeps_the_numbers() -> None:
    trimmed = line()
    assert [ledger.ledger_id for ledger in trimmed.drop_first(2)] == [5, 7]
    assert (trimmed.base, trimmed.durable_to) == (3, 5)
    assert trimmed.position(3) == trimmed.position(0) == Position(8, 0)
    assert trimmed.before(3) == Position(8, -1)
    assert trimmed.ordinal(Position(5, 1)) == 3
    trimmed.grow(4, 40)
    assert trimmed.position(8) == Position(11, 3)
    assert trimmed.exact(11, 4) == -1


def test_an_empty_last_ledger_can_go_and_ids_must_rise() -> None:
    shortened = line()
    assert shortened.drop_last().ledger_id == 11
    with pytest.raises(MisuseError):
        shortened.drop_last()
    with pytest.raises(MisuseError):
        shortened.push(LedgerSpan(8))
    assert LedgerLine().position(0) == Position(-1, -1)


SIZED = LedgerLine([LedgerSpan(5, 3, 30), LedgerSpan(7), LedgerSpan(8, 2, 100), LedgerSpan(11)])


@pytest.mark.parametrize(
    ("position", "size"),
    [
        (EARLIEST, 130), (Position(5, -1), 130), (Position(5, 0), 120), (Position(5, 2), 100),
        (Position(6, 4), 100), (Position(7, -1), 100), (Position(8, 0), 50), (Position(8, 1), 0),
        (Position(11, -1), 0), (LATEST, 0),
    ],
)  # fmt: skip
def test_bytes_behind_a_position_are_those_of_whole_ledgers_and_a_share(
    position: Position, size: int
) -> None:
    assert SIZED.bytes_behind(position) == size


@pytest.mark.parametrize(
    ("size", "position"),
    [
        (130, (5, -1)), (129, (5, 0)), (120, (5, 0)), (119, (5, 1)), (100, (5, 2)), (99, (8, 0)),
        (50, (8, 0)), (49, (8, 1)), (0, (8, 1)),
    ],
)  # fmt: skip
def test_the_last_entry_before_so_many_bytes(size: int, position: tuple[int, int]) -> None:
    assert SIZED.last_before(size) == position
    assert SIZED.bytes_behind(SIZED.last_before(size)) <= size


def test_without_entries_nothing_is_behind() -> None:
    for empty in (LedgerLine(), LedgerLine([LedgerSpan(3)])):
        assert empty.bytes_behind(EARLIEST) == 0
        assert empty.last_before(0) == empty.before(0)
