"""Quotas of bundles: a bundle's own, else the default, which is initially Pulsar's."""

import pytest

from engine.base.errors import InvalidRequest, NotFound
from engine.base.names import NamespaceName
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy.resources.bundle_quotas import (
    DEFAULT,
    delete_quota,
    get_default_quota,
    get_quota,
    set_default_quota,
    set_quota,
)

NS, RANGE = NamespaceName.parse("public/default"), "0x00000000_0x40000000"


async def test_a_bundle_has_its_own_or_the_default(store: MetadataStore) -> None:
    assert await get_quota(store, NS, RANGE) == DEFAULT
    await set_default_quota(store, {"msgRateIn": 5})
    assert (await store.get("/loadbalance/resource-quota/default"))[0] == (
        b'{"msgRateIn":5.0,"msgRateOut":0.0,"bandwidthIn":0.0,"bandwidthOut":0.0,"memory":0.0,"dynamic":true}'
    )
    await set_quota(store, NS, RANGE, {"memory": 2.5, "dynamic": False})
    quota = await get_quota(store, NS, RANGE)
    assert (quota["memory"], quota["dynamic"], quota["msgRateIn"]) == (2.5, False, 0.0)
    assert await store.exists(paths.bundle_quota(str(NS), RANGE)) is not None
    await delete_quota(store, NS, RANGE)
    assert await get_quota(store, NS, RANGE) == await get_default_quota(store)
    with pytest.raises(NotFound, match="/loadbalance/resource-quota/public/default/0x0"):
        await delete_quota(store, NS, RANGE)


@pytest.mark.parametrize("given", [None, {"memory": "x"}, {"memory": True}, {"dynamic": 1}])
async def test_an_invalid_quota_is_refused(store: MetadataStore, given: object) -> None:
    with pytest.raises(InvalidRequest):
        await set_default_quota(store, given)  # type: ignore[arg-type]
