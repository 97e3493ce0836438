"""The end of a connection: its preview, and exactly that connection closed."""

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.connections import selectors
from engine.base.errors import InvalidField
from gateway.clusters.cluster import Cluster
from gateway.services.clock import now_ms
from gateway.services.connections import gathered_connections
from gateway.services.engine_link import Engine

KIND = "client-disconnection"


async def preview(engine: Engine, broker: str, connection: str, user: str) -> Json:
    """Return the connection with the producers and consumers that would be closed, and the token that confirms it.
    Raises NotFound when it has ended, InvalidField for a wrong id."""
    shown = await gathered_connections.one(engine, broker, connection)
    content = _about(broker, connection, user) | {"seen": shown["at"]}
    return {
        "token": confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "connection": shown,
    }


async def apply(
    cluster: Cluster, engine: Engine, broker: str, connection: str, user: str, token: str
) -> Json:
    """Close the connection. Raises NotFound when it has ended, Conflict when it opened a producer or a consumer
    since."""
    content = confirming.read(engine.served, KIND, token, _about(broker, connection, user))
    if not isinstance(content["seen"], int):
        raise InvalidField("token", "must be as the preview answered it")
    try:
        closed = await gathered_connections.close(engine, broker, connection, content["seen"])
    finally:
        cluster.part(selectors.gathered).forget()
    return {"at": now_ms(), **closed}


def _about(broker: str, connection: str, user: str) -> Json:
    return {"broker": broker, "connection": connection, "user": user}
