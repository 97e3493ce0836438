"""The watch of everything below the chroot: streams that end, are silent, broken or compacted lose no change unseen."""

import asyncio

import pytest

from engine.metadata.etcd import watch_stream
from engine.metadata.etcd.etcd_store import EtcdStore
from engine.metadata.store import SessionState
from tests.support.stores.fake_etcd import FakeEtcd, Json, Refusal
from tests.support.waiting import until
from tests.unit.metadata.etcd.conftest import SESSION_S, OpenSession

pytestmark = pytest.mark.virtual_time


async def settled(store: EtcdStore, fake: FakeEtcd) -> None:
    await until(lambda: store.state is SessionState.CONNECTED and bool(fake.members[0].watches))


async def test_a_lost_stream_is_resumed_behind_the_last_event(
    fake: FakeEtcd, opened: OpenSession
) -> None:
    store, called = await opened(), list[str]()
    connection = store.connection
    store.watch("/a", called.append)
    for step in range(5):
        fake.members[step % 2].end_watches()
        fake.write("/c/a", str(step))
        await until(lambda step=step: len(called) > step)  # type: ignore[misc]
    assert (called, store.connection) == (["/a"] * 5, connection)


async def test_streams_that_end_at_once_are_not_opened_without_a_pause(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    created = b'{"result":{"header":{"revision":"1"},"created":true}}\n'
    broken = {"ends": head + created, "is unreadable": head + created + b"nonsense\n"}
    for answer in broken.values():
        fake.calls.clear()
        fake.on_call = lambda member, method, _, answer=answer: (  # type: ignore[misc]
            answer if method == "watch" else None
        )
        await asyncio.sleep(SESSION_S)
        assert [method for _, method in fake.calls].count("watch") < 30
    fake.on_call = lambda *_: None
    await until(lambda: store.state is SessionState.CONNECTED)


async def test_a_stream_is_resumed_at_another_member(fake: FakeEtcd, store: EtcdStore) -> None:
    called: list[str] = []
    connection = store.connection
    store.watch("/a", called.append)
    await fake.members[0].leave()
    fake.write("/c/a")
    await until(lambda: called == ["/a"])
    assert (store.connection, store.state) == (connection, SessionState.CONNECTED)


async def test_a_stream_that_is_silently_dead_is_replaced_in_time(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    connection = store.connection
    store.watch("/a", called.append)
    fake.members[0].mute_watches()
    fake.write("/c/a")
    began = asyncio.get_running_loop().time()
    await until(lambda: called == ["/a"])
    assert asyncio.get_running_loop().time() - began < SESSION_S / 2
    assert store.connection == connection


async def test_an_idle_stream_is_replaced_without_a_call_of_the_watchers(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    fake.write("/c/a")
    await asyncio.sleep(0.1)
    store.watch("/a", called.append)
    await asyncio.sleep(SESSION_S * 5)
    assert (called, store.state) == ([], SessionState.CONNECTED)
    assert len(fake.members[0].watches) == 1


async def test_a_session_that_sees_no_changes_is_suspended_while_its_lease_is_proven(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    def refuse(member: int, method: str, body: Json) -> None:
        if method == "watch":
            raise Refusal(503, 14, "etcdserver: no leader")

    connection, session_id = store.connection, store.session_id
    fake.on_call = refuse
    began = asyncio.get_running_loop().time()
    await until(lambda: store.state is SessionState.SUSPENDED)
    assert asyncio.get_running_loop().time() - began <= SESSION_S * 2 / 3 + 0.01
    await asyncio.sleep(SESSION_S * 2)
    assert store.session_proven
    fake.on_call = lambda *_: None
    await until(lambda: store.state is SessionState.CONNECTED)
    assert (store.connection, store.session_id) == (connection + 1, session_id)


async def test_compacted_changes_are_a_new_connection_and_call_all_watchers(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    connection = store.connection
    await settled(store, fake)
    store.watch("/a", called.append)
    store.watch("/never/written", called.append)
    fake.members[0].mute_watches()
    fake.write("/c/a")
    fake.write("/c/b")
    fake.compact()
    await until(lambda: store.connection == connection + 1)
    await until(lambda: len(called) == 2)
    fake.write("/c/a")
    await until(lambda: called.count("/a") == 2)
    assert store.connection == connection + 1


async def test_a_line_cut_by_the_end_of_its_stream_is_read_from_the_next_one(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    connection = store.connection
    await settled(store, fake)
    store.watch("/a", called.append)
    (stream,) = fake.members[0].watches
    fake.members[0].mute_watches()
    fake.write("/c/a")
    stream.raw(b'{"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"L2')
    await asyncio.sleep(0.01)
    stream.abort()
    await until(lambda: called == ["/a"])
    assert store.connection == connection


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b'{"result":{"events":[{"kv":7}]}}\n', b"x" * 3000]
)
async def test_a_message_that_cannot_be_read_is_a_new_connection(
    fake: FakeEtcd, store: EtcdStore, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "LINE_BYTES_MAX", 2000)
    called: list[str] = []
    connection = store.connection
    await settled(store, fake)
    store.watch("/a", called.append)
    (stream,) = fake.members[0].watches
    stream.raw(line)
    await until(lambda: store.connection == connection + 1 and called == ["/a"])
    fake.write("/c/a")
    await until(lambda: called == ["/a", "/a"])


async def test_a_revision_that_two_messages_share_is_read_again_when_the_second_is_lost(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    await settled(store, fake)
    for path in ("/a", "/b"):
        store.watch(path, called.append)
    (stream,) = fake.members[0].watches
    fake.members[0].mute_watches()
    fake.write("/c/a")
    first = fake.events[-1][2]
    fake.rows["/c/b"] = fake.rows["/c/a"]
    fake.events.append((fake.revision, "/c/b", {"kv": fake.rows["/c/b"].message("/c/b")}))
    stream.line({**fake.header(), "events": [first], "fragment": True})
    await asyncio.sleep(0.01)
    stream.abort()
    await until(lambda: "/b" in called)


async def test_the_watch_of_a_read_is_not_called_for_changes_that_the_read_has(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    await settled(store, fake)
    late = list(fake.members[0].watches)
    fake.members[0].mute_watches()
    fake.write("/c/a", "1")
    assert (await store.get("/a", called.append))[0] == b"1"
    fake.members[0].watches.extend(late)
    fake.members[0].report()
    await asyncio.sleep(0.1)
    assert called == []
    fake.write("/c/a", "2")
    await until(lambda: called == ["/a"])
