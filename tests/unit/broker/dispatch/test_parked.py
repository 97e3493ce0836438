"""Entries parked for one consumer: in order, and bounded in entries, bytes and buffers kept alive."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Pick, Slice, View
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.sharing import parked as parked_module
from engine.broker.dispatch.sharing.parked import PARKED_BYTES_MAX, PARKED_MAX, WASTE_MAX, Parked
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client

SETTINGS = DataPathSettings()


def consumer() -> Consumer:
    kind = SubscriptionType.KEY_SHARED
    return Consumer(Client(), 1, "c", kind, settings=SETTINGS, partition=-1, now_ms=0)


def run_of(entries: int, size: int, first: int = 0) -> Slice:
    """Return entries of ``size`` bytes that hold their numbers; every third one has two messages."""
    buf = b"".join((first + i).to_bytes(size, "big") for i in range(entries))
    spans = [at for i in range(entries) for at in (i * size, (i + 1) * size)]
    counts = [2 if i % 3 == 0 else 1 for i in range(entries)]
    return Slice(buf, spans, len(buf), counts, 7, first)


def entries_of(view: View) -> list[tuple[Position, bytes, int]]:
    counts = view.run.counts
    assert counts is not None
    return [(view.run.position(i), view.run.entry(i), counts[i]) for i in view.indexes]


def drained(parked: Parked, owner: Consumer) -> list[tuple[Position, bytes, int]]:
    out = []
    while (view := parked.take(owner)) is not None:
        out += entries_of(view)
    return out


def held(parked: Parked) -> int:
    return sum({id(view.run.buf): view.run.held for _, view in parked}.values())


def test_a_small_entry_does_not_keep_the_buffer_of_its_read_alive() -> None:
    parked, owner = Parked(), consumer()
    for n in range(40):
        parked.add(owner, Pick(run_of(1000, 1000, 1000 * n), [500]))
    assert parked.entries == 40
    assert held(parked) <= WASTE_MAX * 40 * 1000
    assert [position.entry_id for position, _, _ in drained(parked, owner)] == [
        1000 * n + 500 for n in range(40)
    ]
    assert not parked


def test_entries_are_the_same_in_a_smaller_buffer() -> None:
    parked, owner = Parked(), consumer()
    view = Pick(run_of(100, 10, first=3), [0, 1, 5, 6, 7, 99])
    parked.add(owner, view)
    assert drained(parked, owner) == entries_of(view)


def test_large_entries_are_bounded_by_their_bytes() -> None:
    parked, owner = Parked(), consumer()
    size = 100_000
    while parked.has_room(view := View(run_of(1, size), 0, 1)):
        parked.add(owner, view)
    assert parked.entries == PARKED_BYTES_MAX // size < PARKED_MAX
    assert held(parked) <= PARKED_BYTES_MAX


def test_small_entries_are_bounded_by_their_number() -> None:
    parked, owner = Parked(), consumer()
    while parked.has_room(view := View(run_of(1, 10), 0, 1)):
        parked.add(owner, view)
    assert parked.entries == PARKED_MAX


def test_one_entry_has_room_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked_module, "PARKED_BYTES_MAX", 5)
    parked, owner = Parked(), consumer()
    view = View(run_of(1, 10), 0, 1)
    assert parked.has_room(view)
    parked.add(owner, view)
    assert not parked.has_room(view)


def test_entries_put_back_are_taken_first_again() -> None:
    parked, owner = Parked(), consumer()
    first, second = View(run_of(4, 8), 0, 4), View(run_of(2, 8, first=4), 0, 2)
    for view in (first, second):
        parked.add(owner, view)
    assert parked.take(owner) is first
    parked.put_back(owner, Pick(first.run, [1, 3]))
    assert [position.entry_id for position, _, _ in drained(parked, owner)] == [1, 3, 4, 5]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "take", "put back", "narrow"]),
            st.integers(0, 1),
            st.lists(st.integers(0, 29), min_size=1, unique=True).map(sorted),
        ),
        max_size=30,
    )
)
def test_parked_entries_are_a_bounded_queue_for_each_consumer(
    steps: list[tuple[str, int, list[int]]],
) -> None:
    parked, owners = Parked(), [consumer(), consumer()]
    model: list[list[Any]] = [[], []]
    for at, (step, number, indexes) in enumerate(steps):
        owner, queue = owners[number], model[number]
        if step == "add":
            view = Pick(run_of(30, 8, 100 * at), indexes)
            parked.add(owner, view)
            queue += entries_of(view)
        elif step == "narrow":
            parked.narrow(lambda view: view.part(1, view.count) if view.count > 1 else view)
            for owner, queue in zip(owners, model, strict=True):
                queue[:] = [
                    entry
                    for parked_for, view in parked
                    if parked_for is owner
                    for entry in entries_of(view)
                ]
        elif (view := parked.take(owner)) is not None:
            del queue[: view.count]
            if step == "put back" and view.count > 1:
                rest = view.part(1, view.count)
                parked.put_back(owner, rest)
                queue[:0] = entries_of(rest)
        assert parked.entries == sum(map(len, model))
        assert parked._bytes == 8 * parked.entries
        assert [member in parked for member in owners] == [bool(queue) for queue in model]
        for view in (view for _, view in parked):
            assert view.run.held <= WASTE_MAX * view.size
    for owner, queue in zip(owners, model, strict=True):
        assert drained(parked, owner) == queue
