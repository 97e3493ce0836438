"""Jobs of the upkeep over many topics: they visit the topics concerned, and let other tasks run meanwhile."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.base.names import NamespaceName, TopicName
from engine.broker.policies import StoragePolicies, TopicPolicies
from engine.broker.policy_changes import PolicyChanges
from engine.broker.ports import Namespaces
from engine.broker.settings import DataPathSettings
from engine.broker.topics.registry import TopicRegistry
from engine.broker.upkeep import TURN_TOPICS, Upkeep
from engine.managed.settings import LedgerConfig
from tests.support.waiting import until

TOPICS = 4 * TURN_TOPICS


class Topic:
    """A topic that records the calls of jobs. ``rounds`` counts their visits."""

    closing = False
    in_use = False

    def __init__(self, name: str) -> None:
        self.name = TopicName.parse(name)
        self.policies = TopicPolicies(storage=StoragePolicies(compaction_threshold=1))
        self.deduplication = SimpleNamespace(check=self.visit)
        self.compaction = SimpleNamespace(start_if_due=lambda threshold: self.visit_async())
        self.rounds = 0

    def visit(self) -> None:
        self.rounds += 1

    async def visit_async(self) -> None:
        self.visit()

    async def apply(self, policies: TopicPolicies, config: LedgerConfig) -> None:
        self.visit()


@dataclass
class Registry:
    """Topics, and the namespaces whose topics were listed; None for all namespaces."""

    all: list[Topic]
    listed: list[NamespaceName | None] = field(default_factory=list)

    def topics(self, namespace: NamespaceName) -> list[Topic]:
        self.listed.append(namespace)
        return [topic for topic in self.all if topic.name.namespace == namespace]

    def __iter__(self) -> Iterator[Topic]:
        self.listed.append(None)
        return iter(list(self.all))

    def tick(self, elapsed_s: float) -> list[Topic]:
        return []

    async def unload(self, name: TopicName) -> None:
        topic = next(topic for topic in self.all if topic.name == name)
        topic.visit()


class Unchanged:
    async def migrated_to(self, namespace: NamespaceName) -> None:
        return None

    async def peer_of(self, name: TopicName) -> None:
        return None

    async def policies(self, name: TopicName) -> TopicPolicies:
        return TopicPolicies()


def upkeep_of(
    registry: Registry, changes: PolicyChanges | None = None, namespaces: object | None = None
) -> Upkeep:
    return Upkeep(
        cast(TopicRegistry, registry),
        cast(Namespaces, namespaces or Unchanged()),
        lambda policies: LedgerConfig(),
        DataPathSettings(),
        changes=changes,
    )


async def test_a_policy_change_visits_only_the_topics_of_its_namespace() -> None:
    topics = [Topic(f"persistent://t/{n}/{i}") for n in ("a", "b", "c") for i in range(3)]
    registry = Registry(topics)
    changes = PolicyChanges()
    upkeep = upkeep_of(registry, changes)
    upkeep.start()
    changed = NamespaceName.of("t", "b")
    changes.note(changed)
    changes.note(TopicName.parse("persistent://t/c/1"))
    await until(lambda: topics[7].rounds > 0)
    await upkeep.close()
    assert registry.listed == [changed, NamespaceName.of("t", "c")]
    assert [topic.rounds for topic in topics] == [0, 0, 0, 1, 1, 1, 0, 1, 0]


@pytest.mark.parametrize("job", ["idle", "policies", "deduplication", "compaction"])
async def test_a_job_over_many_topics_lets_other_tasks_run(job: str) -> None:
    domain = "non-persistent" if job == "idle" else "persistent"
    topics = [Topic(f"{domain}://t/n/{i}") for i in range(TOPICS)]
    upkeep = upkeep_of(Registry(topics))
    (work,) = (entry.work for entry in upkeep.jobs if entry.name == job)
    if job == "idle":
        await work(0.0)  # a topic is unloaded when it was unused twice
    visited: list[int] = []

    async def watch() -> None:
        while True:
            visited.append(sum(topic.rounds for topic in topics))
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    await work(0.0)
    watching.cancel()
    assert all(topic.rounds == 1 for topic in topics)
    turns = [count for count in visited if 0 < count < TOPICS]
    assert len(turns) >= TOPICS // TURN_TOPICS - 1
    steps: list[Any] = [b - a for a, b in zip([0, *turns], [*turns, TOPICS], strict=True)]
    assert max(steps) <= TURN_TOPICS


async def test_a_topic_that_is_used_again_stays_loaded() -> None:
    topics = [Topic(f"non-persistent://t/n/{i}") for i in range(2)]
    upkeep = upkeep_of(Registry(topics))
    (work,) = (entry.work for entry in upkeep.jobs if entry.name == "idle")
    await work(0.0)
    topics[0].in_use = True
    await work(0.0)
    assert [topic.rounds for topic in topics] == [0, 1]


async def test_policies_are_not_applied_to_a_topic_that_closed_while_they_were_read() -> None:
    topic = Topic("persistent://t/n/closing")

    class Slow(Unchanged):
        async def policies(self, name: TopicName) -> TopicPolicies:
            topic.closing = True
            return TopicPolicies()

    upkeep = upkeep_of(Registry([topic]), namespaces=Slow())
    (work,) = (entry.work for entry in upkeep.jobs if entry.name == "policies")
    await work(0.0)
    assert topic.rounds == 0
