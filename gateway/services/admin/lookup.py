"""The broker and the bundle of a topic, and the creation of a topic by its use."""

from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.topics import LOOKUP, PARTITIONS_TO_USE
from engine.base.errors import NotFound, NotReady, PreconditionFailed
from engine.base.names import TopicName
from engine.metadata import paths
from engine.net.listener_urls import decode_listeners
from engine.tenancy import topics as metadata
from engine.tenancy.geo.homes import peer_holding
from engine.tenancy.namespaces import bundles_beside, get_bundles
from engine.tenancy.nodes import find_node
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

Json = dict[str, Any]


async def partitions_to_use(engine: Engine, name: TopicName) -> int:
    """Create a missing topic because it is used; return its number of partitions. Raises NotFound where use creates no
    topics."""
    try:
        return await engine.call(PARTITIONS_TO_USE, OnTopic(name))
    except NotFound as error:
        raise NotFound(f"Topic {name} not found") from error


async def owner_of(engine: Engine, name: TopicName, listener: str = "") -> Json:
    """Return LookupData of the topic's owner in the metadata store, with its addresses for clients of ``listener``; a
    bundle without one is acquired by a broker. Raises NotFound for a topic that does not exist and is not created by
    its use, PreconditionFailed for a listener that the owner does not advertise and for a namespace that neither this
    cluster nor a peer holds. Of a peer the answer has the addresses of its record, ``httpUrl`` too."""
    namespace = name.namespace
    policies = await existence.require_namespace(engine, namespace)
    peer = await peer_holding(engine.store, namespace, policies, engine.cluster)
    if peer is not None:
        url, url_tls = peer.get("brokerServiceUrl") or "", peer.get("brokerServiceUrlTls") or ""
        return _lookup_data(url, peer.get("serviceUrl") or "", url_tls)
    if (
        name.persistent
        and name.partition < 0
        and not await metadata.topic_exists(engine.store, name)
    ):
        try:
            await partitions_to_use(engine, name)
        except NotFound as error:
            raise NotFound(f"Topic not found {name}") from error
    bundle = (await bundles_beside(engine.store, namespace, policies)).of_topic(name)
    path = paths.bundle_owner(str(namespace), bundle.range)
    owner = await find_node(engine.store, path)
    if owner is None:
        answer = await engine.call(LOOKUP, OnTopic(name))
        owner = await find_node(engine.store, path) if listener else None
        if owner is None:
            if listener:
                raise NotReady(f"Bundle {bundle} has no owner now")
            return {**answer, "httpUrl": ""}  # the broker's own port is private
    if listener:
        urls = decode_listeners(owner.get("advertisedListeners")).get(listener)
        if urls is None:
            raise PreconditionFailed(f"the broker do not have {listener} listener")
        url, url_tls = urls.service_url, urls.service_url_tls
    else:
        url, url_tls = owner.get("nativeUrl") or "", owner.get("nativeUrlTls") or ""
    return _lookup_data(url, "", url_tls)


def _lookup_data(url: str, http_url: str, url_tls: str) -> Json:
    """Return Pulsar's LookupData. Without ``http_url`` the caller knows the address of REST."""
    return {
        "brokerUrl": url,
        "httpUrl": http_url,
        "nativeUrl": url,
        "brokerUrlSsl": "",
        **({"brokerUrlTls": url_tls} if url_tls else {}),
    }


async def bundle_of(engine: Engine, name: TopicName) -> str:
    """Return the hash range of the topic's bundle; the full range without the namespace, as Pulsar answers."""
    try:
        bundles = await get_bundles(engine.store, name.namespace)
    except NotFound:
        return "0x00000000_0xffffffff"
    return bundles.of_topic(name).range
