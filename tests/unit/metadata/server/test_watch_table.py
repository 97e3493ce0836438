"""Watches: what fires them, in which order, for whom, and what ends them."""

import pytest

from engine.metadata.server.protocol import (
    OPEN_ACL,
    AddWatch,
    Auth,
    Create,
    CreateMode,
    Delete,
    ErrorCode,
    Event,
    EventType,
    Exists,
    FindWatches,
    GetChildren,
    GetData,
    Multi,
    Op,
    SetAcl,
    SetData,
    SetWatches,
    WatcherKind,
    Write,
)
from engine.metadata.server.session_table import SessionClient
from engine.metadata.server.watch_table import WatchNotice
from tests.support.metadata.machine_bench import OWN, Bench, events

PERSISTENT, RECURSIVE = 0, 1


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.create(bench.client(), "/a")
    return bench


def add(bench: Bench, client: SessionClient, path: str, mode: int) -> None:
    assert bench.machine.watch(client, AddWatch(path, mode)) == (ErrorCode.OK, [])


def done(bench: Bench, request: Write) -> list[tuple[str, str]]:
    """Execute a write of another client and return the events."""
    return events(bench.write(bench.client(), request).notices)


def node(path: str) -> Create:
    return Create(Op.CREATE, path, b"", OPEN_ACL, CreateMode.PERSISTENT)


def test_each_read_sets_the_watch_of_its_kind(bench: Bench) -> None:
    client = bench.client()
    bench.read(client, GetData("/a", True))
    assert done(bench, node("/a/b")) == []
    assert done(bench, SetData("/a", b"", -1)) == [("DATA_CHANGED", "/a")]
    bench.read(client, GetChildren("/a", True, True))
    assert done(bench, SetData("/a", b"", -1)) == []
    assert done(bench, Delete("/a/b", -1)) == [("CHILDREN_CHANGED", "/a")]
    bench.machine.read(client, Exists("/new", True))
    assert done(bench, node("/new")) == [("CREATED", "/new")]
    bench.read(client, Exists("/new", True))
    assert done(bench, Delete("/new", -1)) == [("DELETED", "/new")]
    assert bench.machine.watches.size() == 0


def test_a_read_without_a_watch_sets_none(bench: Bench) -> None:
    client = bench.client()
    bench.read(client, GetData("/a", False))
    bench.read(client, GetChildren("/a", False, False))
    bench.machine.read(client, Exists("/new", False))
    assert bench.machine.watches.size() == 0


def test_a_watch_fires_once(bench: Bench) -> None:
    bench.read(bench.client(), GetData("/a", True))
    assert done(bench, SetData("/a", b"", -1)) == [("DATA_CHANGED", "/a")]
    assert done(bench, SetData("/a", b"", -1)) == []


def test_an_event_carries_the_id_of_its_transaction(bench: Bench) -> None:
    client = bench.client()
    bench.read(client, GetData("/a", True))
    outcome = bench.write(bench.client(), SetData("/a", b"", -1))
    event = Event(EventType.DATA_CHANGED, "/a", outcome.transaction.zxid)
    assert outcome.notices == [WatchNotice(client, event)]


def test_a_creation_fires_the_nodes_watch_before_its_parents(bench: Bench) -> None:
    client = bench.client()
    bench.machine.read(client, Exists("/a/b", True))
    bench.read(client, GetChildren("/a", True, True))
    assert done(bench, node("/a/b")) == [("CREATED", "/a/b"), ("CHILDREN_CHANGED", "/a")]


def test_a_deletion_fires_the_nodes_watches_as_one_event_before_its_parents(bench: Bench) -> None:
    client = bench.client()
    bench.create(client, "/a/b")
    bench.read(client, GetChildren("/a", True, True))
    bench.read(client, GetChildren("/a/b", True, True))
    bench.read(client, GetData("/a/b", True))
    assert done(bench, Delete("/a/b", -1)) == [("DELETED", "/a/b"), ("CHILDREN_CHANGED", "/a")]


def test_removing_a_node_fires_its_child_watch(bench: Bench) -> None:
    bench.read(bench.client(), GetChildren("/a", True, False))
    assert done(bench, Delete("/a", -1)) == [("DELETED", "/a")]


def test_the_root_has_the_child_watch_of_its_children(bench: Bench) -> None:
    bench.read(bench.client(), GetChildren("/", True, False))
    assert done(bench, node("/b")) == [("CHILDREN_CHANGED", "/")]


def test_a_persistent_watch_fires_for_the_node_and_its_children_every_time(bench: Bench) -> None:
    add(bench, bench.client(), "/a", PERSISTENT)
    for _ in range(2):
        assert done(bench, SetData("/a", b"", -1)) == [("DATA_CHANGED", "/a")]
        assert done(bench, node("/a/b")) == [("CHILDREN_CHANGED", "/a")]
        assert done(bench, node("/a/b/c")) == []
        done(bench, Delete("/a/b/c", -1))
        assert done(bench, Delete("/a/b", -1)) == [("CHILDREN_CHANGED", "/a")]
    assert done(bench, Delete("/a", -1)) == [("DELETED", "/a")]
    assert done(bench, node("/a")) == [("CREATED", "/a")]


def test_a_recursive_watch_fires_for_every_node_below_but_not_for_lists_of_children(
    bench: Bench,
) -> None:
    add(bench, bench.client(), "/a", RECURSIVE)
    for _ in range(2):
        assert done(bench, node("/a/b")) == [("CREATED", "/a/b")]
        assert done(bench, node("/a/b/c")) == [("CREATED", "/a/b/c")]
        assert done(bench, SetData("/a/b/c", b"", -1)) == [("DATA_CHANGED", "/a/b/c")]
        assert done(bench, Delete("/a/b/c", -1)) == [("DELETED", "/a/b/c")]
        assert done(bench, Delete("/a/b", -1)) == [("DELETED", "/a/b")]
    assert done(bench, node("/ab")) == []
    assert done(bench, SetData("/a", b"", -1)) == [("DATA_CHANGED", "/a")]


def test_a_recursive_watch_of_the_root_fires_for_every_node(bench: Bench) -> None:
    add(bench, bench.client(), "/", RECURSIVE)
    assert done(bench, node("/a/b")) == [("CREATED", "/a/b")]


def test_several_watches_of_a_client_give_one_event(bench: Bench) -> None:
    client = bench.client()
    bench.read(client, GetData("/a", True))
    add(bench, client, "/a", PERSISTENT)
    add(bench, client, "/a", RECURSIVE)
    add(bench, client, "/", RECURSIVE)
    for _ in range(2):
        assert done(bench, SetData("/a", b"", -1)) == [("DATA_CHANGED", "/a")]


def test_every_client_that_watches_is_notified(bench: Bench) -> None:
    clients = [bench.client() for _ in range(3)]
    for client in clients:
        bench.read(client, GetData("/a", True))
    notices = bench.write(clients[0], SetData("/a", b"", -1)).notices
    assert [notice.client for notice in notices] == clients


def test_events_of_a_multi_are_those_of_its_operations_in_order(bench: Bench) -> None:
    add(bench, bench.client(), "/", RECURSIVE)
    ops = (node("/b"), SetData("/a", b"", -1), Delete("/b", -1))
    expected = [("CREATED", "/b"), ("DATA_CHANGED", "/a"), ("DELETED", "/b")]
    assert done(bench, Multi(ops)) == expected
    assert done(bench, Multi((*ops, Delete("/none", -1)))) == []


def test_the_end_of_a_session_fires_the_watches_of_its_ephemeral_nodes(bench: Bench) -> None:
    owner, client = bench.client(), bench.client()
    bench.create(owner, "/a/e", mode=CreateMode.EPHEMERAL)
    bench.read(client, Exists("/a/e", True))
    bench.read(client, GetChildren("/a", True, False))
    outcome = bench.close(owner)
    assert events(outcome.notices) == [("DELETED", "/a/e"), ("CHILDREN_CHANGED", "/a")]


def test_a_client_that_may_not_read_a_node_gets_no_events_of_it(bench: Bench) -> None:
    owner, other = bench.client(), bench.client()
    bench.machine.authenticate(owner, Auth("digest", b"own:secret"))
    for client in (owner, other):
        bench.read(client, GetData("/a", True))
        add(bench, client, "/", RECURSIVE)
    bench.write(owner, SetAcl("/a", OWN, -1))
    for request in (SetData("/a", b"", -1), Delete("/a", -1)):
        assert [notice.client for notice in bench.write(owner, request).notices] == [owner]


def test_a_client_that_is_gone_watches_nothing(bench: Bench) -> None:
    client, other = bench.client(), bench.client()
    for each_client in (client, other):
        bench.read(each_client, GetData("/a", True))
        bench.read(each_client, GetChildren("/a", True, False))
        add(bench, each_client, "/", RECURSIVE)
    assert bench.machine.watches.data_watches() == (2, 2, 4)
    bench.machine.watches.remove_client(client)
    notices = bench.write(client, SetData("/a", b"", -1)).notices
    assert [notice.client for notice in notices] == [other]
    bench.machine.watches.remove_client(other)
    watches = bench.machine.watches
    assert (watches.size(), watches.data_watches()) == (0, (0, 0, 0))


def test_watches_set_again_fire_at_once_when_their_node_changed_meanwhile(bench: Bench) -> None:
    client = bench.client()
    for path in ("/data", "/child", "/same"):
        bench.create(client, path)
    seen = bench.machine.last_zxid
    bench.write(client, SetData("/data", b"", -1))
    bench.create(client, "/child/x")
    request = SetWatches(
        seen,
        data=("/data", "/child", "/gone", "/same"),
        exist=("/same", "/gone"),
        child=("/data", "/child", "/gone", "/same"),
        persistent=("/same",),
        persistent_recursive=("/child",),
    )
    code, notices = bench.machine.watch(client, request)
    assert code is ErrorCode.OK
    assert events(notices) == [
        ("DATA_CHANGED", "/data"),
        ("DELETED", "/gone"),
        ("CREATED", "/same"),
        ("CHILDREN_CHANGED", "/child"),
        ("DELETED", "/gone"),
    ]
    assert {notice.event.zxid for notice in notices} == {-1}
    assert done(bench, node("/gone")) == [("CREATED", "/gone")]
    assert done(bench, node("/data/x")) == [("CHILDREN_CHANGED", "/data")]
    assert done(bench, SetData("/child/x", b"", -1)) == [("DATA_CHANGED", "/child/x")]
    for _ in range(2):
        assert done(bench, SetData("/same", b"", -1)) == [("DATA_CHANGED", "/same")]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (WatcherKind.DATA, {WatcherKind.CHILDREN}),
        (WatcherKind.CHILDREN, {WatcherKind.DATA}),
        (WatcherKind.PERSISTENT, {WatcherKind.DATA, WatcherKind.CHILDREN}),
        (WatcherKind.PERSISTENT_RECURSIVE, {WatcherKind.DATA, WatcherKind.CHILDREN}),
        (WatcherKind.ANY, set()),
    ],
)
def test_removing_a_kind_of_watch_leaves_the_others(
    bench: Bench, kind: WatcherKind, left: set[WatcherKind]
) -> None:
    client = bench.client()
    bench.read(client, GetData("/a", True))
    bench.read(client, GetChildren("/a", True, False))
    if kind in (WatcherKind.PERSISTENT, WatcherKind.PERSISTENT_RECURSIVE):
        add(bench, client, "/a", kind - WatcherKind.PERSISTENT)

    def found(wanted: WatcherKind, remove: bool = False) -> bool:
        code, notices = bench.machine.watch(client, FindWatches("/a", wanted, remove))
        assert notices == []
        assert code in (ErrorCode.OK, ErrorCode.NO_WATCHER)
        return code is ErrorCode.OK

    assert found(kind)
    assert found(kind, remove=True)
    assert not found(kind)
    assert not found(kind, remove=True)
    assert {k for k in WatcherKind if k is not WatcherKind.ANY and found(k)} == left


def test_one_clients_watches_are_not_anothers(bench: Bench) -> None:
    bench.read(bench.client(), GetData("/a", True))
    request = FindWatches("/a", WatcherKind.ANY, remove=True)
    assert bench.machine.watch(bench.client(), request) == (ErrorCode.NO_WATCHER, [])
    assert bench.machine.watches.size() == 1


def test_unknown_kinds_of_watches_are_refused(bench: Bench) -> None:
    client = bench.client()
    for request in (AddWatch("/a", 2), FindWatches("/a", 0, False), FindWatches("/a", 6, True)):
        assert bench.machine.watch(client, request) == (ErrorCode.MARSHALLING_ERROR, [])


def test_a_request_over_the_limit_of_watches_sets_none() -> None:
    bench = Bench(watch_limit=3)
    client = bench.client()
    bench.create(client, "/a")
    bench.read(client, GetData("/a", True))
    too_many = SetWatches(0, ("/a",), (), (), ("/a",))
    assert bench.machine.watch(client, too_many) == (ErrorCode.THROTTLED, [])
    add(bench, client, "/b", PERSISTENT)
    throttled = (ErrorCode.THROTTLED, None)
    assert bench.machine.read(client, GetData("/a", True)) == throttled
    assert bench.machine.read(client, Exists("/none", True)) == throttled
    assert bench.machine.read(client, GetChildren("/a", True, False)) == throttled
    assert bench.machine.watch(client, AddWatch("/a", RECURSIVE)) == (ErrorCode.THROTTLED, [])
    assert bench.machine.watches.size() == 3
    bench.write(client, SetData("/a", b"", -1))
    bench.read(client, GetData("/a", True))
