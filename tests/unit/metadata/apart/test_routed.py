"""Stores that are apart behind one: each path in its store, and losses of one that are no losses of the others."""

import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from engine.base.errors import MisuseError
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.apart.routed import (
    BOOKKEEPER,
    CONFIGURATION,
    OtherStoreUnavailableError,
    connected,
)
from engine.metadata.cached import CachedStore, derived, derived_children, follow, forget, fresh
from engine.metadata.memory import MemoryStore
from engine.metadata.store import SessionState
from tests.support.stores.apart import ApartSession, ApartStores
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

NS = NamespaceName.parse("public/default")
POLICIES = paths.namespace_policies(str(NS))
LOCAL = paths.local_policies(str(NS))
PARTITIONED = paths.partitioned_topic(str(NS), "t")
LEDGER = paths.ledger(7)


class Bench(NamedTuple):
    """A routed store, and sessions of another client by the names of the stores."""

    store: ApartSession
    other: dict[str, MemoryStore]


@pytest.fixture(params=["plain", "cached"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    apart = ApartStores()
    store = apart.session(wrap=CachedStore if request.param == "cached" else lambda store: store)
    other = {name: server.session() for name, server in apart.servers.items()}
    yield Bench(store, other)
    await store.close()
    for session in other.values():
        await session.close()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (paths.CLUSTERS, CONFIGURATION),
        (paths.isolation_policies("c"), CONFIGURATION),
        (paths.tenant("public"), CONFIGURATION),
        (POLICIES, CONFIGURATION),
        (PARTITIONED, CONFIGURATION),
        (paths.resource_group("g"), CONFIGURATION),
        ("/admin/flags/policies-readonly", CONFIGURATION),
        (LOCAL, "local"),
        (paths.CONFIGURATION, "local"),
        (paths.managed_ledger("public/default/persistent/t"), "local"),
        (paths.schema("public/default/t"), "local"),
        (paths.bundle_owner(str(NS), "0x0_0x1"), "local"),
        (paths.broker("b:1"), "local"),
        (paths.BOOKIE_RACKS, "local"),
        ("/", "local"),
        ("/admin", "local"),
        ("/admin/policies-of-another", "local"),
        ("/ledgers-of-another", "local"),
        (paths.LEDGERS, BOOKKEEPER),
        (LEDGER, BOOKKEEPER),
        (paths.available_bookie("b:1"), BOOKKEEPER),
    ],
)
async def test_each_path_lies_in_its_store(bench: Bench, path: str, name: str) -> None:
    present = {"/"}
    if path not in present:
        await bench.store.create(path, b"1", make_parents=True)
        await bench.store.put(path, b"2")
    for of, session in bench.other.items():
        assert (await session.exists(path) is not None) == (of == name or path == "/")
    assert bench.store.at(path) is bench.store.stores[list(bench.other).index(name)]
    if path not in present:
        assert (await bench.store.get(path))[0] == b"2"
        assert path.rpartition("/")[2] in await bench.other[name].children(
            path.rpartition("/")[0] or "/"
        )
        await bench.store.delete(path)
        assert await bench.other[name].exists(path) is None


async def test_nodes_of_several_stores_are_read_in_the_order_of_the_paths(bench: Bench) -> None:
    for path in (POLICIES, LOCAL, LEDGER):
        await bench.store.create(path, path.encode(), make_parents=True)
    asked = [LOCAL, PARTITIONED, LEDGER, POLICIES, LOCAL]
    values, names = await bench.store.get_all(asked, paths.tenant("public"))
    assert [value and value[0].decode() for value in values] == [
        *(LOCAL, None, LEDGER, POLICIES, LOCAL)
    ]
    assert names == ["default"]
    assert await bench.store.get_all([], paths.LOCAL_POLICIES) == ([], ["public"])


async def test_ephemeral_nodes_are_refused_outside_the_local_store(bench: Bench) -> None:
    await bench.store.create("/e", ephemeral=True)
    stat = await bench.store.exists("/e")
    assert stat is not None
    assert (
        stat.ephemeral_owner == bench.store.session_id == bench.store.sessions["local"].session_id
    )
    for path in (POLICIES, paths.available_bookie("b:1")):
        with pytest.raises(MisuseError, match=path):
            await bench.store.create(path, ephemeral=True, make_parents=True)
    # A sequence is only counted: its owner is not compared.
    path = await bench.store.create(
        paths.ID_GENERATOR_PREFIX, ephemeral=True, sequence=True, make_parents=True
    )
    assert await bench.other[BOOKKEEPER].exists(path) is not None


async def test_the_end_of_another_session_is_no_end_of_the_local_one(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    states: list[SessionState] = []
    bench.store.on_state(states.append)
    before = bench.store.session_id, bench.store.connection
    await bench.store.create("/e", ephemeral=True)
    bench.store.cut()
    await until(lambda: bench.store.configuration.state is SessionState.EXPIRED)
    assert (bench.store.state, bench.store.session_proven) == (SessionState.CONNECTED, True)
    assert connected(bench.store) == {"metadata": True, "configuration": False, "bookkeeper": True}
    assert await bench.store.exists("/e") is not None
    text = r"The configuration store \(zk:configuration\) does not answer: "
    for call in (
        bench.store.get(POLICIES),
        bench.store.exists(POLICIES),
        bench.store.children(POLICIES),
        bench.store.get_all([LOCAL, POLICIES]),
        bench.store.create(POLICIES),
        bench.store.put(POLICIES, b""),
        bench.store.delete(POLICIES),
        derived(bench.store, POLICIES, lambda value, path: value),
        derived_children(bench.store, POLICIES, lambda names, path: names),
    ):
        with pytest.raises(OtherStoreUnavailableError, match=text):
            await call
    bench.store.heal()
    await until(lambda: bench.store.configuration.state is SessionState.CONNECTED)
    assert await bench.store.exists(POLICIES) is None
    assert (bench.store.session_id, bench.store.connection) == before
    assert states == []
    lines = [line.getMessage().partition(" url")[0] for line in caplog.records]
    assert [line for line in lines if line.startswith("the configuration store")] == [
        "the configuration store does not answer: what needs it is refused until it is back",
        "the configuration store is back",
    ]


async def test_watchers_are_notified_when_their_store_is_back(bench: Bench) -> None:
    calls: list[str] = []
    bench.store.watch(POLICIES, calls.append)
    bench.store.watch(LOCAL, calls.append)
    bench.store.cut()
    await until(lambda: bench.store.configuration.state is SessionState.SUSPENDED)
    await bench.other[CONFIGURATION].create(POLICIES, b"changed", make_parents=True)
    bench.store.heal()
    await until(lambda: calls)
    assert calls == [POLICIES]
    assert (await bench.store.get(POLICIES))[0] == b"changed"


async def test_a_watch_of_a_read_is_of_the_store_that_has_the_path(bench: Bench) -> None:
    await bench.store.create(LEDGER, b"1", make_parents=True)
    calls: list[str] = []
    await bench.store.get(LEDGER, calls.append)
    await bench.store.exists(POLICIES, calls.append)
    bench.store.unwatch(POLICIES, calls.append)
    await bench.other[BOOKKEEPER].put(LEDGER, b"2")
    await bench.other[CONFIGURATION].create(POLICIES, make_parents=True)
    await bench.store.exists(LOCAL)
    await until(lambda: calls)
    assert calls == [LEDGER]


@pytest.mark.parametrize("bench", ["cached"], indirect=True)
async def test_a_cache_of_a_lost_store_serves_nothing_and_the_others_go_on(bench: Bench) -> None:
    for path in (POLICIES, LOCAL):
        await bench.store.create(path, b"1", make_parents=True)
        await bench.store.get(path)
    changes = follow(bench.store)
    assert changes is not None
    bench.store.cut()
    await until(lambda: bench.store.configuration.state is SessionState.SUSPENDED)
    bench.store.cut("local")  # read from memory
    assert (await bench.store.get(LOCAL))[0] == b"1"
    assert changes.take() == (True, {})
    with pytest.raises(OtherStoreUnavailableError):
        await bench.store.get(POLICIES)


@pytest.mark.parametrize("bench", ["cached"], indirect=True)
async def test_changes_in_each_store_are_followed_and_forgotten(bench: Bench) -> None:
    changes = follow(bench.store)
    assert changes is not None
    for path, name in ((POLICIES, CONFIGURATION), (LOCAL, "local")):
        await bench.store.create(path, b"1", make_parents=True)
        assert await derived(bench.store, path, _decoded) == "1"
        changes.take()
        await bench.other[name].put(path, b"2")
        await until(lambda: changes.take()[1] == {"public/default": None})
        assert await derived(bench.store, path, _decoded) == "2"
    changes.take()
    fresh(bench.store, POLICIES)
    assert changes.take()[1] == {"public/default": None}
    await bench.store.get(LOCAL)
    changes.take()
    forget(bench.store, NS)
    assert "public/default" in changes.take()[1]


def _decoded(value: bytes, path: str) -> str:
    return value.decode()
