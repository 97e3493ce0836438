"""Permission matrix of the engine: each command of the protocol and each operation of the private port for each caller.

Calls pass the shipped doors, which call the shipped judge over stored policies; handlers only note that they were
called. Who may do what comes from the tables of rights; a command or an operation without a row in them fails.
"""

import json
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from engine.admin.api.arguments import MessagePosition, OnSubscription
from engine.auth.credentials import AuthenticationFailed
from engine.auth.identity import Identity
from engine.auth.judge import Judge
from engine.base.clock import LoopClock
from engine.base.errors import Forbidden
from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope
from engine.broker.connection import transactions
from engine.net import handshake, keepalive
from engine.net.http import Request
from engine.net.refused_commands import RefusedCommands
from engine.net.routing import Route, Router
from engine.rpc.operation import Handlers, Operation
from engine.rpc.server import RpcPages
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import FIELD_OF_TYPE
from engine.wire.errors import ServerError
from engine.wire.states import REQUESTS, CommandType
from tests.support.access.callers import PROXY, SUPERUSER
from tests.support.access.matrix import (
    ANONYMOUS,
    CALLERS,
    CONSUMER,
    MAY,
    OTHER,
    OWN,
    STRANGER,
    stored_judge,
)
from tests.support.net.lines import Line
from tests.unit.broker.connection import test_access as at_commands
from tests.unit.rpc import test_access as at_operations

TOPIC = "persistent://t/n/p"
FOREIGN = "persistent://o/n/p"
NEEDS: dict[str, set[str]] = {
    "public": MAY["public"],
    "opened": MAY["public"],  # acts on what the connection opened, which needed a right
    "authenticated": MAY["authenticated only"],
    "superuser": MAY["superuser"],
    "tenant admin of topic": MAY["tenant admin"],
    "tenant admin of topic, tenant admin of topic": MAY["tenant admin"],
    "tenant admin of tenant": MAY["tenant admin"],
    "tenant admin of namespace": MAY["tenant admin"],
    "lookup of topic": MAY["produce or consume"],
    "lookup of namespace": MAY["produce or consume (namespace)"],
    "lookup of namespace, superuser": MAY["produce or consume (namespace)"],  # of one namespace
    "produce of topic": MAY["produce"],
    # it creates no subscription, and is no other cluster's replicator
    "produce of topic, consume of subscription, superuser of WholeCluster": MAY["produce"],
    "consume of topic": MAY["consume"],
    "consume of subscription": MAY["consume"],
    # no caller of the matrix has a grant of these actions: GRANTED has
    "functions of namespace, sources of namespace, sinks of namespace": MAY["tenant admin"],
    "packages of namespace, functions of namespace, sources of namespace, sinks of namespace": (
        MAY["tenant admin"]
    ),
}
"""Callers with the rights of a row of the tables, on what is in the tenant ``t``."""
KINDS = {
    "TopicName": "topic",
    "NamespaceName": "namespace",
    "SubscriptionName": "subscription",
    "TenantName": "tenant",
}
HANDLED, REFUSED, UNIDENTIFIED = "handled", "refused", "unidentified"


def needs_by_name(table: dict[str, str]) -> dict[str, str]:
    """Return the need of each name in a table of names by needs."""
    plain = dict(table)
    for right in table:
        words = right
        for name, word in KINDS.items():
            words = words.replace(name, word)
        plain[words] = plain.pop(right)
    return {name: need for need, names in plain.items() for name in names.split()}


COMMAND_NEEDS = needs_by_name(at_commands.TABLE)
OPERATION_NEEDS = needs_by_name(at_operations.TABLE)
OPERATIONS = {operation.name: operation for operation in at_operations.operations()}
ROUTES: dict[int, Route] = {
    **at_commands.ROUTES,
    **handshake.ROUTES,
    **keepalive.ROUTES,
    **transactions.ROUTES,
}


@pytest.fixture
async def judge() -> Judge:
    return await stored_judge()


# Commands

OF_TRANSACTIONS: dict[int, Callable[[str], bytes]] = {
    CommandType.ADD_PARTITION_TO_TXN: lambda topic: say.add_partitions((0, 0), 1, [topic]),
    CommandType.ADD_SUBSCRIPTION_TO_TXN: lambda topic: say.add_subscriptions(
        (0, 0), 1, [(topic, "s")]
    ),
}


def command_of(kind: int, topic: str = TOPIC) -> Any:
    """Return a command that names a topic, or its namespace."""
    build = at_commands.COMMANDS.get(kind) or OF_TRANSACTIONS.get(kind)
    if build is not None:
        command = parsed(build(topic))
        body = getattr(command, FIELD_OF_TYPE[CommandType(kind)])
        if hasattr(body, "namespace"):
            body.namespace = str(TopicName.parse(topic).namespace)
        return command
    command = pb.BaseCommand(type=kind)
    getattr(command, FIELD_OF_TYPE[CommandType(kind)]).SetInParent()
    return command


def parsed(frame: bytes) -> Any:
    return commands.parse(frame, *frames.command_span(frame, 0, len(frame)))


async def by_command(judge: Judge, identity: Identity, command: Any) -> str:
    """Return what becomes of a command: its handler is called, or the client reads that it is not authorized."""
    handled: list[int] = []

    def note(family: object, body: Any) -> None:
        handled.append(command.type)

    line, tasks = Line(), TaskScope("test")
    router = Router(line, tasks, 4, judge, lambda: identity, RefusedCommands(LoopClock()))
    family = SimpleNamespace(times=SimpleNamespace(failed=0))  # a refused look-up is counted
    router.add(family, {command.type: replace(ROUTES[command.type], handler=note)})
    router.handle(command)
    for task in list(tasks._tasks):
        await task
    answers = line.said()
    if handled:
        assert answers == []
        return HANDLED
    (answer,) = answers
    body = getattr(answer, answer.ListFields()[-1][0].name)
    _, code, text = at_commands.refusal_of(body)
    assert code == ServerError.AuthorizationError
    assert text
    return REFUSED


def test_each_command_that_a_client_may_send_has_a_row() -> None:
    served = {CommandType(kind).name for kind in ROUTES}
    assert served == set(COMMAND_NEEDS)
    # SEND acts on a producer of the connection, as ACK and FLOW on a consumer.
    assert {kind.name for kind in REQUESTS} - served == {"SEND"}


@pytest.mark.parametrize("kind", sorted(ROUTES), ids=lambda kind: CommandType(kind).name)
async def test_a_command_is_open_to_those_who_have_its_need(kind: int, judge: Judge) -> None:
    may = NEEDS[COMMAND_NEEDS[CommandType(kind).name]]
    command = command_of(kind)
    for caller in CALLERS:
        expected = HANDLED if caller in may else REFUSED
        assert await by_command(judge, Identity(caller or None), command) == expected, caller


@pytest.mark.parametrize("kind", at_commands.JUDGED, ids=lambda kind: CommandType(kind).name)
async def test_a_proxy_gives_its_client_no_command(kind: int, judge: Judge) -> None:
    command = command_of(kind)
    assert await by_command(judge, Identity(PROXY, STRANGER), command) == REFUSED
    assert await by_command(judge, Identity(STRANGER, SUPERUSER), command) == REFUSED
    assert await by_command(judge, Identity(PROXY), command) == REFUSED
    assert await by_command(judge, Identity(PROXY, SUPERUSER), command) == HANDLED


async def test_creating_a_subscription_with_a_producer_needs_both_rights(judge: Judge) -> None:
    frame = commands.command_frame(
        "producer", topic=TOPIC, producer_id=1, request_id=1, initial_subscription_name="s"
    )
    outcomes = {
        caller: await by_command(judge, Identity(caller or None), parsed(frame))
        for caller in CALLERS
    }
    assert {caller for caller, outcome in outcomes.items() if outcome == HANDLED} == MAY[
        "tenant admin"
    ]


async def test_a_replicator_needs_the_role_of_a_superuser(judge: Judge) -> None:
    frame = commands.command_frame(
        "producer", topic=TOPIC, producer_id=1, request_id=1, producer_name="pulsar.repl.us-->eu"
    )
    for caller in CALLERS:
        expected = HANDLED if caller == SUPERUSER else REFUSED
        assert await by_command(judge, Identity(caller or None), parsed(frame)) == expected, caller


@pytest.mark.parametrize("topic", [FOREIGN, "persistent://none/n/p", "persistent://o/none/p"])
@pytest.mark.parametrize(
    "kind",
    sorted(set(at_commands.JUDGED) & {int(kind) for kind in at_commands.COMMANDS}),
    ids=lambda kind: CommandType(kind).name,
)
async def test_a_command_on_a_foreign_or_missing_topic_has_one_answer(
    kind: int, topic: str, judge: Judge
) -> None:
    """Show that a caller without rights there cannot find out by any command what exists."""
    command = command_of(kind, topic)
    for caller in (ANONYMOUS, STRANGER, CONSUMER, OWN):
        assert await by_command(judge, Identity(caller or None), command) == REFUSED


# Operations


VALUES: dict[Any, Any] = {
    TopicName: TOPIC,
    NamespaceName: "t/n",
    int: 1,
    str: "x",
    bool: False,
    Any: "x",
    list[int]: [1],
    list[str]: [],
    list[dict[str, Any]]: [],
    list[TopicName]: [TOPIC],
    list[MessagePosition]: [{"ledger_id": 1, "entry_id": 1}],
    dict[str, str]: {},
}
OPTIONAL = {
    "reset_cursor": {"timestamp_ms": 1},
    "preview_change": {"count": 1},
    "topics": {"namespace": "t/n"},
    "losses": {"tenant": "t"},
    "split_bundle": {"bundle": "0x0_0x1"},
    "bundle_cuts": {"bundle": "0x0_0x1"},
    "transfer_bundle": {"bundle": "0x0_0x1", "destination": "b"},
    "drain_broker": {"destinations": {}},
    "end_drain": {"broker": "b"},
    **{name: {"name": "x"} for name, need in OPERATION_NEEDS.items() if "packages" in need},
    "packages": {},
}
"""Arguments that are not required as such, of which the operation needs some."""


def value_of(kind: Any) -> Any:
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)[0]
    if hasattr(kind, "__dataclass_fields__") and kind not in VALUES:
        return {"ledger_id": 1, "entry_id": 1}
    return VALUES[kind]


def arguments_of(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return valid arguments, which name a topic, subscription, bundle or namespace of the tenant ``t``."""
    hints = typing.get_type_hints(operation.arguments)
    required = (
        item.name
        for item in fields(operation.arguments)
        if item.default is MISSING and item.default_factory is MISSING
    )
    return {
        **{name: value_of(hints[name]) for name in required},
        **OPTIONAL.get(operation.name, {}),
    }


class Port:
    """The private port with handlers that note their calls."""

    def __init__(self, judge: Judge) -> None:
        self.called: list[str] = []
        handlers: Handlers = {
            name: (operation, self._handler(name)) for name, operation in OPERATIONS.items()
        }
        self._pages = RpcPages(
            handlers,
            "the instance's token",
            judge,
            refusal_of=lambda error: None,
            ready=lambda: True,
            metrics=self._metrics,
            identify=self._identify,
        )

    def _handler(self, name: str) -> Any:
        async def note(args: Any) -> None:
            self.called.append(name)

        return note

    @staticmethod
    async def _metrics() -> Any:
        yield b""

    @staticmethod
    def _identify(request: Request) -> Identity:
        """Take the header's word; nothing shown is refused as by the shipped identification."""
        role, _, original = request.headers.get("authorization", "").partition(" for ")
        if not role:
            raise AuthenticationFailed("nothing was shown")
        return Identity(role, original or None, "token")

    async def outcome(self, name: str, caller: str, arguments: dict[str, Any]) -> str:
        """Return what becomes of a call."""
        before = len(self.called)
        body = json.dumps({"arguments": arguments}).encode()
        headers = {"authorization": caller} if caller else {}
        answer = await self._pages(Request("POST", f"/rpc/{name}", "", headers, body))
        if self.called[before:]:
            assert (answer.status, self.called[before:]) == (200, [name])
            return HANDLED
        given = json.loads(answer.body)  # type: ignore[arg-type]
        if answer.status == 401:
            return UNIDENTIFIED
        assert (answer.status, given["code"]) == (422, Forbidden.code), given
        return REFUSED


@pytest.mark.parametrize("name", sorted(OPERATIONS))
async def test_an_operation_is_open_to_those_who_have_its_need(name: str, judge: Judge) -> None:
    may = NEEDS[OPERATION_NEEDS[name]] - {ANONYMOUS}
    port, arguments = Port(judge), arguments_of(OPERATIONS[name])
    for caller in CALLERS:
        expected = HANDLED if caller in may else REFUSED if caller else UNIDENTIFIED
        assert await port.outcome(name, caller, arguments) == expected, caller


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"health"}))
async def test_a_proxy_gives_its_client_no_operation(name: str, judge: Judge) -> None:
    port, arguments = Port(judge), arguments_of(OPERATIONS[name])
    assert await port.outcome(name, f"{PROXY} for {STRANGER}", arguments) == REFUSED
    assert await port.outcome(name, f"{STRANGER} for {SUPERUSER}", arguments) == REFUSED
    assert await port.outcome(name, PROXY, arguments) == REFUSED
    assert await port.outcome(name, f"{PROXY} for {SUPERUSER}", arguments) == HANDLED


async def test_the_topics_of_all_namespaces_are_listed_to_superusers_alone(judge: Judge) -> None:
    port = Port(judge)
    outcomes = {caller: await port.outcome("topics", caller, {}) for caller in CALLERS if caller}
    assert {caller for caller, outcome in outcomes.items() if outcome == HANDLED} == {SUPERUSER}


def foreign(name: str) -> Iterator[dict[str, Any]]:
    """Yield arguments that name what is in another tenant, or in none."""
    arguments = arguments_of(OPERATIONS[name])
    for namespace in ("o/n", "none/n", "o/none"):
        if "namespace" in arguments:
            yield {**arguments, "namespace": namespace}
        elif "topic" in arguments:
            yield {**arguments, "topic": f"persistent://{namespace}/p"}
        elif "tenant" in arguments:
            yield {**arguments, "tenant": namespace.partition("/")[0]}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
async def test_an_operation_on_a_foreign_or_missing_topic_has_one_answer(
    name: str, judge: Judge
) -> None:
    port = Port(judge)
    for arguments in foreign(name):
        for caller in (STRANGER, CONSUMER, OWN):
            assert await port.outcome(name, caller, arguments) == REFUSED
        if issubclass(OPERATIONS[name].arguments, OnSubscription) and "/none" not in str(arguments):
            expected = HANDLED if arguments["topic"] == FOREIGN else REFUSED
            assert await port.outcome(name, OTHER, arguments) == expected


GRANTED = {"function": "functions", "source": "sources", "sink": "sinks"}


@pytest.mark.parametrize("granted", GRANTED)
@pytest.mark.parametrize("name", ["create_function", "function_status", "trigger_function"])
async def test_a_grant_opens_the_components_of_its_own_kind_alone(name: str, granted: str) -> None:
    grants = {"deployer": [GRANTED[granted]]}
    port, arguments = Port(await stored_judge(grants)), arguments_of(OPERATIONS[name])
    for component in GRANTED:
        expected = HANDLED if component == granted else REFUSED
        outcome = await port.outcome(name, "deployer", {**arguments, "component": component})
        assert outcome == expected, component


@pytest.mark.parametrize("granted", [*GRANTED.values(), "packages"])
async def test_a_grant_opens_packages_of_its_own_kind_alone(granted: str) -> None:
    port = Port(await stored_judge({"deployer": [granted]}))
    arguments = {"namespace": "t/n", "name": "x"}
    for kind, action in GRANTED.items():
        for via in (action, "packages"):
            expected = HANDLED if via == granted else REFUSED
            call = {**arguments, "kind": kind, "via": via}
            assert await port.outcome("package_part", "deployer", call) == expected, call
