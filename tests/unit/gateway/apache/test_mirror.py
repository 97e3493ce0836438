"""The tree of a mirror: the rules of a metadata store, and its watches."""

import pytest

from engine.base.errors import Unsupported
from engine.metadata.store import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError
from gateway.apache.mirror import MirrorStore, StoreChange


async def accept(change: StoreChange) -> None:
    """Accept a change."""


async def test_writes_follow_the_rules_of_a_store() -> None:
    store = MirrorStore(accept)
    with pytest.raises(NoNodeError):
        await store.create("/a/b", b"1")
    assert await store.create("/a/b", b"1", make_parents=True) == "/a/b"
    with pytest.raises(NodeExistsError):
        await store.create("/a/b", b"1")
    stat = await store.put("/a/b", b"2", 0)
    with pytest.raises(BadVersionError):
        await store.put("/a/b", b"3", 0)
    with pytest.raises(NotEmptyError):
        await store.delete("/a")
    await store.delete("/a/b", stat.version)
    assert await store.exists("/a/b") is None
    with pytest.raises(Unsupported):
        await store.create("/a/c", ephemeral=True)


async def test_a_watch_is_called_once_when_a_report_changes_what_was_read() -> None:
    store = MirrorStore(accept)
    store.set("/a/b", b"1")
    called: list[str] = []
    await store.get("/a/b", called.append)
    await store.children("/a", called.append)
    store.set("/a/b", b"1")
    assert called == []
    store.replace_children("/a", {"b": b"2", "c": b""})
    store.set("/a/b", b"3")
    assert called == ["/a/b", "/a"]
    assert await store.children("/a") == ["b", "c"]


async def test_nodes_that_a_report_lacks_are_removed_with_all_below() -> None:
    store = MirrorStore(accept)
    store.set("/a/b/c", b"1")
    store.set("/a/d", b"1")
    store.keep_children("/a", ["d"])
    assert await store.exists("/a/b/c") is None
    assert (await store.get_all(["/a/d", "/a/b"], "/a")) == (
        [(b"1", await store.exists("/a/d")), None],
        ["d"],
    )
