"""Ledger layouts that are accepted, and those that are refused."""

import pytest

from bookie.cookies import instance_id
from engine.base.entropy import RandomEntropy
from engine.metadata import paths
from engine.metadata.layout import LAYOUT, LayoutError, check_layout
from engine.metadata.memory import MemoryServer

FACTORY = b"org.apache.bookkeeper.meta."


@pytest.mark.parametrize("value", [LAYOUT, LAYOUT + b"\n", b"1\nhierarchical:1"])
async def test_the_hierarchical_layout_is_accepted(value: bytes) -> None:
    store = MemoryServer().session()
    await check_layout(store)  # Pulsar's driver writes none
    await store.create(paths.LAYOUT, value, make_parents=True)
    await check_layout(store)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"2",
        b"3\n" + FACTORY + b"HierarchicalLedgerManagerFactory:1",
        b"2\n" + FACTORY + b"HierarchicalLedgerManagerFactory:2",
        b"2\n" + FACTORY + b"LongHierarchicalLedgerManagerFactory:1",
        b"2\n" + FACTORY + b"FlatLedgerManagerFactory:1",
        b"1\nflat:1",
        b"\xff\n\xff:1",
    ],
)
async def test_any_other_layout_is_refused_by_brokers_and_bookies(value: bytes) -> None:
    store = MemoryServer().session()
    await store.create(paths.LAYOUT, value, make_parents=True)
    for start in (check_layout(store), instance_id(store, RandomEntropy(), initialize=True)):
        with pytest.raises(LayoutError, match="only BookKeeper's hierarchical layout"):
            await start


async def test_the_first_bookie_writes_the_layout() -> None:
    store = MemoryServer().session()
    await instance_id(store, RandomEntropy(), initialize=True)
    assert (await store.get(paths.LAYOUT))[0] == LAYOUT
