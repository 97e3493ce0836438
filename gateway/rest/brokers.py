"""``/admin/v2/brokers``, ``/lookup/v2``, ``/metrics`` and ``/status.html``."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from engine.auth.actions import Action
from engine.auth.rights import AUTHENTICATED, PUBLIC, SUPERUSER, Right
from engine.base.metrics import METRICS_TYPE
from engine.base.names import DOMAINS, TopicName
from gateway.http.auth.access import LIST_NAMESPACE
from gateway.http.auth.identity import is_local
from gateway.http.bodies import json_answer, no_content, plain_text
from gateway.rest.base import AdminResource, web_url
from gateway.services import metrics
from gateway.services.admin import brokers, lookup
from gateway.services.admin.names import topic_name
from gateway.services.source import Ability


class BrokersResource(AdminResource):
    """The ids of live brokers."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await self.work(brokers.ids))


class BrokersOfClusterResource(AdminResource):
    """The ids of live brokers; the cluster's name is ignored, as in Pulsar."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        return json_answer(await self.work(brokers.ids))


class HealthResource(AdminResource):
    """The health check: ``ok`` when a broker reports that it can do its work."""

    read_rights = SUPERUSER
    quiet = True

    @classmethod
    def is_open(cls, request: HttpRequest) -> bool:
        """Return True for a check from this machine without credentials, as supervisors make; a page of a proxy beside
        the gateway is not from this machine."""
        return is_local(request) and "HTTP_AUTHORIZATION" not in request.META

    async def get(self, request: HttpRequest) -> HttpResponse:
        if request.GET.get("topicVersion", "V2") not in ("V1", "V2"):
            raise Http404
        broker_id = request.GET.get("brokerId") or None
        await self.work(lambda engine: brokers.health(engine, broker_id))
        return plain_text("ok")


class ReadyResource(AdminResource):
    """The readiness check: ``ok`` when requests can be answered."""

    read_rights = AUTHENTICATED
    quiet = True

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(lambda engine: brokers.health(engine, None))
        return plain_text("ok")


class VersionResource(AdminResource):
    """The version of Pulsar whose interface is served, as unquoted text."""

    read_rights = AUTHENTICATED

    async def get(self, request: HttpRequest) -> HttpResponse:
        return plain_text(settings.PULSAR_VERSION)


class LeaderResource(AdminResource):
    """The BrokerInfo of the elected leader."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer({**await self.work(brokers.leader), "serviceUrl": web_url(request)})


class InternalConfigurationResource(AdminResource):
    """The addresses of the metadata stores, for tools that read them directly."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.cluster.require(Ability.BROKER_SETTINGS)
        stores = self.cluster.settings.stores
        answer = {
            "zookeeperServers": stores.metadata,
            "configurationStoreServers": stores.of_configuration,
            "metadataStoreUrl": stores.metadata,
            "configurationMetadataStoreUrl": stores.of_configuration,
            "ledgersRootPath": "/ledgers",
        }
        if stores.bookkeeper:
            answer["bookkeeperMetadataServiceUri"] = stores.service_uri
        return json_answer(answer)


class RuntimeConfigurationResource(AdminResource):
    """The effective settings of a broker by Pulsar's names, as text, overridden by the gateway's own."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        self.cluster.require(Ability.BROKER_SETTINGS)
        environment, stores = settings.ENVIRONMENT, self.cluster.settings.stores
        return json_answer(
            {
                **await self.work(brokers.runtime_settings),
                "clusterName": self.cluster.name,
                "metadataStoreUrl": stores.metadata,
                "configurationMetadataStoreUrl": stores.of_configuration,
                "brokerServicePort": str(environment.broker_port),
                "webServicePort": str(environment.http_port),
                "webSocketServiceEnabled": "true",
            }
        )


class DynamicSettingNamesResource(AdminResource):
    """The names of settings that may change while brokers run."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        names, _ = await self.work(brokers.dynamic_settings)
        return json_answer(names)


class DynamicSettingsResource(AdminResource):
    """The values of dynamic settings that were changed, as text."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        _, values = await self.work(brokers.dynamic_settings)
        return json_answer(values)


class DynamicSettingResource(AdminResource):
    """The removal of a dynamic setting, after which the brokers' own applies. Answers 200, not 204, as Pulsar."""

    write_rights = SUPERUSER

    async def delete(self, request: HttpRequest, configName: str) -> HttpResponse:
        await self.work(lambda engine: brokers.change_setting(engine, configName, None))
        return no_content(200)


class DynamicSettingValueResource(AdminResource):
    """The change of a dynamic setting for all brokers. Answers 200, not 204, as Pulsar."""

    write_rights = SUPERUSER

    async def post(self, request: HttpRequest, configName: str, configValue: str) -> HttpResponse:
        await self.work(lambda engine: brokers.change_setting(engine, configName, configValue))
        return no_content(200)


class BacklogQuotaCheckResource(AdminResource):
    """An immediate check of backlog quotas and its consequences. A GET, as in Pulsar."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest) -> HttpResponse:
        await self.work(brokers.check_quotas)
        return no_content()


class OwnedNamespacesResource(AdminResource):
    """The bundles that a broker owns."""

    read_rights = SUPERUSER

    async def get(self, request: HttpRequest, cluster: str, brokerId: str) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: brokers.owned_namespaces(engine, brokerId))
        )


LISTENER_HEADER = "X-Pulsar-ListenerName"


class LookupResource(AdminResource):
    """The broker that serves a topic."""

    def topic(self) -> TopicName:
        """Return the topic that the path names. Raises Http404 for an unknown domain, PreconditionFailed."""
        path = self.kwargs
        if path["domain"] not in DOMAINS:
            raise Http404
        return topic_name(path["domain"], path["tenant"], path["namespace"], path["topic"])

    read_rights = Right(Action.LOOKUP, TopicName, topic)

    async def get(self, request: HttpRequest, **names: str) -> HttpResponse:
        name = self.topic()
        listener = request.GET.get("listenerName") or request.headers.get(LISTENER_HEADER, "")
        answer = await self.work(lambda engine: lookup.owner_of(engine, name, listener))
        answer["httpUrl"] = answer["httpUrl"] or web_url(request)
        return json_answer(answer)


class LookupBundleResource(LookupResource):
    """The bundle of a topic, as unquoted text."""

    read_rights = LIST_NAMESPACE

    async def get(self, request: HttpRequest, **names: str) -> HttpResponse:
        name = self.topic()
        return plain_text(await self.work(lambda engine: lookup.bundle_of(engine, name)))


class StatusResource(AdminResource):
    """The status page for load balancers: ``OK`` while the file of ``status_file_path`` exists."""

    read_rights = PUBLIC
    quiet = True
    negotiates = False

    async def get(self, request: HttpRequest) -> HttpResponse:
        path = settings.ENVIRONMENT.status_file_path
        if not path or not await asyncio.to_thread(Path(path).exists):
            raise Http404
        return HttpResponse("OK", content_type="text/plain")


class MetricsResource(AdminResource):
    """The metrics of the gateway and all brokers in Prometheus' text format."""

    read_rights = PUBLIC
    negotiates = False  # Scrapers accept only text.

    @classmethod
    def is_open(cls, request: HttpRequest) -> bool:
        return not settings.IDENTITY.general.authenticate_metrics_endpoint

    async def get(self, request: HttpRequest) -> StreamingHttpResponse:
        pieces = await self.work(metrics.document)
        return StreamingHttpResponse(_stream(pieces), content_type=METRICS_TYPE)


async def _stream(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


_BROKERS = "/admin/v2/brokers"
_LOOKUP = "/lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}"
_OLD_LOOKUP = "/lookup/v2/destination/{domain}/{tenant}/{cluster}/{namespace}/{topic}"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (_BROKERS, BrokersResource),
    (f"{_BROKERS}/health", HealthResource),
    (f"{_BROKERS}/ready", ReadyResource),
    (f"{_BROKERS}/version", VersionResource),
    (f"{_BROKERS}/leaderBroker", LeaderResource),
    (f"{_BROKERS}/backlog-quota-check", BacklogQuotaCheckResource),
    (f"{_BROKERS}/internal-configuration", InternalConfigurationResource),
    (f"{_BROKERS}/configuration/runtime", RuntimeConfigurationResource),
    (f"{_BROKERS}/configuration", DynamicSettingNamesResource),
    (f"{_BROKERS}/configuration/values", DynamicSettingsResource),
    (f"{_BROKERS}/configuration/{{configName}}", DynamicSettingResource),
    (f"{_BROKERS}/configuration/{{configName}}/{{configValue}}", DynamicSettingValueResource),
    (f"{_BROKERS}/{{cluster}}", BrokersOfClusterResource),
    (f"{_BROKERS}/{{cluster}}/{{brokerId}}/ownedNamespaces", OwnedNamespacesResource),
    (_LOOKUP, LookupResource),
    (f"{_LOOKUP}/bundle", LookupBundleResource),
    (_OLD_LOOKUP, LookupResource),
    (f"{_OLD_LOOKUP}/bundle", LookupBundleResource),
    ("/metrics", MetricsResource),
    ("/status.html", StatusResource),
]
