"""Latest time by which an entry was in a log: notes within an owner's life, ends of ledgers beyond it."""

from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.reading.arrivals import NOTES_MAX, Arrivals


def test_an_entry_is_no_older_than_the_last_note_before_it_and_the_end_of_the_ledger_before() -> (
    None
):
    line = LedgerLine([LedgerSpan(3, 10, 100, 500), LedgerSpan(5, 0, 0, 0)])
    arrivals = Arrivals(line)
    assert [arrivals.since_ms(i) for i in (0, 9, 10)] == [0, 0, 500]
    arrivals.note(1000, 100)
    line.grow(5, 50)
    arrivals.note(1050, 100)  # too soon after the last
    line.grow(5, 50)
    arrivals.note(1100, 100)
    assert [arrivals.since_ms(i) for i in (9, 10, 19, 20)] == [0, 1000, 1000, 1100]


def test_a_clock_that_was_set_back_is_noted_and_the_later_time_holds() -> None:
    line = LedgerLine([LedgerSpan(3)])
    arrivals = Arrivals(line)
    for now_ms in (5000, 1000, 1100):
        arrivals.note(now_ms, 100)
        line.grow(1, 10)
    assert [arrivals.since_ms(i) for i in range(4)] == [5000] * 4


def test_notes_are_bounded_and_the_newest_count() -> None:
    line = LedgerLine([LedgerSpan(3)])
    arrivals = Arrivals(line)
    for now_ms in range(100, 100 + 2 * NOTES_MAX):
        arrivals.note(now_ms, 1)
        line.grow(1, 10)
    assert arrivals.since_ms(NOTES_MAX - 1) == 0
    assert arrivals.since_ms(NOTES_MAX) == 100 + NOTES_MAX
    arrivals.note(10_000, 1)
    arrivals.note(20_000, 1)  # the log has not grown
    assert arrivals.since_ms(line.durable_to) == 10_000
