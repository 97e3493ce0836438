"""Reading of messages by administrators."""

import base64

import pytest

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import LATEST_ENTRIES, LatestEntries
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_latest_entries_come_newest_first_within_both_bounds() -> None:
    bench = AdminBench()
    await bench.start()
    with pytest.raises(NotFound):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(TOPIC, 9, 9))
    await topics.create(bench.engine, TOPIC, {})

    async def ask(messages: int, bytes_max: int, before: int | None = None) -> tuple[int, ...]:
        at = None if before is None else MessagePosition(sink.positions[0][0], before)
        args = LatestEntries(TOPIC, messages, bytes_max, at)
        answer = await bench.engine.call(LATEST_ENTRIES, args)
        for _, entry, text in answer["entries"]:
            assert base64.b64decode(text) == sink.payloads[entry]
        return (*(entry for _, entry, _ in answer["entries"]), answer["more"])

    sink = await bench.publish(TOPIC, 20)
    size = len(sink.payloads[-1])
    assert await ask(100, 1 << 20) == (*range(19, -1, -1), False)
    assert await ask(3, 1 << 20) == (19, 18, 17, True)
    assert await ask(100, 2 * size) == (19, 18, True)
    assert await ask(100, 1) == (19, True), "one at least"
    assert await ask(2, 1 << 20, before=5) == (4, 3, True)
    assert await ask(9, 1 << 20, before=0) == (False,)
    live = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(Unsupported, match="non-persistent"):
        await bench.engine.call(LATEST_ENTRIES, LatestEntries(live, 9, 9))
    await bench.close()
