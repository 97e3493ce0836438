"""A ZooKeeper server that is behind the others: what it does not know yet may exist."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from engine.metadata.store import SessionState
from engine.metadata.zookeeper import ZooKeeperStore

STAT = SimpleNamespace(version=3, ephemeralOwner=0, ctime=1, mtime=2, numChildren=0)


class Answer:
    """Of kazoo: ready at once."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.exception = None

    def rawlink(self, callback: Callable[["Answer"], None]) -> None:
        callback(self)


class LaggingServer:
    """Knows of ``path`` only after ``sync``, if the ensemble has it."""

    def __init__(self, path: str, *, exists: bool) -> None:
        self._known = False
        self._path = path
        self._exists = exists
        self.asked: list[str] = []

    def exists_async(self, path: str, watch: object = None) -> Answer:
        self.asked.append("exists")
        assert path == self._path
        return Answer(STAT if self._known else None)

    def sync_async(self, path: str) -> Answer:
        self.asked.append("sync")
        self._known = self._exists
        return Answer(path)


def store_at(server: LaggingServer) -> ZooKeeperStore:
    store = ZooKeeperStore("127.0.0.1:1", 10.0, "")
    store._client = server
    store._state = SessionState.CONNECTED
    return store


async def test_absence_is_asked_again_after_a_sync() -> None:
    server = LaggingServer("/ledgers/1", exists=True)
    stat = await store_at(server).exists("/ledgers/1")
    assert stat is not None
    assert stat.version == 3


async def test_absence_is_told_only_after_a_sync() -> None:
    server = LaggingServer("/ledgers/1", exists=False)
    assert await store_at(server).exists("/ledgers/1") is None
    assert server.asked == ["exists", "sync", "exists"]
