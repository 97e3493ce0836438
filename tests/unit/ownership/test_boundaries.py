"""Boundaries of a namespace are cached until they change, not longer; bundles that are none any more are lost."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from engine.base.names import NamespaceName, TopicName
from engine.metadata.memory import MemoryServer
from engine.ownership.owner import NoNamespaceError
from tests.unit.ownership.test_owner import TOPIC, Broker, server

__all__ = ["server"]
PATH = "/admin/local-policies/public/default"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0)


async def split(one: Broker) -> None:
    """Another broker cuts the namespace into two."""
    edges = {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}
    await one.store.put(PATH, json.dumps({"bundles": edges}).encode())


@pytest.mark.parametrize("holding", [False, True])
async def test_changed_boundaries_are_read_again(server: MemoryServer, holding: bool) -> None:
    one = Broker(server.session(), "one")
    assert len(await one.ownership.bundles(TOPIC.namespace)) == 4
    if holding:
        assert await one.take()
    for _ in range(50):  # nothing is under way any more
        await asyncio.sleep(0)
    await split(one)

    async def two() -> bool:
        return len(await one.ownership.bundles(TOPIC.namespace)) == 2

    async def lost() -> bool:
        return len(one.lost) == holding

    await until(two)
    await until(lost)
    assert not one.ownership.serves(TopicName.parse("public/default/x"))


async def test_a_namespace_that_was_deleted_is_not_remembered(server: MemoryServer) -> None:
    one = Broker(server.session(), "one")
    await one.ownership.bundles(TOPIC.namespace)
    await one.store.delete("/admin/policies/public/default")
    await one.store.delete(PATH)

    async def gone() -> bool:
        try:
            await one.ownership.bundles(NamespaceName.of("public", "default"))
        except NoNamespaceError:
            return True
        return False

    await until(gone)
