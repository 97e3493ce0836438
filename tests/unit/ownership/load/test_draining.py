"""Marks of drained brokers: refused for the last broker, kept over restarts, and no obstacle to placement."""

import asyncio

import pytest

from engine.base.errors import Conflict
from engine.base.names import BundleName, NamespaceName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.ownership.load.bundle_changes import (
    CHANGES_MAX,
    OPERATOR,
    BundleChange,
    last_changes,
    record_changes,
)
from engine.ownership.load.draining import DrainMark, drain_marks, end_draining, mark_draining
from engine.ownership.load.policies import PlacementPolicies
from engine.ownership.load.stored import placement_policies
from engine.tenancy.resources.isolation import decode_isolation

BUNDLE = BundleName(NamespaceName("t", "n"), 0, 1 << 31)
MARK = DrainMark(1_000, "anna")


async def test_a_mark_is_kept_until_it_is_removed_and_read_by_all() -> None:
    server = MemoryServer()
    operator = server.session()
    assert await drain_marks(operator) == {}
    assert await mark_draining(operator, "a:1", MARK, ["a:1", "b:1"]) == MARK
    await operator.close()
    other = server.session()
    assert await drain_marks(other) == {"a:1": MARK}
    assert (await placement_policies(other, "c", [])).draining == {"a:1": MARK}
    again = await mark_draining(other, "a:1", DrainMark(2_000, "bert"), ["a:1", "b:1"])
    assert again == MARK
    assert await end_draining(other, "a:1", 999) is None
    assert await end_draining(other, "a:1", 1_000) == MARK
    assert await end_draining(other, "a:1") is None
    assert await drain_marks(other) == {}


async def test_the_last_broker_cannot_be_drained() -> None:
    store = MemoryServer().session()
    with pytest.raises(Conflict, match="a:1 cannot be drained: it is the only broker"):
        await mark_draining(store, "a:1", MARK, ["a:1"])
    # The mark of a broker that is not registered gives no other one a place.
    await mark_draining(store, "z:1", MARK, ["a:1", "z:1"])
    with pytest.raises(Conflict, match="a:1 cannot be drained"):
        await mark_draining(store, "a:1", MARK, ["a:1"])
    both = [mark_draining(store, name, MARK, ["a:1", "b:1"]) for name in ("a:1", "b:1")]
    results = await asyncio.gather(*both, return_exceptions=True)
    refusals = [str(result) for result in results if isinstance(result, Conflict)]
    assert len(refusals) == 1
    assert "all others are drained" in refusals[0]


async def test_an_unreadable_record_drains_nothing_and_is_replaced() -> None:
    store = MemoryServer().session()
    for value in (b"no JSON", b'{"brokers": {"a:1": {}}}', b'{"brokers": 3}'):
        if await store.exists(paths.LOADBALANCE_DRAINING) is None:
            await store.create(paths.LOADBALANCE_DRAINING, value, make_parents=True)
        else:
            await store.put(paths.LOADBALANCE_DRAINING, value)
        assert await drain_marks(store) == {}
    await mark_draining(store, "a:1", MARK, ["a:1", "b:1"])
    assert await drain_marks(store) == {"a:1": MARK}


def test_a_drained_broker_counts_as_absent_while_another_may_serve_a_bundle() -> None:
    brokers = ["a:1", "b:1", "c:1"]
    assert PlacementPolicies(draining=["a:1"]).places(BUNDLE, brokers) == ["b:1", "c:1"]
    assert PlacementPolicies(draining=brokers).places(BUNDLE, brokers) == brokers
    isolation = decode_isolation(
        b'{"p": {"namespaces": ["t/n"], "primary": ["a:1"], "secondary": ["b:1"],'
        b' "auto_failover_policy": {"parameters": {"min_limit": "1"}}}}',
        "p",
    )
    policies = PlacementPolicies(isolation, draining=["a:1"])
    assert policies.places(BUNDLE, brokers) == ["b:1"]  # as if the primary had ended
    policies = PlacementPolicies(isolation, draining=["a:1", "b:1"])
    assert policies.places(BUNDLE, brokers) == ["a:1"]
    assert policies.places(BUNDLE, ["c:1"]) == []


async def test_changes_of_bundles_are_kept_up_to_a_limit() -> None:
    store = MemoryServer().session()
    assert await last_changes(store) == []
    change = BundleChange(OPERATOR, str(BUNDLE), "a:1", "b:1", "by anna", "moved", 1)
    await record_changes(store, [change])
    await record_changes(store, [change._replace(at_ms=2)])
    assert [kept.at_ms for kept in await last_changes(store)] == [1, 2]
    await record_changes(store, [change._replace(at_ms=3)] * CHANGES_MAX)
    assert {kept.at_ms for kept in await last_changes(store)} == {3}
    await store.put(paths.LOADBALANCE_CHANGES, b"no JSON")
    assert await last_changes(store) == []
    await record_changes(store, [change])
    assert await last_changes(store) == [change]
