"""``/admin/v2/clusters``."""

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from engine.base.errors import InvalidField
from engine.tenancy.clusters import (
    create_cluster,
    delete_cluster,
    get_cluster,
    list_clusters,
    set_peer_clusters,
    update_cluster,
)
from gateway.http.bodies import json_body, kind_of, no_content, object_body
from gateway.rest.base import AdminView


class Clusters(AdminView):
    """Names of clusters."""

    def get(self, request: Request) -> Response:
        return Response(self.run(lambda engine: list_clusters(engine.store)))


class Cluster(AdminView):
    """One cluster's definition. Creating and replacing answer 200, not 204: as Pulsar."""

    def get(self, request: Request, cluster: str) -> Response:
        return Response(self.run(lambda engine: get_cluster(engine.store, cluster)))

    def put(self, request: Request, cluster: str) -> HttpResponse:
        given = object_body(request)
        self.run(lambda engine: create_cluster(engine.store, cluster, given))
        return no_content(200)

    def post(self, request: Request, cluster: str) -> HttpResponse:
        given = object_body(request)
        self.run(lambda engine: update_cluster(engine.store, cluster, given))
        return no_content(200)

    def delete(self, request: Request, cluster: str) -> HttpResponse:
        self.run(lambda engine: delete_cluster(engine.store, cluster))
        return no_content()


class Peers(AdminView):
    """Peer clusters."""

    def get(self, request: Request, cluster: str) -> HttpResponse | Response:
        found = self.run(lambda engine: get_cluster(engine.store, cluster))
        peers = found.get("peerClusterNames")
        return no_content(200) if not peers else Response(peers)

    def post(self, request: Request, cluster: str) -> HttpResponse:
        given = json_body(request)
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise InvalidField("body", f"expected an array of strings, got {kind_of(given)}")
        self.run(lambda engine: set_peer_clusters(engine.store, cluster, given))
        return no_content()


ROUTES: list[tuple[str, type[AdminView]]] = [
    ("/admin/v2/clusters", Clusters),
    ("/admin/v2/clusters/{cluster}", Cluster),
    ("/admin/v2/clusters/{cluster}/peers", Peers),
]
