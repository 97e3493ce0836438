"""Names of tenants, namespaces, topics, bundles and subscriptions, parsed at the interfaces and typed elsewhere. Pure.

The rules are Apache Pulsar's: tenant, cluster and namespace match ``[-=:.\\w]+`` (ASCII); a topic's local name is any
text that is not blank. In addition, ``.`` and ``..`` are refused as any part (no metadata path may contain them), and
so are names longer than NAME_BYTES_MAX and names that are not valid UTF-8. The texts of ``InvalidNameError`` for topics
are those that Pulsar appends to its prefix "Invalid topic name: ".
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus
from zlib import crc32

from engine.base.errors import InvalidNameError

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"
DOMAINS = (PERSISTENT, NON_PERSISTENT)
DEFAULT_NAMESPACE = "public/default"
PARTITION_SUFFIX = "-partition-"
FUNCTION_STATE_PREFIX = "__function_state_"
"""Begin of the names of topics with functions' state, which functions read and write with their own roles: they are not
the cluster's own."""
SYSTEM_PREFIX = "__"
"""Beginning of the local names of the cluster's own topics, which have no limits and are in no list."""
PENDING_ACK_SUFFIX = "__transaction_pending_ack"
"""End of the local names of the logs of transactional acknowledgements, which are in no list either."""
_COORDINATOR_PREFIXES = ("__transaction_log_", "transaction_coordinator_assign")
"""Beginnings of local names in ``pulsar/system``: the logs of transaction coordinators, and the partitions by which
these are assigned to brokers."""
SHADOW_SOURCE = "PULSAR.SHADOW_SOURCE"
"""Property of a shadow topic: the topic whose ledgers it reads."""
NAME_BYTES_MAX = 8192
HASH_TOP = 0xFFFFFFFF
"""Highest bundle hash of a topic, which is the upper end of the last bundle and belongs to it."""

_ENTITY = re.compile(r"[-=:.\w]+", re.ASCII)
_PARTITION = re.compile(r"(.+)-partition-(0|[1-9][0-9]{0,9})", re.DOTALL)
_BUNDLE = re.compile(r"0x([0-9a-f]{1,8})_0x([0-9a-f]{1,8})")


def check_entity(part: str, name: str) -> str:
    """Return ``name`` if it is valid for a tenant, cluster or namespace (``part``). Raises InvalidNameError."""
    if _ENTITY.fullmatch(name) is None or name in (".", ".."):
        raise InvalidNameError(
            f"Invalid {part} name: {name!r}, it should be of letters, digits and - = : . _"
        )
    if len(name) > NAME_BYTES_MAX:
        raise InvalidNameError(f"Invalid {part} name: longer than {NAME_BYTES_MAX} characters")
    return name


def encode_name(name: str) -> str:
    """Return a local or cursor name in Java's form-style percent-encoding, for the last part of a metadata path."""
    return quote_plus(name, safe="*").replace("~", "%7E")


def decode_name(encoded: str) -> str:
    """Decode a name that ``encode_name`` has encoded."""
    return unquote_plus(encoded)


def bundle_hash(full: str) -> int:
    """Return the hash of a full topic name, 0..HASH_TOP."""
    return crc32(full.encode())


class TopicParts(NamedTuple):
    """Parts of a full topic name, which are not validated.

    ``namespace`` is ``ns``, or ``cluster/ns`` in legacy names. ``domain://tenant/namespace/topic`` is the name again.
    """

    domain: str
    tenant: str
    namespace: str
    topic: str

    @property
    def scope(self) -> str:
        """Full name of the namespace."""
        return f"{self.tenant}/{self.namespace}"


def split_topic(full: str) -> TopicParts:
    """Split a full topic name into its parts; ``TopicName.parse`` validates them.

    A name with three or more slashes behind the domain is a legacy name with a cluster; slashes beyond the third belong
    to the local name. A missing part is empty.
    """
    domain, _, path = full.partition("://")
    tenant, *below = path.split("/", 3)
    *namespace, topic = below or ("",)
    return TopicParts(domain, tenant, "/".join(namespace), topic)


def split_partition(full: str) -> tuple[str, int]:
    """Return the full name of the partitioned topic that a partition belongs to, and the partition's index.

    Returns ``("", -1)`` for a name without a partition's suffix.
    """
    if PARTITION_SUFFIX not in full:  # much cheaper than the pattern, and true for most names
        return "", -1
    local = split_topic(full).topic
    match = _PARTITION.fullmatch(local)
    if match is None:
        return "", -1
    return full[: len(full) - len(local) + match.end(1)], int(match[2])


def check_subscription(name: str) -> str:
    """Return ``name`` if a subscription may have it. Raises InvalidNameError."""
    if not name.strip():
        raise InvalidNameError("Empty subscription name")
    if name in (".", ".."):
        raise InvalidNameError(f"Invalid subscription name: {name!r}")
    _check_text("subscription", name)
    return name


def _check_text(part: str, name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidNameError(f"Invalid {part} name: not valid UTF-8") from error
    if size > NAME_BYTES_MAX:
        raise InvalidNameError(f"Invalid {part} name: {size} bytes, at most {NAME_BYTES_MAX}")


@dataclass(frozen=True, slots=True)
class NamespaceName:
    """Name ``tenant/namespace``; ``cluster`` is set for the legacy form ``tenant/cluster/namespace``."""

    tenant: str
    local: str
    cluster: str | None = None

    @classmethod
    def parse(cls, text: str) -> "NamespaceName":
        """Parse ``tenant/namespace`` or the legacy ``tenant/cluster/namespace``. Raises InvalidNameError."""
        parts = text.split("/")
        if len(parts) == 2:
            return cls.of(parts[0], parts[1])
        if len(parts) == 3:
            check_entity("cluster", parts[1])
            return cls(
                check_entity("tenant", parts[0]), check_entity("namespace", parts[2]), parts[1]
            )
        raise InvalidNameError(
            f"Invalid namespace format. expected <tenant>/<namespace> but got: {text}"
        )

    @classmethod
    def of(cls, tenant: str, local: str) -> "NamespaceName":
        """Return the namespace with these two parts. Raises InvalidNameError."""
        return cls(check_entity("tenant", tenant), check_entity("namespace", local))

    @property
    def below_tenant(self) -> str:
        """Name behind ``tenant/``: ``ns``, or ``cluster/ns`` in legacy names."""
        return f"{self.cluster}/{self.local}" if self.cluster is not None else self.local

    def topic(self, local: str, domain: str = PERSISTENT) -> "TopicName":
        """Return the topic ``local`` in this namespace. Raises InvalidNameError."""
        return TopicName.parse(f"{domain}://{self}/{local}")

    def __str__(self) -> str:
        return f"{self.tenant}/{self.below_tenant}"


@dataclass(frozen=True, slots=True)
class TopicName:
    """A full topic name; ``str()`` returns ``domain://tenant/namespace/local``.

    ``partition`` is the index when the local name ends in ``-partition-N``, else -1. ``bundle_hash`` (0..HASH_TOP,
    CRC-32 of the full name) places the topic in one of its namespace's bundles.
    """

    domain: str
    namespace: NamespaceName
    local: str
    partition: int = field(compare=False)
    bundle_hash: int = field(compare=False)
    full: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> "TopicName":
        """Parse a full name, or a short one: ``x`` (in public/default) or ``t/n/x``. Raises InvalidNameError."""
        _check_text("topic", text)
        full = text if "://" in text else _complete(text)
        domain, tenant, below, local = split_topic(full)
        if domain not in DOMAINS:
            raise InvalidNameError(f"Invalid topic domain: '{domain}'")
        if full.count("/") < 4:  # two behind the domain, one each before namespace and local name
            raise InvalidNameError(f"Invalid topic name: {full}")
        try:
            namespace = NamespaceName.parse(f"{tenant}/{below}")
        except InvalidNameError as error:
            raise InvalidNameError(f"Invalid topic name: {full}. {error}") from error
        if not local.strip():
            raise InvalidNameError(
                f"Invalid topic name: {full}. Topic local name must not be blank."
            )
        if local in (".", ".."):
            raise InvalidNameError(
                f"Invalid topic name: {full}. Topic local name must not be '{local}'."
            )
        _, index = split_partition(full)
        return cls(domain, namespace, local, index, bundle_hash(full), full)

    @property
    def persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def tenant(self) -> str:
        return self.namespace.tenant

    @property
    def encoded_local(self) -> str:
        """Local name in the encoding of metadata paths."""
        return encode_name(self.local)

    @property
    def managed_ledger_name(self) -> str:
        """Path ``tenant/ns/persistent/encoded-local`` below ``/managed-ledgers`` in the metadata store."""
        return f"{self.namespace}/{self.domain}/{self.encoded_local}"

    @property
    def partitioned(self) -> "TopicName":
        """Topic of which this one is a partition; itself when it is not a partition."""
        base, index = split_partition(self.full)
        return self if index < 0 else TopicName.parse(base)

    def partition_at(self, index: int) -> "TopicName":
        """Return partition ``index`` (>= 0) of this topic."""
        return TopicName.parse(f"{self.full}{PARTITION_SUFFIX}{index}")

    def __str__(self) -> str:
        return self.full


def is_transaction_log(topic: TopicName) -> bool:
    """Return whether a topic's name is that of a log of transactions, or of a partition of the topic by which their
    coordinators are assigned: no client may use it."""
    if not topic.persistent:
        return False
    of_coordinators = topic.local.startswith(_COORDINATOR_PREFIXES) and (
        str(topic.namespace) == "pulsar/system"
    )
    return of_coordinators or topic.local.endswith(PENDING_ACK_SUFFIX)


def _complete(text: str) -> str:
    parts = [part for part in text.split("/") if part]
    if len(parts) == 1:
        return f"{PERSISTENT}://{DEFAULT_NAMESPACE}/{parts[0]}"
    if len(parts) == 3:
        return f"{PERSISTENT}://{text}"
    raise InvalidNameError(
        f"Invalid short topic name '{text}', it should be in the format of "
        "<tenant>/<namespace>/<topic> or <topic>"
    )


@dataclass(frozen=True, slots=True)
class BundleName:
    """Hash range ``lower <= hash < upper`` of a namespace, the unit of ownership; HASH_TOP as ``upper`` is included."""

    namespace: NamespaceName
    lower: int
    upper: int

    @classmethod
    def parse(cls, namespace: NamespaceName, text: str) -> "BundleName":
        """Parse a range such as ``0x00000000_0x40000000``. Raises InvalidNameError."""
        match = _BUNDLE.fullmatch(text)
        if match is None or int(match[1], 16) >= int(match[2], 16):
            raise InvalidNameError(f"Invalid bundle range: {text}")
        return cls(namespace, int(match[1], 16), int(match[2], 16))

    @property
    def range(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"

    def holds(self, bundle_hash: int) -> bool:
        """Return whether a topic with this hash belongs to the bundle."""
        return self.lower <= bundle_hash and (bundle_hash < self.upper or self.upper == HASH_TOP)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.range}"
