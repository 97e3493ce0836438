"""Racks of bookies: each bookie in one group, concurrent changes all kept, settings without an effect refused."""

import asyncio

import pytest

from engine.base.errors import Conflict, Failed, InvalidRequest, NotFound, PreconditionFailed
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy.resources.racks import (
    RackPlacement,
    all_bookies,
    delete_rack,
    get_rack,
    get_racks,
    placement_of,
    replace_rack,
    set_rack,
)


async def test_concurrent_changes_are_all_kept(store: MetadataStore) -> None:
    await asyncio.gather(
        *(set_rack(store, f"b{n}:3181", f"g{n % 3}", {"rack": f"/r{n}"}) for n in range(30))
    )
    stored = await get_racks(store)
    assert {group: len(bookies) for group, bookies in stored.items()} == dict.fromkeys(
        ("g0", "g1", "g2"), 10
    )
    await asyncio.gather(*(delete_rack(store, f"b{n}:3181") for n in range(30)))
    assert await get_racks(store) == {}


async def test_a_bookie_is_in_one_group(store: MetadataStore) -> None:
    await set_rack(store, "b:1", "one", {"rack": "/r1", "hostname": "h", "other": 1})
    assert (await store.get(paths.BOOKIE_RACKS))[0] == (
        b'{"one":{"b:1":{"rack":"/r1","hostname":"h"}}}'
    )
    await set_rack(store, "b:1", "two", {"rack": "/r2"})
    assert await get_racks(store) == {"two": {"b:1": {"rack": "/r2"}}}
    assert await get_rack(store, "b:1") == {"rack": "/r2"}
    with pytest.raises(NotFound, match="not found: c:1"):
        await get_rack(store, "c:1")
    with pytest.raises(NotFound, match="not found: c:1"):
        await delete_rack(store, "c:1")


async def test_ineffective_racks_are_refused(store: MetadataStore) -> None:
    with pytest.raises(PreconditionFailed, match="'group' parameters is missing"):
        await set_rack(store, "b:1", None, {"rack": "/r"})
    with pytest.raises(PreconditionFailed, match="'rack' parameter is invalid"):
        await set_rack(store, "b:1", "g", {"rack": "/a/b/c"})
    with pytest.raises(InvalidRequest, match="rack: must be a text"):
        await set_rack(store, "b:1", "g", {"rack": 7})
    with pytest.raises(InvalidRequest, match="body"):
        await set_rack(store, "b:1", "g", None)
    with pytest.raises(PreconditionFailed, match="at most 524288 are stored"):
        await set_rack(store, "b:1", "g", {"rack": "r" * 600_000})
    assert await get_racks(store) == {}


async def test_a_map_that_cannot_be_read_is_not_overwritten(store: MetadataStore) -> None:
    await store.create(paths.BOOKIE_RACKS, b'{"g":7}', make_parents=True)
    with pytest.raises(Failed, match="group g is no object"):
        await set_rack(store, "b:1", "g", {"rack": "/r"})
    assert (await store.get(paths.BOOKIE_RACKS))[0] == b'{"g":7}'


async def test_bookies_are_those_with_a_cookie(store: MetadataStore) -> None:
    assert await all_bookies(store) == []
    await store.create(paths.cookie("b:1"), b"", make_parents=True)
    assert await all_bookies(store) == ["b:1"]


async def test_a_rack_is_replaced_only_if_it_is_the_expected_one(store: MetadataStore) -> None:
    first, second = (
        RackPlacement("g", {"rack": "/r1"}),
        RackPlacement("h", {"rack": "/r2", "hostname": "b"}),
    )
    await replace_rack(store, "b:1", first, expected=None)
    for seen in (None, second, RackPlacement("g", {"rack": "/r2"})):
        with pytest.raises(Conflict, match="rack of b:1 was changed meanwhile"):
            await replace_rack(store, "b:1", second, expected=seen)
    await replace_rack(store, "b:1", second, expected=first)
    assert placement_of(await get_racks(store), "b:1") == second
    with pytest.raises(PreconditionFailed, match="'rack' parameter is invalid"):
        await replace_rack(store, "b:1", RackPlacement("g", {"rack": "/a/b/c"}), expected=second)
    await replace_rack(store, "b:1", None, expected=second)
    assert await get_racks(store) == {}
