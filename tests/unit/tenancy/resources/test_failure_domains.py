"""Failure domains: a broker is in one, and names are no paths."""

import pytest

from engine.base.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy.resources.failure_domains import (
    delete_failure_domain,
    get_failure_domain,
    list_failure_domains,
    set_failure_domain,
)

C = "standalone"


async def test_a_broker_is_in_one_domain(store: MetadataStore) -> None:
    await set_failure_domain(store, C, "d1", {"brokers": ["b1", "b2", "b1"], "other": 1})
    assert (await store.get(paths.failure_domain(C, "d1")))[0] == b'{"brokers":["b1","b2"]}'
    with pytest.raises(Conflict, match=r"\[b2\] already exists in d1"):
        await set_failure_domain(store, C, "d2", {"brokers": ["b2", "b3"]})
    await set_failure_domain(store, C, "d1", {"brokers": ["b1"]})
    await set_failure_domain(store, C, "d2", {"brokers": ["b2", "b3"]})
    assert await list_failure_domains(store, C) == {
        "d1": {"brokers": ["b1"]},
        "d2": {"brokers": ["b2", "b3"]},
    }
    assert await list_failure_domains(store, "nowhere") == {}


async def test_missing_records_are_distinguished(store: MetadataStore) -> None:
    with pytest.raises(NotFound, match="Domain d for cluster standalone does not exist"):
        await get_failure_domain(store, C, "d")
    with pytest.raises(NotFound, match="Domain-name d or cluster standalone does not exist"):
        await delete_failure_domain(store, C, "d")
    for refused in (
        get_failure_domain(store, "c", "d"),
        delete_failure_domain(store, "c", "d"),
        set_failure_domain(store, "c", "d", {}),
    ):
        with pytest.raises(PreconditionFailed, match="Cluster c does not exist"):
            await refused


async def test_bad_input_is_refused(store: MetadataStore) -> None:
    with pytest.raises(InvalidRequest, match="brokers: must be a list of texts"):
        await set_failure_domain(store, C, "d", {"brokers": "b"})
    with pytest.raises(InvalidRequest, match="body"):
        await set_failure_domain(store, C, "d", None)
    for name in ("a/b", "..", "", "n" * 256):
        with pytest.raises(PreconditionFailed, match="Domain name"):
            await set_failure_domain(store, C, name, {"brokers": []})
