"""The backlog of a subscription, counted by reading its entries."""

import pytest

from engine.base.ids import EARLIEST, Position
from engine.broker.administration import backlog_scan
from engine.broker.administration.backlog_scan import scan
from engine.broker.dispatch.consumer import SubscriptionType
from tests.support.broker_bench import Bench, opened

pytestmark = pytest.mark.virtual_time


async def acknowledged(bench: Bench, *indexes: int) -> list[Position]:
    """Publish eight entries of three messages each, acknowledge those at ``indexes``, and return all positions."""
    consumer, client = await bench.join(SubscriptionType.SHARED)
    await bench.publish(8, num_messages=3)
    bench.subscription.acknowledge(consumer, [client.received[i] for i in indexes])
    return client.received


async def test_acknowledged_entries_are_not_counted() -> None:
    async with opened() as bench:
        places = await acknowledged(bench, 0, 1, 4)
        log, cursor = bench.topic.log, bench.subscription.cursor
        result = await scan(log, cursor, None)
        assert (result["entries"], result["messages"], result["aborted"]) == (5, 15, False)
        assert (result["filterAcceptedEntries"], result["filterAcceptedMessages"]) == (5, 15)
        assert (result["firstMessageId"], result["lastMessageId"]) == (
            str(places[2]),
            str(places[7]),
        )
        assert (await scan(log, cursor, EARLIEST))["entries"] == 5
        assert (await scan(log, cursor, places[4]))["firstMessageId"] == str(places[5])
        nothing = await scan(log, cursor, log.next_position(log.last_confirmed))
        assert nothing["entries"] == 0
        assert "firstMessageId" not in nothing


@pytest.mark.parametrize(("most", "entries", "aborted"), [(4, 4, True), (8, 8, False)])
async def test_a_scan_reads_no_more_entries_than_pulsar_does(
    monkeypatch: pytest.MonkeyPatch, most: int, entries: int, aborted: bool
) -> None:
    monkeypatch.setattr(backlog_scan, "ENTRIES_MAX", most)
    monkeypatch.setattr(backlog_scan, "STEP", 3)
    async with opened() as bench:
        await acknowledged(bench)
        result = await scan(bench.topic.log, bench.subscription.cursor, None)
        assert (result["entries"], result["aborted"]) == (entries, aborted)
