"""Client of the brokers' administration, which calls the broker that owns a topic or bundle.

The gateway uses one client per event loop.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from engine.base.errors import NotReady, Refusal
from engine.metadata import paths
from engine.metadata.cached import derived, forget
from engine.metadata.records import decode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.listener_urls import ListenerUrls, decode_listeners
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.rpc.client import RpcClient
from engine.rpc.operation import A, Operation, R, only_reads
from engine.tenancy.namespaces import get_bundles


class BrokerAddress(NamedTuple):
    """A registered broker. ``id`` is ``host:http-port``; ``rpc_url`` is its private HTTP URL without a final slash, for
    a client in TLS that of the port with TLS, empty without one."""

    id: str
    rpc_url: str
    service_url: str
    started_ms: int = 0
    """Start time in its registration, epoch milliseconds; 0 when it has none."""
    service_url_tls: str = ""
    """Service URL in TLS; empty without one."""
    listeners: tuple[tuple[str, ListenerUrls], ...] = ()
    """Names of listeners with their addresses; empty where all clients receive the same."""


class AdminClient:
    """Caller of administrative operations on the broker that owns their topic or bundle; see RpcClient for errors.

    With ``tls`` brokers are called in TLS only.
    """

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        token: str,
        *,
        timeout_s: float = 30.0,
        tls: ContextSource | None = None,
    ) -> None:
        self._store = store
        self._rpc = RpcClient(network, token, "broker", timeout_s=timeout_s, tls=tls)
        self._address = _address if tls is None else _address_in_tls

    def close(self) -> None:
        """Close all connections; pending calls fail."""
        self._rpc.close()

    async def brokers(self) -> list[BrokerAddress]:
        """Return the registered brokers, sorted by id."""
        try:
            ids = await self._store.children(paths.LOADBALANCE_BROKERS)
        except NoNodeError:
            return []
        brokers = []
        for broker_id in ids:
            try:
                brokers.append(await derived(self._store, paths.broker(broker_id), self._address))
            except NoNodeError:
                continue  # its registration ended meanwhile
        return brokers

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        """Run ``operation`` on the owner of the topic or bundle that ``args`` names, on behalf of ``principal``."""
        key = _owner_key(args)
        try:
            return await self._rpc.call(
                operation, args, key=key, servers=partial(self._urls, args), principal=principal
            )
        finally:
            self._forget_changed(operation, args)

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run ``operation`` on this broker, without following redirects.

        For operations about the broker itself, or those that must not run elsewhere. Raises Conflict when another
        broker is responsible.
        """
        if not broker.rpc_url:
            raise NotReady(f"Broker {broker.id} has no HTTP port with TLS (broker_http_port_tls)")
        try:
            return await self._rpc.call_on(
                broker.rpc_url, broker.id, operation, args, principal=principal
            )
        finally:
            self._forget_changed(operation, args)

    async def _urls(self, args: Any) -> Iterable[str]:
        """Return the URLs of the brokers, that of the owner first: another one may be registered and not answer, and
        a change that was sent there may have happened."""
        urls = [broker.rpc_url for broker in await self.brokers() if broker.rpc_url]
        owner = await self._owner(args) if len(urls) > 1 else ""
        return sorted(urls, key=lambda url: url != owner)

    async def _owner(self, args: Any) -> str:
        """Return the URL of the owner of what ``args`` names, by its record; empty when none is known."""
        topic = getattr(args, "topic", None)
        try:
            if topic is not None:
                bundle = (await get_bundles(self._store, topic.namespace)).of_topic(topic)
                path = paths.bundle_owner(str(topic.namespace), bundle.range)
            else:
                path = paths.bundle_owner(str(args.namespace), args.bundle)
            urls = await derived(self._store, path, _owner_urls)
        except (NoNodeError, Refusal, ValueError):
            return ""
        return urls[self._address is _address_in_tls]

    def _forget_changed(self, operation: Operation[Any, Any], args: Any) -> None:
        """Drop cached metadata that the broker may have changed, whatever it answered (C2)."""
        topic = getattr(args, "topic", None)
        namespace = topic.namespace if topic is not None else getattr(args, "namespace", None)
        if not only_reads(operation, args) and namespace is not None:
            forget(self._store, namespace, topic)


def _address(value: bytes, path: str) -> BrokerAddress:
    record = decode_json(value, path)
    url = record.get("adminRpcUrl") or record.get("webServiceUrl") or ""
    broker_id = path.rpartition("/")[2]
    started = record.get("startTimestamp")
    return BrokerAddress(
        broker_id,
        url.rstrip("/"),
        record.get("pulsarServiceUrl", ""),
        started if isinstance(started, int) else 0,
        record.get("pulsarServiceUrlTls") or "",
        tuple(decode_listeners(record.get("advertisedListeners")).items()),
    )


def _address_in_tls(value: bytes, path: str) -> BrokerAddress:
    url = decode_json(value, path).get("webServiceUrlTls") or ""
    return _address(value, path)._replace(rpc_url=url.rstrip("/"))


def _owner_urls(value: bytes, path: str) -> tuple[str, str]:
    """Return the URLs in a bundle's record, in clear and in TLS."""
    record = decode_json(value, path)
    urls = [str(record.get(key) or "").rstrip("/") for key in ("httpUrl", "httpUrlTls")]
    return urls[0], urls[1]


def _owner_key(args: Any) -> str:
    topic = getattr(args, "topic", None)
    return str(topic) if topic is not None else f"{args.namespace}/{args.bundle}"
