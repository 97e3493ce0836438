"""``/admin/v2/broker-stats``: the statistics of all brokers, while Pulsar answers for the requested broker alone."""

from django.http import Http404, HttpRequest, HttpResponse

from engine.auth.rights import SUPERUSER
from engine.base.errors import Conflict
from gateway.http.bodies import json_answer
from gateway.rest.base import AdminResource, web_url
from gateway.services.admin import brokers


class BrokerTopicsResource(AdminResource):
    """The statistics of all loaded topics, by namespace, bundle and domain."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.topics_stats))


class BrokerMetricsResource(AdminResource):
    """The statistics of the topics of each namespace together, by broker."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.metrics))


class LoadReportResource(AdminResource):
    """The load report of one broker, the first by id that answers."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        report = await self.work(brokers.load_report)
        return json_answer({**report, "webServiceUrl": web_url(request)})


class ResourceAvailabilityResource(AdminResource):
    """A question that the load manager does not answer; the refusal has its name, as in Pulsar."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        raise Conflict(
            "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerWrapper does not support this operation"
        )


class DestinationsResource(AdminResource):
    """A documented path that Pulsar 4.0 does not have, answered with 404."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        raise Http404


_STATS = "/admin/v2/broker-stats"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (f"{_STATS}/topics", BrokerTopicsResource),
    (f"{_STATS}/metrics", BrokerMetricsResource),
    (f"{_STATS}/load-report", LoadReportResource),
    (
        f"{_STATS}/broker-resource-availability/{{tenant}}/{{namespace}}",
        ResourceAvailabilityResource,
    ),
    (f"{_STATS}/destinations", DestinationsResource),
]
