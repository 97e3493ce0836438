"""A judge that allows nothing: no WebSocket opens, no channel is watched, and neither a broker nor a feed is called."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from admin_ui import feeds
from admin_ui.feeds import Channel
from admin_ui.live import CHANNELS
from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.rights import AUTHENTICATED, all_of
from engine.auth.viewer import Viewer
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.http.auth import access
from tests.support.access.callers import by_token, token
from tests.support.access.judges import REASON, DenyAll
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair

TOPIC = "persistent/public/default/t"
ENDPOINTS = {
    f"/ws/v2/producer/{TOPIC}": ["produce on persistent://public/default/t"],
    f"/ws/v2/reader/{TOPIC}": ["consume on persistent://public/default/t"],
    f"/ws/v2/consumer/{TOPIC}/s": ["consume on subscription s of persistent://public/default/t"],
    "/ws/producer/persistent/public/c/default/t": ["produce on persistent://public/c/default/t"],
    "/ws/v3/consumer/s?topics=t,u": ["consume on subscription s of persistent://public/default/t"],
    "/ws/v3/consumer/s?topicsPattern=persistent://a/b/x.*": ["lookup on a/b"],
}
TAIL = "/api/v1/tail?topic=persistent://public/default/t"
PARAMS = {"cluster": "standalone", "domain": "persistent", "tenant": "public", "topic": "t"}
PARAMS |= {"namespace": "default", "id": "abc"}


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> DenyAll:
    made = DenyAll()
    monkeypatch.setattr(access, "judge_of", lambda cluster: made)
    return made


def asked(judge: DenyAll) -> list[str]:
    return [f"{action.value} on {resource}" for _, action, resource in judge.asked]


def never(*args: Any, **named: Any) -> Any:
    raise AssertionError("the call was made")


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_an_endpoint_refuses_the_handshake_before_it_calls_a_broker(
    path: str, call: Gateway, judge: DenyAll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cluster, "client", property(never))
    pair = await SocketPair(call.application, path).opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    assert REASON in (pair.response.body or b"").decode()
    assert asked(judge) == ENDPOINTS[path]
    await pair.hang_up()


async def test_a_dead_letter_topic_needs_the_right_to_produce_there(
    call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = DenyAll(Action.CONSUME)
    monkeypatch.setattr(access, "judge_of", lambda cluster: judge)
    monkeypatch.setattr(Cluster, "client", property(never))
    path = f"/ws/v2/consumer/{TOPIC}/s?maxRedeliverCount=2&deadLetterTopic=other/ns/dlq"
    pair = await SocketPair(call.application, path).opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    assert asked(judge)[-1] == "produce on persistent://other/ns/dlq"
    await pair.hang_up()


@pytest.mark.parametrize("path", [*ENDPOINTS, "/api/v1/live", TAIL])
async def test_with_authentication_on_no_socket_without_a_user_opens(
    path: str, call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token())
    pair = await SocketPair(call.application, path).opened()
    assert pair.response is not None
    assert pair.response.status_code == 401
    await pair.hang_up()


GOOD = {"authorization": f"Bearer {token('app')}"}


@pytest.mark.parametrize("path", [*ENDPOINTS, "/api/v1/live", TAIL])
@pytest.mark.parametrize(
    ("headers", "query"),
    [(GOOD, ""), ({}, f"token={token('app')}"), (GOOD, "token=bad")],
    ids=["header", "query", "both"],
)
async def test_a_socket_opens_by_a_token_in_its_header_or_query(
    path: str,
    headers: dict[str, str],
    query: str,
    call: Gateway,
    judge: DenyAll,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token(anonymous_user_role="guest"))
    target = f"{path}{'&' if '?' in path else '?'}{query}"
    pair = await SocketPair(call.application, target, headers=headers).opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    assert {identity.role for identity, _, _ in judge.asked} == {"app"}
    await pair.hang_up()


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"authorization": "Bearer bad"}, ""),
        ({}, "token=bad"),
        ({}, f"token={token('app')}&{'a=1&' * 100}"),
        ({"authorization": "Bearer bad"}, f"token={token('app')}"),
    ],
)
async def test_a_socket_with_bad_credentials_is_refused_where_others_are_anonymous(
    headers: dict[str, str], query: str, call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token(anonymous_user_role="guest"))
    target = f"/ws/v2/producer/{TOPIC}?{query}"
    pair = await SocketPair(call.application, target, headers=headers).opened()
    assert pair.response is not None
    assert pair.response.status_code == 401
    assert "Failed to authenticate" in (pair.response.body or b"").decode()
    await pair.hang_up()


@pytest.mark.usefixtures("judge")
async def test_the_live_feed_refuses_a_caller_that_the_judge_refuses(call: Gateway) -> None:
    pair = await SocketPair(call.application, "/api/v1/live").opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    await pair.hang_up()


def parameters_of(channel: Channel) -> dict[str, str]:
    return {name: PARAMS[name] for name in channel.required}


@pytest.mark.parametrize(
    "name", [name for name in CHANNELS if all_of(CHANNELS[name].rights) != (AUTHENTICATED,)]
)
async def test_a_channel_that_may_not_be_watched_makes_no_feed(
    name: str, call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = DenyAll(Action.AUTHENTICATED)
    monkeypatch.setattr(access, "judge_of", lambda cluster: judge)
    monkeypatch.setattr(feeds.Feeds, "watch", never)
    pair = await SocketPair(call.application, "/api/v1/live").opened()
    subscription = {
        "op": "subscribe",
        "id": "a",
        "channel": name,
        "params": parameters_of(CHANNELS[name]),
    }
    pair.send(json.dumps(subscription))
    message: dict[str, Any] = {"op": "beat"}
    while message.get("op") == "beat":
        message = json.loads(await pair.receive())
    assert message == {"id": "a", "error": {"reason": REASON}}
    await pair.hang_up()


async def test_a_channel_is_watched_as_the_sockets_user(
    call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[Viewer] = []

    def watch(_: feeds.Feeds, viewer: Viewer, *rest: object) -> None:
        watched.append(viewer)
        raise InvalidField("viewer", "is known")

    monkeypatch.setattr(feeds.Feeds, "watch", watch)

    async def viewer_of(identity: Identity, cluster: Cluster) -> Viewer:
        return Viewer(tenants=frozenset({str(identity.role)}))

    monkeypatch.setattr("gateway.http.auth.open_access.viewer_of", viewer_of)
    pair = await SocketPair(call.application, "/api/v1/live").opened()
    params = parameters_of(CHANNELS["overview"])
    pair.send(json.dumps({"op": "subscribe", "id": "a", "channel": "overview", "params": params}))
    while "error" not in json.loads(await pair.receive()):
        pass
    assert [viewer.tenants for viewer in watched] == [{"None"}]
    await pair.hang_up()


def test_a_channel_states_its_right(monkeypatch: pytest.MonkeyPatch) -> None:
    body: Callable[..., Any] = never
    with pytest.raises(TypeError):
        Channel("c", body)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="states the rights"):
        Channel("c", body, ())
