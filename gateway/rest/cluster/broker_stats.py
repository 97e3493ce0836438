"""``/admin/v2/broker-stats``. Where Pulsar tells of the broker that is asked, this tells of all brokers together."""

from django.http import Http404, HttpRequest, HttpResponse

from gateway.http.bodies import json_answer
from gateway.rest.base import AdminView, web_url
from gateway.services import brokers


class Topics(AdminView):
    """What every loaded topic does, by namespace, bundle and domain."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.topics_stats))


class Metrics(AdminView):
    """What the topics of each namespace do together, broker by broker."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.metrics))


class LoadReport(AdminView):
    """What one broker has to do, the first by id that answers."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        report = await self.work(brokers.load_report)
        return json_answer({**report, "webServiceUrl": web_url(request)})


class Destinations(AdminView):
    """Documented, but Pulsar 4.0 has no such path."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        raise Http404


_STATS = "/admin/v2/broker-stats"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (f"{_STATS}/topics", Topics),
    (f"{_STATS}/metrics", Metrics),
    (f"{_STATS}/load-report", LoadReport),
    (f"{_STATS}/destinations", Destinations),
]
