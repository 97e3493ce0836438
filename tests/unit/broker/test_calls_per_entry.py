"""The publish and dispatch paths call no function per entry: a run of many costs the calls of a run of one."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.topics.publish import Publish
from engine.wire import client_commands
from engine.wire.kernels import take_sends
from engine.wire.varints import varint
from tests.support.broker_bench import Bench, Client, opened, until
from tests.support.import_graph import ROOT
from tests.support.raw_client import entry_of
from tests.support.transactions.bench import KeptSnapshots

pytestmark = pytest.mark.virtual_time

SHIPPED = (f"{ROOT}/engine/", f"{ROOT}/bookie/")
TESTS = f"{ROOT}/tests/"
TRIES = 5
MANY = 200
SPREAD = 8
"""Calls by which two runs may differ: one more turn of the loop, a timer that fires."""
PUBLISH_CALLS_MAX = 85
"""Calls for one run, from its bytes to its receipts, broker and bookie together. Raise it with the reason only."""
DELIVER_CALLS_MAX = {SubscriptionType.EXCLUSIVE: 140, SubscriptionType.SHARED: 190}
"""The same with a consumer that receives the run."""


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the calls of shipped functions on this thread, without those that a test's function makes itself."""
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SHIPPED):
            caller = frame.f_back
            if caller is None or not caller.f_code.co_filename.startswith(TESTS):
                calls[frame.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


class Traffic:
    """Runs of plain messages to a topic, of which some were received."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._sequence = 0
        self.receivers: list[Client] = []

    async def calls(self, entries: int) -> int:
        """Return the fewest calls of several tries: other work may happen beside one."""
        return (await self.functions(entries)).total()

    async def functions(self, entries: int) -> Counter[str]:
        """Return the calls by function of the try with the fewest calls."""
        return min([await self._pass_on(entries) for _ in range(TRIES)], key=Counter.total)

    async def _pass_on(self, entries: int) -> Counter[str]:
        """Send one run, wait until it is confirmed and received, and return the calls by function."""
        sequences = range(self._sequence, self._sequence + entries)
        self._sequence += entries
        data = b"".join(client_commands.send(1, i, entry_of(b"value")) for i in sequences)
        publisher = self._bench.publisher
        confirmed = publisher.receipts + entries
        received = [len(client.received) + entries for client in self.receivers]
        with counted() as calls:
            _, _, run = take_sends(data, 0, len(data), 1 << 20)
            assert run is not None
            Publish(run, self._bench.producer).start()
            await until(lambda: publisher.receipts == confirmed)
            await until(lambda: [len(client.received) for client in self.receivers] == received)
            return calls


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def test_publishing_calls_nothing_per_entry(bench: Bench) -> None:
    traffic = Traffic(bench)
    single, many = await traffic.calls(1), await traffic.calls(MANY)
    assert abs(many - single) <= SPREAD, (single, many)
    assert single <= PUBLISH_CALLS_MAX


@pytest.mark.parametrize(("kind", "most"), DELIVER_CALLS_MAX.items(), ids=lambda value: str(value))
async def test_delivering_calls_nothing_per_entry(
    bench: Bench, kind: SubscriptionType, most: int
) -> None:
    traffic = Traffic(bench)
    _, client = await bench.join(kind, permits=10 * TRIES * MANY)
    traffic.receivers.append(client)
    single, many = await traffic.calls(1), await traffic.calls(MANY)
    assert abs(many - single) <= SPREAD, (single, many)
    assert single <= most


@pytest.mark.parametrize("kind", DELIVER_CALLS_MAX)
async def test_plain_messages_call_the_same_functions_with_transactions_enabled(
    kind: SubscriptionType,
) -> None:
    called: list[Counter[str]] = []
    for snapshots in (None, KeptSnapshots()):
        async with opened(snapshots=snapshots) as bench:
            traffic = Traffic(bench)
            _, client = await bench.join(kind, permits=10 * TRIES * MANY)
            traffic.receivers.append(client)
            called.append(await traffic.functions(MANY))
    disabled, enabled = called
    assert enabled - disabled == Counter()


def test_calls_of_shipped_functions_are_counted() -> None:
    with counted() as calls:
        varint(1)  # by a test
        assert not calls
        list(map(varint, (1, 2)))
        assert not calls
        client_commands.send(1, 1, b"")
        assert calls
