"""The server: answers only after the sync, in order; sessions that outlive it; a full disk, a failing one; limits."""

import asyncio
import errno
from collections.abc import AsyncIterator

import pytest

from engine.metadata.server.changes import NodePut, Transaction
from engine.metadata.server.protocol import (
    OPEN_ACL,
    Auth,
    CloseSession,
    ConnectAnswer,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    ErrorCode,
    Event,
    EventType,
    Exists,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    Op,
    Path,
    Paths,
    Ping,
    SetData,
    SetWatches,
    Sync,
    WhoAmI,
)
from engine.metadata.server.serving.client_connection import SESSIONLESS_S
from engine.metadata.server.storage.metadata_log import DamagedStoreError
from tests.sim.kit.disk import FaultDisk
from tests.support.zookeeper.client_codec import Reply
from tests.support.zookeeper.metadata_rig import FOLDER, MetadataRig, create
from tests.support.zookeeper.seam_client import SeamClient

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def rig() -> AsyncIterator[MetadataRig]:
    rig = MetadataRig()
    await rig.start()
    yield rig
    await rig.stop()


async def test_a_write_is_answered_after_its_sync(rig: MetadataRig) -> None:
    client = await rig.client()
    rig.sync_s = lambda: 5.0
    before = asyncio.get_running_loop().time()
    assert await client.code(create("/a")) == ErrorCode.OK
    assert asyncio.get_running_loop().time() - before >= 5.0


async def test_a_read_waits_only_for_changes_that_it_shows(rig: MetadataRig) -> None:
    writer, reader = await rig.client(), await rig.client()
    await writer.ask(create("/a", b"old"))
    await writer.ask(create("/b"))
    rig.sync_s = lambda: 5.0
    writing = writer.send(SetData("/a", b"new", -1))
    assert (await reader.send(GetData("/b", False))).code == ErrorCode.OK
    assert not writing.done()
    read = await reader.send(GetData("/a", False))
    assert writing.done()
    assert isinstance(read.answer, Data)
    assert read.answer.data == b"new"


async def test_a_list_of_ephemerals_shows_nothing_that_is_not_synced(rig: MetadataRig) -> None:
    client = await rig.client()
    rig.sync_s = lambda: 5.0
    client.send(create("/e", b"", CreateMode.EPHEMERAL))
    again = await rig.client(session=client.session)  # takes the session over
    assert await again.ask(GetEphemerals("")) == Paths(("/e",))
    await rig.crash()
    last = await rig.client(session=client.session)
    assert await last.ask(GetEphemerals("")) == Paths(("/e",))


async def test_answers_of_one_connection_are_in_order(rig: MetadataRig) -> None:
    client = await rig.client()
    requests = [create("/a"), GetData("/", False), Ping(), Exists("/zookeeper", False), Sync("/")]
    replies = [client.send(request) for request in requests]
    await asyncio.gather(*replies)
    assert client.received == [reply.result() for reply in replies]


async def test_an_event_precedes_the_answer_that_shows_its_change(rig: MetadataRig) -> None:
    writer, watcher = await rig.client(), await rig.client()
    await writer.ask(create("/a"))
    await watcher.ask(GetData("/a", True))
    writer.send(SetData("/a", b"1", -1))
    await watcher.ask(GetData("/a", False))
    event, reply = watcher.received[-2:]
    assert isinstance(event, Event)
    assert (event.type, event.path) == (EventType.DATA_CHANGED, "/a")
    assert isinstance(reply, Reply)
    assert reply.zxid >= event.zxid > 0


async def test_a_watch_that_is_set_before_a_change_is_answered_before_its_event(
    rig: MetadataRig,
) -> None:
    # A client registers a watch at its answer, and would drop an event that arrives before.
    writer, watcher = await rig.client(), await rig.client()
    rig.sync_s = lambda: 1.0
    watcher.send(create("/own"))  # the watcher's answers wait
    exists = watcher.send(Exists("/a", True))
    await asyncio.sleep(0.1)
    await writer.send(create("/a"))
    await watcher.send(Sync("/"))
    assert [type(item) for item in watcher.received] == [Reply, Reply, Event, Reply]
    assert exists.result().code == ErrorCode.NO_NODE


async def test_no_answer_claims_to_be_newer_than_events_that_are_due(rig: MetadataRig) -> None:
    # A client that reconnects asks for changes since the greatest zxid it saw; an event below it would be lost.
    writer, watcher = await rig.client(), await rig.client()
    await writer.ask(create("/a"))
    await watcher.ask(Exists("/a", True))
    rig.sync_s = lambda: 1.0
    change = writer.send(SetData("/a", b"1", -1))
    await asyncio.sleep(0.1)
    other = await rig.client()
    assert change.done()
    unrelated = await other.send(GetData("/zookeeper", False))
    assert unrelated.zxid <= rig.server.commits.durable_zxid
    assert watcher.events


async def test_a_power_loss_keeps_what_was_answered_and_sessions(rig: MetadataRig) -> None:
    client = await rig.client()
    await client.ask(create("/a", b"1"))
    await client.ask(create("/e", b"", CreateMode.EPHEMERAL))
    seen = client.last_zxid
    await rig.crash()
    again = await rig.client(session=client.session, last_zxid=seen)
    assert again.session == client.session
    data = await again.ask(GetData("/a", False))
    assert isinstance(data, Data)
    assert data.data == b"1"
    made = await again.send(create("/b"))
    assert made.zxid >> 32 == (seen >> 32) + 1
    assert await again.code(Exists("/e", False)) == ErrorCode.OK


async def test_a_store_whose_changes_make_no_tree_refuses_the_start(rig: MetadataRig) -> None:
    commits = rig.server.commits
    orphan = NodePut("/none/a", b"", OPEN_ACL, 1, 1, 1, 1, 0, 0, 0, 0, 1)
    commits.add(Transaction(rig.server.machine.last_zxid + 1, 1, (orphan,)))
    await commits.drain()
    await rig.kill()
    with pytest.raises(DamagedStoreError, match="'/none/a' has no parent: restore it from a bac"):
        await rig.start()


async def test_a_session_ends_when_it_is_not_seen_for_its_timeout(rig: MetadataRig) -> None:
    idle, busy = await rig.client(timeout_ms=4000), await rig.client(timeout_ms=4000)
    await idle.ask(create("/e", b"", CreateMode.EPHEMERAL))
    await busy.ask(create("/f", b"", CreateMode.EPHEMERAL))
    for _ in range(3):
        await asyncio.sleep(1.9)
        await busy.send(Ping())
    assert idle.lost.done()
    assert not busy.lost.done()
    assert await busy.code(Exists("/e", False)) == ErrorCode.NO_NODE
    assert await busy.code(Exists("/f", False)) == ErrorCode.OK
    again = await rig.client(session=idle.session)
    assert again.session == ConnectAnswer(0, 0, bytes(16))
    await again.lost


async def test_after_a_restart_a_session_has_its_full_timeout(rig: MetadataRig) -> None:
    client = await rig.client(timeout_ms=4000)
    await client.ask(create("/e", b"", CreateMode.EPHEMERAL))
    await asyncio.sleep(3)
    await rig.crash()
    await asyncio.sleep(3)
    again = await rig.client(session=client.session)
    assert await again.code(Exists("/e", False)) == ErrorCode.OK


async def test_the_timeout_is_negotiated_within_the_bounds_of_ticks(rig: MetadataRig) -> None:
    for wanted, given in ((1, 4000), (10_000, 10_000), (1 << 30, 40_000)):
        client = await rig.client(timeout_ms=wanted)
        assert client.session is not None
        assert client.session.timeout_ms == given


async def test_no_session_id_is_given_twice_whatever_the_clock_does(rig: MetadataRig) -> None:
    first = await rig.client()
    assert await first.code(CloseSession()) == ErrorCode.OK
    rig.epoch_ms -= 86_400_000
    await rig.stop()
    await rig.start()
    second = await rig.client()
    assert first.session is not None
    assert second.session is not None
    assert second.session.session_id != first.session.session_id


async def test_a_wrong_password_gets_no_session_and_disturbs_none(rig: MetadataRig) -> None:
    client = await rig.client()
    assert client.session is not None
    thief = await rig.client(session=client.session._replace(password=b"x" * 16))
    assert thief.session == ConnectAnswer(0, 0, bytes(16))
    assert await client.code(Ping()) == ErrorCode.OK


async def test_a_reconnect_takes_the_session_over(rig: MetadataRig) -> None:
    client = await rig.client()
    await client.ask(GetData("/", True))
    again = await rig.client(session=client.session)
    await client.lost
    await again.ask(create("/a"))
    assert rig.server.machine.watches.size() == 0


async def test_a_client_from_the_future_is_refused(rig: MetadataRig) -> None:
    with pytest.raises(ConnectionResetError):
        await rig.client(last_zxid=1 << 40)


async def test_a_closed_session_is_answered_then_the_connection_ends(rig: MetadataRig) -> None:
    client, other = await rig.client(), await rig.client()
    await client.ask(create("/e", b"", CreateMode.EPHEMERAL))
    closing = client.send(CloseSession())
    late = client.send(create("/late"))
    assert (await closing).code == ErrorCode.OK
    await client.lost
    assert isinstance(late.exception(), OSError)
    assert await other.ask(GetChildren("/", False, False))
    assert await other.code(Exists("/e", False)) == ErrorCode.NO_NODE
    assert await other.code(Exists("/late", False)) == ErrorCode.NO_NODE


async def test_watches_are_set_again_and_fire_for_what_was_missed(rig: MetadataRig) -> None:
    writer, watcher = await rig.client(), await rig.client()
    await writer.ask(create("/a"))
    await writer.ask(create("/b"))
    await watcher.ask(GetData("/a", True))
    await watcher.ask(GetData("/b", True))
    watcher.close()
    await writer.ask(SetData("/a", b"1", -1))
    again = await rig.client(session=watcher.session, last_zxid=watcher.last_zxid)
    await again.send(SetWatches(watcher.last_zxid, ("/a", "/b"), (), ()))
    assert [event.path for event in again.events] == ["/a"]
    await writer.ask(SetData("/b", b"1", -1))
    await again.send(Sync("/"))
    assert [event.path for event in again.events] == ["/a", "/b"]


async def test_other_requests_are_answered_as_zookeeper_does(rig: MetadataRig) -> None:
    client = await rig.client()
    assert await client.ask(Sync("/a")) == Path("/a")
    authenticated = await client.send(Auth("digest", b"u:p"))
    assert (authenticated.code, authenticated.zxid) == (ErrorCode.OK, 0)
    assert await client.ask(WhoAmI())
    assert await client.code(Multi((create("/m"), SetData("/none", b"", -1)))) in (
        ErrorCode.OK,
        ErrorCode.NO_NODE,
    )
    assert (await client.send(Auth("nonsense", b""))).code == ErrorCode.AUTH_FAILED
    await client.lost


async def test_an_unknown_type_is_answered_behind_what_waits_then_closed(rig: MetadataRig) -> None:
    client = await rig.client()
    creating = client.send(create("/a"))
    unknown = client.send_frame(2, bytes.fromhex("00000008 00000002 00000063"))
    assert (await creating).code == ErrorCode.OK
    refused = await unknown
    assert (refused.code, refused.zxid) == (ErrorCode.UNIMPLEMENTED, -1)
    await client.lost


async def test_a_body_of_another_form_is_answered_and_the_connection_goes_on(
    rig: MetadataRig,
) -> None:
    client = await rig.client()
    malformed = client.send_frame(1, bytes.fromhex("0000000a 00000001 00000004 ffff"))
    assert (await malformed).code == ErrorCode.MARSHALLING_ERROR
    assert await client.code(Ping()) == ErrorCode.OK


async def test_containers_and_nodes_past_their_time_are_removed(rig: MetadataRig) -> None:
    client = await rig.client(timeout_ms=40_000)
    await client.ask(Create(Op.CREATE_CONTAINER, "/c", b"", OPEN_ACL, CreateMode.CONTAINER))
    await client.ask(create("/c/x"))
    await client.ask(
        Create(Op.CREATE_TTL, "/t", b"", OPEN_ACL, CreateMode.PERSISTENT_WITH_TTL, 1000)
    )
    await client.send(Delete("/c/x", -1))
    for _ in range(4):
        await asyncio.sleep(20)
        await client.send(Ping())
    assert await client.code(Exists("/c", False)) == ErrorCode.NO_NODE
    assert await client.code(Exists("/t", False)) == ErrorCode.NO_NODE


async def test_a_failed_sync_ends_the_server_and_answers_nothing(rig: MetadataRig) -> None:
    client = await rig.client()

    def plan(operation: str, path: str) -> None:
        if operation == "fdatasync":
            raise OSError(errno.EIO, "Input/output error", path)

    rig.disk.plan = plan
    with pytest.raises(ConnectionResetError):
        await client.send(create("/a"))
    await rig.server.over.wait()
    assert isinstance(rig.server.failure, OSError)
    rig.disk.plan = None
    await rig.crash()
    again = await rig.client(session=client.session)
    assert await again.code(Exists("/a", False)) == ErrorCode.NO_NODE


async def test_a_group_whose_sync_failed_is_not_seen_before_it_is_durable(
    rig: MetadataRig,
) -> None:
    client = await rig.client()

    def plan(operation: str, path: str) -> None:
        if operation == "fdatasync":
            rig.disk.plan = None
            rig.disk.drop_dirty(path)  # readable, but no later sync of these pages writes them
            raise OSError(errno.EIO, "Input/output error", path)

    rig.disk.plan = plan
    with pytest.raises(ConnectionResetError):
        await client.send(create("/a"))
    await rig.kill()
    await rig.start()
    again = await rig.client(session=client.session)
    seen = await again.code(Exists("/a", False))
    await rig.crash()
    later = await rig.client(session=client.session)
    assert await later.code(Exists("/a", False)) == seen


async def full_rig() -> tuple[MetadataRig, SeamClient]:
    rig = MetadataRig(FaultDisk())
    await rig.start()
    client = await rig.client(timeout_ms=40_000)
    await client.ask(create("/a"))
    await client.ask(create("/e", b"", CreateMode.EPHEMERAL))
    rig.disk.capacity_bytes = 0
    while (await client.send(SetData("/a", bytes(2000), -1))).code == ErrorCode.OK:
        pass
    return rig, client


async def test_a_full_disk_refuses_writes_serves_reads_and_recovers() -> None:
    rig, client = await full_rig()
    assert await client.code(create("/b")) == ErrorCode.NOT_READ_ONLY
    assert await client.code(GetData("/a", False)) == ErrorCode.OK
    assert not rig.server.writable
    with pytest.raises(ConnectionResetError):
        await rig.client()
    rig.disk.capacity_bytes = 1 << 30
    await asyncio.sleep(2)
    assert await client.code(create("/b")) == ErrorCode.OK
    await rig.stop()


async def test_sessions_end_on_a_full_disk() -> None:
    rig, client = await full_rig()
    other = await rig.client(session=client.session)
    assert await other.code(CloseSession()) == ErrorCode.OK
    rig.disk.capacity_bytes = 1 << 30
    await rig.crash()
    again = await rig.client()
    assert await again.code(Exists("/e", False)) == ErrorCode.NO_NODE
    await rig.stop()


async def test_a_write_that_met_a_full_disk_is_answered_when_there_is_room() -> None:
    rig = MetadataRig(FaultDisk())
    await rig.start()
    client, other, third = await rig.client(), await rig.client(), await rig.client()
    rig.disk.capacity_bytes = 0
    large = client.send(create("/a", bytes(500_000)))
    await asyncio.sleep(2)
    read = other.send(Exists("/a", False))
    assert await third.code(create("/b")) == ErrorCode.NOT_READ_ONLY
    assert not large.done()
    assert not read.done()
    rig.disk.capacity_bytes = 1 << 30
    assert (await large).code == ErrorCode.OK
    assert (await read).code == ErrorCode.OK
    await rig.stop()


async def test_a_connection_whose_answers_wait_is_not_read(rig: MetadataRig) -> None:
    rig = MetadataRig(waiting_bytes_max=2048)
    await rig.start()
    client = await rig.client()
    rig.sync_s = lambda: 1.0
    replies = [client.send(SetData("/", b"", -1)) for _ in range(500)]
    await asyncio.sleep(0.5)
    (connection,) = rig.server.connections
    assert connection.held
    await asyncio.gather(*replies)
    assert not connection.held
    await rig.stop()


async def test_a_request_above_the_limit_ends_its_connection(rig: MetadataRig) -> None:
    client = await rig.client()
    assert (await client.send(create("/a", bytes(1_000_000)))).code == ErrorCode.OK
    with pytest.raises(ConnectionResetError):
        await client.send(create("/b", bytes(1 << 20)))


async def test_a_limit_of_connections_and_of_watches() -> None:
    rig = MetadataRig(connections_max=2, watches_max=1)
    await rig.start()
    client, other = await rig.client(), await rig.client()
    with pytest.raises(ConnectionResetError):
        await rig.client()
    assert await client.code(GetData("/", True)) == ErrorCode.OK
    assert await other.code(GetData("/", True)) == ErrorCode.THROTTLED
    await other.send(SetWatches(0, ("/zookeeper",), (), ()))
    await other.lost
    await rig.stop()


async def test_connections_without_a_session_give_their_places_to_others() -> None:
    rig = MetadataRig(connections_max=2)
    await rig.start()
    client = await rig.client(timeout_ms=40_000)
    _, silent = await rig.network.connect("127.0.0.1", rig.server.port, SeamClient)
    assert isinstance(silent, SeamClient)
    silent.write(bytes(3))  # less than a first request
    with pytest.raises(ConnectionResetError):
        await rig.client()
    await silent.lost
    assert silent.connected.exception()
    other = await rig.client(timeout_ms=40_000)
    await asyncio.sleep(SESSIONLESS_S)
    assert await client.code(Ping()) == await other.code(create("/a")) == ErrorCode.OK
    await rig.stop()


async def test_snapshots_are_taken_while_writes_go_on(rig: MetadataRig) -> None:
    rig = MetadataRig(snapshot_log_bytes=20_000)
    await rig.start()
    client = await rig.client(timeout_ms=40_000)
    for i in range(200):
        await client.ask(create(f"/{i}", bytes(300)))
        await asyncio.sleep(0.02)
    names = rig.disk.listdir(FOLDER)
    assert sum(name.startswith("snapshot-") for name in names) == 2
    await rig.crash()
    again = await rig.client(session=client.session)
    children = await again.ask(GetChildren("/", False, False))
    assert len(children.names) == 201  # type: ignore[union-attr]
    await rig.stop()


async def test_a_snapshot_is_finished_when_all_that_it_shows_is_durable(rig: MetadataRig) -> None:
    client = await rig.client(timeout_ms=40_000)
    await client.ask(create("/a"))
    assert rig.server._snapshots is not None
    rig.snapshot_s = lambda: 1.0
    taking = asyncio.create_task(rig.server._snapshots.take())
    await asyncio.sleep(1.5)
    rig.sync_s = lambda: 10.0
    writing = client.send(SetData("/a", b"shown", -1))  # before /a is copied
    await asyncio.sleep(6)
    names = rig.disk.listdir(FOLDER)
    assert [name for name in names if name.startswith("snap")] == ["snapshot-0000000002.tmp"]
    assert not writing.done()
    await taking
    assert writing.done()
    assert "snapshot-0000000002" in rig.disk.listdir(FOLDER)


async def test_a_stop_answers_what_was_received_and_leaves_a_snapshot() -> None:
    rig = MetadataRig()
    await rig.start()
    client = await rig.client()
    rig.sync_s = lambda: 0.5
    creating = client.send(create("/a"))
    await asyncio.sleep(0.1)
    await rig.stop()
    assert creating.result().answer == Created("/a", None)
    assert [name for name in rig.disk.listdir(FOLDER) if name.startswith("snap")]
    await rig.start()
    again = await rig.client(session=client.session)
    assert await again.code(Exists("/a", False)) == ErrorCode.OK
    await rig.stop()


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        (b"ruok", b"imok"),
        (b"srvr", b"Mode: standalone\nNode count: 5\n"),
        (b"mntr", b"zk_znode_count\t5\n"),
        (b"stat", b"Clients:\n"),
        (b"wchs", b"Total watches:0\n"),
        (b"envi", b"zookeeper.version=3.9."),
        (b"isro", b"rw"),
        (b"conf", b"tickTime=2000\n"),
    ],
)
@pytest.mark.parametrize("split", [1, 4])
async def test_four_letter_words(rig: MetadataRig, word: bytes, shown: bytes, split: int) -> None:
    received = bytearray()
    over = asyncio.get_running_loop().create_future()

    class Reader(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            received.extend(data)

        def connection_lost(self, exc: Exception | None) -> None:
            over.set_result(None)

    transport, _ = await rig.network.connect("", rig.server.port, Reader)
    for i in range(0, 4, split):
        transport.write(word[i : i + split])
        await asyncio.sleep(0.01)
    await over
    assert shown in received
