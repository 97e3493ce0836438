"""Ways to what belongs to others, some of which are open in Apache's broker: each is tried and refused."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from engine.admin.api.arguments import OnSubscription
from engine.admin.api.cursors import CLEAR_BACKLOG, EXPIRE_MESSAGES, ExpireMessages
from engine.admin.api.messages import PEEK, Peek
from engine.admin.api.subscriptions import DELETE_SUBSCRIPTION, DeleteSubscription
from engine.auth.identity import Identity
from engine.auth.internal import INTERNAL_METHOD, INTERNAL_ROLE
from engine.auth.judge import Verdict, judge_call
from engine.auth.rights import all_of
from engine.rpc.operation import Operation
from engine.tenancy import grants
from engine.tenancy.namespaces import update_policies
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from engine.wire.errors import ServerError
from tests.support.access.guarded_broker import NAMESPACE, OTHER, Guarded, guarded
from tests.support.broker_bench import NAME

pytestmark = pytest.mark.virtual_time

STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")


@pytest.fixture
async def broker() -> AsyncIterator[Guarded]:
    """A broker whose role ``app`` has all grants on another namespace than that of the topic."""
    async with guarded() as broker:
        await broker.grant("app", "produce", "consume", namespace=OTHER)
        yield broker


SCHEMA_COMMANDS: dict[str, Callable[[int], bytes]] = {
    "GET_SCHEMA": lambda request: client_commands.get_schema(NAME.full, request),
    "GET_OR_CREATE_SCHEMA": lambda request: client_commands.get_or_create_schema(
        NAME.full, request, STRING
    ),
}


@pytest.mark.parametrize("build", SCHEMA_COMMANDS.values(), ids=SCHEMA_COMMANDS)
async def test_the_schema_of_a_foreign_topic_is_neither_shown_nor_changed(
    broker: Guarded, build: Callable[[int], bytes]
) -> None:
    answer = await broker.client("app").ask(build)
    assert answer.error_code == ServerError.AuthorizationError
    assert await broker.bench.schemas.version(NAME, None) is None


TRANSACTION_COMMANDS: dict[str, dict[str, Any]] = {
    "newTxn": {},
    "addPartitionToTxn": {"txnid_least_bits": 1, "txnid_most_bits": 1, "partitions": [NAME.full]},
    "addSubscriptionToTxn": {
        "txnid_least_bits": 1,
        "txnid_most_bits": 1,
        "subscription": [pb.Subscription(topic=NAME.full, subscription="s")],
    },
    "endTxn": {"txnid_least_bits": 1, "txnid_most_bits": 1},
    "endTxnOnPartition": {"txnid_least_bits": 1, "txnid_most_bits": 1, "topic": NAME.full},
}


@pytest.mark.parametrize("role", ["app", "root"])
@pytest.mark.parametrize("command", TRANSACTION_COMMANDS)
async def test_transactions_are_refused_for_all_roles(
    broker: Guarded, command: str, role: str
) -> None:
    fields = TRANSACTION_COMMANDS[command]
    answer = await broker.client(role).ask(
        lambda request: command_frame(command, request_id=request, **fields)
    )
    assert (answer.error, answer.message) == (
        ServerError.NotAllowedError,
        "Transactions are not enabled.",
    )


async def test_a_producer_without_consume_creates_no_subscription(broker: Guarded) -> None:
    await broker.grant("app", "produce")
    app = broker.client("app")
    answer = await app.ask(
        lambda request: command_frame(
            "producer",
            topic=NAME.full,
            producer_id=1,
            request_id=request,
            initial_subscription_name="mine",
        )
    )
    assert answer.error == ServerError.AuthorizationError
    assert broker.bench.topic.subscriptions == {}


async def test_a_subscription_named_after_a_longer_role_is_refused_with_apaches_text(
    broker: Guarded,
) -> None:
    def prefix(stored: dict[str, Any]) -> None:
        stored["subscription_auth_mode"] = "Prefix"

    await update_policies(broker.writer, NAMESPACE, prefix)
    await broker.grant("app", "consume")
    app = broker.client("app")
    answer = await app.consume(subscription="application-1")
    assert (answer.error, answer.message) == (
        ServerError.AuthorizationError,
        "org.apache.pulsar.broker.PulsarServerException: Failed to create consumer - The subscription name needs to "
        f"be prefixed by the authentication role, like app-xxxx for topic: {NAME}",
    )
    await app.consume(subscription="app-1", number=2)
    assert list(broker.bench.topic.subscriptions) == ["app-1"]


OPERATIONS: dict[str, tuple[Operation[Any, Any], Callable[[str], Any]]] = {
    "peek": (PEEK, lambda name: Peek(NAME, name, 1)),
    "expire messages": (EXPIRE_MESSAGES, lambda name: ExpireMessages(NAME, name, 1)),
    "clear the backlog": (CLEAR_BACKLOG, lambda name: OnSubscription(NAME, name)),
    "delete": (DELETE_SUBSCRIPTION, lambda name: DeleteSubscription(NAME, name)),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_on_a_subscription_of_others_is_refused(
    broker: Guarded, name: str
) -> None:
    """Refuse also the part of an operation on all subscriptions, which the gateway asks for one by one."""
    await broker.grant("app", "consume")
    await grants.grant_on_subscription(broker.writer, NAMESPACE, "closed", ["other"])
    operation, arguments = OPERATIONS[name]
    caller = Identity(INTERNAL_ROLE, original="app", method=INTERNAL_METHOD)

    async def is_allowed(subscription: str) -> bool:
        rights = all_of(operation.rights)
        judgement = judge_call(broker.judge, caller, rights, arguments(subscription))
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        return verdict.allowed

    assert await is_allowed("open")
    assert not await is_allowed("closed")
