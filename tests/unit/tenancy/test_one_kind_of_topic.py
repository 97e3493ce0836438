"""A plain and a partitioned topic of one name, created in every order of their metadata calls: one is created."""

import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import pytest

from engine.base.errors import AlreadyExists, NotFound
from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.records import RecordFormatError, encode_json
from engine.metadata.store import BadVersionError, Found, NoNodeError
from engine.metadata.tree import Tree
from engine.tenancy import topics
from engine.tenancy.namespaces import delete_namespace
from tests.support.stores.stepped import Actor, SteppedStore, two_switches

NAMESPACE = NamespaceName.parse("t/n")
STEPS = 12
"""More calls than either makes."""
Make = Callable[[Any, TopicName], Coroutine[Any, Any, None]]


async def plain(store: Any, topic: TopicName) -> None:
    """Create a plain topic as a broker does: create its node, then confirm its kind before the first use."""
    await topics.check_new_topic(store, topic)
    await topics.create_topic(store, topic, b"")
    await confirm(store, topic)


async def confirm(store: Any, topic: TopicName) -> None:
    """Confirm the kind of a topic as its opening does; delete its node if it is not plain."""
    ledger = topics.ledger_path(topic)
    (node, *seen), _ = await store.get_all([ledger, *topics.confirmation_paths(store, topic)])
    if node is None:  # another creation was refused and has deleted it
        raise NotFound(ledger)
    await decide(store, topic, seen)


async def confirm_apart(store: Any, topic: TopicName) -> None:
    """Confirm the kind of a topic as ``confirm`` does, when the topic's node is in another store than the records."""
    await decide(store, topic, ())


async def decide(store: Any, topic: TopicName, seen: Sequence[Found]) -> None:
    try:
        await topics.confirm_plain(store, topic, seen)
    except (AlreadyExists, NotFound):
        with suppress(NoNodeError, BadVersionError):
            await store.delete(topics.ledger_path(topic), 0)
        raise


async def by_use(store: Any, topic: TopicName) -> None:
    """Create a plain topic by its first use: as ``plain``, but the node may exist already."""
    await topics.check_new_topic(store, topic)
    await topics.create_missing(store, topic)
    await confirm(store, topic)


async def apart(store: Any, topic: TopicName) -> None:
    """Create a plain topic as ``plain`` does, confirmed by several requests."""
    await topics.check_new_topic(store, topic)
    await topics.create_topic(store, topic, b"")
    await confirm_apart(store, topic)


async def partitioned(store: Any, topic: TopicName) -> None:
    await topics.create_partitioned(store, topic, 2)


def tree() -> Tree:
    made = Tree()
    for path in ("/admin", "/admin/policies", "/admin/policies/t"):
        made.create(path, b"", 0, False, 0)
    made.create("/admin/policies/t/n", encode_json({"deleted": False}), 0, False, 0)
    for parent in (
        paths.managed_ledgers("t/n"),
        paths.partitioned_topics("t/n"),
        paths.partitioned_topics("t/n", "non-persistent"),
    ):
        path = ""
        for part in parent.split("/")[1:]:
            path += f"/{part}"
            if made.exists(path) is None:
                made.create(path, b"", 0, False, 0)
    return made


def run(work: Callable[[Any], Coroutine[Any, Any, Any]], of: Tree) -> Any:
    store = SteppedStore(of)
    actor = Actor(store, work(store))
    actor.finish()
    if actor.error is not None:
        raise actor.error
    return actor.result


def kinds(of: Tree, topic: TopicName) -> list[str]:
    """Return the kinds of topic that exist under a name, as requests find them."""
    record = run(lambda store: topics.find_partitions(store, topic), of)
    names = ["partitioned"] if record is not None else []
    if of.exists(topics.ledger_path(topic)) is not None:
        names.append("plain")
    return names


def begun(make: Make, of: Tree, topic: TopicName) -> Actor:
    store = SteppedStore(of)
    return Actor(store, make(store, topic))


@pytest.mark.parametrize("creation", [plain, apart, partitioned])
@pytest.mark.parametrize("rival", [plain, apart, partitioned])
def test_in_every_order_of_two_exactly_one_is_made(creation: Make, rival: Make) -> None:
    topic = NAMESPACE.topic("x")
    for first, second in two_switches(STEPS, STEPS):
        metadata = tree()
        actors = begun(creation, metadata, topic), begun(rival, metadata, topic)
        for actor, steps in zip(actors, (first, second), strict=True):
            for _ in range(steps):
                actor.step()
        for actor in actors:
            actor.finish()
        won = [
            make for make, actor in zip((creation, rival), actors, strict=True) if not actor.error
        ]
        order = f"after {first} and {second} steps: {[actor.error for actor in actors]}"
        assert len(won) == 1, order
        kind = "partitioned" if won[0] is partitioned else "plain"
        assert kinds(metadata, topic) == [kind], order
        assert all(isinstance(actor.error, AlreadyExists | None) for actor in actors), order
        parts = run(lambda store: topics.list_topics(store, NAMESPACE), metadata)
        assert len(parts) == (2 if won[0] is partitioned else 1), order


def test_in_random_orders_of_six_exactly_one_kind_is_made() -> None:
    topic = NAMESPACE.topic("x")
    for seed in range(500):
        chance = random.Random(seed)
        metadata = tree()
        makes = [plain, apart, by_use, by_use, partitioned, partitioned]
        actors = [begun(make, metadata, topic) for make in makes]
        while waiting := [actor for actor in actors if not actor.done]:
            chance.choice(waiting).step()
        made = {
            "partitioned" if make is partitioned else "plain"
            for make, actor in zip(makes, actors, strict=True)
            if not actor.error
        }
        assert len(made) == 1, seed
        assert kinds(metadata, topic) == list(made), seed


@pytest.mark.parametrize("then", [plain, partitioned])
def test_a_creation_cut_off_anywhere_hinders_no_other(then: Make) -> None:
    topic = NAMESPACE.topic("x")
    for steps in range(STEPS):
        metadata = tree()
        cut = begun(partitioned, metadata, topic)
        for _ in range(steps):
            cut.step()
        finished = cut.done
        cut.crash()
        actor = begun(then, metadata, topic)
        actor.finish()
        if finished or kinds(metadata, topic) == ["partitioned"]:
            continue
        assert actor.error is None, steps
        assert kinds(metadata, topic) == [then.__name__], steps


def test_a_topic_of_no_metadata_is_settled_by_the_same_steps() -> None:
    """Race a load with a creation: the creation sees the topic loaded, or the load sees the record."""
    topic = NAMESPACE.topic("x", "non-persistent")
    for first, second in two_switches(STEPS, STEPS):
        metadata, loaded = tree(), [False]

        async def load(store: Any, topic: TopicName, loaded: list[bool] = loaded) -> None:
            loaded[0] = True
            try:
                await topics.confirm_plain(store, topic)
            except AlreadyExists:
                loaded[0] = False
                raise

        async def make(store: Any, topic: TopicName, loaded: list[bool] = loaded) -> None:
            async def is_loaded() -> bool:
                await store.exists("/")  # reading takes a step, too
                return loaded[0]

            await topics.create_partitioned(store, topic, 2, is_loaded=is_loaded)

        actors = begun(load, metadata, topic), begun(make, metadata, topic)
        for actor, steps in zip(actors, (first, second), strict=True):
            for _ in range(steps):
                actor.step()
        for actor in actors:
            actor.finish()
        order = f"after {first} and {second} steps: {[actor.error for actor in actors]}"
        assert [actor.error is None for actor in actors].count(True) == 1, order
        record = run(lambda store: topics.find_partitions(store, topic), metadata)
        assert (record is None) == loaded[0], order


def test_a_namespace_deleted_meanwhile_holds_neither_kind() -> None:
    """Race a creation with a deletion, which marks the namespace first and fails while it has a topic."""
    topic = NAMESPACE.topic("x")

    async def delete(store: Any, topic: TopicName) -> None:
        await delete_namespace(store, topic.namespace)

    for make in (plain, partitioned):
        for first, second in two_switches(STEPS, STEPS + 6):
            metadata = tree()
            actors = begun(make, metadata, topic), begun(delete, metadata, topic)
            for actor, steps in zip(actors, (first, second), strict=True):
                for _ in range(steps):
                    actor.step()
            for actor in actors:
                actor.finish()
            made, deleted = (actor.error is None for actor in actors)
            order = f"after {first} and {second} steps: {[actor.error for actor in actors]}"
            assert not (made and deleted), order
            if made:
                assert kinds(metadata, topic) == [make.__name__], order
            else:
                assert kinds(metadata, topic) == [], order


@pytest.mark.parametrize("count", [-1, topics.PARTITIONS_READ_MAX + 1, 10**99, True, "3", None])
def test_a_record_with_a_number_of_partitions_that_nothing_can_list_is_unreadable(
    count: Any,
) -> None:
    record = encode_json({"partitions": count})
    with pytest.raises(RecordFormatError, match="a whole number from 0 to 100000"):
        topics.partitioned_record(record, "/p")
