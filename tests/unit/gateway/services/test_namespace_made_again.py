"""A namespace is deleted and made again under its name: what is asked for at once is served, whatever was known."""

import asyncio
from typing import Any

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.base.errors import NotReady, NotServed
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import create_namespace
from gateway.services.admin import namespaces, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

NAME = NamespaceName.parse("public/again")
TOPICS = [NAME.topic(f"t{number}") for number in range(8)]


async def make(bench: AdminBench, bundles: int) -> None:
    given = {"bundles": {"numBundles": bundles}}
    await create_namespace(bench.store, NAME, given, cluster="standalone")


@pytest.mark.parametrize("bundles", [(4, 4), (1, 4), (4, 1)])
async def test_topics_made_at_once_are_made(bench: AdminBench, bundles: tuple[int, int]) -> None:
    async def create(topic: TopicName) -> None:
        await topics.create(bench.engine, topic, {})
        assert await bench.engine.call(SUBSCRIPTIONS, OnTopic(topic)) == []

    for turn in range(8):
        await make(bench, bundles[turn % 2])
        for _ in range(turn):  # the broker's notifications arrive earlier or later
            await asyncio.sleep(0)
        await asyncio.gather(*(create(topic) for topic in TOPICS))
        for topic in TOPICS:
            await topics.delete(bench.engine, topic, force=True)
        await namespaces.delete(bench.engine, NAME, force=False)
        assert await bench.store.exists(paths.local_policies(str(NAME))) is None


@pytest.mark.parametrize("refusal", [NotServed, NotReady])
async def test_only_requests_refused_before_any_change_are_repeated(
    bench: AdminBench, refusal: type[NotReady]
) -> None:
    """Check that callers see no lost race with an unload, a split or a recreated namespace: they cannot act on it."""
    asked: list[str] = []

    def before(operation: Any, args: Any) -> None:
        asked.append(operation.name)
        if len(asked) <= 2:
            raise refusal("Please redo the lookup.")

    await make(bench, 1)
    bench.admin.before = before
    if refusal is NotReady:
        with pytest.raises(NotReady):
            await topics.create(bench.engine, TOPICS[0], {})
        assert asked == ["create_topic"]
        return
    await topics.create(bench.engine, TOPICS[0], {})
    assert asked == ["create_topic"] * 3


async def test_a_topic_whose_bundle_is_lost_while_it_is_made_is_loaded_when_it_is_taken_again(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Load a topic again whose node exists by then: repeating the call would answer that it exists."""
    await make(bench, 1)
    parts = bench.broker.running
    await parts.assignment.place(TOPICS[0], authoritative=True)
    bundle = (await parts.ownership.bundles(NAME)).of_topic(TOPICS[0])
    created = metadata.create_topic

    async def create_and_lose(store: Any, topic: TopicName, record: bytes) -> None:
        await created(store, topic, record)
        await parts.ownership.release(bundle)

    monkeypatch.setattr(metadata, "create_topic", create_and_lose)
    await topics.create(bench.engine, TOPICS[0], {})
    assert parts.registry.loaded(TOPICS[0]) is not None
