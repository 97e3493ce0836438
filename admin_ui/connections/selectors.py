"""The list of connections in the shapes of the console API."""

from typing import Any

from admin_ui.params import LIMIT_MAX, Params, choice, sort_of, window
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.services.connections import gathered_connections
from gateway.services.connections.connection_rows import FIELDS, GROUPINGS, KINDS, Filter
from gateway.services.connections.gathered_connections import GatheredConnections
from gateway.services.engine_link import Engine
from gateway.services.source import Ability

Body = dict[str, Any]
TEXTS = ("q", "library", "version", "role", "application", "broker", "host")
CHOICES = {"proxy": ("yes", "no"), "kind": KINDS, "group": GROUPINGS}


def gathered(cluster: Cluster) -> GatheredConnections:
    """Return the connections of the cluster, which are one of its parts."""
    return GatheredConnections()


def filter_of(params: Params) -> Filter:
    """Return the filter and order of a request. Raises InvalidField."""
    for name, allowed in CHOICES.items():
        choice(params, name, allowed)
    sort = sort_of(params, FIELDS, "-since")
    texts = {name: params.get(name, "") for name in (*TEXTS, "proxy", "kind")}
    return Filter(**texts, sort=sort)


async def connections(
    viewer: Viewer, cluster: Cluster, params: Params, *, limit_max: int = LIMIT_MAX
) -> Body:
    """Return a window of the list, with ``groups`` by the parameter ``group``. Raises InvalidField, NotReady when no
    broker answers, Forbidden for a viewer who does not see everything."""
    viewer.require_everything("Connections")
    cluster.require(Ability.CONNECTIONS)
    offset, limit = window(params, limit_max)
    chosen = filter_of(params)
    table = await cluster.link.arun(cluster.part(gathered).table)
    rows = table.selected(chosen, offset, offset + limit)
    return {
        "at": table.at,
        "total": table.count(chosen),
        "all": len(table),
        "brokers": table.brokers,
        "silent": [
            {"broker": name, "reason": reason} for name, reason in sorted(table.silent.items())
        ],
        "offset": offset,
        "limit": limit,
        "rows": [connection.row() for connection in rows],
        "groups": table.groups(chosen, params["group"]) if params.get("group") else [],
    }


async def connection(viewer: Viewer, engine: Engine, broker: str, name: str) -> Body:
    """Return the connection with this id of a broker, with its producers and consumers. Raises InvalidField, NotFound
    when it has ended, Forbidden for a viewer who does not see everything."""
    viewer.require_everything("Connections")
    return await gathered_connections.one(engine, broker, name)
