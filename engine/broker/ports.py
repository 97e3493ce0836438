"""Interface of the data path to the broker's control side: ownership and namespaces. Protocols and values."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName
from engine.broker.policies import TopicPolicies
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.managed.ledger import ManagedLedger
from engine.metadata.records import Document
from engine.metadata.store import Found
from engine.wire.commands import SERVER_VERSION


class TopicMode(IntEnum):
    """Kinds of topics that a client requests of a namespace (numbers of the wire)."""

    PERSISTENT = 0
    NON_PERSISTENT = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class LookupResult:
    """Address of the broker that serves a topic. ``redirect``: repeat the lookup there, with ``authoritative``."""

    broker_url: str
    broker_url_tls: str = ""
    authoritative: bool = True
    redirect: bool = False
    proxy_through_service_url: bool = False


@dataclass(frozen=True, slots=True)
class MigrationTarget:
    """The cluster that topics are migrated to: service URLs for clients, and the addresses of its record."""

    url: str
    url_tls: str
    record: Mapping[str, Any]


class Ownership(Protocol):
    """Ownership of topics by brokers. Every method raises BrokerError."""

    async def lookup(self, topic: TopicName, *, authoritative: bool, listener: str) -> LookupResult:
        """Return the topic's owner, which is chosen when there is none. Cancel-safe.

        Raises TopicNotFound when the namespace does not exist.
        """
        ...

    async def resume(self, topic: TopicName) -> None:
        """Own the topic's bundle again when its record is left from an earlier run of this broker.

        That record directs clients here: when refused, they would be directed here again. Cancel-safe. When the record
        cannot be read now, ``check_owned`` decides.
        """
        ...

    def check_owned(self, topic: TopicName) -> None:
        """Raise ServiceNotReady unless this broker owns the topic's bundle and may serve it now.

        The error is ``errors.not_served`` or has a text with "is being unloaded".
        """
        ...


class PendingAckLogs(Protocol):
    """Managed ledgers with the transactional acknowledgements of subscriptions. Methods raise LedgerError,
    ManagedLedgerError, StoredRecordError, the store's errors."""

    async def open(
        self, topic: TopicName, subscription: str, policies: TopicPolicies, *, make: bool
    ) -> ManagedLedger | None:
        """Open a log and fence its previous owner; without ``make``, return None when there is none."""
        ...

    async def delete(self, topic: TopicName, subscription: str) -> None:
        """Delete a log, if there is one."""
        ...


class Namespaces(Protocol):
    """Namespaces and topics as metadata. Every method raises BrokerError; all are cancel-safe."""

    async def peer_of(self, topic: TopicName) -> LookupResult | None:
        """Return the brokers of the peer cluster that holds the topic's namespace, None when this cluster does.

        Raises MetadataError when neither does.
        """
        ...

    async def migrated_to(self, namespace: NamespaceName) -> MigrationTarget | None:
        """Return the cluster that the topics of the namespace are migrated to; None when they are not."""
        ...

    async def partitions(self, topic: TopicName, *, allow_create: bool) -> int:
        """Return the number of the topic's partitions, 0 when it is not partitioned.

        With ``allow_create`` a missing topic is created when the default type is partitioned; without it TopicNotFound
        with an empty text is raised.
        """
        ...

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        """Return the full names of stored topics and partitions, without partitioned topics and system topics.

        The list is empty when the namespace does not exist. Loaded non-persistent topics are known only to the registry
        of their broker.
        """
        ...

    def watch_topics(
        self, namespace: NamespaceName, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Call ``callback`` whenever topics of the namespace may have been created or deleted.

        Return a function that ends this.
        """
        ...

    async def ensure_topic(self, topic: TopicName, *, create: bool) -> None:
        """Raise TopicNotFound ("Topic … does not exist") unless the topic exists or may be created by opening it.

        ``create``: the client permits the creation, which the namespace's policy must permit as well.
        """
        ...

    async def admit(self, topic: TopicName) -> Callable[[], None]:
        """Count a topic that is about to be created among those of its namespace, unless it exists.

        Return a function that ends the counting; it is called once, when the topic is stored or its creation failed.
        Raises MetadataError when the namespace's limit is reached, ServiceNotReady when the store fails.
        """
        ...

    def confirmation_paths(self, topic: TopicName) -> Sequence[str]:
        """Return the nodes that ``confirm_plain`` accepts as ``seen``."""
        ...

    async def confirm_plain(self, topic: TopicName, seen: Sequence[Found] = ()) -> None:
        """Ensure, before the first use of a topic that is no partition, that no partitioned topic has its name.

        ``seen``: see ``engine.tenancy.topics.confirm_plain``. Raises TopicIsPartitioned, and TopicNotFound
        when the namespace does not exist.
        """
        ...

    async def policies(self, topic: TopicName) -> TopicPolicies:
        """Return the policies in force for the topic."""
        ...


class RemoteClusters(Protocol):
    """Clusters that topics are replicated to. Methods raise MagnetarError; all are cancel-safe."""

    async def client(self, cluster: str) -> PulsarClient:
        """Return the client of the cluster's brokers."""
        ...

    async def check_shape(self, client: PulsarClient, cluster: str, topic: TopicName) -> None:
        """Ensure that the topic exists there with as many partitions as here, before a client creates another one."""
        ...

    async def grow(self, cluster: str, topic: TopicName, partitions: int) -> None:
        """Give a partitioned topic, if it exists there, as many partitions there, which get its subscriptions."""
        ...

    async def prepare(
        self, target: MigrationTarget, topic: TopicName, subscriptions: Collection[str]
    ) -> None:
        """Ensure that the topic exists in another cluster, with as many partitions as here, and has these
        subscriptions; those that are missing begin at its first message."""
        ...

    async def register_schema(self, link: BrokerLink, topic: TopicName, version: bytes) -> bytes:
        """Register the schema of a version here with the topic there, whose owner ``link`` leads to; return its version
        there."""
        ...


class TransactionSnapshots(Protocol):
    """Snapshots of transactions in system topics of the namespaces, by key; ``local`` is a system topic's name.

    Methods raise MagnetarError; all are cancel-safe.
    """

    async def exist(self, namespace: NamespaceName) -> bool:
        """Return whether topics of the namespace may have transactions."""
        ...

    async def read(
        self, namespace: NamespaceName, local: str, wanted: Callable[[str], bool]
    ) -> Mapping[str, Document]:
        """Return the newest value of each key that ``wanted`` accepts, as of now."""
        ...

    async def write(
        self, namespace: NamespaceName, local: str, key: str, value: Document | None
    ) -> Position:
        """Store the value of a key, None to delete it; return where. After an error it may be stored."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Names of this broker.

    ``instance`` differs for every start of every broker of the cluster, which makes generated producer names unique.
    """

    cluster: str
    broker_id: str
    instance: int
    server_version: str = SERVER_VERSION
