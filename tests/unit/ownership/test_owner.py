"""Ownership: one owner at a time; the next starts only after the former one stopped. Time is virtual if it passes."""

import asyncio
import contextlib

import pytest

from engine.base.errors import Conflict
from engine.base.names import BundleName, NamespaceName, TopicName
from engine.metadata.memory import Fault, MemoryServer, MemoryStore
from engine.metadata.paths import local_policies, namespace_policies
from engine.metadata.store import SessionState, StoreUnavailableError
from engine.ownership.owner import BundleOwnership, NoNamespaceError, OwnerRecord
from engine.ownership.registration import BrokerRecord, BrokerRegistration, claim, live_brokers
from engine.tenancy.bundles import Bundles
from engine.tenancy.namespaces import bootstrap
from tests.support.stores.apart import ApartStores
from tests.support.waiting import until

TOPIC = TopicName.parse("public/default/x")
TIMEOUT_S = 0.4
GOLDEN_OWNER = (
    b'{"nativeUrl":"pulsar://127.0.0.1:18250","httpUrl":"http://127.0.0.1:18200","disabled":false,'
    b'"advertisedListeners":{}}'
)


class Broker:
    """An ownership with the bundles that it lost, and when."""

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
    metadata = MemoryServer()
    store = metadata.session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    return metadata


async def path_of(broker: Broker) -> str:
    bundle = (await broker.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    return f"/namespace/{bundle}"


async def test_only_one_of_two_brokers_owns_a_bundle(server: MemoryServer) -> None:
    first, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    taken = await asyncio.gather(first.take(), two.take())
    assert sorted(taken) == [False, True]
    winner, loser = (first, two) if taken[0] else (two, first)
    assert winner.ownership.serves(TOPIC)
    assert not loser.ownership.serves(TOPIC)
    bundle = winner.ownership.owned()[0]
    assert await loser.ownership.owner(bundle) == await winner.ownership.owner(bundle)


async def test_the_owner_node_has_apaches_format() -> None:
    assert (
        OwnerRecord("pulsar://127.0.0.1:18250", "http://127.0.0.1:18200").encode() == GOLDEN_OWNER
    )
    assert OwnerRecord.decode(GOLDEN_OWNER).native_url == "pulsar://127.0.0.1:18250"


async def test_a_released_bundle_is_unloaded_before_its_node_is_deleted(
    server: MemoryServer,
) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await owner.take()
    bundle = owner.ownership.owned()[0]

    async def unload(leaving: BundleName) -> None:
        assert not owner.ownership.serves(TOPIC)
        assert owner.ownership.is_leaving(leaving)
        assert not await two.take()

    await owner.ownership.release(bundle, unload)
    assert not owner.ownership.owns(bundle)
    assert await two.take()
    assert owner.lost == []


async def test_a_cut_off_owner_stops_before_another_can_start(server: MemoryServer) -> None:
    owner, two = Broker(server.session(TIMEOUT_S), "one"), Broker(server.session(), "two")
    assert await owner.take()
    path = await path_of(two)
    server.partition(owner.store.session_id)
    async with asyncio.timeout(120):
        await until_gone(two.store, path)
        assert not owner.ownership.serves(TOPIC)
        assert [str(bundle) for bundle in owner.lost] == [path.removeprefix("/namespace/")]
        assert await two.take()
    assert two.ownership.serves(TOPIC)


async def test_a_short_break_of_the_connection_costs_no_bundle(server: MemoryServer) -> None:
    broker = Broker(server.session(), "one")
    assert await broker.take()
    again = asyncio.Event()
    broker.store.on_state(lambda state: again.set() if state is SessionState.CONNECTED else None)
    server.break_connection(broker.store.session_id)
    async with asyncio.timeout(120):
        await again.wait()
        await broker.store.exists("/")
    assert broker.ownership.serves(TOPIC)
    assert broker.lost == []


async def test_a_removed_node_is_a_lost_bundle(server: MemoryServer) -> None:
    broker = Broker(server.session(), "one")
    assert await broker.take()
    await server.session().delete(await path_of(broker))
    async with asyncio.timeout(120):
        await broker.lost_at.wait()
    assert not broker.ownership.serves(TOPIC)
    assert await broker.take()


async def test_a_restarted_broker_acquires_its_bundles_immediately(server: MemoryServer) -> None:
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
    broker = Broker(server.session(), "one")
    bundles = await broker.ownership.bundles(TOPIC.namespace)
    assert len(bundles) == 4
    value, _ = await broker.store.get("/admin/local-policies/public/default")
    assert value.startswith(b'{"bundles":{"boundaries":["0x00000000","0x40000000"')
    with pytest.raises(NoNamespaceError):
        await broker.ownership.bundles(NamespaceName.of("public", "nope"))
    legacy = NamespaceName.parse("public/clu/ns")
    assert len(await broker.ownership.bundles(legacy)) == 1
    with pytest.raises(NoNamespaceError):
        await broker.ownership.bundles(NamespaceName.parse("nobody/clu/ns"))


async def test_a_bundle_being_released_cannot_be_acquired(server: MemoryServer) -> None:
    broker = Broker(server.session(), "one")
    assert await broker.take()
    bundle = broker.ownership.owned()[0]
    leaving, go_on = asyncio.Event(), asyncio.Event()

    async def unload(_: BundleName) -> None:
        leaving.set()
        await go_on.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(broker.ownership.release(bundle, unload))
        await leaving.wait()
        take = group.create_task(broker.ownership.acquire(bundle))
        go_on.set()
    assert await take  # it waited for the release, then acquired the bundle again


async def test_a_release_whose_answer_was_lost_leaves_the_bundle_to_its_new_owner(
    server: MemoryServer,
) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await owner.take()
    bundle = owner.ownership.owned()[0]
    server.on_call = lambda _, operation, path: Fault(lose_reply=operation == "delete")
    with pytest.raises(StoreUnavailableError):
        await owner.ownership.release(bundle)
    server.on_call = None
    assert not owner.ownership.serves(TOPIC)
    assert await two.take()
    with pytest.raises(StoreUnavailableError, match="being unloaded"):
        await owner.ownership.release(bundle)
    async with asyncio.timeout(120):
        while owner.ownership.is_leaving(bundle):
            await asyncio.sleep(0.05)
    assert not owner.ownership.owns(bundle)
    assert not await owner.take()
    assert two.ownership.serves(TOPIC)


async def test_a_bundle_released_while_the_store_is_unavailable_is_removed_later(
    server: MemoryServer,
) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    assert await owner.take()
    bundle = owner.ownership.owned()[0]
    path = await path_of(two)
    mine = owner.store.session_id
    server.on_call = lambda session_id, *_: Fault(lose_request=session_id == mine)
    with pytest.raises(StoreUnavailableError):
        await owner.ownership.release(bundle)
    assert not owner.ownership.serves(TOPIC)
    assert not await two.take()
    server.on_call = None
    async with asyncio.timeout(120):
        await until_gone(two.store, path)
    assert await two.take()


async def test_a_node_removed_while_topics_failed_to_unload_is_a_lost_bundle(
    server: MemoryServer,
) -> None:
    broker = Broker(server.session(), "one")
    assert await broker.take()
    bundle = broker.ownership.owned()[0]

    async def unload(_: BundleName) -> None:
        await server.session().delete(await path_of(broker))
        await broker.store.exists("/")  # the event of the removal has arrived by now
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        await broker.ownership.release(bundle, unload)
    async with asyncio.timeout(120):
        await broker.lost_at.wait()
    assert not broker.ownership.serves(TOPIC)


async def test_a_registration_replaces_that_of_the_former_process_and_is_listed(
    server: MemoryServer,
) -> None:
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
    first, two = server.session(), server.session()
    assert await claim(first, "/x/y", b"one")
    assert await claim(first, "/x/y", b"one")
    assert not await claim(two, "/x/y", b"two")


async def test_no_bundle_is_acquired_without_a_session(server: MemoryServer) -> None:
    broker = Broker(server.session(TIMEOUT_S), "one")
    bundle = (await broker.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    server.partition(broker.store.session_id)
    with pytest.raises(StoreUnavailableError):
        await broker.ownership.acquire(bundle)
    assert not broker.ownership.serves(TOPIC)


async def test_a_node_of_a_former_process_is_distinguished_from_all_others(
    server: MemoryServer,
) -> None:
    dead, again, other = (Broker(server.session(), name) for name in ("one", "one", "two"))
    bundle = (await dead.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    assert not await again.ownership.left_behind(bundle)  # it has no owner
    assert await dead.take()
    assert await again.ownership.left_behind(bundle)
    assert not await other.ownership.left_behind(bundle)
    assert await again.take()
    assert not await again.ownership.left_behind(bundle)  # it is held now


async def test_a_closed_ownership_serves_nothing_after_its_session_is_renewed(
    server: MemoryServer,
) -> None:
    """Refuse to serve while draining without the store: the end of the old session is not reported to the broker."""
    broker = Broker(server.session(), "one")
    assert await broker.take()
    assert broker.ownership.serves(TOPIC)
    await broker.ownership.close()
    assert broker.store.session_proven
    assert not broker.ownership.serves(TOPIC)
    assert broker.lost == []


async def split(broker: Broker) -> tuple[BundleName, int]:
    """Acquire the bundle of TOPIC; return it and the hash at which it is to be split."""
    assert await broker.take()
    bundle = broker.ownership.owned()[0]
    return bundle, bundle.lower + (bundle.upper - bundle.lower) // 2


async def boundaries(server: MemoryServer) -> set[str]:
    store = server.session()
    value, _ = await store.get("/admin/local-policies/public/default")
    bundles = Bundles.decode(TOPIC.namespace, value)
    assert bundles is not None
    return set(bundles.ranges)


async def test_a_split_bundles_parts_are_served_without_a_gap(server: MemoryServer) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(owner)
    served = []
    server.on_call = lambda *_: served.append(owner.ownership.serves(TOPIC))
    parts = await owner.ownership.split(bundle, [edge])
    server.on_call = None
    assert all(served)
    assert owner.ownership.owned() == parts
    assert owner.ownership.serves(TOPIC)
    assert owner.lost == []
    assert {part.range for part in parts} < await boundaries(server)
    assert bundle.range not in await boundaries(server)
    assert (await two.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC) in parts
    assert not await two.take()
    assert await two.store.exists(f"/namespace/{bundle}") is None
    for part in parts:
        await owner.ownership.release(part)
    assert await two.take()


async def test_a_bundle_is_split_by_its_owner_alone_and_once(server: MemoryServer) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(owner)
    with pytest.raises(Conflict, match="not served here"):
        await two.ownership.split(bundle, [edge])
    again = await asyncio.gather(
        owner.ownership.split(bundle, [edge]),
        owner.ownership.split(bundle, [edge]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in again] == [list, Conflict]
    assert len(await boundaries(server)) == 5


async def test_two_concurrent_splits_lose_no_boundary(server: MemoryServer) -> None:
    left, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    first, *others = await left.ownership.bundles(TOPIC.namespace)
    assert await left.ownership.acquire(first)
    assert await two.ownership.acquire(others[-1])
    await asyncio.gather(
        left.ownership.split(first, [first.lower + 5]),
        two.ownership.split(others[-1], [others[-1].lower + 5]),
    )
    assert len(await boundaries(server)) == 6


async def test_a_broker_that_learns_late_of_a_split_gives_up_the_bundle(
    server: MemoryServer,
) -> None:
    """Give up a bundle that no longer exists, acquired by broker two with the old boundaries."""
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(owner)
    await two.ownership.bundles(TOPIC.namespace)
    await owner.ownership.split(bundle, [edge])
    with pytest.raises(StoreUnavailableError, match="is split"):
        await two.ownership.acquire(bundle)
    assert not two.ownership.serves(TOPIC)
    assert await two.store.exists(f"/namespace/{bundle}") is None
    assert not await two.take()
    assert owner.ownership.serves(TOPIC)


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_split_interrupted_by_a_store_failure_is_complete_or_undone(
    server: MemoryServer, step: int, lost: str
) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(owner)
    mine, left = owner.store.session_id, step

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
        await owner.ownership.split(bundle, [edge])
    server.on_call = None
    lower = BundleName(bundle.namespace, bundle.lower, edge)
    upper = BundleName(bundle.namespace, edge, bundle.upper)
    async with asyncio.timeout(60):
        while True:  # until the outcome is known
            cut = bundle.range not in await boundaries(server)
            wanted = [lower, upper] if cut else [bundle]
            try:
                parts = await owner.ownership.split(bundle, [edge]) if not cut else wanted
            except StoreUnavailableError:
                parts = []
            if owner.ownership.owned() == parts:
                break
            await asyncio.sleep(0.02)
    assert owner.lost == []
    assert owner.ownership.serves(TOPIC)
    assert owner.ownership.owned() == [lower, upper]
    assert not await two.take()
    await owner.ownership.release(lower)
    await owner.ownership.release(upper)
    assert await two.take()


async def test_a_failed_split_leaves_its_parts_to_other_brokers(
    server: MemoryServer,
) -> None:
    owner, two = Broker(server.session(), "one"), Broker(server.session(), "two")
    bundle, edge = await split(owner)
    mine = owner.store.session_id
    server.on_call = lambda session_id, operation, _: Fault(
        lose_request=session_id == mine and operation == "put"
    )
    with pytest.raises(StoreUnavailableError):
        await owner.ownership.split(bundle, [edge])
    server.on_call = None
    part = f"/namespace/{TOPIC.namespace}/0x{bundle.lower:08x}_0x{edge:08x}"
    async with asyncio.timeout(60):
        await until_gone(two.store, part)
    assert owner.ownership.owned() == [bundle]
    await owner.ownership.release(bundle)
    assert await two.take()
    assert len(await two.ownership.split(bundle, [edge])) == 2


async def test_a_broker_that_fails_during_a_split_leaves_complete_boundaries(
    server: MemoryServer,
) -> None:
    for step in range(7):
        owner, two = Broker(server.session(TIMEOUT_S), "one"), Broker(server.session(), "two")
        bundle, edge = await split(owner)
        mine, left = owner.store.session_id, step

        def die(session_id: int, operation: str, path: str, mine: int = mine) -> Fault | None:
            nonlocal left
            if session_id == mine:
                left -= 1
                if left == -1:
                    server.partition(mine)
            return None

        server.on_call = die
        splitting = asyncio.ensure_future(owner.ownership.split(bundle, [edge]))
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
        assert not owner.ownership.serves(TOPIC)
        assert two.ownership.serves(TOPIC)
        for owned in two.ownership.owned():
            await two.ownership.release(owned)
        await owner.ownership.close()
        await two.ownership.close()


@pytest.mark.virtual_time
async def test_bundles_are_held_while_the_configuration_store_is_away() -> None:
    apart = ApartStores()
    store = apart.session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    owner = Broker(store, "one")
    assert await owner.take()
    store.cut()
    await until(lambda: store.configuration.state is SessionState.EXPIRED)
    assert owner.ownership.serves(TOPIC)
    assert (await owner.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    assert owner.lost == []
    store.heal()
    await until(lambda: store.configuration.state is SessionState.CONNECTED)
    assert owner.ownership.serves(TOPIC)
    assert owner.lost == []


@pytest.mark.virtual_time
async def test_bundles_of_a_namespace_that_was_deleted_meanwhile_are_lost_once_that_is_known() -> (
    None
):
    apart = ApartStores()
    store, other = apart.session(), apart.session()
    await bootstrap(store, cluster="standalone", broker_url="b", web_url="w")
    owner = Broker(store, "one")
    assert await owner.take()
    store.cut()
    await other.delete(namespace_policies("public/default"))
    await other.delete(local_policies("public/default"))
    await until(lambda: store.configuration.state is SessionState.EXPIRED)
    assert owner.ownership.serves(TOPIC), "unknown is not deleted"
    store.heal()
    await until(lambda: owner.lost)
    assert not owner.ownership.serves(TOPIC)
