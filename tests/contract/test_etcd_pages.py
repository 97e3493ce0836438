"""Reads in several requests, and watches over a compaction, on a real etcd."""

import asyncio
from pathlib import Path

import pytest

from engine.metadata.connect import connect
from engine.metadata.etcd import etcd_store
from engine.metadata.etcd.messages import encoded
from tests.support.stores.etcd_process import EtcdCluster
from tests.support.waiting import until


async def test_listings_and_readings_in_pieces(
    etcd: EtcdCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "PAGE_KEYS", 3)
    monkeypatch.setattr(etcd_store, "OPERATIONS_MAX", 2)
    store = await connect(f"{etcd.url}/{tmp_path.name}")
    for number in range(4):
        for below in range(5):
            await store.create(f"/p/{number}/{below}", b"%d" % below, make_parents=True)
    assert await store.children("/p") == ["0", "1", "2", "3"]
    names = [f"/p/0/{below}" for below in range(5)]
    rows, children = await store.get_all([*names, "/none"], "/p/0")
    assert [row and row[0] for row in rows] == [b"0", b"1", b"2", b"3", b"4", None]
    assert children == ["0", "1", "2", "3", "4"]
    await store.close()


async def test_a_watch_behind_a_compaction_is_a_new_connection(
    etcd: EtcdCluster, tmp_path: Path
) -> None:
    """Compact behind the last event that the session has, while writes elsewhere go on."""
    (member,) = etcd.members
    store = await connect(f"{etcd.url}/{tmp_path.name}", session_timeout_s=2.0)
    called: list[str] = []
    store.watch("/a", called.append)
    connection = store.connection

    def compact() -> None:
        for _ in range(2):
            answer = member.call("kv/put", key=encoded(f"{tmp_path.name}-elsewhere"), value="")
        header = answer["header"]
        assert isinstance(header, dict)
        member.call("kv/compaction", revision=header["revision"], physical=True)

    await asyncio.to_thread(compact)
    await until(lambda: store.connection == connection + 1 and bool(called))
    called.clear()
    await store.create("/a")
    await until(lambda: called == ["/a"])
    await store.close()
