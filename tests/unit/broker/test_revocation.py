"""Clients that lose a right are disconnected within a second of the confirmed change; others notice nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from engine.metadata.store import SessionState
from engine.tenancy import grants
from engine.tenancy.namespaces import update_policies
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from engine.wire.errors import ServerError
from tests.support.access.guarded_broker import NAMESPACE, OTHER, Guarded, Wire, guarded
from tests.support.broker_bench import NAME, until

pytestmark = pytest.mark.virtual_time

PROMISE_S = 1.0
PRODUCE_REFUSED = (ServerError.AuthorizationError, "Client is not authorized to Produce")
CONSUME_REFUSED = (ServerError.AuthorizationError, "Client is not authorized to subscribe")


@pytest.fixture
async def broker() -> AsyncIterator[Guarded]:
    async with guarded() as broker:
        yield broker


def refusal(answer: Any) -> tuple[int, str]:
    return answer.error, answer.message


async def closes_in_time(wire: Wire, kind: str, change: Awaitable[object]) -> None:
    """Make a change, and expect the client to receive a command of this type within the promise."""
    await change
    loop = asyncio.get_running_loop()
    confirmed = loop.time()
    await until(lambda: kind in wire.kinds())
    assert loop.time() - confirmed <= PROMISE_S


async def test_a_revoked_producer_is_closed_and_refused(broker: Guarded) -> None:
    await broker.grant("app", "produce")
    await broker.grant("other", "produce")
    app, other = broker.client("app"), broker.client("other")
    assert (await app.produce()).producer_name
    assert (await other.produce()).producer_name
    app.publish(0)
    await until(lambda: app.bodies("send_receipt"))
    await closes_in_time(app, "CLOSE_PRODUCER", broker.revoke("app"))
    app.publish(1)
    assert refusal(await app.produce(number=2)) == PRODUCE_REFUSED
    other.publish(0)
    await until(lambda: other.bodies("send_receipt"))
    assert len(app.bodies("send_receipt")) == 1
    assert "CLOSE_PRODUCER" not in other.kinds()


async def test_a_revoked_consumer_receives_nothing_more(broker: Guarded) -> None:
    await broker.grant("app", "consume")
    await broker.grant("other", "consume", "produce")
    app, other = broker.client("app"), broker.client("other")
    await app.consume()
    await other.produce()
    other.publish(0)
    await until(lambda: app.bodies("message"))
    await closes_in_time(app, "CLOSE_CONSUMER", broker.revoke("app"))
    other.publish(1)
    await until(lambda: len(other.bodies("send_receipt")) == 2)
    assert refusal(await app.consume(number=2)) == CONSUME_REFUSED
    await other.consume(number=3)
    await until(lambda: len(other.bodies("message")) == 2)
    assert len(app.bodies("message")) == 1


CLOSING: dict[str, Callable[[Guarded], Awaitable[object]]] = {
    "grant on the topic": lambda broker: grants.revoke(broker.writer, NAMESPACE, "app", topic=NAME),
    "roles of the subscription": lambda broker: grants.grant_on_subscription(
        broker.writer, NAMESPACE, "s", ["other"]
    ),
    "prefix of subscriptions": lambda broker: update_policies(
        broker.writer, NAMESPACE, lambda stored: stored.update(subscription_auth_mode="Prefix")
    ),
}


@pytest.mark.parametrize("change", CLOSING.values(), ids=CLOSING)
async def test_each_rule_of_consuming_is_applied_to_consumers(
    broker: Guarded, change: Callable[[Guarded], Awaitable[object]]
) -> None:
    await grants.grant(broker.writer, NAMESPACE, "app", ["consume"], topic=NAME)
    app = broker.client("app")
    await app.consume()
    await closes_in_time(app, "CLOSE_CONSUMER", change(broker))


async def test_a_former_administrator_is_disconnected_in_all_namespaces(broker: Guarded) -> None:
    admin = broker.client("admin")
    await admin.produce(number=1)
    await admin.produce(OTHER.topic("t"), number=2)
    await broker.grant("admin", "produce")
    await closes_in_time(admin, "CLOSE_PRODUCER", broker.administer("somebody"))
    await asyncio.sleep(PROMISE_S)
    # On the first namespace the role has a grant as well.
    assert [body.producer_id for body in admin.bodies("close_producer")] == [2]


async def test_a_producer_that_waits_for_exclusive_access_is_refused(broker: Guarded) -> None:
    for role in ("app", "other"):
        await broker.grant(role, "produce")
    other, app = broker.client("other"), broker.client("app")
    await other.produce(access_mode=pb.Exclusive)
    assert not (await app.produce(access_mode=pb.WaitForExclusive)).producer_ready
    await closes_in_time(app, "ERROR", broker.revoke("app"))
    assert app.bodies("error")[0].error == ServerError.AuthorizationError
    assert not broker.bench.topic.publishers.waiting


async def test_a_revoked_watcher_is_suspended_and_nothing_else_of_its_connection(
    broker: Guarded,
) -> None:
    await broker.grant("app", "consume")
    await grants.grant(broker.writer, NAMESPACE, "app", ["produce"], topic=NAME)
    app = broker.client("app")
    watch = {"watcher_id": 1, "namespace": str(NAMESPACE), "topics_pattern": ".*"}
    await app.ask(lambda request: command_frame("watchTopicList", request_id=request, **watch))
    await app.produce()
    [watcher] = broker.sessions.watches_of(NAMESPACE)
    first, second = NAMESPACE.topic("first").full, NAMESPACE.topic("second").full
    await watcher.changed({first}, set())
    await broker.revoke("app")
    revoked = asyncio.get_running_loop().time()
    await until(lambda: watcher._is_suspended)
    assert asyncio.get_running_loop().time() - revoked <= PROMISE_S
    await watcher.changed({second}, set())
    app.publish(0)
    await until(lambda: app.bodies("send_receipt"))
    assert [list(update.new_topics) for update in app.bodies("watchTopicUpdate")] == [[first]]
    await broker.grant("app", "consume")
    await until(lambda: len(app.bodies("watchTopicUpdate")) == 2)
    assert list(app.bodies("watchTopicUpdate")[1].new_topics) == [second]


async def test_the_client_of_a_proxy_is_revoked_by_its_own_role(broker: Guarded) -> None:
    await broker.grant("app", "produce")
    app = broker.client("proxy", original="app")
    await app.produce()
    await closes_in_time(app, "CLOSE_PRODUCER", broker.revoke("app"))


async def test_while_the_store_is_away_nothing_is_closed(broker: Guarded) -> None:
    await broker.grant("app", "produce")
    app = broker.client("app")
    await app.produce()
    server = broker.bench.cluster.server
    server.partition(broker.store.session_id)
    await until(lambda: broker.store.state is SessionState.SUSPENDED)
    await broker.revoke("app")
    await asyncio.sleep(PROMISE_S)
    app.publish(0)
    await until(lambda: app.bodies("send_receipt"))
    assert "CLOSE_PRODUCER" not in app.kinds()
    server.heal(broker.store.session_id)
    await until(lambda: "CLOSE_PRODUCER" in app.kinds())


async def test_a_changed_record_that_cannot_be_read_is_read_again(broker: Guarded) -> None:
    await broker.grant("app", "produce")
    app = broker.client("app")
    await app.produce()
    await broker.revoke("app")
    broker.fail_reads(True)
    await asyncio.sleep(5 * PROMISE_S)
    assert "CLOSE_PRODUCER" not in app.kinds()
    broker.fail_reads(False)
    await until(lambda: "CLOSE_PRODUCER" in app.kinds())


async def test_a_right_that_is_lost_while_a_command_waits_opens_nothing(
    broker: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lose the right between the verdict about a command and what it opens."""
    await broker.grant("app", "produce", "consume")
    app = broker.client("app")
    gate = asyncio.Event()
    entered = asyncio.Event()

    async def wait(*arguments: object) -> bytes:
        entered.set()
        await gate.wait()
        return b""

    monkeypatch.setattr(broker.bench.schemas, "for_producer", wait)
    monkeypatch.setattr(broker.bench.schemas, "for_consumer", wait)
    for ask, expected in ((app.produce, PRODUCE_REFUSED), (app.consume, CONSUME_REFUSED)):
        await broker.grant("app", "produce", "consume")
        gate.clear()
        entered.clear()
        answer = asyncio.ensure_future(ask(number=7))
        await entered.wait()
        await broker.revoke("app")
        await asyncio.sleep(PROMISE_S)
        gate.set()
        assert refusal(await answer) == expected
    assert (app.session.producers, app.session.consumers) == (0, 0)
    assert not broker.bench.topic.publishers.attached


async def test_a_change_that_takes_no_right_closes_nothing(broker: Guarded) -> None:
    await broker.grant("app", "produce", "consume")
    app = broker.client("app")
    await app.produce()
    await app.consume()
    await broker.grant("other", "produce")
    await broker.grant("app", "produce", "consume", "functions")
    await broker.revoke("app", OTHER)
    await broker.administer("admin", "another")
    await asyncio.sleep(2 * PROMISE_S)
    assert not {"CLOSE_PRODUCER", "CLOSE_CONSUMER"} & set(app.kinds())
