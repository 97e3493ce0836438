"""The order of what a published run passes does not depend on which policy was set first."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

from engine.broker.ports import MaxRate, TopicPolicies
from engine.broker.topics.publish import Place
from tests.support.broker_bench import NAME, opened, until

EACH: dict[Place, dict[str, Any]] = {
    Place.ENCRYPTION: {"encryption_required": True},
    Place.SIZE: {"message_bytes_max": 1000},
    Place.DELAY: {"delay_max_ms": 1000},
    Place.TOPIC_RATE: {"publish_rate": MaxRate(messages=1)},
}


def all_of(*places: Place, deduplication: bool = True) -> TopicPolicies:
    policies = TopicPolicies(deduplication=deduplication)
    for place in places:
        policies = replace(policies, **EACH[place])
    return policies


async def test_stages_stand_in_one_order_whichever_policy_comes_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as bench:
        config = bench.everything.ledger_config(TopicPolicies())

        async def in_force(policies: TopicPolicies) -> list[Place]:
            await bench.topic.apply(policies, config)
            wanted = "Enabled" if policies.deduplication else "Disabled"
            await until(lambda: bench.topic.deduplication.status == wanted)
            return [stage.place for stage in bench.topic.stages]

        for order in permutations(EACH):
            assert await in_force(TopicPolicies()) == []
            for count in range(1, len(order) + 1):
                present = await in_force(all_of(*order[:count], deduplication=False))
                assert present == sorted(order[:count])
        for first in EACH:
            assert await in_force(TopicPolicies()) == []
            assert await in_force(all_of()) == [Place.DEDUPLICATION]
            assert await in_force(all_of(first)) == [first, Place.DEDUPLICATION]
        assert await in_force(all_of(*EACH)) == [*EACH, Place.DEDUPLICATION]


async def test_a_loaded_topic_has_the_stages_that_one_with_changed_policies_has(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bench:
        bench.everything.in_force = all_of(*EACH)
        await bench.registry.unload(NAME)
        topic = await bench.load()
        await until(lambda: topic.deduplication.status == "Enabled")
        loaded = [stage.place for stage in topic.stages]
        await topic.apply(
            replace(all_of(*EACH), max_consumers=7), bench.everything.ledger_config(topic.policies)
        )
        assert [stage.place for stage in topic.stages] == loaded == [*EACH, Place.DEDUPLICATION]
