"""The channels of an open live feed follow the rights of its client."""

import json
from typing import Any

import pytest

from admin_ui import live
from admin_ui.feeds import Channel
from admin_ui.params import Params
from admin_ui.rights import PLACE, WATCH_TOPIC
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from engine.base.clock import SystemClock
from engine.base.names import NamespaceName
from engine.tenancy.access.revoked_tokens import revoke_token
from engine.tenancy.grants import grant, revoke
from engine.tenancy.namespaces import create_namespace
from engine.tenancy.tenants import create_tenant
from gateway.clusters.cluster import Cluster
from gateway.http.auth.open_socket import CLOSE_EXPIRED
from gateway.services.engine_link import Engine, EngineLink
from tests.support.access.callers import by_token, token
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair

NAMESPACE = NamespaceName.of("t", "n")
TOPIC = {"domain": "persistent", "tenant": "t", "namespace": "n", "topic": "x"}
REFUSAL = (
    "role app lacks produce or consume on persistent://t/n/x; a tenant admin of t can grant it"
)


async def seen(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    return {"at": 1, "namespaces": sorted(viewer.namespaces)}


async def stored(engine: Engine) -> None:
    info = {"adminRoles": ["own"], "allowedClusters": ["standalone"]}
    await create_tenant(engine.store, "t", info)
    await create_namespace(engine.store, NAMESPACE, {}, cluster="standalone")
    await grant(engine.store, NAMESPACE, "app", ["consume"])


@pytest.fixture
def application(
    gateway: Gateway, engine: EngineLink, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Any:
    settings.IDENTITY = by_token(authorization_enabled=True)
    engine.run(stored)
    monkeypatch.setitem(live.CHANNELS, "list", Channel("list", seen, AUTHENTICATED))
    one_topic = Channel("one", seen, WATCH_TOPIC, required=PLACE)
    monkeypatch.setitem(live.CHANNELS, "one", one_topic)
    # The beat is of the cluster's parts, which this cluster does not have.
    monkeypatch.setattr(live, "BEATS", [])
    return gateway.application


async def next_of(pair: SocketPair, key: str) -> dict[str, Any]:
    """Return the next message of a subscription."""
    while True:
        message: dict[str, Any] = json.loads(await pair.receive())
        if message.get("id") == key:
            return message


async def test_channels_follow_the_rights_of_the_client(
    application: Any, engine: EngineLink
) -> None:
    pair = await SocketPair(application, f"/api/v1/live?token={token('app')}").opened()
    pair.send(json.dumps({"op": "subscribe", "id": "l", "channel": "list"}))
    assert (await next_of(pair, "l"))["data"]["namespaces"] == ["t/n"]
    pair.send(json.dumps({"op": "subscribe", "id": "o", "channel": "one", "params": TOPIC}))
    assert (await next_of(pair, "o"))["data"]["namespaces"] == ["t/n"]
    await engine.arun(lambda link: revoke(link.store, NAMESPACE, "app"))
    assert (await next_of(pair, "l"))["data"]["namespaces"] == []
    assert (await next_of(pair, "o"))["error"] == {"reason": REFUSAL}
    await engine.arun(lambda link: grant(link.store, NAMESPACE, "app", ["produce"]))
    assert (await next_of(pair, "l"))["data"]["namespaces"] == ["t/n"]
    await pair.hang_up()


async def test_a_live_feed_ends_with_the_credentials(application: Any) -> None:
    import time

    expiring = token("app", exp=int(time.time()) + 1)
    pair = await SocketPair(application, f"/api/v1/live?token={expiring}").opened()
    await pair.ended.wait()
    assert pair.client.close_code == CLOSE_EXPIRED


async def test_a_live_feed_ends_when_its_token_is_revoked(
    application: Any, engine: EngineLink
) -> None:
    pair = await SocketPair(application, f"/api/v1/live?token={token('app', jti='one')}").opened()
    await engine.arun(
        lambda link: revoke_token(link.store, "one", expires_at=None, clock=SystemClock())
    )
    await pair.ended.wait()
    assert pair.client.close_code == CLOSE_EXPIRED
