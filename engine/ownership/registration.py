"""Registration of a broker in the list of live brokers, renewed with each new session.

The ephemeral node ``/loadbalance/brokers/<host:http-port>`` holds Pulsar's load report of a broker as JSON, and our
additional keys ``adminRpcUrl`` and ``hotTopics``. The creator of ``/loadbalance/leader`` is the leader, which plans
where bundles should move (``engine.broker.control.load.leader``); nothing else depends on it.
"""

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.log import bound
from engine.metadata import paths
from engine.metadata.cached import derived, fresh
from engine.metadata.records import Document, decode_json, encode_json
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
from engine.ownership.load.report import LoadReport, decode_report

log = logging.getLogger(__name__)

ATTEMPTS_MAX = 5
LOAD_MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
"""Load manager in the reports of Pulsar's brokers with default settings, and in ours."""


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

    def encode(self, load: LoadReport | None = None) -> bytes:
        """Encode as a load report in Pulsar's key order; without ``load`` nothing is known of it yet."""
        return encode_json(self.document(LoadReport(self.id) if load is None else load))

    def document(self, load: LoadReport) -> Document:
        """Return Pulsar's LocalBrokerData with our additions at its end."""
        usage = load.usage
        return {
            "webServiceUrl": self.web_url,
            **({"webServiceUrlTls": self.web_url_tls} if self.web_url_tls else {}),
            "pulsarServiceUrl": self.service_url,
            **({"pulsarServiceUrlTls": self.service_url_tls} if self.service_url_tls else {}),
            "persistentTopicsEnabled": self.persistent,
            "nonPersistentTopicsEnabled": self.non_persistent,
            **load.document(),
            "brokerVersionString": self.version,
            "protocols": {},
            "advertisedListeners": encode_listeners(self.listeners),
            # Pulsar's own leader leaves out brokers with another load manager than its own.
            "loadManagerClassName": LOAD_MANAGER,
            "startTimestamp": self.started_ms,
            **({} if usage is None else {"maxResourceUsage": usage}),
            "loadReportType": "LocalBrokerData",
            "adminRpcUrl": self.web_url,
            **load.additions(),
        }

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

    A node of another session with the value ``mine`` (default ``value``) is replaced at once. Either an earlier process
    of this broker left it, which has ended, because this one listens on its address; or the previous owner wrote it
    when it had stopped, to name this broker as the next one (O4). Raises StoreUnavailableError when the node keeps
    changing. After cancellation the node may exist.
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
                # Another value was written by this broker, which passed the node on to the broker that the value names.
                return stored in (value, own)
            if stored != own:
                return False
            await store.delete(path, stat.version)
        except (NoNodeError, BadVersionError):
            continue
    raise StoreUnavailableError(f"{path} keeps changing")


class RegisteredBroker(NamedTuple):
    """Addresses and load of a registered broker."""

    record: BrokerRecord
    load: LoadReport


class BrokerRegistration:
    """Registration of one broker; ``renew`` must be called after the start and after each new session."""

    def __init__(self, store: MetadataStore, record: BrokerRecord) -> None:
        self._store = store
        self.record = record
        self._load: LoadReport | None = None
        """The newest report, which a registration under a new session has at once."""
        self._lock = asyncio.Lock()
        self._log = bound(__name__, broker=record.id)

    async def renew(self) -> None:
        """List this broker under the current session, and try to become the leader. Raises the store's errors."""
        async with self._lock:
            path = paths.broker(self.record.id)
            # Any other value was written by an earlier process of this broker, because the id is ours: it is replaced.
            stored, listed, _ = await self._stored(path)
            if not listed:
                if not await claim(self._store, path, self._value(), mine=stored):
                    raise StoreUnavailableError(f"{path} is held by another session")
                self._log.info("broker registered")
            await self.stand()

    def _value(self) -> bytes:
        return self.record.encode(self._load)

    async def report(self, load: LoadReport) -> bool:
        """Write the load of this broker. Return False when the broker is not registered under the current session.

        The registration that follows has the load, too. Raises the store's errors; cancel-safe.
        """
        self._load = load
        async with self._lock:
            path = paths.broker(self.record.id)
            # The version is read each time: a node which a former session made is not ours to replace (L9).
            _, listed, version = await self._stored(path)
            if not listed:
                return False
            try:
                await self._store.put(path, self._value(), version)
            except (NoNodeError, BadVersionError):
                return False
            return True

    async def _stored(self, path: str) -> tuple[bytes | None, bool, int]:
        """Return the value of our node, None without one, whether it belongs to the current session, its version."""
        try:
            value, stat = await self._store.get(path)
        except NoNodeError:
            return None, False, 0
        return value, stat.ephemeral_owner == self._store.session_id, stat.version

    async def stand(self) -> None:
        """Become the leader if there is none. Raises the store's errors."""
        value = {"brokerId": self.record.id, "serviceUrl": self.record.web_url}
        encoded = json.dumps(value, separators=(",", ":")).encode()
        await claim(self._store, paths.LOADBALANCE_LEADER, encoded)

    async def leads(self) -> bool:
        """Return whether this broker is the leader under its present, proven session (L1).

        Raises the store's errors.
        """
        try:
            _, stat = await fresh(self._store, paths.LOADBALANCE_LEADER).get(
                paths.LOADBALANCE_LEADER
            )
        except NoNodeError:
            return False
        return stat.ephemeral_owner == self._store.session_id and self._store.session_proven

    async def withdraw(self) -> None:
        """Remove this broker from the list, so that no client is redirected to it while it drains."""
        async with self._lock:
            for path in (paths.broker(self.record.id), paths.LOADBALANCE_LEADER):
                try:
                    _, stat = await self._store.get(path)
                    if stat.ephemeral_owner == self._store.session_id:
                        await self._store.delete(path, stat.version)
                except (NoNodeError, BadVersionError):
                    continue


def _decode(value: bytes, path: str) -> RegisteredBroker | None:
    """Return a stored registration; None when it cannot be read, which is logged once, because results are kept."""
    broker_id = path.removeprefix(f"{paths.LOADBALANCE_BROKERS}/")
    try:
        record = BrokerRecord.decode(broker_id, value)
    except ValueError as error:
        log.warning("a registered broker is left out: %s", error)
        return None
    return RegisteredBroker(record, decode_report(broker_id, value))


async def registered_brokers(store: MetadataStore) -> dict[str, RegisteredBroker]:
    """Return the registered brokers with their loads by id, in order of id.

    One with unreadable addresses is left out: nothing can be placed on it, and the others go on.
    """
    try:
        ids = await store.children(paths.LOADBALANCE_BROKERS)
    except NoNodeError:
        return {}
    brokers: dict[str, RegisteredBroker] = {}
    for broker_id in ids:
        with suppress(NoNodeError):
            broker = await derived(store, paths.broker(broker_id), _decode)
            if broker is not None:
                brokers[broker_id] = broker
    return brokers


async def live_brokers(store: MetadataStore) -> dict[str, BrokerRecord]:
    """Return the registered brokers by id, in order of id."""
    return {name: broker.record for name, broker in (await registered_brokers(store)).items()}
