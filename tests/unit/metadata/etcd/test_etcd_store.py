"""The store on etcd: what it makes of a flat tree, and how it reads in pieces at one revision. What every store does is
in the contract suite, which runs on a real etcd."""

import pytest

from engine.base.errors import MisuseError
from engine.metadata.etcd import etcd_store
from engine.metadata.etcd.etcd_store import EtcdStore
from engine.metadata.store import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    StoreUnavailableError,
)
from tests.support.stores.fake_etcd import FakeEtcd, Json, Refusal
from tests.support.waiting import until
from tests.unit.metadata.etcd.conftest import OpenSession

pytestmark = pytest.mark.virtual_time


async def test_keys_are_paths_below_the_chroot_with_their_parents(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    await store.create("/a/b/c", b"x", make_parents=True)
    assert sorted(fake.rows) == ["/c/a", "/c/a/b", "/c/a/b/c"]
    await store.put("/a/b/c", b"y")
    assert fake.rows["/c/a/b/c"].version == 2


async def test_a_parent_that_another_client_left_out_is_missing_but_has_children(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    fake.write("/c/p/q/leaf", "1")
    assert await store.children("/") == ["p"]
    assert await store.children("/p") == ["q"]
    assert await store.exists("/p/q") is None
    for call in (store.get, store.delete):
        with pytest.raises(NoNodeError):
            await call("/p/q")
    assert await store.create("/p/q/other") == "/p/q/other"
    assert await store.get_all(["/p"], "/p/q") == ([None], ["leaf", "other"])
    with pytest.raises(NoNodeError):
        await store.create("/p/none/leaf")
    assert await store.create("/p/q") == "/p/q"
    with pytest.raises(NotEmptyError):
        await store.delete("/p/q")
    with pytest.raises(NodeExistsError):
        await store.create("/p/q/leaf")


async def test_a_leaf_that_comes_without_its_parents_changes_the_children_of_all_of_them(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    called: list[str] = []
    assert await store.children("/", called.append) == []
    with pytest.raises(NoNodeError):
        await store.children("/p/q", called.append)
    fake.write("/c/p/q/leaf")
    await until(lambda: len(called) == 2)
    assert sorted(called) == ["/", "/p/q"]


async def test_a_put_keeps_the_lease_of_an_ephemeral_node(fake: FakeEtcd, store: EtcdStore) -> None:
    await store.create("/e", b"1", ephemeral=True)
    stat = await store.put("/e", b"2")
    assert stat.ephemeral_owner == store.session_id == fake.rows["/c/e"].lease


async def test_the_number_of_a_sequence_is_the_version_of_its_parent_whose_value_stays(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    await store.create("/s", b"value")
    assert await store.create("/s/id-", sequence=True) == "/s/id-0000000001"
    fake.write("/c/s", "written by another client of the sequence")
    assert await store.create("/s/id-", sequence=True) == "/s/id-0000000003"
    assert (await store.get("/s"))[0] == b"written by another client of the sequence"
    with pytest.raises(MisuseError):
        await store.create("/id-", sequence=True)


async def test_children_are_listed_in_pages_that_skip_what_is_below_them(
    fake: FakeEtcd, store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "PAGE_KEYS", 4)
    for name in ("a", "b", "c-1", "c"):
        for below in range(10):
            fake.write(f"/c/p/{name}/{below}")
    for leaf in ("a", "c-1", "d", "e", "f"):
        fake.write(f"/c/p/{leaf}")
    fake.write("/c/p0/behind")
    fake.calls.clear()
    assert await store.children("/p") == ["a", "b", "c", "c-1", "d", "e", "f"]
    reads = [call for call in fake.calls if call[1] == "kv/txn"]
    assert len(reads) <= 6
    for leaf in ("a", "b", "b-1", "c", "c-1", "c/deeper", "d"):
        fake.write(f"/c/q/{leaf}")
    assert await store.children("/q") == ["a", "b", "b-1", "c", "c-1", "d"]
    assert (await store.get_all([], "/p"))[1] == ["a", "b", "c", "c-1", "d", "e", "f"]


async def test_many_nodes_are_read_in_pieces_at_one_revision(
    fake: FakeEtcd, store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "OPERATIONS_MAX", 3)
    for number in range(7):
        fake.write(f"/c/n/{number}", str(number))
    revisions: list[int] = []

    def note(member: int, method: str, body: Json) -> None:
        if method == "kv/txn":
            ranges = [step["request_range"] for step in body["success"]]
            revisions.extend(int(item.get("revision", 0)) for item in ranges)

    fake.on_call = note
    names = [str(number) for number in range(7)]
    rows, children = await store.get_all([f"/n/{name}" for name in names], "/n")
    assert [row and row[0].decode() for row in rows] == names == children
    assert revisions == [0, 0, 0, 0] + [fake.revision] * 4


@pytest.mark.parametrize("call", ["children", "get_all"])
async def test_a_reading_whose_revision_is_compacted_begins_again(
    fake: FakeEtcd, store: EtcdStore, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(etcd_store, "PAGE_KEYS", 2)
    for number in range(5):
        fake.write(f"/c/n/{number}")
    times = [1]

    def compact(member: int, method: str, body: Json) -> None:
        ranges = [step.get("request_range", {}) for step in body.get("success", [])]
        if times[0] and any("revision" in item for item in ranges):
            times[0] -= 1
            fake.write("/c/other")
            fake.compact()

    async def read() -> list[str]:
        return (
            await store.children("/n") if call == "children" else (await store.get_all([], "/n"))[1]
        )

    fake.on_call = compact
    assert await read() == ["0", "1", "2", "3", "4"]
    times[0] = 100
    with pytest.raises(StoreUnavailableError, match="compacted"):
        await read()


async def test_a_write_without_an_answer_is_unknown_and_not_repeated(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    await store.create("/a", b"0")

    def lose(member: int, method: str, body: Json) -> bytes | None:
        if method == "kv/txn" and member == 0:
            fake.answer(method, body, "")
            return b""
        return None

    fake.on_call = lose
    with pytest.raises(StoreUnavailableError):
        await store.put("/a", b"1")
    fake.on_call = lambda *_: None
    value, stat = await store.get("/a")
    assert (value, stat.version) == (b"1", 1)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"succeeded": true',
        b'{"header": {}}',
        b'{"header": {"revision": "x"}}',
        b'{"header": {"revision": "9"}, "kvs": {}}',
        b'{"header": {"revision": "9"}, "kvs": [{"key": "?"}]}',
    ],
)
async def test_a_malformed_answer_is_no_answer(
    fake: FakeEtcd, store: EtcdStore, body: bytes
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    fake.on_call = lambda member, method, _: answer if method == "kv/range" else None
    with pytest.raises(StoreUnavailableError):
        await store.get("/a")


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Refusal(400, 3, "etcdserver: request is too large"), MisuseError),
        (Refusal(403, 7, "etcdserver: permission denied"), MisuseError),
        (Refusal(503, 14, "etcdserver: no leader"), StoreUnavailableError),
        (Refusal(429, 8, "etcdserver: mvcc: database space exceeded"), StoreUnavailableError),
    ],
)
async def test_a_refusal_names_the_call_and_etcds_reason(
    fake: FakeEtcd, store: EtcdStore, refusal: Refusal, error: type[Exception]
) -> None:
    def refuse(member: int, method: str, body: Json) -> None:
        if method == "kv/txn":
            raise refusal

    fake.on_call = refuse
    with pytest.raises(error, match=r"create /a: .*etcdserver: "):
        await store.create("/a")


async def test_a_closed_session_ends_its_lease(fake: FakeEtcd, opened: OpenSession) -> None:
    store = await opened()
    await store.create("/e", ephemeral=True)
    await store.close()
    assert not fake.leases
    assert not fake.rows
    assert store.state is SessionState.SUSPENDED
    await until(lambda: not any(member.connections for member in fake.members))
