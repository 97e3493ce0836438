"""A ZooKeeper server that is behind the others: a node that it does not know yet may exist."""

from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import MarshallingError

from engine.metadata.kazoo.kazoo_handler import KazooAnswer, LoopHandler
from engine.metadata.store import SessionState, StoreUnavailableError
from engine.metadata.zookeeper import ZooKeeperStore

STAT = SimpleNamespace(version=3, ephemeralOwner=0, ctime=1, mtime=2, czxid=0, cversion=0)


class LaggingServer:
    """A replacement for kazoo's client that knows ``path`` only after ``sync``, if the ensemble has it."""

    def __init__(self, path: str, *, exists: bool, sync_fails: bool = False) -> None:
        self.handler = LoopHandler()
        self._known = False
        self._path = path
        self._exists = exists
        self._sync_fails = sync_fails
        self.asked: list[str] = []

    def _call(self, request: Any, answer: KazooAnswer) -> None:
        assert request.path == self._path
        self.asked.append(type(request).__name__)
        if self.asked[-1] == "Exists":
            answer.set(STAT if self._known else None)
        elif self._sync_fails:
            answer.set_exception(MarshallingError())
        else:
            self._known = self._exists
            answer.set(request.path)


def store_at(server: LaggingServer) -> ZooKeeperStore:
    store = ZooKeeperStore("127.0.0.1:1", 10.0, "")
    store._client = server
    store._state = SessionState.CONNECTED
    return store


async def test_absence_is_checked_again_after_a_sync() -> None:
    server = LaggingServer("/ledgers/1", exists=True)
    stat = await store_at(server).exists("/ledgers/1")
    assert stat is not None
    assert stat.version == 3


async def test_absence_is_reported_only_after_a_sync() -> None:
    server = LaggingServer("/ledgers/1", exists=False)
    assert await store_at(server).exists("/ledgers/1") is None
    assert server.asked == ["Exists", "Sync", "Exists"]


async def test_absence_is_not_reported_when_the_sync_fails() -> None:
    with pytest.raises(StoreUnavailableError, match="sync /ledgers/1"):
        await store_at(LaggingServer("/ledgers/1", exists=False, sync_fails=True)).exists(
            "/ledgers/1"
        )
