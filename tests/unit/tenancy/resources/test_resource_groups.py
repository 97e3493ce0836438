"""Resource groups: rates are merged, a group in use stays, a namespace is in one that exists."""

import asyncio

import pytest

from engine.base.errors import InvalidField, InvalidRequest, NotFound, PreconditionFailed
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy.namespaces import create_namespace, get_policies
from engine.tenancy.resources.resource_groups import (
    KEY,
    delete_resource_group,
    get_resource_group,
    join_resource_group,
    list_resource_groups,
    put_resource_group,
)

NS = NamespaceName.parse("public/default")


async def test_only_given_rates_change(store: MetadataStore) -> None:
    await put_resource_group(store, "g", {"publishRateInMsgs": 10})
    assert (await store.get(paths.resource_group("g")))[0] == (
        b'{"publishRateInMsgs":10,"publishRateInBytes":-1,"dispatchRateInMsgs":-1,"dispatchRateInBytes":-1}'
    )
    await asyncio.gather(
        put_resource_group(store, "g", {"publishRateInBytes": "5000000000"}),
        put_resource_group(store, "g", {"dispatchRateInMsgs": 1.5, "dispatchRateInBytes": None}),
    )
    assert list((await get_resource_group(store, "g")).values()) == [10, 5_000_000_000, 1, -1]
    assert await list_resource_groups(store) == ["g"]


async def test_a_group_in_use_stays(store: MetadataStore) -> None:
    with pytest.raises(PreconditionFailed, match="ResourceGroup does not exist"):
        await join_resource_group(store, NS, "g")
    await put_resource_group(store, "g", {})
    await join_resource_group(store, NS, "g")
    assert (await get_policies(store, NS))[KEY] == "g"
    with pytest.raises(PreconditionFailed, match="ResourceGroup is in use"):
        await delete_resource_group(store, "g")
    await join_resource_group(store, NS, None)
    assert KEY not in await get_policies(store, NS)
    await delete_resource_group(store, "g")
    with pytest.raises(NotFound, match="ResourceGroup does not exist"):
        await delete_resource_group(store, "g")
    with pytest.raises(NotFound, match="Namespace policies does not exist"):
        await join_resource_group(store, NamespaceName.parse("public/none"), None)


async def test_a_namespace_may_be_created_with_its_group(store: MetadataStore) -> None:
    name = NamespaceName.parse("public/new")
    await create_namespace(store, name, {KEY: "later"}, cluster="standalone")
    assert (await get_policies(store, name))[KEY] == "later"


@pytest.mark.parametrize("rate", ["x", True, [], 1 << 31, -(1 << 33)])
async def test_an_invalid_rate_is_refused(store: MetadataStore, rate: object) -> None:
    with pytest.raises(InvalidField, match="publishRateInMsgs"):
        await put_resource_group(store, "g", {"publishRateInMsgs": rate})
    with pytest.raises(InvalidRequest, match="body"):
        await put_resource_group(store, "g", None)
    with pytest.raises(PreconditionFailed, match="ResourceGroup name"):
        await put_resource_group(store, "a/b", {})


@pytest.mark.parametrize(
    "name", ["", ".", "a/b", "a\0", "a\x1b", "\x91", "\ue000", "\ufff0", "\U00020000", "g" * 256]
)
async def test_names_that_no_node_can_have_are_refused(store: MetadataStore, name: str) -> None:
    with pytest.raises(PreconditionFailed, match="ResourceGroup name"):
        await put_resource_group(store, name, {"publishRateInMsgs": 1})
