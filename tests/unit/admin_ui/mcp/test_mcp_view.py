"""The endpoint for assistants: the official client reads by it what its role may read, and nothing is changed."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from django.conf import settings as django_settings
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from admin_ui.mcp.mcp_tools import TOOLS
from admin_ui.models import AuditEntry
from engine.base.names import NamespaceName
from engine.tenancy import topics as metadata
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.services.engine_link import Engine, EngineLink
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Answer, Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]

ORDERS = "persistent://t/n/orders"


async def stored(engine: Engine) -> None:
    """Store the tenants ``t`` and ``o`` of the roles ``own`` and ``other``, each with a namespace and a topic."""
    for name, admin in (("t", "own"), ("o", "other")):
        info = {"adminRoles": [admin], "allowedClusters": ["standalone"]}
        await create_tenant(engine.store, name, info)
        namespace = NamespaceName.of(name, "n")
        await create_namespace(engine.store, namespace, {}, cluster="standalone")
        await metadata.create_partitioned(engine.store, namespace.topic("orders"), 2)


@pytest.fixture
def judged(call: Gateway, engine: EngineLink, settings: Any) -> Gateway:
    settings.IDENTITY = by_token(authorization_enabled=True, super_user_roles=SUPERUSER)
    settings.MCP_ENABLED = True
    engine.run(stored)
    return call


class InProcess(httpx2.AsyncBaseTransport):
    """Sends the client's requests to a gateway in this process, for a role."""

    def __init__(self, gateway: Gateway, role: str) -> None:
        self._gateway = gateway
        self._role = role

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name != "host"}
        body = await request.aread()
        answer = await asyncio.to_thread(
            self._gateway,
            *(request.method, request.url.raw_path.decode(), body or None),
            headers={**headers, **bearer(self._role)},
        )
        return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)


def by_client(gateway: Gateway, role: str, *calls: tuple[str, dict[str, Any]]) -> Any:
    """Return the names of the tools, and the result of each call, as the official client gets them."""

    async def work() -> Any:
        async with (
            httpx2.AsyncClient(transport=InProcess(gateway, role)) as http,
            streamable_http_client("http://127.0.0.1:8080/mcp", http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            listed = await session.list_tools()
            results = [await session.call_tool(name, arguments) for name, arguments in calls]
            return [tool.name for tool in listed.tools], results

    return asyncio.run(work())


def text(result: Any) -> str:
    (content,) = result.content
    assert content.type == "text"
    return str(content.text)


def post(gateway: Gateway, message: Any, role: str = SUPERUSER) -> Answer:
    return gateway("POST", "/mcp", message, headers=bearer(role))


def call_of(name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_the_official_client_lists_and_calls_tools(judged: Gateway) -> None:
    names, (topics, tenants, health) = by_client(
        judged, SUPERUSER, ("list_topics", {"sort": "name"}), ("list_tenants", {}), ("health", {})
    )
    assert names == list(TOOLS)
    assert not topics.is_error
    assert {row["name"] for row in json.loads(text(topics))["rows"]} == {
        ORDERS,
        "persistent://o/n/orders",
    }
    assert {row["name"] for row in json.loads(text(tenants))["rows"]} >= {"t", "o"}
    assert not health.is_error


def test_a_role_reads_what_its_rest_calls_may_read_and_no_more(judged: Gateway) -> None:
    _, (topics, own, other, brokers, messages) = by_client(
        judged,
        "own",
        ("list_topics", {}),
        ("list_namespaces", {"tenant": "t"}),
        ("list_namespaces", {"tenant": "o"}),
        ("list_brokers", {}),
        ("read_messages", {"topic": "persistent://o/n/orders"}),
    )
    assert [row["name"] for row in json.loads(text(topics))["rows"]] == [ORDERS]
    assert not own.is_error
    for refused in (other, brokers, messages):
        assert refused.is_error
        assert text(refused).startswith(("401", "403"))


def test_a_caller_without_credentials_is_refused(judged: Gateway) -> None:
    assert judged("POST", "/mcp", call_of("health")).status == 401


def test_each_tool_is_a_call_that_only_reads_and_needs_the_rights_of_its_view(
    judged: Gateway,
) -> None:
    before = AuditEntry.objects.count()
    for tool in TOOLS.values():
        assert tool.call is tool.view.calls["get"]
        given = {parameter.name: "x" for parameter in tool.required}
        if "topic" in given:
            given["topic"] = "persistent://absent/n/t"
        result = post(judged, call_of(tool.name, **given), "stranger").json["result"]
        if tool.name not in ("overview", "health", "list_topics", "list_subscriptions") and (
            tool.name != "list_tenants"
        ):
            assert result["isError"], tool.name
            assert result["content"][0]["text"][:3] in ("401", "403"), tool.name
    assert AuditEntry.objects.count() == before


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("get_topic", {}, "topic: is required"),
        ("get_topic", {"topic": "persistent://a"}, "a"),
        ("get_topic", {"topic": ORDERS, "force": "yes"}, "force: is no argument of get_topic"),
        ("list_topics", {"limit": "5"}, "limit: must be a whole number"),
        ("list_topics", {"limit": 5000}, "400"),
    ],
)
def test_wrong_arguments_are_named_to_the_assistant(
    name: str, arguments: dict[str, Any], reason: str, judged: Gateway
) -> None:
    result = post(judged, call_of(name, **arguments)).json["result"]
    assert result["isError"]
    assert reason in result["content"][0]["text"]


def test_names_are_one_segment_of_the_path_whatever_they_hold(judged: Gateway) -> None:
    answer = post(judged, call_of("get_namespace", tenant="t", namespace="../../audit?x=1#"))
    assert answer.json["result"]["isError"]
    tool = TOOLS["list_holders"]
    target = tool.target({"topic": "persistent://t/n/a/b?c", "subscription": "s/../x"}, "main")
    assert target == (
        "/api/v1/clusters/main/topics/persistent/t/n%2Fa/b%3Fc/subscriptions/s%2F..%2Fx/holders"
    )


def test_an_answer_that_is_too_long_is_refused_and_not_cut(
    judged: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_ui.mcp.mcp_view.BYTES_MAX", 10)
    result = post(judged, call_of("list_topics")).json["result"]
    assert result["isError"]
    assert "lower limit" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"no json", -32700),
        ([], -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 21, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "resources/list"}, -32601),
        (call_of("delete_topic"), -32602),
    ],
)
def test_other_messages_are_errors_of_the_protocol(
    message: Any, code: int, judged: Gateway
) -> None:
    answer = post(judged, message)
    assert (answer.status, answer.json["error"]["code"]) == (200, code)


def test_a_notification_has_no_answer_and_there_is_no_stream(judged: Gateway) -> None:
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (post(judged, notification).status, post(judged, notification).body) == (202, b"")
    assert judged("GET", "/mcp", headers=bearer(SUPERUSER)).status == 405


def test_a_response_of_the_client_has_no_answer(judged: Gateway) -> None:
    for member in ("result", "error"):
        answer = post(judged, {"jsonrpc": "2.0", "id": 1, member: {}})
        assert (answer.status, answer.body) == (202, b"")


def test_a_batch_is_answered_message_by_message_in_the_version_that_has_them(
    judged: Gateway,
) -> None:
    ping = {"jsonrpc": "2.0", "method": "ping"}
    batch = [{**ping, "id": "a"}, ping, 7, {**call_of("list_brokers"), "id": 2}]
    answers = post(judged, batch, "stranger").json
    assert [answer["id"] for answer in answers] == ["a", None, 2]
    assert answers[0]["result"] == {}
    assert answers[1]["error"]["code"] == -32600
    assert answers[2]["result"]["isError"]
    assert post(judged, [ping, ping]).status == 202
    newer = {**bearer(SUPERUSER), "mcp-protocol-version": "2025-06-18"}
    assert judged("POST", "/mcp", batch, headers=newer).json["error"]["code"] == -32600


def test_a_version_that_is_not_spoken_is_refused(judged: Gateway) -> None:
    for version, status in (("2025-11-25", 200), ("2025-03-26", 200), ("1999-01-01", 400)):
        headers = {**bearer(SUPERUSER), "mcp-protocol-version": version}
        assert judged("POST", "/mcp", call_of("health"), headers=headers).status == status


def test_the_endpoint_is_off_unless_it_is_turned_on(judged: Gateway, settings: Any) -> None:
    settings.MCP_ENABLED = False
    assert post(judged, call_of("health")).status == 404
    assert django_settings.MCP_ENABLED is False
