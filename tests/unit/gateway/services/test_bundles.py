"""Sums of bundles: each topic in the bundle that brokers find for it, found out once for all who ask."""

import asyncio

import pytest

from engine.base.errors import NotReady
from engine.base.names import HASH_TOP, NamespaceName, TopicName
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.tenancy.bundles import Bundles
from gateway.services.bundles import BundleMap, Cached, sums
from gateway.services.index.topic_index import TopicIndex

NAMESPACE = NamespaceName.of("t", "n")
EDGES = (0, 1 << 30, 1 << 31, HASH_TOP)


async def test_every_topic_and_partition_is_in_the_bundle_that_brokers_find_for_it() -> None:
    index = TopicIndex()
    plain = [f"persistent://t/n/a{number}" for number in range(40)]
    others = ["persistent://t/other/x", "non-persistent://t/n/y"]
    index.catalog(dict.fromkeys([*plain, *others], 0) | {"persistent://t/n/parts": 9}, ())
    folds = await sums(index, {"t/n": EDGES})
    names = [
        *plain,
        others[1],
        *(f"persistent://t/n/parts-partition-{number}" for number in range(9)),
    ]
    bundles = Bundles(NAMESPACE, EDGES)
    assert {name: bundle for bundle, fold in folds.items() for name in fold.parts} == {
        name: bundles.of_topic(TopicName.parse(name)) for name in names
    }


async def test_of_a_part_that_is_not_known_the_sum_is_not_known() -> None:
    index = TopicIndex()
    index.begin()
    index.catalog({"persistent://t/n/a": 0}, ())
    (fold,) = (await sums(index, {"t/n": (0, HASH_TOP)})).values()
    assert set(fold.figures.values) == {None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (paths.local_policies("t/b"), b"null"),
        (paths.local_policies("t/b"), b'{"bundles":{"boundaries":["0x0","zz"]}}'),
        (paths.namespace_policies("t/b"), b"[]"),
    ],
)
async def test_bundles_of_a_damaged_namespace_are_left_out_of_the_list_of_all(
    path: str, value: bytes
) -> None:
    store = MemoryServer().session()
    for name in ("t/a", "t/b"):
        await store.create(paths.namespace_policies(name), b"{}", make_parents=True)
    if await store.exists(path) is None:
        await store.create(path, value, make_parents=True)
    else:
        await store.put(path, value)
    owned = await BundleMap(TopicIndex()).owned(store)
    assert [str(space.bundles.namespace) for space in owned] == ["t/a"]


async def test_concurrent_requests_are_computed_once_and_a_failure_is_not_cached() -> None:
    made = 0

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        if made == 1:
            raise NotReady("away")
        return made

    kept: Cached[int] = Cached()
    with pytest.raises(NotReady):
        await kept.get("a", make)
    assert await asyncio.gather(*(kept.get("a", make) for _ in range(5))) == [2] * 5
    assert await kept.get("b", make) == 3, "it depends on something else"
    kept.forget()
    assert await kept.get("b", make) == 4
