"""Isolation policies: the brokers of a namespace, the stored form, and refusals."""

import asyncio
from typing import Any

import pytest

from engine.base.errors import InvalidRequest, NotFound, PreconditionFailed
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy.clusters import delete_cluster
from engine.tenancy.resources.isolation import (
    IsolationPolicies,
    IsolationPolicy,
    delete_isolation_policy,
    get_isolation_policy,
    isolation_data,
    isolation_of,
    isolation_of_brokers,
    list_isolation_policies,
    set_isolation_policy,
)

C = "standalone"
BROKERS = ["one:8080", "two:8080", "three:8080", "four:8080"]


def given(limit: object = "1", **more: Any) -> dict[str, Any]:
    parameters = {"min_limit": limit, "usage_threshold": "100"}
    return {
        "namespaces": ["t/iso.*"],
        "primary": ["one:8080", "two"],
        "secondary": ["three"],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": parameters},
        **more,
    }


def policies(*some: dict[str, Any]) -> IsolationPolicies:
    stored = {f"p{at}": isolation_data(f"p{at}", data) for at, data in enumerate(some)}
    return IsolationPolicies([IsolationPolicy.of(name, data) for name, data in stored.items()])


@pytest.mark.parametrize(
    ("limit", "there", "expected"),
    [
        ("1", BROKERS, ["one:8080", "two:8080"]),
        ("1", ["two:8080", "three:8080", "four:8080"], ["two:8080"]),
        ("2", ["two:8080", "three:8080", "four:8080"], ["two:8080", "three:8080"]),
        ("1", ["three:8080", "four:8080"], ["three:8080"]),
        ("0", ["three:8080", "four:8080"], ["three:8080"]),
        ("1", ["four:8080"], []),
    ],
)
def test_a_named_namespace_is_on_primaries_and_with_too_few_on_secondaries_too(
    limit: str, there: list[str], expected: list[str]
) -> None:
    assert policies(given(limit)).places("t/iso1", there) == expected


def test_other_namespaces_are_on_brokers_that_are_primary_for_none() -> None:
    assert policies(given()).places("t/other", BROKERS) == ["three:8080", "four:8080"]
    assert policies(given()).places("t/other", ["one:8080"]) == []
    assert policies().places("t/other", BROKERS) == BROKERS


def test_the_first_policy_that_names_a_namespace_holds() -> None:
    two = policies(given(), given(namespaces=["t/.*"], primary=["four"]))
    assert two.places("t/iso1", BROKERS) == ["one:8080", "two:8080"]
    assert two.places("t/x", BROKERS) == ["four:8080"]
    assert two.places("u/x", BROKERS) == ["three:8080"]


def test_bundles_of_other_brokers_move_unless_they_are_to_stay() -> None:
    moving, staying = policies(given()), policies(given(unload_scope="none"))
    assert moving.moves("t/iso1", "three:8080", BROKERS)
    assert moving.moves("t/other", "one:8080", BROKERS)
    assert not moving.moves("t/iso1", "one:8080", BROKERS)
    assert not moving.moves("t/iso1", "four:8080", ["four:8080"])
    assert not moving.moves("t/other", "one:8080", ["one:8080"])
    assert not staying.moves("t/iso1", "three:8080", BROKERS)
    assert not staying.moves("t/other", "one:8080", BROKERS)


async def test_stored_policies_equal_apaches(store: MetadataStore) -> None:
    await set_isolation_policy(store, C, "p1", given(1, unload_scope="none", other=7))
    assert (await store.get(paths.isolation_policies(C)))[0] == (
        b'{"p1":{"namespaces":["t/iso.*"],"primary":["one:8080","two"],"secondary":["three"],'
        b'"auto_failover_policy":{"parameters":{"min_limit":"1","usage_threshold":"100"},'
        b'"policy_type":"min_available"},"unload_scope":"none"}}'
    )
    assert (await isolation_of(store, C)).places("t/iso1", BROKERS) == ["one:8080", "two:8080"]
    [broker] = await isolation_of_brokers(store, C, ["two:8080"])
    assert broker == {
        "brokerName": "two:8080",
        "policyName": "p1",
        "namespaceRegex": ["t/iso.*"],
        "primary": True,
    }


async def test_policies_set_at_once_are_all_kept(store: MetadataStore) -> None:
    await asyncio.gather(*(set_isolation_policy(store, C, f"p{n:02}", given()) for n in range(20)))
    assert list(await list_isolation_policies(store, C)) == [f"p{n:02}" for n in range(20)]
    with pytest.raises(PreconditionFailed, match="Cluster not empty"):
        await delete_cluster(store, C)
    for n in range(20):
        await delete_isolation_policy(store, C, f"p{n:02}")
    await delete_isolation_policy(store, C, "p01")
    assert await list_isolation_policies(store, C) == {}


async def test_missing_records_are_distinguished(store: MetadataStore) -> None:
    with pytest.raises(NotFound, match="Cluster c does not exist"):
        await list_isolation_policies(store, "c")
    await delete_isolation_policy(store, C, "p")
    with pytest.raises(NotFound, match="NamespaceIsolationPolicies for cluster standalone"):
        await get_isolation_policy(store, C, "p")
    with pytest.raises(PreconditionFailed, match="Cluster c does not exist"):
        await set_isolation_policy(store, "c", "p", given())
    await set_isolation_policy(store, C, "p", given())
    with pytest.raises(NotFound, match="Cannot find NamespaceIsolationPolicy q for"):
        await get_isolation_policy(store, C, "q")
    assert (await isolation_of(store, "c")).places("t/iso1", BROKERS) == BROKERS


@pytest.mark.parametrize(
    "more",
    [
        {"namespaces": []},
        {"primary": []},
        {"secondary": None},
        {"namespaces": ["[bad"]},
        {"primary": "one"},
        {"auto_failover_policy": None},
        {"auto_failover_policy": {"policy_type": "other", "parameters": {}}},
        {"auto_failover_policy": {"policy_type": "min_available", "parameters": {}}},
        {"auto_failover_policy": given("x")["auto_failover_policy"]},
    ],
)
def test_a_policy_that_cannot_act_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="Invalid format of input policy data"):
        isolation_data("p", given(**more))


def test_a_pattern_has_a_length() -> None:
    with pytest.raises(InvalidRequest, match="namespaces: a pattern has at most 1000 characters"):
        isolation_data("p", given(namespaces=["x" * 1001]))


@pytest.mark.parametrize("key", ["namespaces", "primary", "secondary"])
def test_a_pattern_that_is_not_matched_in_linear_time_is_refused_with_the_reason(key: str) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be used: \(\?! is not supported"):
        isolation_data("p", given(**{key: ["a/(?!b).*"]}))


def test_a_pattern_of_an_administrator_does_not_backtrack() -> None:
    policy = IsolationPolicy.of("p", isolation_data("p", given(namespaces=["t/(a+)+b"])))
    assert not policy.names("t/" + "a" * 200)
    assert policy.names("t/" + "a" * 200 + "b")


def test_an_alternative_of_many_names_is_taken() -> None:
    pattern = "|".join(f"broker-{i}" for i in range(100))
    policy = IsolationPolicy.of("p", isolation_data("p", given(primary=[pattern])))
    assert policy.primaries(["broker-7:8080", "broker-100:8080"]) == ["broker-7:8080"]


async def test_stored_policies_that_cannot_be_read_are_an_error(store: MetadataStore) -> None:
    await store.create(paths.isolation_policies(C), b'{"p":{"namespaces":["["]}}')
    with pytest.raises(ValueError, match="cannot be read"):
        await isolation_of(store, C)
