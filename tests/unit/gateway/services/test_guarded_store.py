"""Policies cannot be changed while the flag that makes them read-only exists."""

import pytest

from engine.base.errors import Forbidden
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import NoNodeError
from engine.tenancy.access.read_only import READ_ONLY_FLAG
from gateway.services.guarded_store import GuardedStore

TEXT = (
    "Broker is forbidden to do read-write operations. Policies are read-only;"
    " the node /admin/flags/policies-readonly must be removed first"
)


@pytest.mark.parametrize("path", [paths.tenant("t"), paths.cluster("c")])
async def test_policies_are_changed_only_without_the_flag(path: str) -> None:
    server = MemoryServer()
    store, other = GuardedStore(server.session()), server.session()
    await store.create(path, b"{}", make_parents=True)
    await other.create(READ_ONLY_FLAG, make_parents=True)
    for change in (
        store.put(path, b"{}"),
        store.create(f"{path}/below", b"{}"),
        store.delete(path),
    ):
        with pytest.raises(Forbidden, match=TEXT):
            await change
    await store.create("/managed-ledgers/t", make_parents=True)
    await other.delete(READ_ONLY_FLAG)
    await store.put(path, b"{}")
    await store.delete(path)
    with pytest.raises(NoNodeError):
        await other.get(path)
