"""The answer to a handshake when an endpoint cannot open."""

from typing import Any

import pytest

from engine.base.errors import MagnetarError
from engine.client.client import PulsarClient
from engine.client.errors import REFUSALS, NoAnswerError, NoBrokerError, ServerError
from gateway.clusters.registry import KEY, Clusters
from gateway.ws import sockets
from gateway.ws.frames import HandshakeRefusedError
from gateway.ws.rights import Opening
from tests.support.admin.clusters import cluster_without_link


async def answers(error: Exception) -> tuple[int, str]:
    """Return the status and the page of a refusal."""
    events: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(event: dict[str, Any]) -> None:
        events.append(event)

    async def fail(client: PulsarClient) -> sockets.SocketEndpoint:
        raise error

    names = Opening(("persistent://t/n/x",))
    cluster = cluster_without_link()
    scope = {KEY: Clusters(cluster), "headers": [], "query_string": b""}
    await sockets.run(scope, receive, send, "producer", cluster, lambda: names, fail)
    start, body = events
    assert start["type"] == "websocket.http.response.start"
    return start["status"], body["body"].decode()


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (HandshakeRefusedError(418, "why"), 418),
        (NoBrokerError("why"), 503),
        (NoAnswerError("why"), 504),
        (REFUSALS[ServerError.ConsumerBusy]("why"), 409),
        (REFUSALS[ServerError.TopicNotFound]("why"), 404),
        (REFUSALS[ServerError.AuthorizationError]("why"), 403),
        (REFUSALS[ServerError.UnknownError]("why"), 500),
        (MagnetarError("why"), 500),
    ],
)
async def test_a_refusal_has_its_status_and_reason(error: Exception, status: int) -> None:
    answered, page = await answers(error)
    assert answered == status
    assert f"<title>Error {status} " in page
    assert "why</title>" in page
