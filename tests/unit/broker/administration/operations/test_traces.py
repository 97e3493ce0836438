"""Operations that trace entries of a topic."""

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.traces import (
    END_TRACING,
    ENTRIES_MAX,
    SECONDS_MAX,
    TRACE_ENTRIES,
    TRACES,
    TraceEntries,
)
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench
from tests.support.admin.bench import bench as bench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_a_request_is_counted_down_replaced_and_ended(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await bench.engine.call(TRACE_ENTRIES, TraceEntries(TOPIC))
    await topics.create(bench.engine, TOPIC, {})
    assert await bench.engine.call(TRACES, OnTopic(TOPIC)) == {"left": 0, "traces": []}
    assert await bench.engine.call(TRACE_ENTRIES, TraceEntries(TOPIC, 3)) == {"left": 3}
    assert await bench.engine.call(TRACE_ENTRIES, TraceEntries(TOPIC, 2)) == {"left": 2}
    assert (await bench.loaded(TOPIC)).stages
    assert await bench.engine.call(END_TRACING, OnTopic(TOPIC)) == {"left": 0}
    assert not (await bench.loaded(TOPIC)).stages


async def test_a_topic_without_storage_is_refused(bench: AdminBench) -> None:
    live = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(Unsupported, match="non-persistent"):
        await bench.engine.call(TRACE_ENTRIES, TraceEntries(live))


@pytest.mark.parametrize(
    ("entries", "seconds", "field"),
    [
        (0, 1, "entries"),
        (ENTRIES_MAX + 1, 1, "entries"),
        (1, 0, "seconds"),
        (1, SECONDS_MAX + 1, "seconds"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(entries: int, seconds: int, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        TraceEntries(TOPIC, entries, seconds)
