"""``/admin/v2/brokers``, ``/lookup/v2``, ``/metrics`` and ``/status.html``."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from engine.base.metrics import METRICS_TYPE
from engine.base.names import DOMAINS
from gateway.http.bodies import json_answer, no_content, plain_text
from gateway.rest.base import AdminView, web_url
from gateway.rest.permissions import PUBLIC
from gateway.services import brokers, metrics, topics


class Brokers(AdminView):
    """Ids of live brokers."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.ids))


class BrokersOfCluster(AdminView):
    """Ids of live brokers; the name is not looked at, as in Pulsar."""

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(await self.work(brokers.ids))


class Health(AdminView):
    """``ok`` when a broker can do its work."""

    quiet = True

    async def get(self, request: HttpRequest) -> HttpResponse:
        if request.GET.get("topicVersion", "V2") not in ("V1", "V2"):
            raise Http404
        broker_id = request.GET.get("brokerId") or None
        await self.work(lambda engine: brokers.health(engine, broker_id))
        return plain_text("ok")


class Ready(AdminView):
    """``ok`` when requests can be answered."""

    quiet = True

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(lambda engine: brokers.health(engine, None))
        return plain_text("ok")


class Version(AdminView):
    """The version of Pulsar whose interface this is, as bare text."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return plain_text(settings.PULSAR_VERSION)


class Leader(AdminView):
    """BrokerInfo of the elected broker."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer({**await self.work(brokers.leader), "serviceUrl": web_url(request)})


class InternalConfiguration(AdminView):
    """Where the metadata lives, for tools that read it themselves."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        url = settings.METADATA_URL
        return json_answer(
            {
                "zookeeperServers": url,
                "configurationStoreServers": url,
                "metadataStoreUrl": url,
                "configurationMetadataStoreUrl": url,
                "ledgersRootPath": "/ledgers",
            }
        )


class RuntimeConfiguration(AdminView):
    """Settings in force under Pulsar's names, as text: a broker's, and the gateway's own in front of them."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        known = settings.ENVIRONMENT
        return json_answer(
            {
                **await self.work(brokers.runtime_settings),
                "clusterName": known.cluster_name,
                "metadataStoreUrl": settings.METADATA_URL,
                "configurationMetadataStoreUrl": settings.METADATA_URL,
                "brokerServicePort": str(known.broker_port),
                "webServicePort": str(known.http_port),
                "webSocketServiceEnabled": "true",
                "authenticationEnabled": str(known.authentication_enabled).lower(),
            }
        )


class DynamicNames(AdminView):
    """Names of settings that may change while brokers run."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        names, _ = await self.work(brokers.dynamic_settings)
        return json_answer(names)


class DynamicValues(AdminView):
    """Those that were changed, as text."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        _, values = await self.work(brokers.dynamic_settings)
        return json_answer(values)


class RemovedSetting(AdminView):
    """Having the brokers' own setting hold again. Answers 200, not 204: as Pulsar."""

    async def delete(self, request: HttpRequest, configName: str) -> HttpResponse:
        await self.work(lambda engine: brokers.change_setting(engine, configName, None))
        return no_content(200)


class ChangedSetting(AdminView):
    """A setting changed for all brokers. Answers 200, not 204: as Pulsar."""

    async def post(self, request: HttpRequest, configName: str, configValue: str) -> HttpResponse:
        await self.work(lambda engine: brokers.change_setting(engine, configName, configValue))
        return no_content(200)


class BacklogQuotaCheck(AdminView):
    """Have backlog quotas looked at, and acted upon, now. A GET: as Pulsar."""

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(brokers.check_quotas)
        return no_content()


class OwnedNamespaces(AdminView):
    """Bundles a broker owns."""

    async def get(self, request: HttpRequest, cluster: str, brokerId: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: brokers.owned_namespaces(engine, brokerId))
        )


class Lookup(AdminView):
    """Which broker serves a topic."""

    permission = "topic"

    async def get(self, request: HttpRequest, domain: str, **where: str) -> HttpResponse:
        if domain not in DOMAINS:
            raise Http404
        name = topics.topic_name(domain, **where)
        found = await self.work(lambda engine: topics.lookup(engine, name))
        found["httpUrl"] = web_url(request)
        return json_answer(found)


class LookupBundle(AdminView):
    """Which hash range holds a topic, as bare text."""

    permission = "topic"

    async def get(self, request: HttpRequest, domain: str, **where: str) -> HttpResponse:
        if domain not in DOMAINS:
            raise Http404
        name = topics.topic_name(domain, **where)
        return plain_text(await self.work(lambda engine: topics.bundle_of(engine, name)))


class Status(AdminView):
    """``OK`` for load balancers, while the file that says so is there."""

    permission = PUBLIC
    quiet = True
    negotiates = False

    async def get(self, request: HttpRequest) -> HttpResponse:
        path = settings.ENVIRONMENT.status_file_path
        if not path or not await asyncio.to_thread(Path(path).exists):
            raise Http404
        return HttpResponse("OK", content_type="text/plain")


class Metrics(AdminView):
    """Prometheus text of the gateway and all brokers."""

    permission = PUBLIC
    negotiates = False  # scrapers ask for text

    async def get(self, request: HttpRequest) -> StreamingHttpResponse:
        pieces = await self.work(metrics.document)
        return StreamingHttpResponse(_each(pieces), content_type=METRICS_TYPE)


async def _each(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


_BROKERS = "/admin/v2/brokers"
_LOOKUP = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_OLD_LOOKUP = "/lookup/v2/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (_BROKERS, Brokers),
    (f"{_BROKERS}/health", Health),
    (f"{_BROKERS}/ready", Ready),
    (f"{_BROKERS}/version", Version),
    (f"{_BROKERS}/leaderBroker", Leader),
    (f"{_BROKERS}/backlog-quota-check", BacklogQuotaCheck),
    (f"{_BROKERS}/internal-configuration", InternalConfiguration),
    (f"{_BROKERS}/configuration/runtime", RuntimeConfiguration),
    (f"{_BROKERS}/configuration", DynamicNames),
    (f"{_BROKERS}/configuration/values", DynamicValues),
    (f"{_BROKERS}/configuration/{{configName}}", RemovedSetting),
    (f"{_BROKERS}/configuration/{{configName}}/{{configValue}}", ChangedSetting),
    (f"{_BROKERS}/{{cluster}}", BrokersOfCluster),
    (f"{_BROKERS}/{{cluster}}/{{brokerId}}/ownedNamespaces", OwnedNamespaces),
    (_LOOKUP, Lookup),
    (f"{_LOOKUP}/bundle", LookupBundle),
    (_OLD_LOOKUP, Lookup),
    (f"{_OLD_LOOKUP}/bundle", LookupBundle),
    ("/metrics", Metrics),
    ("/status.html", Status),
]
