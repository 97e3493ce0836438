"""Bundles partition the hash space."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.names import HASH_TOP, BundleName, NamespaceName, TopicName
from engine.metadata.records import encode_json
from engine.tenancy.bundles import Bundles, encode_local_policies, even_bundles
from engine.tenancy.documents import new_policies

NAMESPACE = NamespaceName.of("zt", "ns")
GOLDEN_LOCAL_POLICIES = (
    b'{"bundles":{"boundaries":["0x00000000","0x40000000","0x80000000","0xc0000000","0xffffffff"],'
    b'"numBundles":4},"migrated":false}'
)

edges = st.sets(st.integers(1, HASH_TOP - 1), max_size=40).map(
    lambda inner: (0, *sorted(inner), HASH_TOP)
)


@given(edges, st.integers(0, HASH_TOP))
def test_every_hash_lies_in_exactly_one_bundle(edges: tuple[int, ...], bundle_hash: int) -> None:
    bundles = Bundles(NAMESPACE, edges)
    holders = [bundle for bundle in bundles if bundle.holds(bundle_hash)]
    assert holders == [bundles.of_hash(bundle_hash)]


@given(st.integers(1, 300))
def test_even_bundles_cover_the_space_in_near_equal_parts(count: int) -> None:
    bundles = Bundles.of_boundaries(NAMESPACE, even_bundles(count)["boundaries"])
    sizes = [bundle.upper - bundle.lower for bundle in bundles]
    assert len(bundles) == count
    assert sum(sizes) == HASH_TOP
    assert max(sizes) - min(sizes) <= count


def test_stored_forms_are_apaches() -> None:
    policies = encode_json(new_policies(["standalone"], even_bundles(4), "standalone"))
    bundles = Bundles.decode(NAMESPACE, policies)
    assert bundles is not None
    assert encode_local_policies(bundles) == GOLDEN_LOCAL_POLICIES
    assert Bundles.decode(NAMESPACE, GOLDEN_LOCAL_POLICIES) == bundles
    assert Bundles.decode(NAMESPACE, b"") is None


def test_topics_fall_into_the_bundles_seen_on_apache() -> None:
    bundles = Bundles.decode(NAMESPACE, GOLDEN_LOCAL_POLICIES)
    assert bundles is not None
    topic = TopicName.parse("persistent://zt/ns/plain")
    assert bundles.of_topic(topic).range == "0xc0000000_0xffffffff"


@pytest.mark.parametrize(
    "edges", [(), (0,), (0, 5), (5, HASH_TOP), (0, 9, 9, HASH_TOP), (0, 9, 3, HASH_TOP)]
)
def test_boundaries_that_do_not_partition_are_refused(edges: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zt/ns"):
        Bundles(NAMESPACE, edges)


def test_bundle_names_read_back() -> None:
    bundle = BundleName(NAMESPACE, 0x40000000, 0x80000000)
    assert BundleName.parse(NAMESPACE, bundle.range) == bundle
