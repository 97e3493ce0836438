"""Attacks on the WebSockets: foreign pages, sessions without a page, tokens in logs, crafted names, random commands."""

import json
import logging
from random import Random
from typing import Any

import pytest
from channels.routing import URLRouter
from websockets.frames import Frame, Opcode

from admin_ui.analyses.live import RUN_CHANNEL
from admin_ui.live import CHANNELS
from engine.base.errors import InvalidField
from gateway.sockets import router
from tests.support.access.callers import by_token, token
from tests.support.access.sessions import session
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.gateway.http.conftest import Client

LIVE = "/api/v1/live"
TAIL = "/api/v1/tail"
TOPIC = "persistent/public/default/t"
ENDPOINTS = (
    LIVE,
    TAIL,
    f"/ws/v2/producer/{TOPIC}",
    f"/ws/v2/consumer/{TOPIC}/s",
    f"/ws/v2/reader/{TOPIC}",
    "/ws/v3/consumer/s?topics=t,u",
    f"/ws/producer/{TOPIC.replace('public', 'public/c')}",
    f"/clusters/standalone/ws/v2/producer/{TOPIC}",
)
PATHS = (*ENDPOINTS, "/ws/pingpong", "/ws/v2/ping", "/ws/", "/health", "/nosuch")
FOREIGN = (
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:8080.evil.example"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Host": "evil.example"},
)


async def answer_of(application: Any, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return the status and the page of the answer to a handshake."""
    pair = await SocketPair(application, path, headers).opened()
    assert pair.response is not None
    await pair.hang_up()
    return pair.response.status_code, bytes(pair.response.body or b"").decode()


@pytest.mark.parametrize("path", PATHS)
async def test_no_route_opens_for_a_page_of_another_origin(path: str, gateway: Gateway) -> None:
    for headers in FOREIGN:
        assert (await answer_of(gateway.application, path, headers))[0] == 403


@pytest.mark.parametrize("path", PATHS)
async def test_no_route_opens_without_credentials(path: str, call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    status, _ = await answer_of(call.application, path, {})
    assert status == (401 if path in ENDPOINTS else 404)


def test_each_route_of_the_router_is_tried() -> None:
    signed_in: Any = router().routes[-1].callback
    while not isinstance(signed_in, URLRouter):
        signed_in = signed_in.inner
    routes = [str(route.pattern) for route in (*router().routes[:-1], *signed_in.routes)]
    assert routes == ["^(?:clusters/[^/]+/)?ws/", "api/v1/live", "api/v1/tail", "^.*$"]


@pytest.mark.usefixtures("store")
async def test_a_session_opens_a_socket_for_a_page_of_the_gateway_alone(settings: Any) -> None:
    settings.IDENTITY = by_token()
    cookie = {"Cookie": await session()}
    own = {**cookie, "Origin": "http://127.0.0.1:8080"}
    assert (await answer_of(Client.application, LIVE, own))[0] == 101
    assert (await answer_of(Client.application, LIVE, cookie))[0] == 401
    assert (await answer_of(Client.application, LIVE, {**cookie, **FOREIGN[0]}))[0] == 403
    with_token = f"{LIVE}?token={token('app')}"
    assert (await answer_of(Client.application, with_token, {}))[0] == 101


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_a_token_of_a_query_is_in_no_log_and_no_answer(
    path: str, call: Gateway, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.IDENTITY = by_token()
    caplog.set_level(logging.DEBUG)
    shown = token("app", exp=1)
    signature = shown.rpartition(".")[2]
    status, page = await answer_of(
        call.application, f"{path}{'&' if '?' in path else '?'}token={shown}", {}
    )
    assert status == 401
    assert signature not in page
    assert signature not in caplog.text


def test_a_token_in_the_query_of_a_request_is_no_credential(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    answer = call("GET", f"/admin/v2/tenants?token={token('app')}")
    assert answer.status == 401
    assert token("app") not in answer.body.decode()


async def test_fragments_without_end_are_bounded(gateway: Gateway) -> None:
    pair = await SocketPair(gateway.application, LIVE).opened()
    pair.send_raw(Frame(Opcode.TEXT, b"", fin=False).serialize(mask=True))
    pair.send_raw(Frame(Opcode.CONT, b"", fin=False).serialize(mask=True) * 10_000)
    assert not pair.connection.closed
    piece = Frame(Opcode.CONT, b"x" * (1 << 16), fin=False).serialize(mask=True)
    for _ in range(16):
        pair.send_raw(piece)
    assert not pair.connection.closed
    pair.send_raw(piece)
    assert pair.closed()[0] == 1009
    await pair.hang_up()


@pytest.mark.parametrize(
    "run", ["", "a.b", "run.other", "a*", "a?", "[a-z]", "../x", "a b", "a\n", "é", "a" * 65]
)
def test_the_group_of_a_run_is_made_of_plain_ids_alone(run: str) -> None:
    group = RUN_CHANNEL.group
    assert group is not None
    assert group({"id": "abc123"}) == "run.abc123"
    with pytest.raises(InvalidField):
        group({"id": run})


SEED = 2_026
COMMANDS = 4_000
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    1e308,
    float("nan"),
    "",
    "a",
    "\ud800",
    "\x00",
    "x" * 3_000,
    [],
    [[]],
    {},
    {"a": {"a": {}}},
    "subscribe",
    "unsubscribe",
    "standalone",
    "../..",
    *CHANNELS,
)
NAMES = ("op", "id", "channel", "params", "cluster", "topic", "tenant", "", "__proto__")


def command(random: Random) -> str:
    """Return a command that is wrong in a random way; never a correct subscription."""
    kind = random.randrange(6)
    if kind == 0:
        return "".join(chr(random.randrange(1, 0xD800)) for _ in range(random.randrange(40)))
    if kind == 1:
        return random.choice(("[", '{"a":')) * random.choice((1, 10, 7_000))
    members = {random.choice(NAMES): random.choice(VALUES) for _ in range(random.randrange(5))}
    members |= {"op": "subscribe"} if kind == 3 else {}
    params = {random.choice(NAMES): random.choice(VALUES) for _ in range(random.randrange(1, 3))}
    if kind >= 4:
        channel = random.choice([*CHANNELS])
        members |= {"op": "subscribe", "id": "a", "channel": channel, "params": {**params, "": 1}}
    text = json.dumps(members)
    cut = random.randrange(len(text)) if kind == 5 else len(text)
    return text[:cut]


async def test_random_commands_are_answered_and_harm_no_socket(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(SEED)
    pair = await SocketPair(gateway.application, LIVE).opened()
    sent = errors = 0

    async def errors_until_answered() -> int:
        """Return the number of errors before the answer to a ping."""
        pair.send('{"op": "ping"}')
        count = 0
        while (message := json.loads(await pair.receive())).get("op") != "pong":
            assert message.get("op") == "beat" or message.keys() & {"error", "data"}
            count += "error" in message
        return count

    while sent < COMMANDS:
        for _ in range(50):
            text = command(random)
            if '"ping"' not in text:
                pair.send(text)
                sent += 1
        errors += await errors_until_answered()
    assert errors > COMMANDS // 2
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    await pair.hang_up()
