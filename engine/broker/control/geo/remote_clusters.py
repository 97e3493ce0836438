"""Other clusters that topics are replicated to: clients of their brokers, and topics of the same shape there.

A cluster's record has its addresses and, where it needs other ones than this broker's own, its credentials and TLS.
"""

import asyncio
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from engine.admin.link_causes import LinkCause
from engine.base.addresses import ServiceUrl
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.names import TopicName
from engine.broker.ports import MigrationTarget
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import ClientError, RefusedError, ServerError
from engine.client.raw_consumer import FROM_EARLIEST, SHARED, RawConsumer
from engine.client.replicating_producer import FEATURES
from engine.client.settings import BrokerClientSettings
from engine.metadata import paths
from engine.metadata.records import Document, decode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import Network
from engine.schema.kinds import version_of
from engine.schema.schema_registry import SchemaRegistry, schema_id
from engine.schema.wire_form import to_wire
from engine.tenancy import topics
from engine.wire import client_commands as say

log = logging.getLogger(__name__)

HTTP_TIMEOUT_S = 15.0
MIGRATION = ""
"""Key of the client of the cluster that topics are migrated to, which has no name."""
CREATED = (204, 409)
"""Statuses of a topic that exists now."""
NO_RIGHTS = (401, 403)


class RemoteClusterError(ClientError):
    """A cluster cannot be replicated to at present; the text has the reason."""

    def __init__(self, text: str, cause: LinkCause = LinkCause.RECORD) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class _Known:
    record: Document
    client: PulsarClient


class StoredClusters:
    """Clients of the clusters in the configuration store, made when they are first needed."""

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        own: BrokerClientSettings,
        schemas: SchemaRegistry,
    ) -> None:
        self._store = store
        self._network = network
        self._clock = clock
        self._entropy = entropy
        self._own = own
        self._schemas = schemas
        self._known: dict[str, _Known] = {}
        self._changing = asyncio.Lock()

    async def client(self, cluster: str) -> PulsarClient:
        """Return the client of a cluster's brokers, a new one after its record was changed.

        Raises RemoteClusterError, the store's errors.
        """
        return await self._client_of(cluster, await self._record(cluster))

    async def _client_of(self, cluster: str, record: Document) -> PulsarClient:
        async with self._changing:
            known = self._known.get(cluster)
            if known is not None and known.record == record:
                return known.client
            client = self._connected(cluster, record)
            self._known[cluster] = _Known(record, client)
        if known is not None:
            log.info("record of cluster %s changed", cluster)
            await known.client.close()
        return client

    async def _record(self, cluster: str) -> Document:
        path = paths.cluster(cluster)
        try:
            value, _ = await self._store.get(path)
        except NoNodeError:
            raise RemoteClusterError(f"Cluster {cluster} does not exist") from None
        return decode_json(value, path)

    def _connected(self, cluster: str, record: Document) -> PulsarClient:
        settings = client_settings(self._own, record)
        key = "brokerServiceUrlTls" if settings.broker_client_tls_enabled else "brokerServiceUrl"
        text = record.get(key)
        if not text:
            raise RemoteClusterError(f"The record of cluster {cluster} has no {key}")
        urls = service_urls(str(text))

        async def brokers() -> list[str]:
            return urls

        return PulsarClient(
            network=self._network,
            clock=self._clock,
            entropy=self._entropy,
            brokers=brokers,
            settings=LinkSettings(
                client_version="Magnetar-replicator",
                credentials=settings.credentials(),
                tls=settings.tls(),
                features=FEATURES,
                listener_name=record.get("listenerName") or None,
            ),
        )

    async def check_shape(self, client: PulsarClient, cluster: str, topic: TopicName) -> None:
        """Create the topic there with as many partitions as it has here. Raises RemoteClusterError when it has others,
        and as ``PulsarClient.owner``."""
        await self._match(client, cluster, await self._record(cluster), topic)

    async def grow(self, cluster: str, topic: TopicName, partitions: int) -> None:
        """Give a partitioned topic, if it exists there, as many partitions there. Raises RemoteClusterError, the
        store's errors, and as ``PulsarClient.partitions``.

        The cluster does it itself, and so adds its subscriptions to the new ones. With one configuration store the
        number is the same before.
        """
        record = await self._record(cluster)
        client = await self._client_of(cluster, record)
        path = f"{_partitions_path(topic)}?updateLocalTopicOnly=true"
        status, text = await self._ask(cluster, record, "POST", path, topic, partitions)
        there = await client.partitions(topic.full)
        if there and (there != partitions or status in NO_RIGHTS):
            raise RemoteClusterError(
                f"{there} partitions, {status} {text}",
                LinkCause.RIGHTS if status in NO_RIGHTS else LinkCause.PARTITIONS,
            )

    async def prepare(
        self, target: MigrationTarget, topic: TopicName, subscriptions: Collection[str]
    ) -> None:
        """Make the topic and its subscriptions in the cluster of a migration. Raises RemoteClusterError, and as
        ``RawConsumer.open``."""
        record = dict(target.record)
        client = await self._client_of(MIGRATION, record)
        await self._match(client, target.url or target.url_tls, record, topic)
        link = await client.owner(topic.full)
        for name in sorted(subscriptions):
            try:
                keeper = await RawConsumer.open(
                    link,
                    topic.full,
                    name,
                    SHARED,
                    on_messages=lambda messages: None,
                    initial=FROM_EARLIEST,
                )
            except RefusedError as error:
                if error.code is not ServerError.ConsumerBusy:
                    raise
                # Consumers of another type have attached to it there.
                log.debug("subscription is in use there topic=%s name=%s", topic, name)
            else:
                await keeper.close()

    async def _match(
        self, client: PulsarClient, cluster: str, record: Document, topic: TopicName
    ) -> None:
        parent = topic.partitioned
        here = 0
        if parent != topic:
            stored = await topics.find_partitions(self._store, parent)
            here = 0 if stored is None else int(stored["partitions"])
        if not here:
            return
        there = await client.partitions(parent.full)
        if not there:
            await self._create(cluster, record, parent, here)
            there = await client.partitions(parent.full)
        if there != here:
            raise RemoteClusterError(
                f"The partitions of {parent} differ: {here} here, {there} in {cluster}. Give it as many in both",
                LinkCause.PARTITIONS,
            )

    async def _create(
        self, cluster: str, record: Document, topic: TopicName, partitions: int
    ) -> None:
        path = _partitions_path(topic)
        status, text = await self._ask(cluster, record, "PUT", path, topic, partitions)
        if status not in CREATED:
            raise RemoteClusterError(
                f"{topic} cannot be created in {cluster}: {status} {text}",
                LinkCause.RIGHTS if status in NO_RIGHTS else LinkCause.TOPIC_MISSING,
            )

    async def _ask(
        self,
        cluster: str,
        record: Document,
        method: str,
        path: str,
        topic: TopicName,
        partitions: int,
    ) -> tuple[int, str]:
        """Send a number of partitions to the administration of a cluster; return the status and the answer's text.

        Raises RemoteClusterError.
        """
        settings = client_settings(self._own, record)
        url = record.get("serviceUrlTls" if settings.broker_client_tls_enabled else "serviceUrl")
        if not url:
            raise RemoteClusterError(
                f"{topic} is not as large in {cluster}, whose record has no address of its administration"
            )
        http = HttpClient(self._network, timeout_s=HTTP_TIMEOUT_S, tls=settings.tls())
        try:
            answer = await http.request(
                method,
                f"{str(url).split(',')[0].rstrip('/')}/admin/v2/{path}",
                headers=[("Content-Type", "application/json"), *_authorization(settings)],
                body=json.dumps(partitions).encode(),
            )
        except HttpError as error:
            raise RemoteClusterError(
                f"the administration of {cluster} is not reached for {topic}: {error}",
                LinkCause.UNREACHABLE,
            ) from error
        finally:
            http.close()
        return answer.status, answer.body[:200].decode(errors="replace")

    async def register_schema(self, link: BrokerLink, topic: TopicName, version: bytes) -> bytes:
        """Register the schema of a version here with the topic there; return its version there.

        Raises RemoteClusterError, RefusedError when it is not compatible there.
        """
        number = version_of(version)
        stored = None if number is None else await self._schemas.get(topic, number)
        if stored is None:
            raise RemoteClusterError(
                f"Schema version {number} of {topic} does not exist", LinkCause.SCHEMA
            )
        request_id = link.new_id()
        schema = to_wire(schema_id(topic), stored.registered.schema)
        answer = await link.request(
            request_id, say.get_or_create_schema(topic.full, request_id, schema)
        )
        return bytes(answer.schema_version)

    async def close(self) -> None:
        """Close all connections."""
        for known in self._known.values():
            await known.client.close()


def _partitions_path(topic: TopicName) -> str:
    """Return the path below the administration's of a topic's number of partitions."""
    parts = (topic.domain, topic.tenant, topic.namespace.below_tenant, topic.local)
    return "/".join((*(quote(part, safe="") for part in parts), "partitions"))


def client_settings(own: BrokerClientSettings, record: Mapping[str, Any]) -> BrokerClientSettings:
    """Return the settings of connections to a cluster: those that its record has, else ``own``.

    Raises RemoteClusterError for settings that cannot be used.
    """
    changes: dict[str, Any] = {}
    if record.get("authenticationPlugin"):
        changes |= {
            "broker_client_authentication_plugin": record["authenticationPlugin"],
            "broker_client_authentication_parameters": record.get("authenticationParameters", ""),
        }
    if record.get("brokerClientTlsEnabled"):
        changes["broker_client_tls_enabled"] = True
        for key, name in (
            ("brokerClientTrustCertsFilePath", "broker_client_trust_certs_file_path"),
            ("brokerClientCertificateFilePath", "broker_client_certificate_file_path"),
            ("brokerClientKeyFilePath", "broker_client_key_file_path"),
        ):
            if record.get(key):
                changes[name] = record[key]
    try:
        return replace(own, **changes)
    except (ValueError, OSError) as error:
        raise RemoteClusterError(f"Settings of the cluster's record: {error}") from error


def service_urls(text: str) -> list[str]:
    """Return the URL of each broker of ``pulsar://host:port,host:port``. Raises RemoteClusterError."""
    first, *others = text.split(",")
    try:
        scheme = "pulsar+ssl" if ServiceUrl.parse(first).encrypted else "pulsar"
        urls = [first, *(f"{scheme}://{other}" for other in others)]
        for url in urls:
            ServiceUrl.parse(url)
    except ValueError as error:
        raise RemoteClusterError(f"{text} is no service URL: {error}") from error
    return urls


def _authorization(settings: BrokerClientSettings) -> list[tuple[str, str]]:
    present = settings.credentials()
    if present is None:
        return []
    method, data = present(b"")
    return [("Authorization", f"Bearer {data.decode()}")] if method == "token" else []
