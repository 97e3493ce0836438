"""The source of a cluster's figures, and the features that it lacks. Pure.

The interface of a source is ``engine_link.Engine``: a metadata store and the operations of brokers. There are two: an
instance of Magnetar (``gateway.clusters.configured``), and an Apache Pulsar that is reached by its REST interface
(``gateway.apache``). Views, lists and the collector use either alike, and this page states how they differ.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Ability(StrEnum):
    """A feature of the console that not every source has."""

    SOCKETS = "sockets"
    """Programs publish and consume through the gateway: its WebSocket endpoints, and Pulsar's REST for messages."""
    COPIES = "copies"
    """Messages are copied, moved and replayed to other topics."""
    CURSOR_PREVIEW = "cursor-preview"
    """Changes of cursors are previewed, made exactly as previewed, and undone."""
    POLICY_PREVIEW = "policy-preview"
    """The effect of a policy is previewed."""
    TRACES = "traces"
    ANALYSES = "analyses"
    GRANTS = "grants"
    BROKER_SETTINGS = "broker-settings"
    LOAD_BALANCE = "load-balance"
    """Plans of load balance, drains of brokers, moves of bundles."""
    BOOKIE_STATES = "bookie-states"
    RACKS = "racks"
    REPAIR = "repair"
    TRANSACTIONS = "transactions"
    FUNCTIONS = "functions"
    CONNECTIONS = "connections"
    """Connections of all clients are listed, and ended."""
    FOREIGN_CHANGES = "foreign-changes"
    """Changes that are made without this console are in the audit log."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of a source's reports.

    ``silent_ms`` and ``down_ms``: silence after which a broker counts as slow and as down. ``late_ms``: age from which
    figures do not count as current.
    """

    silent_ms: int = 1_500
    down_ms: int = 5_000
    late_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The properties of a cluster's source that services need beside its ``Engine``.

    ``lacks``: what cannot be done there, with the reason. ``check``: checks that the source answers and returns until
    when its metadata are known, ms; without one the metadata store's session is checked.
    """

    kind: str = "magnetar"
    lacks: Mapping[Ability, str] = field(default_factory=lambda: MappingProxyType({}))
    pace: Pace = Pace()
    check: Callable[[], Awaitable[int]] | None = None


OWN = ClusterSource()
"""An instance of Magnetar."""
