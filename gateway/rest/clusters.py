"""``/admin/v2/clusters``."""

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.base.errors import InvalidField
from engine.tenancy.clusters import (
    create_cluster,
    delete_cluster,
    get_cluster,
    list_clusters,
    set_peer_clusters,
    update_cluster,
)
from engine.tenancy.geo.cluster_migration import get_migration, set_migration
from gateway.http.bodies import flag, json_answer, json_body, kind_of, no_content, object_body
from gateway.rest.base import AdminResource


class ClustersResource(AdminResource):
    """The names of clusters."""

    read_rights = AUTHENTICATED

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(lambda engine: list_clusters(engine.store)))


class ClusterResource(AdminResource):
    """The definition of a cluster. Creating and replacing it answer 200, not 204, as Pulsar."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_cluster(engine.store, cluster)))

    async def put(self, request: HttpRequest, cluster: str) -> HttpResponse:
        definition = object_body(request)
        await self.work(lambda engine: create_cluster(engine.store, cluster, definition))
        return no_content(200)

    async def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        definition = object_body(request)
        await self.work(lambda engine: update_cluster(engine.store, cluster, definition))
        return no_content(200)

    async def delete(self, request: HttpRequest, cluster: str) -> HttpResponse:
        await self.work(lambda engine: delete_cluster(engine.store, cluster))
        return no_content()


class PeerClustersResource(AdminResource):
    """The peers of a cluster."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        definition = await self.work(lambda engine: get_cluster(engine.store, cluster))
        peers = definition.get("peerClusterNames")
        return no_content(200) if not peers else json_answer(peers)

    async def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        peers = json_body(request)
        if not isinstance(peers, list) or not all(isinstance(name, str) for name in peers):
            raise InvalidField("body", f"expected an array of strings, got {kind_of(peers)}")
        await self.work(lambda engine: set_peer_clusters(engine.store, cluster, peers))
        return no_content()


class MigrationResource(AdminResource):
    """The cluster to which the topics of a cluster are migrated."""

    read_rights = write_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(await self.work(lambda engine: get_migration(engine.store, cluster)))

    async def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        target, migrated = object_body(request) or {}, flag(request, "migrated")
        await self.work(
            lambda engine: set_migration(engine.store, cluster, target, migrated=migrated)
        )
        return no_content(200)


ROUTES: list[tuple[str, type[AdminResource]]] = [
    ("/admin/v2/clusters", ClustersResource),
    ("/admin/v2/clusters/{cluster}", ClusterResource),
    ("/admin/v2/clusters/{cluster}/peers", PeerClustersResource),
    ("/admin/v2/clusters/{cluster}/migrate", MigrationResource),
]
