"""Brokers agree on the one that acquires a bundle, in whatever order they know each other."""

from collections import Counter

from engine.base.names import NamespaceName
from engine.ownership.placer import HashPlacer
from engine.tenancy.bundles import Bundles, even_bundles

NAMESPACE = NamespaceName.of("zt", "ns")
BUNDLES = list(Bundles.of_boundaries(NAMESPACE, even_bundles(300)["boundaries"]))
BROKERS = ["a:1", "b:1", "c:1"]
order = HashPlacer().order


def test_a_leaving_broker_moves_only_its_own_bundles() -> None:
    before = {bundle: order(bundle, BROKERS) for bundle in BUNDLES}
    after = {bundle: order(bundle, BROKERS[:2]) for bundle in BUNDLES}
    for bundle in BUNDLES:
        assert after[bundle] == [broker for broker in before[bundle] if broker != "c:1"]
    assert all(count > 50 for count in Counter(ranked[0] for ranked in before.values()).values())


def test_the_order_of_the_brokers_given_does_not_matter() -> None:
    assert order(BUNDLES[0], reversed(BROKERS)) == order(BUNDLES[0], BROKERS)
    assert order(BUNDLES[0], []) == []
