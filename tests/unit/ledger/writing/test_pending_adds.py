"""Runs, held with their offset in the ledger until their last entry is confirmed."""

from engine.base.slices import Slice
from engine.ledger.writing.pending_adds import PendingAdds


def run(*sizes: int) -> Slice:
    spans: list[int] = []
    at = 0
    for size in sizes:
        spans += (at, at + size)
        at += size
    return Slice(bytes(at), spans, at)


def pending() -> PendingAdds:
    """Entries 0-2 of 1, 2 and 3 bytes; 3 of 4; 4-5 of 5 and 6."""
    adds = PendingAdds()
    adds.push(run(1, 2, 3), 0, 0)
    adds.push(run(4), 3, 6)
    adds.push(run(5, 6), 4, 10)
    return adds


def test_a_run_is_removed_when_its_last_entry_is_confirmed() -> None:
    adds = pending()
    left = []
    for below in range(7):
        adds.confirmed(below)
        left.append((len(adds), adds.bytes))
    assert left == [(3, 21)] * 3 + [(2, 15), (1, 11), (1, 11), (0, 0)]


def test_a_runs_length_is_that_of_the_earlier_payload() -> None:
    adds = pending()
    assert [adds.length_below(entry, 21) for entry in range(7)] == [0, 1, 3, 6, 10, 15, 21]


def test_resending_can_begin_in_the_middle_of_a_run() -> None:
    adds = pending()
    again = [(start, entry, length) for _, start, entry, length in adds.from_entry(1)]
    assert again == [(1, 1, 1), (0, 3, 6), (0, 4, 10)]
    assert [entry for _, _, entry, _ in adds.from_entry(5)] == [5]
    assert list(adds.from_entry(6)) == []
