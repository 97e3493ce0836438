"""Commands that need a right: a judge that allows nothing refuses every one, and they change nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.auth.actions import Action
from engine.auth.authorization.refusal_texts import COMMAND_REFUSALS
from engine.auth.rights import all_of
from engine.base.names import NamespaceName
from engine.broker.connection import consume, lookups, produce, schemas, transactions, watches
from engine.net import handshake, keepalive
from engine.net.routing import Route
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from engine.wire.errors import ServerError
from engine.wire.states import CommandType
from tests.support.access.judges import REASON, DenyAll
from tests.support.broker_bench import NAME, commands_in, opened

pytestmark = pytest.mark.virtual_time

FAMILIES = (consume, lookups, produce, schemas, watches)
ROUTES: dict[int, Route] = {
    kind: route for family in FAMILIES for kind, route in family.ROUTES.items()
}
JUDGED = sorted(kind for kind, route in ROUTES.items() if route.judged)
NEW = "persistent://public/default/new"
STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
COMMANDS: dict[int, Callable[[str], bytes]] = {
    CommandType.LOOKUP: lambda topic: say.lookup(topic, 1),
    CommandType.PARTITIONED_METADATA: lambda topic: say.partitioned_metadata(topic, 1),
    CommandType.GET_TOPICS_OF_NAMESPACE: lambda topic: say.topics_of_namespace("public/default", 1),
    CommandType.WATCH_TOPIC_LIST: lambda topic: command_frame(
        "watchTopicList",
        request_id=1,
        watcher_id=1,
        namespace="public/default",
        topics_pattern=".*",
    ),
    CommandType.PRODUCER: lambda topic: say.producer(topic, 1, 1),
    CommandType.SUBSCRIBE: lambda topic: say.subscribe(topic, "s", 0, 1, 1),
    CommandType.GET_SCHEMA: lambda topic: say.get_schema(topic, 1),
    CommandType.GET_OR_CREATE_SCHEMA: lambda topic: say.get_or_create_schema(topic, 1, STRING),
}


def refusal_text(kind: int) -> str:
    """Return what a client reads that may not use a command."""
    return COMMAND_REFUSALS.get(CommandType(kind).name, REASON)


def answers_of(sent: bytearray) -> list[Any]:
    """Return the bodies of the answers that follow CONNECTED."""
    commands = list(commands_in(bytes(sent)))
    return [getattr(c, c.ListFields()[-1][0].name) for c in commands[1:]]


def refusal_of(answer: Any) -> tuple[int, int, str]:
    """Return the request id, code and text of an answer, whichever fields hold them."""
    fields = {field.name: value for field, value in answer.ListFields()}
    code = fields.get("error", fields.get("error_code", -1))
    return fields["request_id"], code, fields.get("message", fields.get("error_message", ""))


@pytest.mark.parametrize("topic", [NAME.full, NEW], ids=["existing", "missing"])
@pytest.mark.parametrize("kind", JUDGED, ids=lambda kind: CommandType(kind).name)
async def test_a_refused_command_is_answered_with_the_reason_and_changes_nothing(
    kind: int, topic: str
) -> None:
    async with opened() as bench:
        judge = bench.context.judge = DenyAll()
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        session.data_received(say.connect("test") + COMMANDS[kind](topic))
        assert session._live is not None
        assert not session._live.tasks._tasks  # no handler was called
        (answer,) = answers_of(sent)
        assert refusal_of(answer) == (1, ServerError.AuthorizationError, refusal_text(kind))
        assert [action for _, action, _ in judge.asked] == [ROUTES[kind].judged[0].action]
        assert [topic.name.full for topic in bench.registry] == [NAME.full]
        assert (session.producers, session.consumers) == (0, 0)
        assert bench.topic.subscriptions == {}
        assert await bench.schemas.version(NAME, None) is None
        session.closed(None)


async def test_a_producer_that_may_not_consume_creates_no_subscription() -> None:
    async with opened() as bench:
        judge = bench.context.judge = DenyAll(Action.PRODUCE)
        session = bench.sessions().accept()
        sent = bytearray()
        session.send = sent.extend  # type: ignore[method-assign, assignment]
        with_subscription = command_frame(
            "producer",
            topic=NAME.full,
            producer_id=1,
            request_id=1,
            initial_subscription_name="first",
        )
        session.data_received(say.connect("test") + with_subscription)
        (answer,) = answers_of(sent)
        text = "Client is not authorized to Produce"
        assert refusal_of(answer) == (1, ServerError.AuthorizationError, text)
        assert [str(resource) for _, _, resource in judge.asked] == [
            NAME.full,
            f"subscription first of {NAME.full}",
        ]
        session.data_received(say.producer(NAME.full, 1, 2))
        async with asyncio.timeout(120):
            while len(answers_of(sent)) < 2:
                await asyncio.sleep(0)
        assert answers_of(sent)[1].producer_name
        assert bench.topic.subscriptions == {}
        session.closed(None)


async def test_listings_are_judged_on_their_namespace() -> None:
    async with opened() as bench:
        judge = bench.context.judge = DenyAll()
        session = bench.sessions().accept()
        session.send = bytearray().extend  # type: ignore[method-assign, assignment]
        session.data_received(say.connect("test") + say.topics_of_namespace("a/b", 1))
        assert [resource for _, _, resource in judge.asked] == [NamespaceName.of("a", "b")]
        session.closed(None)


TABLE = {
    "public": "AUTH_RESPONSE CONNECT PING PONG",
    "opened": """
        ACK CLOSE_CONSUMER CLOSE_PRODUCER CONSUMER_STATS FLOW GET_LAST_MESSAGE_ID REDELIVER_UNACKNOWLEDGED_MESSAGES SEEK
        UNSUBSCRIBE WATCH_TOPIC_LIST_CLOSE
    """,
    # A transaction is its owner's, which the coordinator checks.
    "authenticated": "END_TXN NEW_TXN TC_CLIENT_CONNECT_REQUEST",
    "produce of TopicName": "ADD_PARTITION_TO_TXN",
    "superuser": "END_TXN_ON_PARTITION END_TXN_ON_SUBSCRIPTION",
    "lookup of TopicName": "GET_OR_CREATE_SCHEMA GET_SCHEMA LOOKUP PARTITIONED_METADATA",
    "lookup of NamespaceName": "GET_TOPICS_OF_NAMESPACE WATCH_TOPIC_LIST",
    # The last one is for the name of another cluster's replicator alone.
    "produce of TopicName, consume of SubscriptionName, superuser of WholeCluster": "PRODUCER",
    "consume of SubscriptionName": "ADD_SUBSCRIPTION_TO_TXN SUBSCRIBE",
}
"""The commands by their rights. SEND has none: it acts on a producer that the connection opened."""


def test_each_command_has_its_right() -> None:
    stated: dict[str, set[str]] = {}
    for kind, route in {
        **ROUTES,
        **handshake.ROUTES,
        **keepalive.ROUTES,
        **transactions.ROUTES,
    }.items():
        rights = ", ".join(
            right.action.value + (f" of {right.kind.__name__}" if right.kind else "")
            for right in all_of(route.rights)
        )
        stated.setdefault(rights, set()).add(CommandType(kind).name)
    assert stated == {rights: set(names.split()) for rights, names in TABLE.items()}
