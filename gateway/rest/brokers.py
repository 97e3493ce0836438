"""``/admin/v2/brokers``, ``/lookup/v2`` and ``/metrics``."""

from django.conf import settings
from django.http import Http404, HttpResponse
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from engine.base.metrics import METRICS_TYPE
from engine.base.names import DOMAINS
from gateway.http.bodies import plain_text
from gateway.rest.base import AdminView
from gateway.rest.permissions import PUBLIC
from gateway.services import brokers, metrics, topics


class Brokers(AdminView):
    """Ids of live brokers."""

    def get(self, request: Request) -> Response:
        return Response(self.run(brokers.ids))


class BrokersOfCluster(AdminView):
    """Ids of live brokers; the name is not looked at, as in Pulsar."""

    def get(self, request: Request, cluster: str) -> Response:
        return Response(self.run(brokers.ids))


class Health(AdminView):
    """``ok`` when a broker can do its work."""

    quiet = True

    def get(self, request: Request) -> HttpResponse:
        if request.query_params.get("topicVersion", "V2") not in ("V1", "V2"):
            raise Http404
        broker_id = request.query_params.get("brokerId") or None
        self.run(lambda engine: brokers.health(engine, broker_id))
        return plain_text("ok")


class Ready(AdminView):
    """``ok`` when requests can be answered."""

    quiet = True

    def get(self, request: Request) -> HttpResponse:
        self.run(lambda engine: brokers.health(engine, None))
        return plain_text("ok")


class Version(AdminView):
    """The version of Pulsar whose interface this is, as bare text."""

    def get(self, request: Request) -> HttpResponse:
        return plain_text(settings.PULSAR_VERSION)


class Leader(AdminView):
    """BrokerInfo of the elected broker."""

    def get(self, request: Request) -> Response:
        return Response(self.run(brokers.leader))


class InternalConfiguration(AdminView):
    """Where the metadata lives, for tools that read it themselves."""

    def get(self, request: Request) -> Response:
        url = settings.METADATA_URL
        return Response(
            {
                "zookeeperServers": url,
                "configurationStoreServers": url,
                "metadataStoreUrl": url,
                "configurationMetadataStoreUrl": url,
                "ledgersRootPath": "/ledgers",
            }
        )


class RuntimeConfiguration(AdminView):
    """Settings in force under Pulsar's names, as text: those that the gateway shares with the brokers."""

    def get(self, request: Request) -> Response:
        known = settings.ENVIRONMENT
        return Response(
            {
                "clusterName": known.cluster_name,
                "metadataStoreUrl": settings.METADATA_URL,
                "configurationMetadataStoreUrl": settings.METADATA_URL,
                "brokerServicePort": str(known.broker_port),
                "webServicePort": str(known.http_port),
                "webSocketServiceEnabled": "true",
                "authenticationEnabled": str(known.authentication_enabled).lower(),
            }
        )


class OwnedNamespaces(AdminView):
    """Bundles a broker owns."""

    def get(self, request: Request, cluster: str, brokerId: str) -> Response:
        return Response(self.run(lambda engine: brokers.owned_namespaces(engine, brokerId)))


class Lookup(AdminView):
    """Which broker serves a topic."""

    permission = "topic"

    def get(self, request: Request, domain: str, **where: str) -> Response:
        if domain not in DOMAINS:
            raise Http404
        name = topics.topic_name(domain, **where)
        found = self.run(lambda engine: topics.lookup(engine, name))
        # Of HTTP, brokers serve only the private admin RPC; the REST interface is here, under the name we were called.
        found["httpUrl"] = f"{request.scheme}://{request.META['HTTP_HOST']}"
        return Response(found)


class LookupBundle(AdminView):
    """Which hash range holds a topic, as bare text."""

    permission = "topic"

    def get(self, request: Request, domain: str, **where: str) -> HttpResponse:
        if domain not in DOMAINS:
            raise Http404
        name = topics.topic_name(domain, **where)
        return plain_text(self.run(lambda engine: topics.bundle_of(engine, name)))


class Metrics(AdminView):
    """Prometheus text of the gateway and all brokers."""

    permission = PUBLIC

    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(self.run(metrics.document), content_type=METRICS_TYPE)

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[BaseRenderer, str]:
        """Scrapers ask for text; there is nothing to negotiate."""
        renderer = self.get_renderers()[0]
        return renderer, str(renderer.media_type)


_BROKERS = "/admin/v2/brokers"
_LOOKUP = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (_BROKERS, Brokers),
    (f"{_BROKERS}/health", Health),
    (f"{_BROKERS}/ready", Ready),
    (f"{_BROKERS}/version", Version),
    (f"{_BROKERS}/leaderBroker", Leader),
    (f"{_BROKERS}/internal-configuration", InternalConfiguration),
    (f"{_BROKERS}/configuration/runtime", RuntimeConfiguration),
    (f"{_BROKERS}/{{cluster}}", BrokersOfCluster),
    (f"{_BROKERS}/{{cluster}}/{{brokerId}}/ownedNamespaces", OwnedNamespaces),
    (_LOOKUP, Lookup),
    (f"{_LOOKUP}/bundle", LookupBundle),
    ("/metrics", Metrics),
]
