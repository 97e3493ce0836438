"""Registration of a broker in the list of live brokers, renewed with each new session.

The ephemeral node ``/loadbalance/brokers/<host:http-port>`` holds Pulsar's load report of a broker as JSON, and our
additional key ``adminRpcUrl``. The creator of ``/loadbalance/leader`` is the leader; nothing depends on it so far.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from engine.base.log import bound
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    StoreUnavailableError,
)
from engine.net.listener_urls import (
    Listeners,
    decode_listeners,
    encode_listeners,
)

ATTEMPTS_MAX = 5


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """Addresses of a broker. ``id`` is ``host:http-port``; URLs have no slash at the end."""

    id: str
    service_url: str
    web_url: str
    started_ms: int
    version: str
    service_url_tls: str = ""
    """Service URL for TLS; empty when the broker does not listen for TLS."""
    web_url_tls: str = ""
    """URL of the HTTP port with TLS; empty without one."""
    listeners: Listeners = field(default_factory=dict)
    """Addresses by listener; empty where all clients receive the same."""
    persistent: bool = True
    """True if the broker serves persistent topics."""
    non_persistent: bool = True
    """True if the broker serves non-persistent topics."""

    def serves(self, *, persistent: bool) -> bool:
        """Return whether the broker serves topics of this kind."""
        return self.persistent if persistent else self.non_persistent

    def encode(self) -> bytes:
        """Encode as the load report of an idle broker, in Pulsar's key order."""
        idle = {"usage": 0.0, "limit": 0.0}
        report: dict[str, Any] = {
            "webServiceUrl": self.web_url,
            **({"webServiceUrlTls": self.web_url_tls} if self.web_url_tls else {}),
            "pulsarServiceUrl": self.service_url,
            **({"pulsarServiceUrlTls": self.service_url_tls} if self.service_url_tls else {}),
            "persistentTopicsEnabled": self.persistent,
            "nonPersistentTopicsEnabled": self.non_persistent,
            **dict.fromkeys(("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"), idle),
            "msgThroughputIn": 0.0,
            "msgThroughputOut": 0.0,
            "msgRateIn": 0.0,
            "msgRateOut": 0.0,
            "lastUpdate": self.started_ms,
            "lastStats": {},
            "numTopics": 0,
            "numBundles": 0,
            "numConsumers": 0,
            "numProducers": 0,
            "bundles": [],
            "lastBundleGains": [],
            "lastBundleLosses": [],
            "brokerVersionString": self.version,
            "protocols": {},
            "advertisedListeners": encode_listeners(self.listeners),
            "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.NoopLoadManager",
            "startTimestamp": self.started_ms,
            "maxResourceUsage": 0.0,
            "loadReportType": "LocalBrokerData",
            "adminRpcUrl": self.web_url,
        }
        return json.dumps(report, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, broker_id: str, value: bytes) -> "BrokerRecord":
        """Decode a stored report, also one of Apache Pulsar. Raises ValueError when it cannot be read."""
        report = decode_json(value or b"null", f"report of broker {broker_id}")
        started = report.get("startTimestamp") or 0
        if not isinstance(started, int):
            raise ValueError(f"report of broker {broker_id}: startTimestamp is no whole number")
        return cls(
            broker_id,
            str(report.get("pulsarServiceUrl") or ""),
            str(report.get("adminRpcUrl") or report.get("webServiceUrl") or ""),
            started,
            str(report.get("brokerVersionString") or ""),
            str(report.get("pulsarServiceUrlTls") or ""),
            str(report.get("webServiceUrlTls") or ""),
            decode_listeners(report.get("advertisedListeners")),
            persistent=report.get("persistentTopicsEnabled") is not False,
            non_persistent=report.get("nonPersistentTopicsEnabled") is not False,
        )


async def claim(store: MetadataStore, path: str, value: bytes, mine: bytes | None = None) -> bool:
    """Create the ephemeral ``path`` for this session; return False when another owner holds it (O1).

    A node that an earlier process of this broker left under an older session (its value is ``mine``, default ``value``)
    is replaced at once: that process has ended, because this one listens on its address. Raises StoreUnavailableError
    when the node keeps changing. After cancellation the node may exist.
    """
    own = value if mine is None else mine
    for _ in range(ATTEMPTS_MAX):
        try:
            await store.create(path, value, ephemeral=True, make_parents=True)
            return True
        except NodeExistsError:
            pass
        try:
            stored, stat = await store.get(path)
            if stat.ephemeral_owner == store.session_id:
                return True
            if stored != own:
                return False
            await store.delete(path, stat.version)
        except (NoNodeError, BadVersionError):
            continue
    raise StoreUnavailableError(f"{path} keeps changing")


class BrokerRegistration:
    """Registration of one broker; ``renew`` must be called after the start and after each new session."""

    def __init__(self, store: MetadataStore, record: BrokerRecord) -> None:
        self._store = store
        self.record = record
        self._log = bound(__name__, broker=record.id)

    async def renew(self) -> None:
        """List this broker under the current session, and try to become the leader. Raises the store's errors."""
        path = paths.broker(self.record.id)
        # Any other value was written by an earlier process of this broker, because the id is ours: it is replaced.
        stored, listed = await self._stored(path)
        if not listed:
            if not await claim(self._store, path, self.record.encode(), mine=stored):
                raise StoreUnavailableError(f"{path} is held by another session")
            self._log.info("broker registered")
        await self.stand()

    async def _stored(self, path: str) -> tuple[bytes | None, bool]:
        """Return the value of our node, None without one, and whether the node belongs to the current session."""
        try:
            value, stat = await self._store.get(path)
        except NoNodeError:
            return None, False
        return value, stat.ephemeral_owner == self._store.session_id

    async def stand(self) -> None:
        """Become the leader if there is none. Raises the store's errors."""
        value = {"brokerId": self.record.id, "serviceUrl": self.record.web_url}
        encoded = json.dumps(value, separators=(",", ":")).encode()
        await claim(self._store, paths.LOADBALANCE_LEADER, encoded)

    async def withdraw(self) -> None:
        """Remove this broker from the list, so that no client is redirected to it while it drains."""
        for path in (paths.broker(self.record.id), paths.LOADBALANCE_LEADER):
            try:
                _, stat = await self._store.get(path)
                if stat.ephemeral_owner == self._store.session_id:
                    await self._store.delete(path, stat.version)
            except (NoNodeError, BadVersionError):
                continue


async def live_brokers(store: MetadataStore) -> dict[str, BrokerRecord]:
    """Return the registered brokers by id, in order of id. Raises ValueError for an unreadable report."""
    try:
        ids = await store.children(paths.LOADBALANCE_BROKERS)
    except NoNodeError:
        return {}
    brokers: dict[str, BrokerRecord] = {}
    for broker_id in ids:
        try:
            value, _ = await store.get(paths.broker(broker_id))
        except NoNodeError:
            continue
        brokers[broker_id] = BrokerRecord.decode(broker_id, value)
    return brokers
