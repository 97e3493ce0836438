"""Records kept in the metadata store, byte for byte as Apache Pulsar 4.0.8 and BookKeeper 4.17 write them. Pure.

JSON records keep the order and the fields they were read with, so that what we do not know survives a change.
Managed-ledger and ledger records belong to ``engine.managed`` and ``engine.ledger``.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from engine.base.errors import MagnetarError
from engine.metadata.protobinary import put_bytes, put_int, take_fields
from engine.metadata.prototext import escape, parse_text

Document = dict[str, Any]


class RecordFormatError(MagnetarError, ValueError):
    """A stored record cannot be read; the message names the record and the fault."""


def encode_json(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Compact UTF-8 JSON, keys in the order given, as Jackson writes it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(data: bytes, record: str) -> Document:
    """A JSON object; an empty value is an empty object. Raises RecordFormatError naming ``record``."""
    try:
        found = json.loads(data or b"{}")
        if b"\\u" in data:
            encode_json(found)  # half a surrogate pair can be read, but never written again
    except (ValueError, RecursionError) as e:
        raise RecordFormatError(f"{record}: {e}") from e
    if not isinstance(found, dict):
        raise RecordFormatError(f"{record}: a JSON object is needed")
    return found


def _object(document: Document, record: str, name: str) -> Document:
    """An object that may be missing or null. Raises RecordFormatError naming record and field."""
    value = document.get(name)
    if value is not None and not isinstance(value, dict):
        raise RecordFormatError(f"{record}: {name} is no object")
    return value or {}


def _text(document: Document, record: str, name: str) -> str:
    """A text that may be missing or null."""
    value = document.get(name)
    if value is not None and not isinstance(value, str):
        raise RecordFormatError(f"{record}: {name} is no text")
    return value or ""


def _texts(document: Document, record: str, name: str) -> list[str]:
    """A list of texts that may be missing or null."""
    value = document.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RecordFormatError(f"{record}: {name} is no list of texts")
    return value


@dataclass(slots=True)
class Tenant:
    """``/admin/policies/<tenant>``."""

    admin_roles: list[str] = field(default_factory=list)
    allowed_clusters: list[str] = field(default_factory=list)
    more: Document = field(default_factory=dict)

    def encode(self) -> bytes:
        known = {"adminRoles": self.admin_roles, "allowedClusters": self.allowed_clusters}
        return encode_json(known | self.more)

    @classmethod
    def decode(cls, data: bytes) -> "Tenant":
        document = decode_json(data, "tenant")
        roles = _texts(document, "tenant", "adminRoles")
        clusters = _texts(document, "tenant", "allowedClusters")
        known = ("adminRoles", "allowedClusters")
        return cls(roles, clusters, {k: v for k, v in document.items() if k not in known})


CLUSTER_DEFAULTS: Document = {
    "brokerClientTlsEnabled": False,
    "tlsAllowInsecureConnection": False,
    "brokerClientTlsEnabledWithKeyStore": False,
    "brokerClientTlsTrustStoreType": "JKS",
    "brokerClientTlsKeyStoreType": "JKS",
    "brokerClientSslFactoryPlugin": "org.apache.pulsar.common.util.DefaultPulsarSslFactory",
}


@dataclass(slots=True)
class Cluster:
    """``/admin/clusters/<name>``. ``fields`` has Apache's names: serviceUrl, brokerServiceUrl, …, absent when unset."""

    fields: Document = field(default_factory=dict)

    @classmethod
    def at(cls, service_url: str, broker_service_url: str) -> "Cluster":
        """Data of a cluster with the two URLs and everything else default."""
        urls = {"serviceUrl": service_url, "brokerServiceUrl": broker_service_url}
        return cls(urls | CLUSTER_DEFAULTS)

    @property
    def service_url(self) -> str | None:
        return self.fields.get("serviceUrl")

    @property
    def broker_service_url(self) -> str | None:
        return self.fields.get("brokerServiceUrl")

    def encode(self) -> bytes:
        return encode_json(self.fields)

    @classmethod
    def decode(cls, data: bytes) -> "Cluster":
        document = decode_json(data, "cluster")
        for name in ("serviceUrl", "brokerServiceUrl"):
            _text(document, "cluster", name)
        return cls(document)


FULL_LOWER, FULL_UPPER = 0x00000000, 0xFFFFFFFF
BUNDLES_MAX = 1 << 16
"""Bundles of a namespace; a record that claims more is refused."""


@dataclass(slots=True)
class Bundles:
    """Hash ranges of a namespace: each from a boundary up to, not with, the next; the last ends with 0xffffffff."""

    boundaries: list[int]

    @classmethod
    def even(cls, count: int) -> "Bundles":
        """``count`` >= 1 equal ranges of the 32-bit hash space, as Apache cuts it."""
        step = (1 << 32) // count
        return cls([step * i for i in range(count)] + [FULL_UPPER])

    @property
    def ranges(self) -> list[str]:
        """``0x00000000_0x40000000``, …"""
        edges = [f"0x{edge:08x}" for edge in self.boundaries]
        return [f"{low}_{high}" for low, high in itertools.pairwise(edges)]

    def document(self) -> Document:
        edges = [f"0x{edge:08x}" for edge in self.boundaries]
        return {"boundaries": edges, "numBundles": len(edges) - 1}

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> "Bundles":
        """From stored form; none or no boundaries means one bundle."""
        edges = (document or {}).get("boundaries")
        if not edges:
            count = (document or {}).get("numBundles") or 1
            if not isinstance(count, int) or not 1 <= count <= BUNDLES_MAX:
                raise RecordFormatError(f"bundles: numBundles is not in 1..{BUNDLES_MAX}")
            return cls.even(count)
        if not isinstance(edges, list) or not 2 <= len(edges) <= BUNDLES_MAX + 1:
            raise RecordFormatError(f"bundles: boundaries are no list of 2..{BUNDLES_MAX + 1}")
        try:
            found = cls([int(edge, 16) for edge in edges])
        except (TypeError, ValueError) as e:
            raise RecordFormatError(f"bundles: boundaries: {e}") from e
        if any(
            not low < high for low, high in itertools.pairwise([-1, *found.boundaries, 1 << 32])
        ):
            raise RecordFormatError("bundles: boundaries do not rise from 0 to 0xffffffff")
        return found


_POLICY_DEFAULTS: Document = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": [],
    "allowed_clusters": [],
    "bundles": {},
    "backlog_quota_map": {},
    "clusterDispatchRate": {},
    "topicDispatchRate": {},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "clusterSubscribeRate": {},
    "publishMaxMessageRate": {},
    "latency_stats_sample_rate": {},
    "deleted": False,
    "encryption_required": False,
    "subscription_auth_mode": "None",
    "offload_threshold": -1,
    "offload_threshold_in_seconds": -1,
    "schema_compatibility_strategy": "UNDEFINED",
    "schema_validation_enforced": False,
    "subscription_types_enabled": [],
    "properties": {},
    "migrated": False,
}


@dataclass(slots=True)
class NamespacePolicies:
    """``/admin/policies/<tenant>/<namespace>``. ``fields`` has Apache's names and is written as it stands."""

    fields: Document = field(default_factory=dict)

    @classmethod
    def new(cls, bundles: Bundles, replication_clusters: Sequence[str] = ()) -> "NamespacePolicies":
        """Policies of a new namespace."""
        fields = deepcopy(_POLICY_DEFAULTS)
        fields["replication_clusters"] = list(replication_clusters)
        fields["bundles"] = bundles.document()
        if replication_clusters:
            fields["clusterThatCanDeleteNamespace"] = replication_clusters[0]
        return cls(fields)

    @property
    def bundles(self) -> Bundles:
        return Bundles.of(self.fields.get("bundles"))

    @property
    def replication_clusters(self) -> list[str]:
        return list(self.fields.get("replication_clusters") or [])

    @property
    def deleted(self) -> bool:
        return bool(self.fields.get("deleted", False))

    def encode(self) -> bytes:
        return encode_json(self.fields)

    @classmethod
    def decode(cls, data: bytes) -> "NamespacePolicies":
        document = decode_json(data, "namespace policies")
        _texts(document, "namespace policies", "replication_clusters")
        Bundles.of(_object(document, "namespace policies", "bundles"))
        return cls(document)


@dataclass(slots=True)
class LocalPolicies:
    """``/admin/local-policies/<tenant>/<namespace>``: the bundles as this cluster has split them."""

    bundles: Bundles
    more: Document = field(default_factory=lambda: {"migrated": False})

    def encode(self) -> bytes:
        return encode_json({"bundles": self.bundles.document()} | self.more)

    @classmethod
    def decode(cls, data: bytes) -> "LocalPolicies":
        document = decode_json(data, "local policies")
        bundles = Bundles.of(_object(document, "local policies", "bundles"))
        return cls(bundles, {k: v for k, v in document.items() if k != "bundles"})


@dataclass(slots=True)
class PartitionedTopic:
    """``/admin/partitioned-topics/…/<topic>``."""

    partitions: int
    deleted: bool = False
    properties: dict[str, str] | None = None

    def encode(self) -> bytes:
        document: Document = {"partitions": self.partitions, "deleted": self.deleted}
        if self.properties is not None:
            document["properties"] = self.properties
        return encode_json(document)

    @classmethod
    def decode(cls, data: bytes) -> "PartitionedTopic":
        document = decode_json(data, "partitioned topic")
        partitions = document.get("partitions", 0)
        if not isinstance(partitions, int) or isinstance(partitions, bool):
            raise RecordFormatError(f"partitioned topic: partitions {partitions!r} is no number")
        properties = _object(document, "partitioned topic", "properties")
        kept = None if document.get("properties") is None else properties
        return cls(partitions, bool(document.get("deleted", False)), kept)


@dataclass(slots=True)
class BundleOwner:
    """``/namespace/<tenant>/<namespace>/<range>``, ephemeral: the broker that serves a bundle."""

    native_url: str
    http_url: str
    disabled: bool = False
    advertised_listeners: Document = field(default_factory=dict)

    def encode(self) -> bytes:
        document: Document = {"nativeUrl": self.native_url, "httpUrl": self.http_url}
        document["disabled"] = self.disabled
        document["advertisedListeners"] = self.advertised_listeners
        return encode_json(document)

    @classmethod
    def decode(cls, data: bytes) -> "BundleOwner":
        document = decode_json(data, "bundle owner")
        return cls(
            _text(document, "bundle owner", "nativeUrl"),
            _text(document, "bundle owner", "httpUrl"),
            bool(document.get("disabled", False)),
            _object(document, "bundle owner", "advertisedListeners"),
        )


_LOAD_DEFAULTS: Document = {
    "webServiceUrl": "",
    "pulsarServiceUrl": "",
    "persistentTopicsEnabled": True,
    "nonPersistentTopicsEnabled": True,
    "cpu": {"usage": 0.0, "limit": 0.0},
    "memory": {"usage": 0.0, "limit": 0.0},
    "directMemory": {"usage": 0.0, "limit": 0.0},
    "bandwidthIn": {"usage": 0.0, "limit": 0.0},
    "bandwidthOut": {"usage": 0.0, "limit": 0.0},
    "msgThroughputIn": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateIn": 0.0,
    "msgRateOut": 0.0,
    "lastUpdate": 0,
    "lastStats": {},
    "numTopics": 0,
    "numBundles": 0,
    "numConsumers": 0,
    "numProducers": 0,
    "bundles": [],
    "lastBundleGains": [],
    "lastBundleLosses": [],
    "protocols": {},
    "advertisedListeners": {},
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
    "startTimestamp": 0,
    "maxResourceUsage": 0.0,
    "loadReportType": "LocalBrokerData",
}


@dataclass(slots=True)
class LoadReport:
    """``/loadbalance/brokers/<id>``, ephemeral: registration and load of a broker, fields by Apache's names."""

    fields: Document = field(default_factory=dict)

    @classmethod
    def new(cls, web_service_url: str, pulsar_service_url: str, now_ms: int) -> "LoadReport":
        fields = deepcopy(_LOAD_DEFAULTS)
        fields["webServiceUrl"] = web_service_url
        fields["pulsarServiceUrl"] = pulsar_service_url
        fields["lastUpdate"] = fields["startTimestamp"] = now_ms
        return cls(fields)

    @property
    def web_service_url(self) -> str:
        return str(self.fields.get("webServiceUrl") or "")

    @property
    def pulsar_service_url(self) -> str:
        return str(self.fields.get("pulsarServiceUrl") or "")

    def encode(self) -> bytes:
        return encode_json(self.fields)

    @classmethod
    def decode(cls, data: bytes) -> "LoadReport":
        return cls(decode_json(data, "load report"))


@dataclass(slots=True)
class Leader:
    """``/loadbalance/leader``, ephemeral."""

    broker_id: str
    service_url: str

    def encode(self) -> bytes:
        return encode_json({"brokerId": self.broker_id, "serviceUrl": self.service_url})

    @classmethod
    def decode(cls, data: bytes) -> "Leader":
        document = decode_json(data, "leader")
        return cls(_text(document, "leader", "brokerId"), _text(document, "leader", "serviceUrl"))


@dataclass(slots=True)
class BookieRacks:
    """``/bookies``: racks by bookie id, as operators told. ``document`` is {group: {bookie: {rack, hostname}}}."""

    document: Document = field(default_factory=dict)

    @property
    def racks(self) -> dict[str, str]:
        """Rack by bookie id; a rack that is no path gets its slash, as in Pulsar's topology."""
        found: dict[str, str] = {}
        for bookies in self.document.values():
            for bookie, facts in bookies.items():
                rack = facts.get("rack") or ""
                if rack:
                    found[bookie] = rack if rack.startswith("/") else f"/{rack}"
        return found

    def encode(self) -> bytes:
        return encode_json(self.document)

    @classmethod
    def decode(cls, data: bytes) -> "BookieRacks":
        document = decode_json(data, "bookie racks")
        for group, bookies in document.items():
            if not isinstance(bookies, dict):
                raise RecordFormatError(f"bookie racks: group {group} is no object")
            for bookie, facts in bookies.items():
                if not isinstance(facts, dict) or not isinstance(facts.get("rack", ""), str | None):
                    raise RecordFormatError(f"bookie racks: {group}/{bookie} has no rack")
        return cls(document)


BOOKIE_PROTOCOL = "bookie-rpc"
HTTP_PROTOCOL = "http"


@dataclass(slots=True)
class Endpoint:
    """One address of a bookie."""

    id: str
    host: str
    port: int
    protocol: str
    auth: list[str] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BookieRegistration:
    """``/ledgers/available[/readonly]/<bookie id>``, ephemeral: BookieServiceInfoFormat."""

    endpoints: list[Endpoint]
    properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, host: str, port: int, http_port: int | None = None) -> "BookieRegistration":
        found = cls([])
        if http_port is not None:  # first, as BookKeeper has it
            found.endpoints.append(Endpoint("httpserver", host, http_port, HTTP_PROTOCOL))
        found.endpoints.append(Endpoint("bookie", host, port, BOOKIE_PROTOCOL))
        return found

    def http_url(self) -> str | None:
        """Address of the bookie's own pages, no slash at the end; None when it has none."""
        for endpoint in self.endpoints:
            if endpoint.protocol == HTTP_PROTOCOL:
                return f"http://{endpoint.host}:{endpoint.port}"
        return None

    def address(self, bookie_id: str) -> tuple[str, int]:
        """Host and port to connect to; without a record the id itself is ``host:port``. Raises RecordFormatError."""
        for endpoint in self.endpoints:
            if endpoint.protocol == BOOKIE_PROTOCOL:
                return endpoint.host, endpoint.port
        host, _, port = bookie_id.rpartition(":")
        if not host or not port.isdigit():
            raise RecordFormatError(f"bookie {bookie_id}: no address registered")
        return host, int(port)

    def encode(self) -> bytes:
        out = bytearray()
        for endpoint in self.endpoints:
            body = bytearray()
            put_bytes(body, 1, endpoint.id.encode())
            put_int(body, 2, endpoint.port)
            put_bytes(body, 3, endpoint.host.encode())
            put_bytes(body, 4, endpoint.protocol.encode())
            for name in endpoint.auth:
                put_bytes(body, 5, name.encode())
            for name in endpoint.extensions:
                put_bytes(body, 6, name.encode())
            put_bytes(out, 6, bytes(body))
        for key, value in self.properties.items():
            body = bytearray()
            put_bytes(body, 1, key.encode())
            put_bytes(body, 2, value.encode())
            put_bytes(out, 7, bytes(body))
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> "BookieRegistration":
        found = cls([])
        try:
            for number, value in take_fields(data):
                if number == 6 and isinstance(value, bytes):
                    found.endpoints.append(_endpoint(value))
                elif number == 7 and isinstance(value, bytes):
                    pair = {n: v.decode() for n, v in take_fields(value) if isinstance(v, bytes)}
                    found.properties[pair.get(1, "")] = pair.get(2, "")
        except (ValueError, IndexError) as e:
            raise RecordFormatError(f"bookie registration: {e}") from e
        return found


def _endpoint(body: bytes) -> Endpoint:
    endpoint = Endpoint("", "", 0, "")
    for number, value in take_fields(body):
        if number == 2 and isinstance(value, int):
            endpoint.port = value
        elif isinstance(value, bytes):
            text = value.decode()
            match number:
                case 1:
                    endpoint.id = text
                case 3:
                    endpoint.host = text
                case 4:
                    endpoint.protocol = text
                case 5:
                    endpoint.auth.append(text)
                case 6:
                    endpoint.extensions.append(text)
    return endpoint


@dataclass(slots=True)
class Cookie:
    """``/ledgers/cookies/<bookie id>`` and the file VERSION of each directory: ties an id to its disks (layout 5)."""

    bookie_id: str
    journal_dirs: list[str]
    ledger_dirs: list[str]
    index_dirs: list[str] = field(default_factory=list)
    instance_id: str | None = None

    def encode(self) -> bytes:
        lines = ["5"]
        lines.append("bookieHost: " + escape(self.bookie_id.encode()))
        lines.append("journalDir: " + escape(",".join(self.journal_dirs).encode()))
        lines.append("ledgerDirs: " + escape(_counted(self.ledger_dirs)))
        if self.instance_id is not None:
            lines.append("instanceId: " + escape(self.instance_id.encode()))
        if self.index_dirs and self.index_dirs != self.ledger_dirs:
            lines.append("indexDirs: " + escape(_counted(self.index_dirs)))
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> "Cookie":
        version, _, body = data.decode(errors="replace").partition("\n")
        if version != "5":
            raise RecordFormatError(f"cookie: layout version {version[:20]!r}, only 5 is known")
        try:
            fields = parse_text(body)
            texts = {name: values[-1].decode() for name, values in fields.items() if values}  # type: ignore[attr-defined]
            instance: str | None = texts.get("instanceId")
            return cls(
                texts["bookieHost"],
                texts["journalDir"].split(","),
                texts["ledgerDirs"].split("\t")[1:],
                texts.get("indexDirs", "").split("\t")[1:],
                instance,
            )
        except (ValueError, KeyError, AttributeError) as e:
            raise RecordFormatError(f"cookie: {e}") from e


def _counted(directories: list[str]) -> bytes:
    return "\t".join([str(len(directories)), *directories]).encode()
