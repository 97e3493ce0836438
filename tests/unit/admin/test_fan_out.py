"""One operation on many topics: it returns or raises only after it has ended on all of them."""

import asyncio

import pytest

from engine.admin.fan_out import IN_FLIGHT_MAX, on_each
from engine.base.errors import NotFound, NotReady, PreconditionFailed, Refusal
from engine.base.names import TopicName
from engine.metadata.store import StoreUnavailableError

TOPIC = TopicName.parse("persistent://public/default/t")


def parts(count: int) -> list[TopicName]:
    return [TOPIC.partition_at(i) for i in range(count)]


async def test_results_are_in_order_and_the_number_in_flight_is_bounded() -> None:
    running = [0, 0]

    async def work(topic: TopicName) -> int:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0)
        running[0] -= 1
        return topic.partition

    assert await on_each(parts(200), work) == list(range(200))
    assert running == [0, IN_FLIGHT_MAX]


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        (PreconditionFailed("in use"), PreconditionFailed, "in use"),
        (StoreUnavailableError("silent"), NotReady, "silent"),
    ],
)
async def test_the_first_failure_is_raised_after_the_others_have_ended(
    error: Exception, kind: type[Refusal], reason: str
) -> None:
    ended: list[int] = []

    async def work(topic: TopicName) -> None:
        if topic.partition == 1:
            raise error
        await asyncio.sleep(0)
        ended.append(topic.partition)

    with pytest.raises(Refusal) as refused:
        await on_each(parts(4), work)
    assert type(refused.value) is kind
    assert refused.value.reason == f"{reason} ({parts(2)[1]}; 3 of 4 partitions succeeded)"
    assert ended == [0, 2, 3]


async def test_errors_of_a_single_topic_and_bugs_are_raised_unchanged() -> None:
    async def work(topic: TopicName) -> None:
        raise KeyError(topic)

    async def refuse(topic: TopicName) -> None:
        raise NotFound("gone")

    with pytest.raises(Refusal, match=r"^gone$"):
        await on_each(parts(1), refuse)
    with pytest.raises(KeyError):
        await on_each(parts(2), work)
