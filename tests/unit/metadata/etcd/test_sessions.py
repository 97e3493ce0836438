"""Sessions on etcd under faults: leases that end, members that are away, silent or isolated, users and tokens."""

import asyncio

import pytest

from engine.base.settings import SettingsError
from engine.metadata.etcd.etcd_store import EtcdStore
from engine.metadata.etcd.gateway import EtcdUser
from engine.metadata.store import (
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from tests.support.stores.fake_etcd import FakeEtcd, Json, Refusal
from tests.support.waiting import until
from tests.unit.metadata.etcd.conftest import SESSION_S, OpenSession

pytestmark = pytest.mark.virtual_time


async def test_a_session_is_kept_alive_by_its_lease(fake: FakeEtcd, store: EtcdStore) -> None:
    session_id = store.session_id
    await store.create("/e", ephemeral=True)
    for _ in range(20):
        await asyncio.sleep(SESSION_S / 2)
        fake.end_leases()
        assert store.session_proven
        assert store.state is SessionState.CONNECTED
    assert store.session_id == session_id
    assert "/c/e" in fake.rows


async def test_a_session_is_given_up_before_etcd_ends_it(fake: FakeEtcd, store: EtcdStore) -> None:
    await store.create("/e", ephemeral=True)
    first = store.session_id
    for member in fake.members:
        member.reply_delay_s = 1.5
    await until(lambda: fake.calls[-1][1] == "kv/range")  # behind a renewal
    await asyncio.sleep(1.51)
    for member in fake.members:
        member.silent = True
    while store.session_proven:
        fake.end_leases()
        assert "/c/e" in fake.rows
        await asyncio.sleep(0.01)
    fake.end_leases()
    assert "/c/e" in fake.rows
    assert store.state is not SessionState.CONNECTED
    with pytest.raises((SessionExpiredError, StoreUnavailableError)):
        await store.get("/e")
    for member in fake.members:
        member.silent, member.reply_delay_s = False, 0.0
    await until(lambda: store.state is SessionState.CONNECTED)
    assert store.session_id != first
    await until(lambda: "/c/e" not in fake.rows)


async def test_a_session_that_etcd_ended_expires_and_the_next_one_begins(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    states: list[SessionState] = []
    store.on_state(states.append)
    await store.create("/e", ephemeral=True)
    first, connection = store.session_id, store.connection
    fake.revoke(first)
    with pytest.raises(SessionExpiredError):
        await store.create("/f", ephemeral=True)
    await until(lambda: store.state is SessionState.CONNECTED)
    assert states == [SessionState.EXPIRED, SessionState.CONNECTED]
    assert (store.session_id != first, store.connection) == (True, connection + 1)
    await store.create("/f", ephemeral=True)


async def test_an_ended_lease_is_noticed_by_its_renewal(fake: FakeEtcd, store: EtcdStore) -> None:
    first = store.session_id
    fake.revoke(first)
    await asyncio.sleep(SESSION_S / 3)
    assert store.state is SessionState.CONNECTED
    assert store.session_id != first


async def test_the_granted_time_is_what_the_session_assumes(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    assert store.session_timeout_s == fake.leases[store.session_id][1]


async def test_a_renewal_by_a_leader_without_a_quorum_proves_nothing(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    # The renewal is of an earlier term than the read behind it: the leader of the later one may not know of it.
    def renew_in_an_old_term(member: int, method: str, body: Json) -> bytes | None:
        if method != "lease/keepalive":
            return None
        answer = b'{"result":{"header":{"revision":"1","raft_term":"1"},"ID":"1","TTL":"6"}}'
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer)

    fake.on_call = renew_in_an_old_term
    await until(lambda: not store.session_proven)
    fake.end_leases()
    assert store.session_id not in fake.leases or store.state is not SessionState.CONNECTED


async def test_a_member_that_is_away_is_replaced_by_another(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    session_id, connection = store.session_id, store.connection
    await store.create("/a", b"1")
    await fake.members[0].leave()
    assert (await store.get("/a"))[0] == b"1"
    await store.put("/a", b"2")  # it was not sent to the member that is away
    await asyncio.sleep(SESSION_S * 3)
    assert (store.session_id, store.connection) == (session_id, connection)
    assert store.state is SessionState.CONNECTED
    assert {number for number, _ in fake.calls[-10:]} == {1}


async def test_a_silent_member_costs_a_read_some_time_and_a_write_its_outcome(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    await store.create("/a", b"1")
    session_id = store.session_id
    fake.members[0].silent = True
    assert (await store.get("/a"))[0] == b"1"
    await asyncio.sleep(SESSION_S)
    assert (store.session_id, store.state) == (session_id, SessionState.CONNECTED)
    fake.members[0].silent, fake.members[1].silent = False, True
    with pytest.raises(StoreUnavailableError):
        await store.put("/a", b"2")
    assert (await store.get("/a"))[0] == b"1"


async def test_slow_answers_are_waited_for(fake: FakeEtcd, store: EtcdStore) -> None:
    for member in fake.members:
        member.delay_s = 1.0
    await store.create("/a")
    await asyncio.sleep(SESSION_S * 5)
    assert store.state is SessionState.CONNECTED
    assert store.session_proven


async def test_a_member_without_a_leader_is_left(fake: FakeEtcd, store: EtcdStore) -> None:
    def refuse(member: int, method: str, body: Json) -> None:
        if member == 0:
            raise Refusal(503, 14, "etcdserver: no leader")

    fake.on_call = refuse
    with pytest.raises(NoNodeError):
        await store.get("/a")
    await asyncio.sleep(SESSION_S)
    assert store.state is SessionState.CONNECTED


async def test_no_member_is_reported_with_their_urls(fake: FakeEtcd, opened: OpenSession) -> None:
    for member in fake.members:
        await member.leave()
    with pytest.raises(StoreUnavailableError, match=r"no etcd at http://127.* within 15"):
        await opened()


async def test_a_session_ends_in_time_though_no_member_answers(
    fake: FakeEtcd, store: EtcdStore
) -> None:
    for member in fake.members:
        member.silent = True
    began = asyncio.get_running_loop().time()
    await store.close()
    assert asyncio.get_running_loop().time() - began <= 2.0


async def test_an_answer_in_plain_text_is_shown(fake: FakeEtcd, opened: OpenSession) -> None:
    text = b"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\n\r\n404 page not found"
    fake.on_call = lambda *_: text
    with pytest.raises(SettingsError, match=r"metadata_url.*404 page not found"):
        await opened()


async def test_a_user_signs_in_and_again_when_the_token_is_refused(
    fake: FakeEtcd, opened: OpenSession
) -> None:
    fake.users["magnetar"] = "secret-password"
    store = await opened(EtcdUser("magnetar", "secret-password"))
    await store.create("/a", b"1")
    fake.tokens.clear()
    await asyncio.gather(*(store.get("/a") for _ in range(5)))
    assert fake.calls.count((0, "auth/authenticate")) == 2
    fake.tokens.clear()
    fake.members[0].end_watches()
    fake.write("/c/a", "2")
    await asyncio.sleep(SESSION_S)
    assert store.state is SessionState.CONNECTED
    assert (await store.get("/a"))[0] == b"2"


async def test_a_wrong_password_is_refused_at_the_start_without_being_shown(
    fake: FakeEtcd, opened: OpenSession, caplog: pytest.LogCaptureFixture
) -> None:
    fake.users["magnetar"] = "right"
    with pytest.raises(
        SettingsError, match=r"etcd refused user magnetar: .*authentication failed"
    ) as error:
        await opened(EtcdUser("magnetar", "wrong-password"))
    assert "wrong-password" not in f"{error.value} {error.value.__cause__!r} {caplog.text}"
    assert "wrong-password" not in repr(EtcdUser("magnetar", "wrong-password"))


async def test_a_user_is_needed_where_etcd_asks_for_one(
    fake: FakeEtcd, opened: OpenSession
) -> None:
    fake.users["magnetar"] = "right"
    with pytest.raises(SettingsError, match="user name is empty"):
        await opened()


async def test_a_user_is_not_needed_where_etcd_asks_for_none(
    fake: FakeEtcd, opened: OpenSession
) -> None:
    store = await opened(EtcdUser("magnetar", "secret"))
    await store.create("/a")
