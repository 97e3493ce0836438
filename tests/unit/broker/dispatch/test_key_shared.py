"""Key_Shared: each key at one consumer and in order (D10); a key that cannot go on holds up no other."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.administration import key_shared
from engine.broker.dispatch.choose.keys import KeyPolicy, slot_of
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.dispatch.core import SharingDispatcher
from engine.broker.dispatch.facts import facts_of
from engine.broker.dispatch.sharing import parked as parked_module
from engine.broker.errors import ConsumerAssignError, ConsumerBusy
from engine.broker.settings import DataPathSettings
from engine.managed.cursors.cursor import Cursor
from engine.wire.kernels import metadata_span
from tests.support.broker_bench import Client
from tests.support.raw_client import entry_of
from tests.support.shelf import EXACT, Reading, simulated

pytestmark = pytest.mark.virtual_time

KEYS = [f"key-{i}" for i in range(40)]
ORDERED = KeyPolicy()
UNORDERED = KeyPolicy(out_of_order=True)
STICKY = KeyPolicy(True, False, ((0, 9),))


class World:
    """A subscription, its consumers and the messages that they received."""

    def __init__(self, **settings: int) -> None:
        self.reading = Reading(DataPathSettings(**settings))
        self.subscription = self.reading.subscription
        self.key_of: dict[Position, str] = {}

    async def join(
        self, permits: int = 1000, policy: KeyPolicy = ORDERED
    ) -> tuple[Consumer, Client]:
        client = Client()
        return await self.reading.join(client, permits, keys=policy), client

    def publish(self, keys: Sequence[str] = KEYS, times: int = 1) -> None:
        keys = [*keys] * times
        self.key_of |= zip(self.reading.append(len(keys), keys=keys), keys, strict=True)
        self.subscription.dispatch.wake()

    def keys(self, client: Client) -> set[str]:
        return {self.key_of[p] for p in client.received}

    def of(self, client: Client, key: str) -> list[Position]:
        return [p for p in client.received if self.key_of[p] == key]

    def acknowledge(self, consumer: Consumer, client: Client, key: str | None = None) -> None:
        done = [p for p in client.received if key in (None, self.key_of[p])]
        self.subscription.acknowledge(consumer, done)


@simulated
async def test_a_key_goes_to_one_consumer_and_in_order() -> None:
    world = World()
    joined = [await world.join() for _ in range(4)]
    world.publish(times=5)
    owned = [world.keys(client) for _, client in joined]
    assert sum(map(len, owned)) == len(KEYS)
    assert all(owned)
    for _, client in joined:
        for key in world.keys(client):
            assert world.of(client, key) == sorted(world.of(client, key))
            assert len(world.of(client, key)) == 5


@simulated
async def test_a_key_that_moves_waits_until_its_old_consumer_acknowledged_its_messages() -> None:
    world = World()
    old, first = await world.join()
    world.publish()
    _, second = await world.join()
    world.publish()
    moved = set(KEYS) - world.keys(first) | {k for k in KEYS if len(world.of(first, k)) == 1}
    assert moved
    assert not second.received
    key, *others = sorted(moved)
    world.acknowledge(old, first, key)
    await asyncio.sleep(1)
    assert world.keys(second) == {key}
    world.subscription.detach(old)
    await asyncio.sleep(1)
    assert world.keys(second) == set(KEYS)
    for moved_key in KEYS:
        assert world.of(second, moved_key) == sorted(world.of(second, moved_key))
    assert len(others) > 1


@simulated
async def test_out_of_order_delivery_moves_a_key_at_once() -> None:
    world, policy = World(), KeyPolicy(out_of_order=True)
    await world.join(policy=policy)
    world.publish()
    _, second = await world.join(policy=policy)
    world.publish()
    assert second.received


@simulated
async def test_a_consumer_without_permits_delays_its_own_keys_only() -> None:
    world = World()
    slow, first = await world.join(permits=1)
    _, second = await world.join()
    world.publish(times=3)
    mine = world.keys(second)
    assert len(first.received) == 1
    assert len(second.received) == 3 * len(mine)
    assert world.subscription.dispatch.state.paused_for == "key"
    world.subscription.flow(slow, 1000)
    assert world.keys(first) == set(KEYS) - mine
    for key in world.keys(first):
        assert world.of(first, key) == sorted(world.of(first, key))


@simulated
async def test_read_ahead_for_a_waiting_consumer_is_bounded() -> None:
    world = World(key_shared_look_ahead_msg_in_replay_threshold_per_consumer=10)
    slow, first = await world.join(permits=1)
    _, second = await world.join()
    for _ in range(20):
        world.publish()
    state, got = world.subscription.dispatch.state, len(second.received)
    assert got < 20 * len(world.keys(second))
    assert state.paused_for == "key"
    world.subscription.flow(slow, 100_000)
    await asyncio.sleep(1)
    assert len(first.received) + len(second.received) == 20 * len(KEYS)


@pytest.mark.parametrize(("bound", "value"), [("PARKED_MAX", 5), ("PARKED_BYTES_MAX", 300)])
@simulated
async def test_parked_entries_beyond_the_memory_bound_are_read_again_once(
    bound: str, value: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parked_module, bound, value)
        world = World()
        reads = _count_replays(world, patch)
        slow, first = await world.join(permits=1)
        await world.join()
        world.publish(times=3)
        for _ in range(50):
            world.subscription.dispatch.wake()
            await asyncio.sleep(0.01)
        assert not reads
        world.subscription.flow(slow, 1000)
        await asyncio.sleep(1)
    assert len(reads) == len(set(reads))
    for key in world.keys(first):
        assert world.of(first, key) == sorted(world.of(first, key))
        assert len(world.of(first, key)) == 3


@simulated
async def test_parked_entries_keep_no_much_larger_buffer_alive() -> None:
    world = World()
    await world.join(permits=1)
    await world.join(permits=1_000_000)
    for _ in range(3):
        world.publish(times=20)
    dispatcher = world.subscription.dispatch.dispatcher
    assert isinstance(dispatcher, SharingDispatcher)
    views = [view for _, view in dispatcher._parked]
    held = {id(view.run.buf): view.run.held for view in views}
    assert sum(held.values()) <= parked_module.WASTE_MAX * sum(view.size for view in views)


def _count_replays(world: World, patch: pytest.MonkeyPatch) -> list[Position]:
    reads: list[Position] = []
    real = Cursor.replay

    async def replay(cursor: Cursor, positions: Sequence[Position], bytes_max: int) -> Any:
        reads.extend(positions)
        return await real(cursor, positions, bytes_max)

    patch.setattr(Cursor, "replay", replay)
    return reads


@simulated
async def test_redelivered_messages_precede_new_ones_of_their_key() -> None:
    world = World()
    consumer, client = await world.join()
    world.publish(["a", "b"])
    first = world.of(client, "a")
    client.received.clear()
    world.subscription.redeliver(consumer, first, None)
    world.publish(["a", "b"])
    await asyncio.sleep(1)
    assert world.of(client, "a") == [first[0], world.reading.shelf.places[2]]


@simulated
async def test_unsent_entries_follow_redelivered_ones() -> None:
    world = World()
    for _ in range(2):
        world.reading.append(1, 5, keys=["a"])
    consumer, client = await world.join(permits=2)
    first, second = world.reading.shelf.places
    assert client.received == [first]
    world.subscription.redeliver(consumer, [first], None)
    world.subscription.flow(consumer, 1000)
    world.subscription.dispatch.wake()
    await asyncio.sleep(1)
    assert client.received == [first, first, second]


@simulated
async def test_a_batch_is_routed_by_its_first_key() -> None:
    world = World()
    _, client = await world.join()
    world.reading.append(2, 5, keys=["a", "b"])
    world.subscription.dispatch.wake()
    assert len(client.received) == 2


@simulated
async def test_sticky_ranges_are_those_that_consumers_name() -> None:
    world = World()
    low = KeyPolicy(True, False, ((0, 32767),))
    _, first = await world.join(policy=low)
    world.publish()
    assert world.keys(first) == {k for k in KEYS if slot_of(k.encode()) <= 32767}
    for ranges in [((32767, 40000),), ((0, 1),), ((1, 65535),)]:
        with pytest.raises(ConsumerAssignError, match="Range conflict with consumer c1"):
            await world.join(policy=KeyPolicy(True, False, ranges))
    _, second = await world.join(policy=KeyPolicy(True, False, ((32768, 65535),)))
    await asyncio.sleep(1)
    assert world.keys(first) | world.keys(second) == set(KEYS)
    assert not world.keys(first) & world.keys(second)


@pytest.mark.parametrize(
    ("present", "other", "why"),
    [
        (ORDERED, STICKY, "key_shared mode of 'AUTO_SPLIT' is different .* mode 'STICKY'."),
        (STICKY, ORDERED, "key_shared mode of 'STICKY' is different .* mode 'AUTO_SPLIT'."),
        (ORDERED, UNORDERED, "does not allow out of order delivery while .* consumer allows it."),
        (UNORDERED, ORDERED, "allows out of order delivery while .* consumer does not allow it."),
    ],
)
def test_consumers_with_different_key_policies_are_refused(
    present: KeyPolicy, other: KeyPolicy, why: str
) -> None:
    @simulated
    async def run() -> None:
        world = World()
        consumer, _ = await world.join(policy=present)
        with pytest.raises(ConsumerBusy, match=f"of different type. Active subscription {why}"):
            await world.join(policy=other)
        world.subscription.detach(consumer)
        await world.join(policy=other)
        assert world.subscription.dispatch.keys == other

    run()


@simulated
async def test_without_the_ring_a_new_consumer_takes_half_of_the_widest_range() -> None:
    world = World(subscription_key_shared_use_consistent_hashing=False)
    first, _ = await world.join()
    second, _ = await world.join()
    stats = world.subscription.dispatch.key_stats
    assert [stats[consumer].ranges for consumer in (first, second)] == [
        [(32769, 65536)],
        [(0, 32768)],
    ]
    world.publish()
    world.subscription.detach(second)
    assert world.subscription.dispatch.key_stats[first].ranges == [(0, 65536)]


@simulated
async def test_statistics_show_ranges_and_draining_hashes() -> None:
    world = World()
    old, _ = await world.join()
    world.publish()
    stats = world.subscription.dispatch.key_stats
    assert key_shared.of_consumer(ORDERED, stats[old])["keyHashRangeArrays"] == [[1, 65535]]
    new, _ = await world.join()
    world.publish()
    stats = world.subscription.dispatch.key_stats
    assert {key_shared.of_subscription(ORDERED)["keySharedMode"]} == {"AUTO_SPLIT"}
    draining = key_shared.of_consumer(ORDERED, stats[old])
    assert draining["drainingHashesCount"] == len(draining["drainingHashes"]) > 0
    assert draining["drainingHashesUnackedMessages"] == draining["drainingHashesCount"]
    assert all(drained["blockedAttempts"] == 1 for drained in draining["drainingHashes"])
    world.subscription.acknowledge(old, world.reading.shelf.places)
    left = key_shared.draining(world.subscription.dispatch.key_stats.values())
    assert left["drainingHashesClearedTotal"] == draining["drainingHashesCount"]
    assert left["drainingHashesCount"] == 0
    assert (
        key_shared.of_consumer(ORDERED, world.subscription.dispatch.key_stats[new])[
            "drainingHashes"
        ]
        == []
    )


@simulated
async def test_a_full_socket_delays_its_own_keys_only() -> None:
    world = World()
    joined = [await world.join() for _ in range(8)]
    _, client = joined[0]
    client.can_send = False
    world.publish(times=20)
    others = {key for _, other in joined[1:] for key in world.keys(other)}
    assert not client.received
    assert sum(len(other.received) for _, other in joined[1:]) == 20 * len(others)
    client.can_send = True
    world.subscription.dispatch.wake()
    await asyncio.sleep(1)
    assert world.keys(client) == set(KEYS) - others
    for key in world.keys(client):
        assert world.of(client, key) == sorted(world.of(client, key))


@simulated
async def test_a_key_that_moves_back_before_it_drained_continues_at_once_in_order() -> None:
    world = World()
    _, first = await world.join()
    world.publish()
    new, second = await world.join()
    world.publish()
    assert not second.received
    world.subscription.detach(new)
    await asyncio.sleep(1)
    for key in KEYS:
        assert len(world.of(first, key)) == 2
        assert world.of(first, key) == sorted(world.of(first, key))
    again, third = await world.join()
    world.publish()
    await asyncio.sleep(1)
    assert not third.received  # keys with entries at the first consumer are drained first
    world.subscription.detach(again)
    await asyncio.sleep(1)
    assert len(first.received) == 3 * len(KEYS)
    assert not [stats for stats in world.subscription.dispatch.key_stats.values() if stats.draining]


@simulated
async def test_reconnects_cost_a_shared_subscription_no_permits() -> None:
    reading = Reading(
        DataPathSettings(),
        policies=replace(EXACT, dispatch=replace(EXACT.dispatch, unacked_per_subscription=50)),
    )
    subscription = reading.subscription
    for _ in range(1000):
        client = Client()
        consumer = await reading.join(client, 10)
        reading.append(1)
        subscription.dispatch.wake()
        await asyncio.sleep(0.001)
        subscription.acknowledge(consumer, client.received[:1])
        subscription.detach(consumer)
        assert subscription.unacked == 0
    consumer, client = await reading.join(last := Client(), 100), last
    reading.append(40)
    subscription.dispatch.wake()
    await asyncio.sleep(1)
    assert len(client.received) == 40
    assert consumer.permits == 60


async def pass_all(world: World, way: str) -> None:
    """Pass all entries without acknowledgements, as an administrator or a policy does."""
    if way == "skip":
        await world.subscription.moves.skip(len(world.key_of))
    elif way == "clear":
        await world.subscription.moves.clear()
    else:
        world.subscription.moves.expire_to(world.reading.shelf.places[-1])


@pytest.mark.parametrize("joins_first", [True, False])
@pytest.mark.parametrize("way", ["skip", "clear", "expire"])
@pytest.mark.parametrize("end", ["acknowledges", "leaves", "gives all back", "gives each back"])
@simulated
async def test_a_key_stays_with_a_consumer_that_holds_skipped_messages_of_it(
    joins_first: bool, way: str, end: str
) -> None:
    world = World()
    old, first = await world.join()
    world.publish(times=3)
    if joins_first:
        _, second = await world.join()
    await pass_all(world, way)
    if not joins_first:
        _, second = await world.join()
    worked_on = list(first.received)
    world.publish()
    await asyncio.sleep(1)
    assert not second.received
    kept = {world.key_of[p] for p in first.received[len(worked_on) :]}
    if end == "acknowledges":
        world.subscription.acknowledge(old, worked_on)
    elif end == "leaves":
        world.subscription.detach(old)
    else:
        world.subscription.redeliver(old, None if end == "gives all back" else worked_on, None)
    await asyncio.sleep(1)
    assert world.keys(second) >= set(KEYS) - kept
    assert world.subscription.unacked == len(KEYS)


@simulated
async def test_skipped_messages_do_not_count_as_unacknowledged() -> None:
    world = World()
    old, first = await world.join()
    world.publish(times=3)
    await world.subscription.moves.clear()
    assert (world.subscription.unacked, old.unacked) == (0, 0)
    world.subscription.acknowledge(old, first.received)
    assert (world.subscription.unacked, old.unacked) == (0, 0)


@simulated
async def test_a_moved_key_is_released_when_its_last_chunk_is_acknowledged() -> None:
    world = World()
    old, first = await world.join()
    pieces = [
        entry_of(b"x", uuid="m", num_chunks_from_msg=2, chunk_id=i, partition_key="k")
        for i in range(2)
    ]
    world.reading.shelf.append(pieces[:1], [1])
    world.subscription.dispatch.wake()
    others = [await world.join() for _ in range(8)]
    world.reading.shelf.append(pieces[1:], [1])
    world.publish(["k"])
    assert first.received == world.reading.shelf.places[:2]
    world.subscription.acknowledge(old, first.received[:1])
    await asyncio.sleep(1)
    assert not any(client.received for _, client in others)
    world.subscription.acknowledge(old, first.received[1:])
    await asyncio.sleep(1)
    assert sum(len(client.received) for _, client in others) == 1


@simulated
async def test_chunks_follow_their_first_one_when_their_key_moves() -> None:
    world = World()
    _, first = await world.join()
    pieces = [
        entry_of(b"x", uuid="m", num_chunks_from_msg=3, chunk_id=i, partition_key="k")
        for i in range(3)
    ]
    world.reading.shelf.append(pieces[:1], [1])
    world.subscription.dispatch.wake()
    others = [await world.join() for _ in range(8)]
    world.reading.shelf.append(pieces[1:], [1, 1])
    world.subscription.dispatch.wake()
    await asyncio.sleep(1)
    assert first.received == world.reading.shelf.places
    assert not any(client.received for _, client in others)


def slots(*entries: bytes) -> list[int]:
    spans: list[int] = []
    for entry in entries:
        at = spans[-1] if spans else 0
        spans += at, at + len(entry)
    run = Slice(b"".join(entries), spans, spans[-1])
    return facts_of(run).slots(run, slot_of)


def test_the_ordering_key_precedes_the_key_and_messages_without_one_are_spread() -> None:
    assert slots(
        entry_of(b"", partition_key="a"),
        entry_of(b"", partition_key="b", ordering_key=b"a"),
        entry_of(b"", partition_key="YQ==", partition_key_b64_encoded=True),
        entry_of(b""),
    ) == [slot_of(b"a"), slot_of(b"a"), slot_of(b"a"), slot_of(b"raw-0")]


def test_entries_without_readable_metadata_have_the_slot_of_an_empty_key() -> None:
    broken = bytearray(entry_of(b"", partition_key="a"))
    start, stop = metadata_span(bytes(broken), 0, len(broken)) or (0, 0)
    broken[start:stop] = b"\xff" * (stop - start)
    wrong = entry_of(b"", partition_key="a", partition_key_b64_encoded=True)
    assert slots(bytes(broken), b"x", wrong) == [slot_of(b""), slot_of(b""), slot_of(b"a")]


def test_the_type_has_its_name() -> None:
    assert SubscriptionType.KEY_SHARED.title == "Key_Shared"
    assert not SubscriptionType.KEY_SHARED.ordered
