"""The clusters that this process serves, by name, and how requests and sockets find theirs."""

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, cast
from urllib.parse import quote

from django.http import HttpRequest

from engine.base.errors import NotFound
from gateway.clusters.cluster import Cluster, Parts

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
KEY = "magnetar.clusters"
"""Key of the clusters in the ASGI scope of a request or socket."""


class Clusters(Parts):
    """The clusters of this process, the first of which is the default: the one that a path without a name means.

    Its own ``part``s are those that the process has once for all clusters.
    """

    def __init__(self, default: Cluster, *others: Cluster) -> None:
        super().__init__()
        self.default = default
        self._by_name = {cluster.name: cluster for cluster in (default, *others)}

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self._by_name.values())

    @property
    def names(self) -> list[str]:
        """The names of the clusters, the default first."""
        return list(self._by_name)

    def named(self, name: str) -> Cluster:
        """Return the cluster of this name, the default for an empty one. Raises NotFound."""
        if not name:
            return self.default
        cluster = self._by_name.get(name)
        if cluster is None:
            kind = "clusters" if len(self._by_name) > 1 else "cluster"
            raise NotFound(f"This gateway serves the {kind} {', '.join(self._by_name)}, not {name}")
        return cluster


def path_of(name: str) -> str:
    """Return the path below which Pulsar's interfaces of a cluster are served; empty for the default (no name)."""
    return f"/clusters/{quote(name, safe='')}" if name else ""


def serving(clusters: Clusters, application: Application) -> Application:
    """Return ``application`` as it serves these clusters: each of its requests and sockets finds them."""

    async def serve(scope: Scope, receive: Any, send: Any) -> None:
        scope[KEY] = clusters  # not in a copy, which every open socket would keep
        await application(scope, receive, send)

    return serve


def clusters_of(scope: Scope) -> Clusters:
    """Return the clusters for a request or socket of this scope."""
    return cast(Clusters, scope[KEY])


def clusters_for(request: HttpRequest) -> Clusters:
    """Return the clusters for a request."""
    return clusters_of(cast(Any, request).scope)
