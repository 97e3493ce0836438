"""Permission matrix of the proxy: what each caller may do through it, and which of its pages each may read.

The broker behind it judges by the shipped judge over stored policies; clients and the proxy present tokens.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.proxy import requests_to_any
from engine.proxy.proxy_service import ProxyService
from engine.rpc.client_authentication import ClientAuthentication
from engine.wire import client_commands as say
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType
from tests.support.access.callers import PROXY, SUPERUSER, bearer, by_token, token
from tests.support.access.matrix import ANONYMOUS, CALLERS, MAY, stored_judge
from tests.support.broker_bench import served
from tests.support.net.pipe_network import PipeNetwork
from tests.support.proxy.rig import Peer, dial, page, program, proxied

pytestmark = pytest.mark.virtual_time
TOPIC = "persistent://t/n/p"
FOREIGN = "persistent://o/n/p"
IDENTITY = by_token(authorization_enabled=True)
ASKED: dict[CommandType, tuple[str, str]] = {
    CommandType.LOOKUP: ("produce or consume", "lookupTopicResponse"),
    CommandType.PARTITIONED_METADATA: ("produce or consume", "partitionMetadataResponse"),
    CommandType.GET_SCHEMA: ("produce or consume", "getSchemaResponse"),
    CommandType.GET_TOPICS_OF_NAMESPACE: ("produce or consume (namespace)", ""),
}
"""Need and answer of each request that the proxy passes on."""
JOINED = {"producer": "produce", "subscribe": "consume"}
PAGES = {
    "/metrics": "authenticated only",
    "/proxy-stats/connections": "superuser",
    "/proxy-stats/topics": "superuser",
    "/proxy-stats/logging": "superuser",
    "/status.html": "public",
    "/ready": "public",
    "/live": "public",
}


@pytest.fixture
async def proxy() -> AsyncIterator[ProxyService]:
    async with served() as (bench, _, url):
        behind = replace(IDENTITY.general, super_user_roles=f"{SUPERUSER},{PROXY}")
        authentication = ClientAuthentication(
            replace(IDENTITY, general=behind), PipeNetwork(), LoopClock()
        )
        bench.context.judge = await stored_judge()
        bench.context.authenticate = authentication.authenticate
        async with proxied(program(url, identity=IDENTITY)) as service:
            yield service
        await authentication.close()


def connect(caller: str, target: str | None = None) -> bytes:
    if not caller:
        return say.connect("test", proxy_to_broker_url=target)
    data = token(caller).encode()
    return say.connect("test", auth_method_name="token", auth_data=data, proxy_to_broker_url=target)


def request(kind: CommandType, topic: str) -> bytes:
    if kind is CommandType.LOOKUP:
        return say.lookup(topic, 1)
    if kind is CommandType.PARTITIONED_METADATA:
        return say.partitioned_metadata(topic, 1)
    if kind is CommandType.GET_SCHEMA:
        return say.get_schema(topic, 1)
    return say.topics_of_namespace("/".join(topic.split("/")[2:4]), 1)


def is_refused(command: pb.BaseCommand) -> bool:
    """Return whether a command says that its reader has no right, or is not identified."""
    body: Any = getattr(command, command.ListFields()[-1][0].name)
    for name in ("error", "error_code"):
        if name in body.DESCRIPTOR.fields_by_name and body.HasField(name):
            refused = (ServerError.AuthorizationError, ServerError.AuthenticationError)
            return getattr(body, name) in refused
    return False


async def outcome(client: Peer) -> bool:
    """Return whether the request behind CONNECT was served."""
    while True:
        command = await client.next_command()
        if not command.HasField("connected"):
            return not is_refused(command)


def test_each_request_that_the_proxy_passes_on_has_a_row() -> None:
    own = {
        kind
        for kind, route in requests_to_any.ROUTES.items()
        if route.handler.__name__ not in LOCAL
    }
    assert own == set(ASKED)


LOCAL = {"refuse", "_violation"}


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.name)
async def test_a_request_is_served_to_those_who_have_its_need(
    kind: CommandType, proxy: ProxyService
) -> None:
    may = MAY[ASKED[kind][0]]
    for caller in CALLERS:
        client = await dial(proxy, connect(caller) + request(kind, TOPIC))
        assert await outcome(client) == (caller in may), caller
        client.close()
    for caller in set(CALLERS) - {SUPERUSER, "other"}:
        client = await dial(proxy, connect(caller) + request(kind, FOREIGN))
        assert not await outcome(client), caller
        client.close()


@pytest.mark.parametrize("opened", JOINED)
async def test_a_copied_connection_has_the_rights_of_its_client(
    opened: str, proxy: ProxyService
) -> None:
    [url] = proxy.settings.listed_brokers
    target = url.removeprefix("pulsar://")
    frame = (
        say.producer(TOPIC, 1, 1) if opened == "producer" else say.subscribe(TOPIC, "s", 1, 1, 1)
    )
    for caller in CALLERS:
        client = await dial(proxy, connect(caller, target) + frame)
        assert await outcome(client) == (caller in MAY[JOINED[opened]]), caller
        client.close()


async def test_the_proxys_own_role_is_no_clients(proxy: ProxyService) -> None:
    client = await dial(proxy, connect(PROXY) + say.lookup(TOPIC, 1))
    assert not await outcome(client)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_open_to_those_who_have_its_need(path: str, proxy: ProxyService) -> None:
    for caller in CALLERS:
        headers = bearer(caller) if caller != ANONYMOUS else {}
        answer = await page(proxy, path, headers)
        assert (answer.status != 401) == (caller in MAY[PAGES[path]]), (caller, answer)


async def test_each_page_has_a_row(proxy: ProxyService) -> None:
    assert set(proxy.pages.rights) == set(PAGES)


async def test_without_authorization_an_identified_caller_reads_the_statistics() -> None:
    async with proxied(program("pulsar://127.0.0.1:1", identity=by_token())) as service:
        assert (await page(service, "/proxy-stats/connections")).status == 401
        answer = await page(service, "/proxy-stats/connections", bearer("anyone"))
        assert answer.status == 200


async def test_metrics_are_open_where_the_setting_says_so() -> None:
    settings = program(
        "pulsar://127.0.0.1:1", identity=IDENTITY, authenticate_metrics_endpoint=False
    )
    async with proxied(settings) as service:
        assert (await page(service, "/metrics")).status == 200
        assert (await page(service, "/proxy-stats/connections")).status == 401
