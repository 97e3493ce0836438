"""Messages of other topics, which an administrator of one topic names by ledger and entry."""

from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import LATEST_ENTRIES, LatestEntries
from engine.base.errors import NotFound, Refusal
from engine.base.names import TopicName
from gateway.services.admin import messages, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

OWN = TopicName.parse("persistent://public/default/own")
FOREIGN = TopicName.parse("persistent://public/default/foreign")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    bench = AdminBench()
    await bench.start()
    for name in (OWN, FOREIGN):
        await topics.create(bench.engine, name, {})
    yield bench
    await bench.close()


async def test_a_ledger_of_another_topic_holds_no_message_of_this_one(bench: AdminBench) -> None:
    """Refuse what CVE-2021-41571 was about: any ledger was read for clients that might read one topic."""
    foreign = await bench.publish(FOREIGN, 3)
    own = await bench.publish(OWN, 3)
    ledger, entry = own.positions[0]
    assert await messages.message_by_id(bench.engine, OWN, ledger, entry)
    for at in foreign.positions:
        with pytest.raises(NotFound, match="Message id not found"):
            await messages.message_by_id(bench.engine, OWN, *at)
    for ledger in (1 << 40, (1 << 63) - 1):
        with pytest.raises(Refusal):
            await messages.message_by_id(bench.engine, OWN, ledger, 0)


async def test_entries_before_a_position_of_another_topic_are_this_topics(
    bench: AdminBench,
) -> None:
    foreign = await bench.publish(FOREIGN, 3)
    own = await bench.publish(OWN, 3)
    before = MessagePosition(*foreign.positions[-1])
    answer = await bench.engine.call(LATEST_ENTRIES, LatestEntries(OWN, 100, 1 << 20, before))
    ledgers = {ledger for ledger, *_ in answer["entries"]}
    assert ledgers <= {ledger for ledger, _ in own.positions}
