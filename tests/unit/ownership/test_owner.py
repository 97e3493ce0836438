"""Ownership: one owner at a time, taken over only after the old one stopped. Time is virtual where it must pass."""

import asyncio
import contextlib

import pytest

from engine.base.errors import Conflict
from engine.base.names import BundleName, NamespaceName, TopicName
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.store import SessionState, StoreUnavailableError
from engine.ownership.owner import BundleOwnership, NoNamespaceError, OwnerRecord
from engine.ownership.registration import BrokerRecord, BrokerRegistration, claim, live_brokers
from engine.tenancy.bundles import Bundles
from engine.tenancy.namespaces import bootstrap

TOPIC = TopicName.parse("public/default/x")
TIMEOUT_S = 0.4
GOLDEN_OWNER = (
    b'{"nativeUrl":"pulsar://127.0.0.1:18250","httpUrl":"http://127.0.0.1:18200","disabled":false,'
    b'"advertisedListeners":{}}'
)


class Broker:
    """An ownership with what it lost and when."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.store = store
        self.lost: list[BundleName] = []
        self.lost_at = asyncio.Event()
        record = OwnerRecord(f"pulsar://{name}:6650", f"http://{name}:8081")
        self.ownership = BundleOwnership(store, record, self._lose)

    def _lose(self, bundles: list[BundleName]) -> None:
        self.lost += bundles
        self.lost_at.set()

    async def take(self) -> bool:
        bundle = (await self.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
        return await self.ownership.acquire(bundle)


async def until_gone(store: MemoryStore, path: str) -> None:
    changed = asyncio.Event()
    stop = store.watch(path, lambda _: changed.set())
    while await store.exists(path) is not None:
        changed.clear()
        await changed.wait()
    stop()


@pytest.fixture
async def server() -> MemoryServer:
    found = MemoryServer()
    store = found.session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    return found


async def path_of(broker: Broker) -> str:
    bundle = (await broker.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    return f"/namespace/{bundle}"


async def test_only_one_of_two_brokers_owns_a_bundle(server: MemoryServer) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    taken = await asyncio.gather(one.take(), two.take())
    assert sorted(taken) == [False, True]
    winner, loser = (one, two) if taken[0] else (two, one)
    assert winner.ownership.serves(TOPIC)
    assert not loser.ownership.serves(TOPIC)
    bundle = winner.ownership.owned()[0]
    assert await loser.ownership.owner(bundle) == await winner.ownership.owner(bundle)


async def test_the_owner_node_is_apaches() -> None:
    assert (
        OwnerRecord("pulsar://127.0.0.1:18250", "http://127.0.0.1:18200").encode() == GOLDEN_OWNER
    )
    assert OwnerRecord.decode(GOLDEN_OWNER).native_url == "pulsar://127.0.0.1:18250"


async def test_a_released_bundle_is_unloaded_before_its_node_goes(server: MemoryServer) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await one.take()
    bundle = one.ownership.owned()[0]

    async def unload(leaving: BundleName) -> None:
        assert not one.ownership.serves(TOPIC)
        assert one.ownership.is_leaving(leaving)
        assert not await two.take()

    await one.ownership.release(bundle, unload)
    assert not one.ownership.owns(bundle)
    assert await two.take()
    assert one.lost == []


async def test_a_cut_off_owner_stops_before_another_can_start(server: MemoryServer) -> None:
    one, two = Broker(server.session(TIMEOUT_S), "one"), Broker(server.session(), "two")
    assert await one.take()
    path = await path_of(two)
    server.partition(one.store.session_id)
    async with asyncio.timeout(120):
        await until_gone(two.store, path)
        assert not one.ownership.serves(TOPIC)
        assert [str(bundle) for bundle in one.lost] == [path.removeprefix("/namespace/")]
        assert await two.take()
    assert two.ownership.serves(TOPIC)


async def test_a_short_break_of_the_connection_costs_no_bundle(server: MemoryServer) -> None:
    one = Broker(server.session(), "one")
    assert await one.take()
    again = asyncio.Event()
    one.store.on_state(lambda state: again.set() if state is SessionState.CONNECTED else None)
    server.break_connection(one.store.session_id)
    async with asyncio.timeout(120):
        await again.wait()
        await one.store.exists("/")
    assert one.ownership.serves(TOPIC)
    assert one.lost == []


async def test_a_removed_node_is_a_lost_bundle(server: MemoryServer) -> None:
    one = Broker(server.session(), "one")
    assert await one.take()
    await server.session().delete(await path_of(one))
    async with asyncio.timeout(120):
        await one.lost_at.wait()
    assert not one.ownership.serves(TOPIC)
    assert await one.take()


async def test_the_next_life_of_a_broker_takes_its_bundles_at_once(server: MemoryServer) -> None:
    first, second = Broker(server.session(), "same"), Broker(server.session(), "same")
    assert await first.take()
    assert await second.ownership.owner(first.ownership.owned()[0]) is None
    assert await second.take()
    async with asyncio.timeout(120):
        await first.lost_at.wait()
    assert not first.ownership.serves(TOPIC)
    assert second.ownership.serves(TOPIC)


async def test_bundles_are_stored_on_first_use_and_follow_the_namespace(
    server: MemoryServer,
) -> None:
    one = Broker(server.session(), "one")
    bundles = await one.ownership.bundles(TOPIC.namespace)
    assert len(bundles) == 4
    value, _ = await one.store.get("/admin/local-policies/public/default")
    assert value.startswith(b'{"bundles":{"boundaries":["0x00000000","0x40000000"')
    with pytest.raises(NoNamespaceError):
        await one.ownership.bundles(NamespaceName.of("public", "nope"))
    legacy = NamespaceName.parse("public/clu/ns")
    assert len(await one.ownership.bundles(legacy)) == 1
    with pytest.raises(NoNamespaceError):
        await one.ownership.bundles(NamespaceName.parse("nobody/clu/ns"))


async def test_a_bundle_being_released_cannot_be_taken(server: MemoryServer) -> None:
    one = Broker(server.session(), "one")
    assert await one.take()
    bundle = one.ownership.owned()[0]
    leaving, go_on = asyncio.Event(), asyncio.Event()

    async def unload(_: BundleName) -> None:
        leaving.set()
        await go_on.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(one.ownership.release(bundle, unload))
        await leaving.wait()
        take = group.create_task(one.ownership.acquire(bundle))
        go_on.set()
    assert await take  # it waited for the release, then took it anew


async def test_a_release_whose_answer_was_lost_leaves_the_bundle_to_its_new_owner(
    server: MemoryServer,
) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await one.take()
    bundle = one.ownership.owned()[0]
    server.on_call = lambda _, operation, path: Fault(lose_reply=operation == "delete")
    with pytest.raises(StoreUnavailableError):
        await one.ownership.release(bundle)
    server.on_call = None
    assert not one.ownership.serves(TOPIC)
    assert await two.take()
    with pytest.raises(StoreUnavailableError, match="being unloaded"):
        await one.ownership.release(bundle)
    async with asyncio.timeout(120):
        while one.ownership.is_leaving(bundle):
            await asyncio.sleep(0.05)
    assert not one.ownership.owns(bundle)
    assert not await one.take()
    assert two.ownership.serves(TOPIC)


async def test_a_bundle_given_up_while_the_store_is_silent_goes_when_it_answers_again(
    server: MemoryServer,
) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await one.take()
    bundle = one.ownership.owned()[0]
    path = await path_of(two)
    mine = one.store.session_id
    server.on_call = lambda session_id, *_: Fault(lose_request=session_id == mine)
    with pytest.raises(StoreUnavailableError):
        await one.ownership.release(bundle)
    assert not one.ownership.serves(TOPIC)
    assert not await two.take()
    server.on_call = None
    async with asyncio.timeout(120):
        await until_gone(two.store, path)
    assert await two.take()


async def test_a_node_removed_while_topics_failed_to_unload_is_a_lost_bundle(
    server: MemoryServer,
) -> None:
    one = Broker(server.session(), "one")
    assert await one.take()
    bundle = one.ownership.owned()[0]

    async def unload(_: BundleName) -> None:
        await server.session().delete(await path_of(one))
        await one.store.exists("/")  # by now the word of it has come
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await one.ownership.release(bundle, unload)
    async with asyncio.timeout(120):
        await one.lost_at.wait()
    assert not one.ownership.serves(TOPIC)


async def test_registration_replaces_its_former_life_and_is_listed(server: MemoryServer) -> None:
    record = BrokerRecord(
        "127.0.0.1:8081",
        "pulsar://127.0.0.1:6650",
        "http://127.0.0.1:8081",
        5,
        "4",
        "pulsar+ssl://127.0.0.1:6651",
        "https://127.0.0.1:8443",
        non_persistent=False,
    )
    before, now = server.session(), server.session()
    await BrokerRegistration(before, record).renew()
    registration = BrokerRegistration(now, record)
    await registration.renew()
    stat = await now.exists("/loadbalance/brokers/127.0.0.1:8081")
    assert stat is not None
    assert stat.ephemeral_owner == now.session_id
    assert await live_brokers(now) == {record.id: record}
    assert (await now.get("/loadbalance/leader"))[0] == (
        b'{"brokerId":"127.0.0.1:8081","serviceUrl":"http://127.0.0.1:8081"}'
    )
    await registration.withdraw()
    assert await live_brokers(now) == {}


async def test_a_claim_respects_other_owners(server: MemoryServer) -> None:
    one, two = server.session(), server.session()
    assert await claim(one, "/x/y", b"one")
    assert await claim(one, "/x/y", b"one")
    assert not await claim(two, "/x/y", b"two")


async def test_nothing_is_taken_without_a_session(server: MemoryServer) -> None:
    one = Broker(server.session(TIMEOUT_S), "one")
    bundle = (await one.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    server.partition(one.store.session_id)
    with pytest.raises(StoreUnavailableError):
        await one.ownership.acquire(bundle)
    assert not one.ownership.serves(TOPIC)


async def test_a_node_of_an_earlier_life_is_told_from_all_others(server: MemoryServer) -> None:
    dead, again, other = (Broker(server.session(), name) for name in ("one", "one", "two"))
    bundle = (await dead.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    assert not await again.ownership.left_behind(bundle)  # nobody has it
    assert await dead.take()
    assert await again.ownership.left_behind(bundle)
    assert not await other.ownership.left_behind(bundle)
    assert await again.take()
    assert not await again.ownership.left_behind(bundle)  # it is held now


async def test_one_that_was_closed_serves_nothing_though_its_session_is_renewed(
    server: MemoryServer,
) -> None:
    """A broker that drains without the store: nobody tells it that its old session ended."""
    broker = Broker(server.session(), "one")
    assert await broker.take()
    assert broker.ownership.serves(TOPIC)
    await broker.ownership.close()
    assert broker.store.session_proven
    assert not broker.ownership.serves(TOPIC)
    assert broker.lost == []


async def split(broker: Broker) -> tuple[BundleName, int]:
    """The bundle of TOPIC, owned, and where it is to be cut."""
    assert await broker.take()
    bundle = broker.ownership.owned()[0]
    return bundle, bundle.lower + (bundle.upper - bundle.lower) // 2


async def boundaries(server: MemoryServer) -> set[str]:
    store = server.session()
    value, _ = await store.get("/admin/local-policies/public/default")
    found = Bundles.decode(TOPIC.namespace, value)
    assert found is not None
    return set(found.ranges)


async def test_a_split_bundles_parts_are_served_without_a_gap(server: MemoryServer) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(one)
    served = []
    server.on_call = lambda *_: served.append(one.ownership.serves(TOPIC))
    parts = await one.ownership.split(bundle, [edge])
    server.on_call = None
    assert all(served)
    assert one.ownership.owned() == parts
    assert one.ownership.serves(TOPIC)
    assert one.lost == []
    assert {part.range for part in parts} < await boundaries(server)
    assert bundle.range not in await boundaries(server)
    assert (await two.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC) in parts
    assert not await two.take()
    assert await two.store.exists(f"/namespace/{bundle}") is None
    for part in parts:
        await one.ownership.release(part)
    assert await two.take()


async def test_a_bundle_is_split_by_its_owner_alone_and_once(server: MemoryServer) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(one)
    with pytest.raises(Conflict, match="not served here"):
        await two.ownership.split(bundle, [edge])
    again = await asyncio.gather(
        one.ownership.split(bundle, [edge]),
        one.ownership.split(bundle, [edge]),
        return_exceptions=True,
    )
    assert [type(found) for found in again] == [list, Conflict]
    assert len(await boundaries(server)) == 5


async def test_two_owners_who_split_at_once_lose_no_boundary(server: MemoryServer) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    first, *others = await one.ownership.bundles(TOPIC.namespace)
    assert await one.ownership.acquire(first)
    assert await two.ownership.acquire(others[-1])
    await asyncio.gather(
        one.ownership.split(first, [first.lower + 5]),
        two.ownership.split(others[-1], [others[-1].lower + 5]),
    )
    assert len(await boundaries(server)) == 6


async def test_who_heard_late_of_a_split_does_not_keep_the_bundle(server: MemoryServer) -> None:
    """Broker two has the old boundaries still when it takes the bundle that is none any more."""
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(one)
    await two.ownership.bundles(TOPIC.namespace)
    await one.ownership.split(bundle, [edge])
    with pytest.raises(StoreUnavailableError, match="is split"):
        await two.ownership.acquire(bundle)
    assert not two.ownership.serves(TOPIC)
    assert await two.store.exists(f"/namespace/{bundle}") is None
    assert not await two.take()
    assert one.ownership.serves(TOPIC)


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_split_that_a_failing_store_cuts_off_is_whole_or_none(
    server: MemoryServer, step: int, lost: str
) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(one)
    mine, left = one.store.session_id, step

    def fail(session_id: int, operation: str, path: str) -> Fault | None:
        nonlocal left
        if session_id != mine:
            return None
        left -= 1
        broken = left == -1
        return Fault(
            lose_request=broken and lost == "request", lose_reply=broken and lost == "reply"
        )

    server.on_call = fail
    with contextlib.suppress(StoreUnavailableError):
        await one.ownership.split(bundle, [edge])
    server.on_call = None
    lower = BundleName(bundle.namespace, bundle.lower, edge)
    upper = BundleName(bundle.namespace, edge, bundle.upper)
    async with asyncio.timeout(60):
        while True:  # what became of it is found out
            cut = bundle.range not in await boundaries(server)
            wanted = [lower, upper] if cut else [bundle]
            try:
                parts = await one.ownership.split(bundle, [edge]) if not cut else wanted
            except StoreUnavailableError:
                parts = []
            if one.ownership.owned() == parts:
                break
            await asyncio.sleep(0.02)
    assert one.lost == []
    assert one.ownership.serves(TOPIC)
    assert one.ownership.owned() == [lower, upper]
    assert not await two.take()
    await one.ownership.release(lower)
    await one.ownership.release(upper)
    assert await two.take()


async def test_a_split_that_did_not_happen_leaves_its_parts_to_others(
    server: MemoryServer,
) -> None:
    one, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(one)
    mine = one.store.session_id
    server.on_call = lambda session_id, operation, _: Fault(
        lose_request=session_id == mine and operation == "put"
    )
    with pytest.raises(StoreUnavailableError):
        await one.ownership.split(bundle, [edge])
    server.on_call = None
    part = f"/namespace/{TOPIC.namespace}/0x{bundle.lower:08x}_0x{edge:08x}"
    async with asyncio.timeout(60):
        await until_gone(two.store, part)
    assert one.ownership.owned() == [bundle]
    await one.ownership.release(bundle)
    assert await two.take()
    assert len(await two.ownership.split(bundle, [edge])) == 2


async def test_a_broker_that_dies_while_it_splits_leaves_whole_boundaries(
    server: MemoryServer,
) -> None:
    for step in range(7):
        one, two = Broker(server.session(TIMEOUT_S), "one"), Broker(server.session(), "two")
        bundle, edge = await split(one)
        mine, left = one.store.session_id, step

        def die(session_id: int, operation: str, path: str, mine: int = mine) -> Fault | None:
            nonlocal left
            if session_id == mine:
                left -= 1
                if left == -1:
                    server.partition(mine)
            return None

        server.on_call = die
        splitting = asyncio.ensure_future(one.ownership.split(bundle, [edge]))
        async with asyncio.timeout(60):
            await asyncio.wait([splitting])
            server.on_call = None
            server.partition(mine)
            while True:
                try:
                    if await two.take():
                        break
                except StoreUnavailableError:
                    pass
                await asyncio.sleep(0.02)
        splitting.exception()
        assert not one.ownership.serves(TOPIC)
        assert two.ownership.serves(TOPIC)
        for owned in two.ownership.owned():
            await two.ownership.release(owned)
        await one.ownership.close()
        await two.ownership.close()
