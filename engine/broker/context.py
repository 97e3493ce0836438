"""Settings, clock, entropy and identity of a broker, which all parts of its data path receive when constructed."""

import asyncio
from dataclasses import dataclass, field

from engine.auth.judge import Judge
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.broker.ports import (
    BrokerIdentity,
    PendingAckLogs,
    RemoteClusters,
    TransactionSnapshots,
)
from engine.broker.settings import DataPathSettings, TransactionSettings
from engine.net.handshake import Authenticate
from engine.net.refused_commands import RefusedCommands

COMPACTIONS_MAX = 2
"""Number of compactions at a time: each keeps the keys of its topic in memory."""


class SnapshotCounters:
    """Snapshots for replicated subscriptions: those under way, those that were given up, and those that were made."""

    __slots__ = ("count", "ms", "pending", "timed_out")

    def __init__(self) -> None:
        self.pending = 0
        self.timed_out = 0
        self.count = 0
        self.ms = 0.0
        """Milliseconds that those which were made took, together."""

    def made(self, took_s: float) -> None:
        """Count a snapshot."""
        self.count += 1
        self.ms += took_s * 1000.0


@dataclass(slots=True)
class Context:
    """The environment of one broker's data path. ``settings`` are those in force; some change while it runs."""

    settings: DataPathSettings
    clock: Clock
    entropy: Entropy
    identity: BrokerIdentity
    judge: Judge
    """Judge that is asked before a client's command or an operation is handled."""
    authenticate: Authenticate
    """Establishes the identity of the client of a new connection."""
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    pending_ack_logs: PendingAckLogs | None = None
    """Logs of transactional acknowledgements; None without transactions."""
    transaction_snapshots: TransactionSnapshots | None = None
    """Snapshots of the transactions of topics; None where transactions are not enabled."""
    remotes: RemoteClusters | None = None
    """Clusters that topics are replicated to; None where no topic is."""
    compactions: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(COMPACTIONS_MAX)
    )
    """Semaphore that a topic holds while it is being compacted."""
    snapshots: SnapshotCounters = field(default_factory=SnapshotCounters)
    """Snapshots for replicated subscriptions, of all topics."""
    refused_commands: RefusedCommands = field(init=False)
    """Commands that clients had no right to."""

    def __post_init__(self) -> None:
        self.refused_commands = RefusedCommands(self.clock)
