"""Requests to the machine: codes in ZooKeeper's order, stats, sequences, multi, sessions, containers and TTL nodes."""

import pytest

from engine.metadata.server.node_tree import TTL_MAX_MS
from engine.metadata.server.protocol import (
    OPEN_ACL,
    AclAnswer,
    AclEntry,
    Auth,
    Check,
    Children,
    CloseSession,
    Create,
    Created,
    CreateMode,
    Data,
    Delete,
    ErrorCode,
    Exists,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Identities,
    Multi,
    MultiAnswer,
    MultiRead,
    Number,
    Op,
    Paths,
    SetAcl,
    SetData,
    Stat,
    Write,
)
from tests.support.metadata.machine_bench import OWN, READ_ONLY, Bench, events


def stat(bench: Bench, path: str) -> Stat:
    answer = bench.read(bench.client(), Exists(path, False))
    assert isinstance(answer, Stat)
    return answer


def created(path: str, *, mode: int = 0, op: Op = Op.CREATE, ttl_ms: int = 0) -> Create:
    return Create(op, path, b"", OPEN_ACL, mode, ttl_ms)


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    client = bench.client()
    bench.machine.authenticate(client, Auth("digest", b"own:secret"))
    bench.create(client, "/node")
    bench.create(client, "/node/child")
    bench.create(client, "/ephemeral", mode=CreateMode.EPHEMERAL)
    bench.create(client, "/private", acl=OWN)
    bench.create(client, "/private/child")
    bench.create(client, "/read-only", acl=READ_ONLY)
    return bench


NO_ACL = ()
READ_AND_DELETE = AclEntry(9, "world", "anyone")
WRONG_ACL = (AclEntry(31, "nobody", "knows"),)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Create(Op.CREATE, "/none/a", b"", OPEN_ACL, 7), ErrorCode.BAD_ARGUMENTS),
        (Create(Op.CREATE, "no-slash", b"", NO_ACL, 0), ErrorCode.BAD_ARGUMENTS),
        (Create(Op.CREATE, "/none/a\0", b"", NO_ACL, 0), ErrorCode.BAD_ARGUMENTS),
        (Create(Op.CREATE, "/none/a", b"", NO_ACL, 0), ErrorCode.INVALID_ACL),
        (Create(Op.CREATE, "/none/a", b"", WRONG_ACL, 0), ErrorCode.INVALID_ACL),
        (Create(Op.CREATE, "/none/a", b"", OWN, 0), ErrorCode.INVALID_ACL),
        (Create(Op.CREATE, "/none/a", b"", OPEN_ACL, 0), ErrorCode.NO_NODE),
        (Create(Op.CREATE, "/private/..", b"", OPEN_ACL, 0), ErrorCode.NO_AUTH),
        (Create(Op.CREATE, "/node/", b"", OPEN_ACL, 0), ErrorCode.BAD_ARGUMENTS),
        (Create(Op.CREATE, "/node/\x01", b"", OPEN_ACL, 0), ErrorCode.BAD_ARGUMENTS),
        (Create(Op.CREATE, "/node/child", b"", OPEN_ACL, 0), ErrorCode.NODE_EXISTS),
        (Create(Op.CREATE, "/", b"", OPEN_ACL, 0), ErrorCode.NODE_EXISTS),
        (Create(Op.CREATE, "/ephemeral/a", b"", OPEN_ACL, 0), ErrorCode.NO_CHILDREN_FOR_EPHEMERALS),
        (created("/a", op=Op.CREATE_TTL, mode=5, ttl_ms=0), ErrorCode.BAD_ARGUMENTS),
        (created("/a", op=Op.CREATE_TTL, mode=5, ttl_ms=TTL_MAX_MS + 1), ErrorCode.BAD_ARGUMENTS),
        (created("/a", op=Op.CREATE_TTL, mode=0, ttl_ms=5), ErrorCode.BAD_ARGUMENTS),
        (created("/a", op=Op.CREATE2, mode=5, ttl_ms=5), ErrorCode.BAD_ARGUMENTS),
        (created("/a", op=Op.CREATE_TTL, mode=5, ttl_ms=TTL_MAX_MS), ErrorCode.OK),
        (Delete("no-slash", 0), ErrorCode.BAD_ARGUMENTS),
        (Delete("/", 7), ErrorCode.BAD_ARGUMENTS),
        (Delete("/zookeeper/config", -1), ErrorCode.BAD_ARGUMENTS),
        (Delete("/none/a", 0), ErrorCode.NO_NODE),
        (Delete("/private/none", 0), ErrorCode.NO_AUTH),
        (Delete("/none", 7), ErrorCode.NO_NODE),
        (Delete("/node", 7), ErrorCode.BAD_VERSION),
        (Delete("/node", 0), ErrorCode.NOT_EMPTY),
        (Delete("/node/child", 0), ErrorCode.OK),
        (SetData("/none/", b"", 0), ErrorCode.BAD_ARGUMENTS),
        (SetData("", b"", 0), ErrorCode.BAD_ARGUMENTS),
        (SetData("/none", b"", 7), ErrorCode.NO_NODE),
        (SetData("/read-only", b"", 7), ErrorCode.NO_AUTH),
        (SetData("/node", b"", 7), ErrorCode.BAD_VERSION),
        (SetData("/node", b"", 0), ErrorCode.OK),
        (SetData("/node", b"", -1), ErrorCode.OK),
        (SetAcl("/none/", NO_ACL, 0), ErrorCode.BAD_ARGUMENTS),
        (SetAcl("/none", NO_ACL, 0), ErrorCode.INVALID_ACL),
        (SetAcl("/none", OPEN_ACL, 0), ErrorCode.NO_NODE),
        (SetAcl("/read-only", OPEN_ACL, 7), ErrorCode.NO_AUTH),
        (SetAcl("/node", OPEN_ACL, 7), ErrorCode.BAD_VERSION),
        (SetAcl("/node", OPEN_ACL, 0), ErrorCode.OK),
    ],
)
def test_the_first_check_that_fails_decides_on_the_code(
    bench: Bench, request_: Write, code: ErrorCode
) -> None:
    assert bench.code(bench.client(), request_) is code


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (Check("/none/", 0), ErrorCode.BAD_ARGUMENTS),
        (Check("/none", 7), ErrorCode.NO_NODE),
        (Check("/private", 7), ErrorCode.NO_AUTH),
        (Check("/node", 7), ErrorCode.BAD_VERSION),
        (Check("/node", -2), ErrorCode.BAD_VERSION),
        (Check("/node", 0), ErrorCode.OK),
        (Check("/node", -1), ErrorCode.OK),
    ],
)
def test_a_check_compares_the_version_of_a_node_that_may_be_read(
    bench: Bench, check: Check, code: ErrorCode
) -> None:
    result = (Op.CHECK, None) if code is ErrorCode.OK else code
    assert bench.write(bench.client(), Multi((check,))).answer == MultiAnswer((result,))


def test_a_write_of_an_ended_session_fails(bench: Bench) -> None:
    client = bench.client()
    bench.write(client, CloseSession())
    assert bench.code(client, created("/a")) is ErrorCode.SESSION_EXPIRED
    assert bench.code(client, Multi(())) is ErrorCode.SESSION_EXPIRED


def test_a_failed_write_takes_a_transaction_id(bench: Bench) -> None:
    before = bench.machine.last_zxid
    outcome = bench.write(bench.client(), Delete("/none", -1))
    assert outcome.transaction == (before + 2, bench.now_ms, ())  # +1 opened the session


def test_a_new_tree_has_zookeepers_nodes() -> None:
    bench = Bench()
    assert stat(bench, "/") == (0, 0, 0, 0, 0, -1, 0, 0, 0, 1, 0)
    assert stat(bench, "/zookeeper") == (0, 0, 0, 0, 0, -2, 0, 0, 0, 2, 0)
    assert stat(bench, "/zookeeper/config") == (0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0)
    client = bench.client()
    assert bench.read(client, GetAllChildrenNumber("/")) == Number(3)
    assert bench.code(client, SetData("/zookeeper/config", b"", -1)) is ErrorCode.NO_AUTH


def test_stats_of_a_node_and_its_parent_follow_every_change() -> None:
    bench = Bench()
    client = bench.client()
    bench.now_ms = 10
    parent = bench.create(client, "/a", b"data").transaction.zxid
    assert stat(bench, "/a") == (parent, parent, 10, 10, 0, 0, 0, 0, 4, 0, parent)
    bench.now_ms = 20
    child = bench.create(client, "/a/b").transaction.zxid
    assert stat(bench, "/a") == (parent, parent, 10, 10, 0, 1, 0, 0, 4, 1, child)
    bench.now_ms = 30
    answer = bench.write(client, SetData("/a", b"longer", 0)).answer
    changed = bench.outcomes[-1].transaction.zxid
    assert answer == stat(bench, "/a")
    assert answer == (parent, changed, 10, 30, 1, 1, 0, 0, 6, 1, child)
    answer = bench.write(client, SetAcl("/a", (READ_AND_DELETE,), 0)).answer
    assert answer == (parent, changed, 10, 30, 1, 1, 1, 0, 6, 1, child)
    deleted = bench.write(client, Delete("/a/b", 0)).transaction.zxid
    assert stat(bench, "/a") == (parent, changed, 10, 30, 1, 2, 1, 0, 6, 0, deleted)


def test_the_stat_names_the_session_of_an_ephemeral_node_only(bench: Bench) -> None:
    client = bench.client()
    for op, mode, owner in (
        (Op.CREATE2, CreateMode.EPHEMERAL, client.session_id),
        (Op.CREATE_CONTAINER, CreateMode.CONTAINER, 0),
        (Op.CREATE_TTL, CreateMode.PERSISTENT_WITH_TTL, 0),
    ):
        answer = bench.create(client, f"/{op.name}", mode=mode, op=op, ttl_ms=5).answer
        assert isinstance(answer, Created)
        assert answer.stat is not None
        assert answer.stat.ephemeral_owner == owner


def test_only_the_plain_create_answers_without_a_stat(bench: Bench) -> None:
    client = bench.client()
    assert bench.write(client, created("/a")).answer == Created("/a", None)
    answer = bench.write(client, created("/b", op=Op.CREATE2)).answer
    assert answer == Created("/b", stat(bench, "/b"))


def test_a_sequence_number_is_the_count_of_children_ever_created() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/a")
    bench.create(client, "/a/plain")
    sequential = created("/a/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    assert bench.write(client, sequential).answer == Created("/a/n-0000000001", None)
    bench.write(client, Delete("/a/n-0000000001", -1))
    bench.write(client, Delete("/a/plain", -1))
    assert bench.write(client, sequential).answer == Created("/a/n-0000000002", None)
    only_number = created("/a/", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    assert bench.write(client, only_number).answer == Created("/a/0000000003", None)


def test_versions_wrap_around_at_32_bits() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/a")
    bench.machine.tree.nodes["/a"].version = 0x7FFFFFFF
    bench.write(client, SetData("/a", b"", -1))
    assert stat(bench, "/a").version == -0x80000000


def test_a_multi_answers_each_operation(bench: Bench) -> None:
    client = bench.client()
    ops = (
        created("/m"),
        Create(Op.CREATE2, "/m/a", b"x", OPEN_ACL, CreateMode.PERSISTENT_SEQUENTIAL),
        SetData("/m", b"1", 0),
        Check("/m", 1),
        Delete("/m/a0000000000", 0),
    )
    outcome = bench.write(client, Multi(ops))
    zxid = outcome.transaction.zxid
    assert isinstance(outcome.answer, MultiAnswer)
    first, second, third, *others = outcome.answer.results
    assert first == (Op.CREATE, Created("/m", None))
    inner = Stat(zxid, zxid, bench.now_ms, bench.now_ms, 0, 0, 0, 0, 1, 0, zxid)
    assert second == (Op.CREATE2, Created("/m/a0000000000", inner))
    assert third == (Op.SET_DATA, stat(bench, "/m")._replace(num_children=1, cversion=1))
    assert others == [(Op.CHECK, None), (Op.DELETE, None)]
    assert bench.read(client, GetData("/m", False)) == Data(b"1", stat(bench, "/m"))


def test_a_multi_without_operations_succeeds(bench: Bench) -> None:
    outcome = bench.write(bench.client(), Multi(()))
    assert (outcome.code, outcome.answer) == (ErrorCode.OK, MultiAnswer(()))


def test_a_failed_multi_names_the_operation_that_failed(bench: Bench) -> None:
    ops = (created("/m"), Check("/m", 0), Delete("/node", 0), created("/m"))
    outcome = bench.write(bench.client(), Multi(ops))
    assert outcome.code is ErrorCode.OK
    assert outcome.answer == MultiAnswer(
        (ErrorCode.OK, ErrorCode.OK, ErrorCode.NOT_EMPTY, ErrorCode.RUNTIME_INCONSISTENCY)
    )
    assert bench.machine.read(bench.client(), Exists("/m", False)) == (ErrorCode.NO_NODE, None)


def test_a_sequence_number_of_a_failed_multi_is_taken_back(bench: Bench) -> None:
    client = bench.client()
    sequential = created("/node/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    bench.write(client, Multi((sequential, Delete("/none", -1))))
    assert bench.write(client, sequential).answer == Created("/node/n-0000000001", None)


def test_the_end_of_a_session_deletes_its_ephemeral_nodes_and_no_others(bench: Bench) -> None:
    client, other = bench.client(), bench.client()
    for path in ("/e1", "/node/e2"):
        bench.create(client, path, mode=CreateMode.EPHEMERAL)
    bench.create(other, "/e3", mode=CreateMode.EPHEMERAL)
    bench.create(client, "/persistent")
    outcome = bench.close(client)
    assert stat(bench, "/node").pzxid == outcome.transaction.zxid
    assert stat(bench, "/e3").ephemeral_owner == other.session_id
    assert stat(bench, "/persistent").ephemeral_owner == 0
    for path in ("/e1", "/node/e2"):
        assert bench.machine.read(other, Exists(path, False)) == (ErrorCode.NO_NODE, None)
    assert client.session_id not in bench.machine.sessions
    assert sorted(set(outcome.transaction.paths())) == ["/", "/e1", "/node", "/node/e2"]


def test_a_session_is_taken_up_with_its_password_only(bench: Bench) -> None:
    client = bench.client()
    sessions = bench.machine.sessions
    assert sessions.accepts(client.session_id, b"p" * 16)
    assert not sessions.accepts(client.session_id, b"q" * 16)
    assert not sessions.accepts(77, b"p" * 16)


def test_a_container_is_removed_when_its_children_are_gone() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/c", mode=CreateMode.CONTAINER, op=Op.CREATE_CONTAINER)
    assert bench.machine.unused(bench.now_ms) == []  # never had a child
    bench.create(client, "/c/a")
    assert bench.machine.unused(bench.now_ms) == []
    bench.write(client, Delete("/c/a", -1))
    assert bench.machine.unused(bench.now_ms) == ["/c"]
    bench.remove_unused()
    assert bench.machine.read(client, Exists("/c", False)) == (ErrorCode.NO_NODE, None)


def test_a_ttl_node_is_removed_when_it_has_no_children_and_was_not_changed_for_its_time() -> None:
    bench = Bench()
    client = bench.client()
    bench.now_ms = 0
    bench.create(client, "/t", mode=5, op=Op.CREATE_TTL, ttl_ms=10)
    assert bench.machine.unused(10) == []
    assert bench.machine.unused(11) == ["/t"]
    bench.create(client, "/t/a")
    assert bench.machine.unused(11) == []
    bench.write(client, Delete("/t/a", -1))
    bench.now_ms = 5
    bench.write(client, SetData("/t", b"", -1))
    assert bench.machine.unused(15) == []
    assert bench.machine.unused(16) == ["/t"]
    bench.now_ms = 16
    bench.remove_unused()
    assert bench.machine.read(client, Exists("/t", False)) == (ErrorCode.NO_NODE, None)


def test_a_node_that_got_a_child_or_its_place_meanwhile_is_not_removed_as_unused() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/c", mode=CreateMode.CONTAINER, op=Op.CREATE_CONTAINER)
    bench.create(client, "/c/a")
    bench.create(client, "/persistent")
    for path, code in (
        ("/c", ErrorCode.NOT_EMPTY),
        ("/none", ErrorCode.NO_NODE),
        ("/persistent", ErrorCode.BAD_VERSION),
    ):
        zxid = bench.machine.last_zxid + 1
        assert bench.machine.remove_unused(path, zxid, bench.now_ms).code is code


def test_reads_answer_data_children_and_stats(bench: Bench) -> None:
    client = bench.client()
    bench.create(client, "/node/x", b"data")
    assert bench.read(client, GetData("/node/x", False)) == Data(b"data", stat(bench, "/node/x"))
    children = bench.read(client, GetChildren("/node", False, False))
    assert children == Children(("child", "x"), None)
    children = bench.read(client, GetChildren("/node", False, True))
    assert children == Children(("child", "x"), stat(bench, "/node"))
    assert bench.read(client, GetChildren("/node/x", False, False)) == Children((), None)
    assert bench.read(client, GetAllChildrenNumber("/node")) == Number(2)
    assert bench.machine.read(client, GetData("/none", True)) == (ErrorCode.NO_NODE, None)
    assert bench.machine.read(client, GetData("/private", True)) == (ErrorCode.NO_AUTH, None)
    assert bench.machine.read(client, Exists("/private", True)) == (ErrorCode.NO_AUTH, None)
    assert bench.machine.read(client, Exists("/none\0", True)) == (ErrorCode.BAD_ARGUMENTS, None)
    assert bench.machine.watches.size() == 0


def test_a_multi_read_answers_each_read_on_its_own(bench: Bench) -> None:
    reads = (
        GetData("/node", False),
        GetData("/none", False),
        GetChildren("/node", False, False),
        GetChildren("/private", False, False),
    )
    assert bench.read(bench.client(), MultiRead(reads)) == MultiAnswer(
        (
            (Op.GET_DATA, Data(b"", stat(bench, "/node"))),
            ErrorCode.NO_NODE,
            (Op.GET_CHILDREN, Children(("child",), None)),
            ErrorCode.NO_AUTH,
        )
    )


def test_ephemerals_are_those_of_the_session_below_the_prefix(bench: Bench) -> None:
    client = bench.client()
    for path in ("/node/b", "/node/a", "/n"):
        bench.create(client, path, mode=CreateMode.EPHEMERAL)
    for prefix in ("/", "", "  "):
        answer = bench.read(client, GetEphemerals(prefix))
        assert answer == Paths(("/n", "/node/a", "/node/b"))
    assert bench.read(client, GetEphemerals("/node")) == Paths(("/node/a", "/node/b"))
    assert bench.read(bench.client(), GetEphemerals("/")) == Paths(())


def test_the_digest_of_a_password_is_shown_to_who_may_change_the_acl_only(bench: Bench) -> None:
    owner, other = bench.client(), bench.client()
    bench.machine.authenticate(owner, Auth("digest", b"user:secret"))
    whole = AclEntry(31, "digest", owner.identities[1].id)
    acl = (whole, AclEntry(1, "world", "anyone"))
    bench.create(owner, "/a", acl=acl)
    assert bench.read(owner, GetAcl("/a")) == AclAnswer(acl, stat(bench, "/a"))
    redacted = (AclEntry(31, "digest", "user:x"), acl[1])
    assert bench.read(other, GetAcl("/a")) == AclAnswer(redacted, stat(bench, "/a"))


def test_a_client_has_its_address_and_what_it_authenticated_as(bench: Bench) -> None:
    client = bench.client()
    machine = bench.machine
    for _ in range(2):
        assert machine.authenticate(client, Auth("digest", b"user:secret")) is ErrorCode.OK
        assert machine.authenticate(client, Auth("ip", b"")) is ErrorCode.OK
    assert machine.authenticate(client, Auth("nobody", b"")) is ErrorCode.AUTH_FAILED
    assert machine.who_am_i(client) == Identities((("ip", "127.0.0.1"), ("digest", "user")))


def test_a_read_shows_changes_of_the_paths_that_it_names(bench: Bench) -> None:
    client = bench.client()
    outcome = bench.create(client, "/node/x")
    assert outcome.transaction.paths() == ["/node", "/node/x"]
    assert bench.create(client, "/x").transaction.paths() == ["/", "/x"]
    assert events(outcome.notices) == []
