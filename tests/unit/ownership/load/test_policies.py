"""Anti-affinity groups and failure domains divide the brokers among namespaces, the same for every broker that asks."""

from itertools import combinations

import pytest

from engine.base.names import BundleName, NamespaceName
from engine.ownership.load.policies import AntiAffinity, PlacementPolicies, is_movable
from engine.ownership.placer import HashPlacer, Situation

BROKERS = ["a:1", "b:1", "c:1", "d:1"]


def shares(members: int, brokers: list[str], domains: dict[str, str]) -> list[set[str]]:
    """Return the brokers of each member of a group."""
    names = tuple(sorted(f"t/n{number}" for number in range(members)))
    groups = {NamespaceName.parse(name): AntiAffinity("g", names) for name in names}
    policies = PlacementPolicies(groups=groups, domains=domains)
    return [
        set(policies.preferred(BundleName(NamespaceName.parse(name), 0, 16), brokers))
        for name in names
    ]


@pytest.mark.parametrize("members", [2, 3, 4])
def test_members_share_no_broker_while_there_are_enough(members: int) -> None:
    divided = shares(members, BROKERS, {})
    assert all(divided)
    assert not any(first & second for first, second in combinations(divided, 2))
    assert set().union(*divided) == set(BROKERS)
    assert divided == shares(members, BROKERS[::-1], {})


def test_more_members_than_brokers_use_all_brokers_evenly() -> None:
    divided = shares(7, BROKERS, {})
    assert all(len(share) == 1 for share in divided)
    assert sorted(sum(broker in share for share in divided) for broker in BROKERS) == [1, 2, 2, 2]


def test_members_are_in_different_failure_domains() -> None:
    domains = {"a:1": "west", "b:1": "west", "c:1": "east", "d:1": "east"}
    divided = shares(2, BROKERS, domains)
    assert [{domains[broker] for broker in share} for share in divided] in (
        [{"east"}, {"west"}],
        [{"west"}, {"east"}],
    )
    divided = shares(4, BROKERS, domains)
    assert sorted(map(sorted, divided)) == [[broker] for broker in BROKERS]


def test_a_namespace_alone_in_its_group_or_without_one_may_use_every_broker() -> None:
    assert shares(1, BROKERS, {}) == [set(BROKERS)]
    bundle = BundleName(NamespaceName("t", "other"), 0, 16)
    assert PlacementPolicies().preferred(bundle, BROKERS) == BROKERS


def test_a_bundle_is_placed_on_the_brokers_of_its_member_first() -> None:
    names = ("t/n0", "t/n1")
    groups = {NamespaceName.parse(name): AntiAffinity("g", names) for name in names}
    policies = PlacementPolicies(groups=groups)
    for name in names:
        for number in range(20):
            bundle = BundleName(NamespaceName.parse(name), number, number + 1)
            order = HashPlacer().order(bundle, BROKERS, Situation({}, policies))
            assert set(order[:2]) == set(policies.preferred(bundle, BROKERS))
            assert set(order) == set(BROKERS)


def test_bundles_of_brokers_themselves_and_of_the_system_are_not_movable() -> None:
    namespaces = ("t/n", "pulsar/system", "pulsar/c3/127.0.0.1:18400")
    assert [is_movable(BundleName(NamespaceName.parse(name), 0, 16)) for name in namespaces] == [
        True,
        False,
        False,
    ]
