"""Operations on a broker. Pure."""

from dataclasses import dataclass, field
from types import NoneType

from engine.admin.api.arguments import LONG_MAX, JsonObject, NoArguments, OnBundle, within
from engine.admin.api.rights import ADMIN_OF_NAMESPACE
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.rpc.operation import Operation


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """Page of topics in order of name, behind the topic named ``after``."""

    after: str = ""


@dataclass(frozen=True, slots=True)
class DrainBroker:
    """Drain of the broker that is called. ``destinations`` by bundle are those of DRAIN_PLAN, all of them; an empty one
    is a bundle that stays. ``by``: who asks for it."""

    destinations: dict[str, str] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True, slots=True)
class EndDrain:
    """End of the drain of the broker with the id ``broker``, which need not be registered.

    ``at_ms``: time of its mark; None for whichever it has.
    """

    broker: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectionsPage:
    """Page of the broker's connections in order of their numbers, behind ``after``."""

    after: int = 0

    def __post_init__(self) -> None:
        within("after", self.after, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class ScanObjects:
    """Scan of the buckets of tiered storage for objects older than ``age_s`` that no topic names, which ``remove``
    deletes."""

    remove: bool = False
    age_s: int = 86_400

    def __post_init__(self) -> None:
        within("age_s", self.age_s, 3600, LONG_MAX)


@dataclass(frozen=True, slots=True)
class OnConnection:
    """Connection of a client. A broker counts from 1 after each start, so that ``since_ms`` is needed, too."""

    number: int
    since_ms: int

    def __post_init__(self) -> None:
        within("number", self.number, 1, LONG_MAX)
        within("since_ms", self.since_ms, 0, LONG_MAX)


@dataclass(frozen=True, slots=True)
class CloseConnection(OnConnection):
    """Close of a connection as CONNECTION answered it at ``seen_ms``."""

    seen_ms: int

    def __post_init__(self) -> None:
        OnConnection.__post_init__(self)
        within("seen_ms", self.seen_ms, 0, LONG_MAX)


CHECK_QUOTAS = Operation("check_quotas", NoArguments, NoneType, SUPERUSER)
"""Check of the backlog quotas of all loaded topics, and enforcement, which is also done periodically. Raises NotReady
after the check if some topics could not be checked."""
SCAN_OBJECTS = Operation("scan_objects", ScanObjects, JsonObject, SUPERUSER)
"""``{"buckets": [{"bucket", "error", "objects", "bytes", "young": objects too new for a verdict, "foreign": of other
clusters, "others": of other names, "orphans", "orphanBytes", "removed"}]}``; only ``bucket`` and ``error`` where a
bucket cannot be scanned. Any broker answers. Raises Failed when a topic's record cannot be read: nothing is
deleted."""
SCAN_LEDGERS = Operation("scan_ledgers", OnBundle, JsonObject, ADMIN_OF_NAMESPACE, reads=True)
"""Objects of a namespace's ledgers in tiered storage: ``{"objects": [{"ledger", "name", "uri", "uuid", "size",
"lastModified", "userMetadata": null where the store keeps none, "managedLedgerName", "numEntries", "offloaded",
"status"}], "total", "errors": of another status than OK, "unknown": other objects of the buckets, "truncated"}``.
Status: OK, NOT-OFFLOADED (of an attempt that is not complete), BAD-UUID (of another attempt), NOT-FOUND (the ledger has
left its topic), MISSING (a complete copy needs it, and the bucket does not have it). Any broker answers. Raises Failed
when a bucket or a record cannot be read."""
REPLICATION = Operation("replication", NoArguments, JsonObject, SUPERUSER, reads=True)
"""Numbers of bookies that ledgers need: ``{"session_ms": number or null, "default": [ensemble, write quorum, ack
quorum], "regions": [minimum, names], "topics": [[ensemble, write quorum, ack quorum, topics, namespaces]]}``.
``default`` has the broker's settings, ``regions`` the number of regions that must have an entry, 0 where placement is
not by regions, and those that ledgers are written to, separated by ``;``, empty for all. ``topics`` counts the loaded
persistent topics by effective policy. ``session_ms`` is the time for which the broker keeps its topics while the
metadata store is unreachable."""
LOAD_REPORT = Operation("load_report", NoArguments, JsonObject, SUPERUSER, reads=True)
"""Current LocalBrokerData of the broker."""
LOAD_BALANCE = Operation("load_balance", NoArguments, JsonObject, SUPERUSER, reads=True)
"""Last plan of the broker, if it leads, and the last moves and splits, newest first: ``{"leads": bool, "planned_ms":
number or null, "spread": number or null, "spread_max": number, "loads": {broker: share or null}, "skips": [{"subject",
"reason", "kind"}], "moves": [{"kind", "bundle", "source", "destination", "reason", "atMs", "result"}], "splits":
[{"subject", "reason", "kind"}], "reports": [{"broker", "load", "why", "updated_ms", "bundles", "gains", "losses"}],
"draining": {broker: {"at_ms", "by"}}, "drain": {"left", "moved", "unloaded", "refused": [{"subject", "reason",
"kind"}]} or null}``. ``moves`` are those of leaders, operators and drains, and splits, whose destination is empty.
``splits`` are this broker's overloaded bundles that it does not split. ``reports`` has the present report of every
registered broker, also where none leads; ``why`` states why a load is null, as other numbers that are not known are.
``draining`` has the marks of all brokers, ``drain`` the progress of this one, null while it is not drained."""
DRAIN_PLAN = Operation("drain_plan", NoArguments, JsonObject, SUPERUSER, reads=True)
"""Preview of a drain of the broker: ``{"bundles": [{"bundle", "destination", "reason", "topics", "producers",
"consumers"}], "problem": text}``, in order of name. An empty ``destination`` is a bundle that stays, for the
``reason``. ``problem`` states why the broker cannot be drained; else it is empty."""
DRAIN_BROKER = Operation("drain_broker", DrainBroker, JsonObject, SUPERUSER)
"""Drain of the broker: it moves its bundles away and receives none, until END_DRAIN; its restart changes nothing. The
answer is ``{"before": null, "at_ms", "by"}``, at once; LOAD_BALANCE has the progress. Raises Conflict, and changes
nothing, when its bundles are not those of ``destinations``, a destination cannot receive bundles, or no broker would be
left that is not drained."""
END_DRAIN = Operation("end_drain", EndDrain, JsonObject, SUPERUSER)
"""End of a drain, by any broker: ``{"before": {"at_ms", "by"} or null}``, null when it has no such mark. Bundles that
have moved stay where they are until load balance moves some back."""
TOPICS_STATS = Operation("topics_stats", TopicsPage, JsonObject, SUPERUSER, reads=True)
"""Statistics of loaded topics: ``{"topics": {namespace: {bundle: {domain: {topic: stats}}}}, "next": start of the next
page or null}``, in the form of Pulsar's broker-stats."""
BROKER_METRICS = Operation("broker_metrics", NoArguments, list[JsonObject], SUPERUSER, reads=True)
"""Pulsar's Metrics of the broker: ``[{"metrics": {name: number}, "dimensions": {name: text}}]``."""
CONNECTION_COLUMNS = (
    "number", "since_ms", "address", "version", "proxy_version", "role", "original_role", "listener", "application",
    "producers", "consumers", "unacked", "msg_rate_in", "bytes_rate_in", "msg_rate_out", "bytes_rate_out",
)  # fmt: skip
"""Fields of a connection, in their order. ``role`` is that of the client itself, or of the proxy that acts for
``original_role``; null where authentication is off. ``application``: what the metadata of its producers and consumers
calls it, or empty. Rates are whole thousandths per second, ``in`` from producers."""
CONNECTIONS = Operation("connections", ConnectionsPage, JsonObject, SUPERUSER, reads=True)
"""Connections of clients: ``{"at": ms, "rows": [[*CONNECTION_COLUMNS]], "next": argument of the next page or null}``.
"""
CONNECTION = Operation("connection", OnConnection, JsonObject, SUPERUSER, reads=True)
"""One connection: its CONNECTION_COLUMNS by name, ``at`` in ms, and ``clients``, at most CLIENTS_MAX of its producers
and consumers: ``[{"kind": "producer" or "consumer", "topic", "subscription", "type", "name", "since_ms", "unacked",
"msg_rate", "bytes_rate", "metadata"}]``. Raises NotFound when it has ended."""
CLIENTS_MAX = 1_000
CLOSE_CONNECTION = Operation("close_connection", CloseConnection, JsonObject, SUPERUSER)
"""Close of one connection with all its producers and consumers; its client may connect again at once. The answer is
``{"before": {"producers", "consumers", "unacked"}}``. Raises NotFound when it has ended, Conflict when it opened a
producer or a consumer since ``seen_ms``."""
HEALTH = Operation("health", NoArguments, str, AUTHENTICATED, reads=True)
"""``ok`` when the broker holds its session and reached the store just now. Raises NotReady otherwise."""
