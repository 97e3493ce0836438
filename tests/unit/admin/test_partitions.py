"""Growing, completing and deleting partitioned topics: order of the steps, lost answers, concurrent changes."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import cast

import pytest

from engine.admin import partitions
from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition, OnTopic
from engine.admin.api.subscriptions import CreateSubscription
from engine.admin.api.topics import DeleteTopic
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    NotAcceptable,
    NotFound,
    NotReady,
    PreconditionFailed,
    Refusal,
    Unprocessable,
)
from engine.base.names import TopicName
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.metadata.store import Stat, StoreUnavailableError
from engine.rpc.operation import A, Operation, R
from engine.tenancy import topics
from engine.tenancy.namespaces import bootstrap
from tests.support.stores.failing import FailingStore

TOPIC = TopicName.parse("persistent://public/default/pt")
RECORD = topics.partitioned_path(TOPIC)


class Brokers:
    """Brokers that own every partition: subscriptions by partition, with position and properties."""

    def __init__(self, store: MemoryStore) -> None:
        self.subscriptions: dict[str, dict[str, tuple[MessagePosition | None, dict[str, str]]]] = {}
        self.store = store
        self.in_use: dict[str, int] = {}
        self.refusing: dict[str, Refusal] = {}
        self.deleted: list[str] = []
        self.forgotten: list[list[str]] = []
        """Partitions deleted before each deletion of what belongs to the whole topic."""

    def has(self, index: int) -> list[str]:
        return sorted(self.subscriptions.get(str(TOPIC.partition_at(index)), {}))

    def _of(self, topic: TopicName) -> dict[str, tuple[MessagePosition | None, dict[str, str]]]:
        if str(topic) in self.refusing:
            raise self.refusing[str(topic)]
        return self.subscriptions.setdefault(str(topic), {})

    async def call(self, operation: Operation[A, R], args: A) -> R:
        return cast(R, await getattr(self, operation.name)(args))

    async def durable_subscriptions(self, args: OnTopic) -> dict[str, dict[str, str]]:
        return {name: properties for name, (_, properties) in self._of(args.topic).items()}

    async def create_subscription(self, args: CreateSubscription) -> None:
        assert await topics.topic_exists(self.store, args.topic)
        if args.subscription in self._of(args.topic):
            raise AlreadyExists("Subscription already exists for topic")
        self._of(args.topic)[args.subscription] = (args.position, args.properties)

    async def forget_partitioned(self, args: OnTopic) -> None:
        self._of(args.topic)
        record = await topics.find_partitions(self.store, args.topic)
        assert record is not None
        assert record["deleted"]
        assert not await partitions.existing_partitions(self.store, args.topic)
        self.forgotten.append(list(self.deleted))

    async def delete_topic(self, args: DeleteTopic) -> None:
        topic = args.topic
        self._of(topic)
        if self.in_use.get(str(topic)) and not args.force:
            raise PreconditionFailed("Topic has 1 connected producers/consumers")
        if args.dry:
            return
        if not await topics.topic_exists(self.store, topic):
            raise NotFound("Topic not found")
        await self.store.delete(topics.ledger_path(topic))
        self.subscriptions.pop(str(topic), None)
        self.deleted.append(str(topic))


class World:
    """A partitioned topic of two partitions with the subscription ``s``."""

    def __init__(self, store: MemoryStore) -> None:
        self.raw = store
        self.store = FailingStore(store)
        self.brokers = Brokers(store)

    async def begin(self, count: int = 2) -> None:
        await topics.create_partitioned(self.raw, TOPIC, count)
        for index in range(count):
            part = TOPIC.partition_at(index)
            args = CreateSubscription(part, "s", None, {"k": "v"})
            await self.brokers.create_subscription(args)

    async def count(self) -> int:
        return int((await topics.get_partitions(self.raw, TOPIC))["partitions"])

    async def check(self) -> None:
        """Assert that every partition that clients know of has the subscriptions of the first."""
        for index in range(await self.count()):
            assert self.brokers.has(index) == self.brokers.has(0)

    def lack(self, index: int, error: Refusal | None) -> None:
        part = str(TOPIC.partition_at(index))
        if error is None:
            del self.brokers.refusing[part]
        else:
            self.brokers.refusing[part] = error


@pytest.fixture
async def world() -> World:
    store = MemoryServer().session()
    await bootstrap(
        store, cluster="c", broker_url="pulsar://127.0.0.1:1", web_url="http://127.0.0.1:2"
    )
    return World(store)


async def refused(work: Awaitable[object]) -> tuple[type[Refusal], str]:
    with pytest.raises(Refusal) as error:
        await work
    return type(error.value), error.value.reason


async def test_refusals_are_pulsars(world: World) -> None:
    plain, nope = (TOPIC.namespace.topic(local) for local in ("plain", "nope"))
    await topics.create_missing(world.raw, plain)
    await world.begin()
    store, brokers = world.store, world.brokers
    grow, delete = partitions.grow, partitions.delete
    text = "Desired partitions 1 can't be less than the current partitions 2."
    assert await refused(grow(store, brokers, TOPIC, 1)) == (Unprocessable, text)
    text = f"Topic {plain} is not the partitioned topic."
    assert await refused(grow(store, brokers, plain, 5)) == (Conflict, text)
    assert (await refused(grow(store, brokers, TOPIC, 10_001)))[0] is NotAcceptable
    text = f"Topic {nope} does not exist"
    assert await refused(partitions.create_missed(store, brokers, nope)) == (NotFound, text)
    text = f"{plain} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete."
    assert await refused(delete(store, brokers, plain)) == (Conflict, text)
    assert await refused(delete(store, brokers, nope)) == (NotFound, f"Topic {nope} not found")


async def test_new_partitions_have_the_subscriptions_at_their_earliest_message(
    world: World,
) -> None:
    await world.begin()
    await partitions.grow(world.store, world.brokers, TOPIC, 4)
    assert await world.count() == 4
    for index in (2, 3):
        made = world.brokers.subscriptions[str(TOPIC.partition_at(index))]
        assert made == {"s": (EARLIEST_MESSAGE, {"k": "v"})}


async def test_the_number_is_raised_when_every_new_partition_has_its_subscriptions(
    world: World,
) -> None:
    await world.begin()
    world.lack(3, NotReady("No broker is available"))
    with pytest.raises(Refusal, match=r"No broker is available \(.*pt-partition-3; 1 of 2"):
        await partitions.grow(world.store, world.brokers, TOPIC, 4)
    assert await world.count() == 2
    world.lack(3, None)
    await partitions.grow(world.store, world.brokers, TOPIC, 4)
    assert await world.count() == 4
    await world.check()


async def test_a_subscription_made_while_the_topic_grows_is_on_the_new_partitions(
    world: World,
) -> None:
    await world.begin()
    real, subscribed = world.raw.put, False

    async def put(path: str, value: bytes, version: int = -1) -> int:
        nonlocal subscribed
        if path == RECORD and not subscribed:  # by a client that knows of two partitions
            subscribed = True
            for index in range(2):
                args = CreateSubscription(TOPIC.partition_at(index), "late")
                await world.brokers.create_subscription(args)
        return await real(path, value, version)

    world.raw.put = put  # type: ignore[method-assign]
    await partitions.grow(world.store, world.brokers, TOPIC, 3)
    assert world.brokers.has(2) == ["late", "s"]


@pytest.mark.parametrize("lost_answer", [False, True])
async def test_a_growth_cut_off_at_any_call_of_the_store_can_be_repeated(
    world: World, lost_answer: bool
) -> None:
    for k in range(1, 100):
        await world.begin()
        world.store.fail_at(k, lost_answer=lost_answer)
        with suppress(Refusal, StoreUnavailableError):
            await partitions.grow(world.store, world.brokers, TOPIC, 4)
            assert not world.store.failed
        cut_off = world.store.failed
        world.store.heal()
        await world.check()
        await partitions.grow(world.store, world.brokers, TOPIC, 4)
        assert await world.count() == 4
        await world.check()
        await partitions.delete(world.store, world.brokers, TOPIC)
        if not cut_off:
            return
    raise AssertionError("a growth makes no hundred calls")


async def test_two_growths_at_once_end_in_the_larger_number(world: World) -> None:
    await world.begin()
    outcomes = await asyncio.gather(
        partitions.grow(world.store, world.brokers, TOPIC, 3),
        partitions.grow(world.store, world.brokers, TOPIC, 6),
        return_exceptions=True,
    )
    assert await world.count() == 6
    await world.check()
    assert outcomes[1] is None
    assert outcomes[0] is None or isinstance(outcomes[0], Unprocessable)


async def test_missing_partitions_are_made_with_the_subscriptions_of_those_that_exist(
    world: World,
) -> None:
    await world.begin(3)
    for index in (0, 2):
        await world.brokers.delete_topic(DeleteTopic(TOPIC.partition_at(index)))
    world.lack(2, NotReady("No broker is available"))
    with pytest.raises(Refusal, match="pt-partition-2"):
        await partitions.create_missed(world.store, world.brokers, TOPIC)
    world.lack(2, None)
    await partitions.create_missed(world.store, world.brokers, TOPIC)
    assert [world.brokers.has(index) for index in range(3)] == [["s"]] * 3
    assert await topics.topic_exists(world.raw, TOPIC.partition_at(0))


async def test_partitions_that_a_failed_growth_left_are_deleted_with_the_topic(
    world: World,
) -> None:
    await world.begin()
    world.lack(3, NotReady("No broker is available"))
    with pytest.raises(Refusal):
        await partitions.grow(world.store, world.brokers, TOPIC, 4)
    world.lack(3, None)
    await partitions.delete(world.store, world.brokers, TOPIC)
    assert await topics.list_topics(world.raw, TOPIC.namespace) == ()
    assert await topics.find_partitions(world.raw, TOPIC) is None


async def test_a_partition_in_use_is_named_and_nothing_is_deleted(world: World) -> None:
    await world.begin(3)
    world.brokers.in_use[str(TOPIC.partition_at(1))] = 1
    with pytest.raises(Refusal, match=r"active producers/subscriptions \(.*pt-partition-1;"):
        await partitions.delete(world.store, world.brokers, TOPIC)
    assert world.brokers.deleted == []
    record = await topics.find_partitions(world.raw, TOPIC)
    assert record == {"partitions": 3, "deleted": False}
    await partitions.delete(world.store, world.brokers, TOPIC, force=True)
    assert await topics.find_partitions(world.raw, TOPIC) is None


@pytest.mark.parametrize("lost_answer", [False, True])
async def test_a_deletion_cut_off_at_any_call_of_the_store_can_be_repeated(
    world: World, lost_answer: bool
) -> None:
    for k in range(1, 100):
        await world.begin(3)
        world.store.fail_at(k, lost_answer=lost_answer)
        with suppress(Refusal, StoreUnavailableError):
            await partitions.delete(world.store, world.brokers, TOPIC)
            assert not world.store.failed
        cut_off = world.store.failed
        world.store.heal()
        with suppress(NotFound):
            await partitions.delete(world.store, world.brokers, TOPIC)
        assert await topics.list_topics(world.raw, TOPIC.namespace) == ()
        assert await topics.find_partitions(world.raw, TOPIC) is None
        if not cut_off:
            return
    raise AssertionError("a deletion makes no hundred calls")


async def test_a_deletion_that_fails_on_one_partition_names_it_and_a_repeat_finishes(
    world: World,
) -> None:
    await world.begin(3)
    real = world.brokers.delete_topic

    async def failing(args: DeleteTopic) -> None:
        if args.topic.partition == 1:
            raise NotReady("No broker is available")
        await real(args)

    world.brokers.delete_topic = failing  # type: ignore[method-assign]
    with pytest.raises(Refusal, match=r"pt-partition-1; 2 of 3 partitions succeeded"):
        await partitions.delete(world.store, world.brokers, TOPIC)
    record = await topics.find_partitions(world.raw, TOPIC)
    assert record == {"partitions": 3, "deleted": False}
    assert world.brokers.forgotten == [], (
        "what belongs to the whole topic is deleted after the last partition"
    )
    world.brokers.delete_topic = real  # type: ignore[method-assign]
    await partitions.delete(world.store, world.brokers, TOPIC)
    assert await topics.find_partitions(world.raw, TOPIC) is None
    ((*gone,),) = world.brokers.forgotten
    assert len(gone) == 3


async def test_a_partition_created_between_check_and_deletion_prevents_the_deletion(
    world: World,
) -> None:
    await world.begin()
    seen = {str(TOPIC.partition_at(index)): {} for index in range(2)}
    put = world.raw.put

    async def grown_before(path: str, value: bytes, version: int = -1) -> Stat:
        if path == RECORD:  # the deletion mark; the check before it saw two partitions
            await topics.create_missing(world.raw, TOPIC.partition_at(2))
        return await put(path, value, version)

    with pytest.MonkeyPatch.context() as once, pytest.raises(Conflict, match="Partition 2"):
        once.setattr(world.raw, "put", grown_before)
        await partitions.delete(world.raw, world.brokers, TOPIC, force=True, seen=seen)
    assert world.brokers.deleted == []
    assert await world.count() == 2
    assert not (await topics.get_partitions(world.raw, TOPIC)).get("deleted")


async def test_a_topic_being_deleted_does_not_grow(world: World) -> None:
    await world.begin()
    real = world.brokers.delete_topic
    refusals: list[Refusal] = []

    async def growing(args: DeleteTopic) -> None:
        if not args.dry:
            try:
                await partitions.grow(world.store, world.brokers, TOPIC, 4)
            except Refusal as error:
                refusals.append(error)
        await real(args)

    world.brokers.delete_topic = growing  # type: ignore[method-assign]
    await partitions.delete(world.store, world.brokers, TOPIC)
    assert [type(error) for error in refusals] == [Conflict, Conflict]
    assert await topics.list_topics(world.raw, TOPIC.namespace) == ()
