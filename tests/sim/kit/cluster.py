"""Brokers, bookies, metadata and whatever else runs: the shipped classes on simulated seams, as machines that come and
go."""

import asyncio
import base64
import contextvars
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bookie.repairing import follow_requests
from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.auth.settings import AuthenticationSettings, AuthorizationSettings, TokenSettings
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.tasks import TaskScope
from engine.broker.service import BrokerService
from engine.broker.settings import (
    DataPathSettings,
    LedgerDefaults,
    NodeSettings,
    TransactionSettings,
)
from engine.client.settings import BrokerClientSettings
from engine.ledger.settings import LedgerSettings
from engine.managed.settings import ManagedSettings
from engine.metadata.apart.routed import CONFIGURATION, PREFIXES, OtherStore, RoutedStore
from engine.metadata.memory import MemoryStore
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.metadata.tree import Tree
from engine.programs.broker import build_broker
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.settings import RepairSettings
from engine.settings import Settings
from engine.tenancy.policies.values import WHEN_NO_SUBSCRIPTIONS
from engine.tenancy.settings import PolicySettings
from tests.sim.kit.disk import Crashed, FaultDisk, InlineLane
from tests.sim.kit.followers import FollowedServer
from tests.sim.kit.loop import Node, SimLoop
from tests.sim.kit.network import SimNetwork, World
from tests.sim.kit.tapped import TappedTree
from tests.support.access.callers import token_by

BROKER_PORT = 6650
HTTP_PORT = 8081
SECOND_DISK = "/disk-2/ledgers"
"""The second ledger directory of bookies that take part in auto-recovery."""
BOOKIE_PORT = 3181
TOKEN = "simulated-token-of-no-use"
EPOCH_MS = 1_700_000_000_000
FAST = LedgerSettings(
    add_entry_timeout_s=1.0,
    read_entry_timeout_s=1.0,
    speculative_read_timeout_s=0.3,
    recovery_timeout_s=8.0,
    metadata_timeout_s=3.0,
    connect_timeout_s=1.0,
    suspect_s=0.5,
)
"""Time-outs that fire within a run; time is virtual, so no load of the machine makes them fire."""
OF_REGIONS = replace(FAST, region_aware=True)
"""The same with placement by regions."""

REPAIR = RepairSettings(
    lost_bookie_recovery_delay=2,
    auditor_periodic_bookie_check_interval=10,
    auditor_periodic_check_interval=5,
    auditor_ledgers_per_second=10_000,
    open_ledger_rereplication_grace_period_s=1.5,
    lock_release_of_failed_ledger_grace_period_s=3.0,
    rw_rereplicate_backoff_s=0.5,
    rereplication_batch_bytes=4096,
)
"""Auto-recovery in fast motion."""

SECRET = bytes(range(32))
SUPERUSER = "root"


def token_of(role: str, token_id: str = "") -> str:
    """Return the token of a client of brokers that judge rights."""
    own = {"jti": token_id} if token_id else {}
    return token_by(SECRET, role, **own)


RIGHTS: dict[str, Any] = {
    "authentication": AuthenticationSettings(
        authentication_enabled=True,
        authentication_providers="token",
        super_user_roles=SUPERUSER,
    ),
    "token": TokenSettings(token_secret_key=base64.b64encode(SECRET).decode()),
    "authorization": AuthorizationSettings(authorization_enabled=True),
    "broker_client": BrokerClientSettings(
        broker_client_authentication_plugin="token",
        broker_client_authentication_parameters=f"token:{token_of(SUPERUSER)}",
    ),
}
"""Groups of settings of brokers that judge rights."""


class SimDefaults(LedgerDefaults):
    """Rolls in entries, at once: a run lasts seconds, the product's least ledger age is minutes."""

    def config(self, policies, storage=None):  # type: ignore[no-untyped-def]
        return replace(super().config(policies, storage), ledger_age_min_s=0.0)


@dataclass(frozen=True)
class Shape:
    """The machines and settings of a cluster, drawn from the seed."""

    brokers: int
    bookies: int
    quorum: tuple[int, int, int]
    session_s: float
    ledger_entries: int
    cursor_entries: int
    cursor_interval_s: float
    cache_mb: int
    flush_interval_s: float
    journal_file_bytes: int
    gc_wait_s: float = 2.0
    unacked_consumer: int = 0
    unacked_subscription: int = 0
    """Bounds of unacknowledged messages; 0: none."""
    set_aside_max: int = 50_000
    """Delayed entries in memory; others are stored, in parts of ``delay_part_max``, in up to ``delay_runs_max``
    ledgers."""
    delay_part_max: int = 5_000
    delay_runs_max: int = 16
    delay_tick_ms: int = 100
    parked_max: int = 1000
    """Bounds of a Shared subscription's entries that wait for their time, and of chunks that wait for a consumer."""
    round_max: int = 20
    """Entries of a consumer's turn."""
    deduplication: bool = False
    publish_rate: int = 0
    broker_publish_rate: int = 0
    dispatch_rate: int = 0
    subscription_rate: int = 0
    """Messages per second; 0: no limit."""
    inactive: str = ""
    """Mode in which unused topics are deleted (``broker_delete_inactive_topics_mode``); empty: never."""
    apart: bool = False
    """Set when the configuration store is a metadata service of its own."""
    regions: bool = False
    """Set when brokers place copies over the regions of bookies."""
    repair: RepairSettings | None = None
    """Set when each bookie's process takes part in auto-recovery."""
    transactions: bool = False
    """Set when brokers serve transactions."""
    batched_records: bool = False
    """Set when records of transaction logs are stored several in an entry."""
    scrub_s: float = 604_800.0
    rights: bool = False
    """Set when brokers identify clients by tokens (``token_of``) and judge their rights."""

    @classmethod
    def draw(cls, rng: random.Random) -> "Shape":
        bookies = rng.choice((1, 3, 3))
        return cls(
            brokers=rng.choice((1, 2)),
            bookies=bookies,
            quorum=(1, 1, 1) if bookies == 1 else rng.choice(((3, 3, 2), (3, 3, 2), (3, 2, 2))),
            session_s=rng.choice((2.0, 4.0)),
            ledger_entries=rng.choice((10, 40, 1000)),
            cursor_entries=rng.choice((5, 30, 1000)),
            cursor_interval_s=rng.choice((0.05, 1.0)),
            cache_mb=1,
            flush_interval_s=rng.choice((0.5, 3.0)),
            journal_file_bytes=rng.choice((16 << 10, 128 << 10)),
            unacked_consumer=rng.choice((0, 4, 30)),
            unacked_subscription=rng.choice((0, 6, 40)),
            set_aside_max=rng.choice((3, 20, 50_000)),
            delay_part_max=rng.choice((2, 7, 5_000)),
            delay_runs_max=rng.choice((2, 4, 16)),
            parked_max=rng.choice((1, 1000)),
            round_max=rng.choice((1, 20)),
        )


class Machine:
    """One host: its name, disk and clock stay; ``node`` is the process that runs on it now, None while it is down."""

    def __init__(
        self, name: str, kind: str, epoch_ms: int, disk_s: float, process: "Process | None" = None
    ) -> None:
        """Describe a machine. ``process``: its program, for kinds other than bookie and broker."""
        self.name = name
        self.kind = kind
        self.process = process
        self.disk = FaultDisk()
        self.disk_s = disk_s
        self.disk_slow_until = 0.0
        self.node: Node | None = None
        self.starts = 0
        self.ready = False
        self.store: MemoryStore | None = None
        self.routed: MetadataStore | None = None
        """The store of a broker's code: ``store``, or what routes to it and to the configuration store."""
        self.bookie: Bookie | None = None
        self.broker: BrokerService | None = None
        self.recovery: AutoRecovery | None = None
        self.stop: asyncio.Event | None = None
        self.retired = False
        """Set when the machine is gone for good, with its disk."""
        self.leaving = False
        """Set from the request on that takes a bookie out."""
        self.clock = LoopClock(epoch_ms)
        self.excuses: tuple[type[Exception], ...] = ()
        """Errors that its process may end with after damage to its disk."""

    @property
    def incarnation(self) -> str:
        return f"{self.name}#{self.starts}"


Process = Callable[[Machine], Coroutine[Any, Any, None]]


class Cluster:
    """The machines of a run: starts, kills and watches them. ``failures``: processes that ended without an excuse."""

    def __init__(
        self, loop: SimLoop, shape: Shape, *, name: str = "standalone", world: World | None = None
    ) -> None:
        """Make the machines of the cluster ``name``; with the ``world`` of another one they bear it as a prefix."""
        self.loop = loop
        self.shape = shape
        self.name = name
        self._prefix = "" if world is None else f"{name}-"
        self.world = world or World(loop)
        self._outside = contextvars.copy_context()  # work requested by a dying node must outlive it
        self.metadata = FollowedServer(LoopClock(EPOCH_MS))
        self.tree = self.metadata.tree = TappedTree()
        self.configuration = FollowedServer(LoopClock(EPOCH_MS)) if shape.apart else None
        self.clients: list[str] = []
        self.snapshot_frequency_ms = 1000
        self.snapshots_cached = 10
        """Hosts of the network that are no machines."""
        self.failures: list[str] = []
        self.counts: dict[str, int] = {}
        self.restarts = True
        self.ahead_ms = 0
        """Greatest lead of any machine's clock over the true time in this run, in milliseconds."""
        self.lost: Machine | None = None
        """The one machine whose synced bytes may be damaged or gone in this run."""
        rng = loop.rng
        self.machines: dict[str, Machine] = {}
        names = [(f"{self._prefix}bookie-{i + 1}", "bookie") for i in range(shape.bookies)]
        names += [(f"{self._prefix}broker-{i + 1}", "broker") for i in range(shape.brokers)]
        for name, kind in names:
            skew_ms = rng.choice((0, 0, -3_000, 5_000))
            self.ahead_ms = max(self.ahead_ms, skew_ms)
            disk_s = rng.choice((0.0002, 0.001, 0.004))
            self.machines[name] = Machine(name, kind, EPOCH_MS + skew_ms, disk_s)

    def routed(self, local: MemoryStore) -> MetadataStore:
        """Return ``local``, or where the configuration store is apart a store over it and a new session there."""
        if self.configuration is None:
            return local
        configuration = self.configuration.session(self.shape.session_s)
        return RoutedStore(local, OtherStore((CONFIGURATION,), "zk:configuration", configuration))

    def tree_at(self, path: str) -> Tree:
        """Return the tree of the store that has ``path``."""
        if self.configuration is not None and path.startswith(PREFIXES[CONFIGURATION]):
            return self.configuration.tree
        return self.tree

    @property
    def brokers(self) -> list[Machine]:
        return [m for m in self.machines.values() if m.kind == "broker"]

    @property
    def bookies(self) -> list[Machine]:
        return [m for m in self.machines.values() if m.kind == "bookie" and not m.retired]

    def count(self, what: str, n: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + n

    # -- processes

    def start(self, machine: Machine) -> None:
        """Start the machine's process again; do nothing when it runs, or is gone for good."""
        if machine.node is not None or machine.retired:
            return
        machine.starts += 1
        machine.ready = False
        node = machine.node = Node(machine.name)
        self.world.back(machine.name)
        self.loop.note("start", machine.incarnation)
        task = self.loop.spawn(node, self._process(machine))
        task.add_done_callback(partial(self._ended, machine, node))

    def _process(self, machine: Machine) -> Coroutine[Any, Any, None]:
        """Return the process of a machine of this kind."""
        known: dict[str, Process] = {"bookie": self._bookie, "broker": self._broker}
        return (machine.process or known[machine.kind])(machine)

    def start_later(self, machine: Machine, delay_s: float) -> None:
        if self.restarts:
            self.loop.call_later(delay_s, self.start, machine, context=self._outside)

    def kill(
        self,
        machine: Machine,
        *,
        power: bool = False,
        torn: bool = False,
        silent: bool = False,
    ) -> None:
        """End the process as ``kill -9`` does, or cut the machine's power: unsynced bytes are lost then, only parts
        of them, by chance, when ``torn``; peers receive no reset when ``silent``."""
        node = machine.node
        if node is None:
            return
        machine.node = machine.broker = machine.bookie = machine.store = machine.stop = None
        machine.routed = machine.recovery = None
        machine.ready = False
        self.loop.kill(node)
        self.world.kill(node, silent)
        keep = (lambda: self.loop.rng.random() < 0.5) if torn else (lambda: False)
        # After the disk operation under way, if we are inside one, has ended.
        lose = machine.disk.crash if power else machine.disk.kill
        self.loop.call_soon(lose, keep, context=self._outside)
        self.count("power losses" if power else "kills")

    def _ended(self, machine: Machine, node: Node, task: "asyncio.Task[None]") -> None:
        """Start a process again that ended by itself, as a supervisor does."""
        if node.dead:
            return
        error = None if task.cancelled() else task.exception()
        expected = (StoreUnavailableError, SessionExpiredError, OSError, TimeoutError)
        if error is not None and not isinstance(error, (*expected, *machine.excuses)):
            self.failures.append(f"{machine.incarnation} ended: {type(error).__name__}: {error}")
        self.loop.note("ended", machine.incarnation, type(error).__name__)
        self.kill(machine)
        if not isinstance(error, machine.excuses):
            self.start_later(machine, 0.5)

    def add_bookie(self) -> Machine:
        """Start a new machine with an empty disk."""
        number = 1 + sum(m.kind == "bookie" for m in self.machines.values())
        machine = Machine(f"{self._prefix}bookie-{number}", "bookie", EPOCH_MS, 0.001)
        self.machines[machine.name] = machine
        self.start(machine)
        return machine

    def crash_at_operation(self, machine: Machine, n: int, torn: bool) -> None:
        """Cut the power in the middle of the ``n``-th disk operation from now, half of a write done when ``torn``."""
        disk = machine.disk
        at = disk.operations + n

        def plan(operation: str, path: str) -> int | None:
            if disk.operations < at:
                return None
            disk.plan = None
            self.kill(machine, power=True, torn=torn)
            self.start_later(machine, 0.2 + 2 * self.loop.rng.random())
            if torn and operation == "pwritev":
                return self.loop.rng.randrange(512)  # every write is longer
            raise Crashed(f"{operation} {path}")

        disk.plan = plan

    def entropy(self, machine: Machine) -> RandomEntropy:
        return RandomEntropy(random.Random(f"{self.loop.seed}/{machine.incarnation}"))

    def _lane(self, machine: Machine) -> InlineLane:
        rng = random.Random(f"{self.loop.seed}/{machine.incarnation}/lane")

        def delay_s() -> float:
            slow = 100.0 if self.loop.now < machine.disk_slow_until else 1.0
            return machine.disk_s * (0.5 + rng.random()) * slow

        return InlineLane(delay_s)

    def _ledger_directories(self, machine: Machine) -> str:
        """Return a bookie's directories without those of failed disks, as an operator configures them."""
        roots = ("/data/ledgers", SECOND_DISK) if self.shape.repair else ("/data/ledgers",)
        return ",".join(root for root in roots if f"{root}/current" not in machine.disk.broken)

    async def _bookie(self, machine: Machine) -> None:
        store = machine.store = self.metadata.session(self.shape.session_s)
        bookie = machine.bookie = Bookie(
            BookieSettings(
                data_dir="/data",
                ledger_directories=self._ledger_directories(machine),
                allow_lost_directories=True,
                bookie_port=BOOKIE_PORT,
                advertised_address=machine.name,
                zk_timeout_s=self.shape.session_s,
                journal_file_bytes=self.shape.journal_file_bytes,
                write_cache_bytes=64 << 10,
                entry_log_bytes_max=256 << 10,
                flush_interval_s=self.shape.flush_interval_s,
                min_usable_size_for_high_priority_writes=1 << 20,
                gc_wait_time_s=self.shape.gc_wait_s,
                minor_compaction_interval_s=1.5 * self.shape.gc_wait_s,
                major_compaction_interval_s=4 * self.shape.gc_wait_s,
                disk_check_interval_s=max(5.0, self.shape.gc_wait_s),
                scrub_interval_s=self.shape.scrub_s,
            ),
            clock=machine.clock,
            entropy=self.entropy(machine),
            network=SimNetwork(self.world),
            store=store,
            disk=machine.disk,
            lanes=lambda name: self._lane(machine),
        )
        stop = machine.stop = asyncio.Event()
        recovery: AutoRecovery | None = None
        tasks = TaskScope("requests")
        try:
            await bookie.start()
            if self.shape.repair is not None:
                recovery = self._recovery(machine, bookie, store, self.shape.repair)
                machine.recovery = recovery
                bookie.serving.scrubber.others = recovery.own_copies
                recovery.start()
                tasks.spawn("drain", follow_requests(store, bookie))
            machine.ready = True
            waiting = [asyncio.ensure_future(event.wait()) for event in (bookie.over, stop)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
        finally:
            await tasks.close()
            if recovery is not None:
                await recovery.stop()
            await bookie.stop()
            await store.close()
        if bookie.failed is not None:
            raise bookie.failed

    def _recovery(
        self, machine: Machine, bookie: Bookie, store: MetadataStore, settings: RepairSettings
    ) -> AutoRecovery:
        return AutoRecovery(
            settings,
            FAST,
            bookie.bookie_id,
            store=store,
            network=SimNetwork(self.world),
            clock=machine.clock,
            entropy=self.entropy(machine),
        )

    async def _broker(self, machine: Machine) -> None:
        machine.store = self.metadata.session(self.shape.session_s)
        store = machine.routed = self.routed(machine.store)
        service = machine.broker = build_broker(
            self._settings(machine),
            clock=machine.clock,
            entropy=self.entropy(machine),
            network=SimNetwork(self.world),
            store=store,
        )
        stop = machine.stop = asyncio.Event()
        try:
            await service.start()
            machine.ready = True
            await stop.wait()
        finally:
            await service.drain()
            await store.close()

    def _settings(self, machine: Machine) -> Settings:
        shape = self.shape
        ensemble, write, ack = shape.quorum
        return Settings(
            node=NodeSettings(
                advertised_address=machine.name,
                cluster_name=self.name,
                broker_port=BROKER_PORT,
                broker_http_port=HTTP_PORT,
                data_dir=Path("/nowhere"),
                internal_token=TOKEN,
                broker_shutdown_timeout_ms=5_000,
            ),
            data_path=DataPathSettings(
                keep_alive_interval_seconds=5,
                connection_liveness_check_timeout_millis=1000,
                delayed_delivery_min_index_count_per_bucket=shape.set_aside_max,
                delayed_delivery_max_indexes_per_bucket_snapshot_segment=shape.delay_part_max,
                delayed_delivery_max_num_buckets=shape.delay_runs_max,
                dispatcher_max_round_robin_batch_size=shape.round_max,
                broker_publisher_throttling_max_message_rate=shape.broker_publish_rate,
                deduplication_entries_interval=20,
                deduplication_snapshot_frequency_in_seconds=1,
                broker_delete_inactive_topics_frequency_seconds=1,
                replicated_subscriptions_snapshot_frequency_millis=self.snapshot_frequency_ms,
                replicated_subscriptions_snapshot_timeout_seconds=2,
                replicated_subscriptions_snapshot_max_cached_per_subscription=self.snapshots_cached,
            ),
            policies=PolicySettings(
                managed_ledger_default_ensemble_size=ensemble,
                managed_ledger_default_write_quorum=write,
                managed_ledger_default_ack_quorum=ack,
                broker_deduplication_enabled=shape.deduplication,
                max_publish_rate_per_topic_in_messages=shape.publish_rate,
                dispatch_throttling_rate_per_topic_in_msg=shape.dispatch_rate,
                dispatch_throttling_rate_per_subscription_in_msg=shape.subscription_rate,
                broker_delete_inactive_topics_enabled=bool(shape.inactive),
                broker_delete_inactive_topics_mode=shape.inactive or WHEN_NO_SUBSCRIPTIONS,
                broker_delete_inactive_topics_max_inactive_duration_seconds=1,
                deduplication_snapshot_interval_seconds=2,
                max_unacked_messages_per_consumer=shape.unacked_consumer,
                max_unacked_messages_per_subscription=shape.unacked_subscription,
                delayed_delivery_tick_time_millis=shape.delay_tick_ms,
            ),
            transactions=TransactionSettings(
                transaction_coordinator_enabled=shape.transactions,
                transaction_buffer_snapshot_max_transaction_count=10,
                transaction_buffer_snapshot_min_time_in_millis=1000,
                transaction_buffer_client_operation_timeout_in_mills=1000,
                transaction_pending_ack_log_index_min_lag=20,
                transaction_log_batched_write_enabled=shape.batched_records,
                transaction_pending_ack_batched_write_enabled=shape.batched_records,
            ),
            defaults=SimDefaults(
                managed_ledger_max_entries_per_ledger=shape.ledger_entries,
                managed_ledger_cache_size_mb=shape.cache_mb,
            ),
            managed=ManagedSettings(
                cursor_persist_interval_s=shape.cursor_interval_s,
                cursor_ledger_entries_max=shape.cursor_entries,
                retry_max_s=1.0,
            ),
            ledger=OF_REGIONS if shape.regions else FAST,
            **(RIGHTS if shape.rights else {}),
        )

    def durable_copies(self, marker: bytes, enough: int, among: Sequence[str] = ()) -> int:
        """Bookies (of those ``among``, by machine; all of them without) whose disk would still hold ``marker`` if all
        power went now; counts no further than ``enough``."""
        copies = 0
        for machine in self.bookies:
            if copies < enough and (not among or machine.name in among):
                copies += machine.disk.holds_durably(marker)
        return copies
