"""Brokers agree on the one that acquires a bundle, in whatever order they know each other."""

from collections import Counter

from engine.base.names import NamespaceName
from engine.ownership.placer import HashPlacer, Situation
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


def test_brokers_with_much_more_load_than_the_mean_come_last_and_unknown_loads_change_nothing() -> (
    None
):
    busy = Situation({"a:1": 0.9, "b:1": 0.2, "c:1": None})
    for bundle in BUNDLES:
        rest = [broker for broker in order(bundle, BROKERS) if broker != "a:1"]
        assert order(bundle, BROKERS, busy) == [*rest, "a:1"]
        assert order(bundle, BROKERS, Situation({"a:1": 0.9})) == order(bundle, BROKERS)


def test_brokers_that_do_little_are_equal() -> None:
    quiet = Situation({"a:1": 0.06, "b:1": 0.02, "c:1": 0.0})
    assert all(order(bundle, BROKERS, quiet) == order(bundle, BROKERS) for bundle in BUNDLES)
