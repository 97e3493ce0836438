"""The leader of load balance: plans once a minute where bundles should move, and asks their owners to move them.

One broker leads, the one that holds ``/loadbalance/leader``. Nothing depends on it: without a leader bundles stay where
they are, and every bundle still finds an owner. A broker that was the leader moves nothing: it looks at the leader's
node before each move, and writes the moves by compare-and-set before the first one (L1). Brokers are balanced in the
end (L8).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from engine.admin.api.bundles import TRANSFER_BUNDLE, TransferBundle
from engine.admin.client import AdminClient
from engine.base.clock import Clock
from engine.base.errors import Conflict, MagnetarError
from engine.base.log import bound
from engine.base.names import BundleName
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.records import Document, RecordFormatError
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from engine.ownership.load.bundle_changes import BALANCE, last_changes
from engine.ownership.load.draining import REASON as DRAINING
from engine.ownership.load.plan import owners_of, plan
from engine.ownership.load.planned import CLUSTER, MoveSkip, Plan, Transfer
from engine.ownership.load.recent_moves import MOVED, NOT_ASKED, RecentMoves
from engine.ownership.load.report_rows import report_rows
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.load.stored import placement_policies
from engine.ownership.registration import (
    BrokerRegistration,
    RegisteredBroker,
    registered_brokers,
)

MOVE_DEADLINE_S = 60.0
"""Seconds for the moves from one broker, after which their results are unknown."""
UNKNOWN = "unknown: no answer"
STOPPED = f"{NOT_ASKED}: this broker no longer leads"
NO_TIME = f"{NOT_ASKED}: no time left"

Move = Callable[[Transfer], Awaitable[str]]
"""Call of the owner of a bundle, which moves it; returns the result in words. Raises MagnetarError when it refuses."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Last view of a broker on the balance of load. ``leads``: whether it was the leader then.

    ``planned_ms``: time of the plan, epoch milliseconds; None before the first.
    """

    leads: bool = False
    planned_ms: int | None = None
    plan: Plan | None = None
    skips: tuple[MoveSkip, ...] = ()
    results: Mapping[BundleName, str] = field(default_factory=dict)


def move_by_owner(brokers: AdminClient) -> Move:
    """Return the call that has the source of a transfer move the bundle."""

    async def move(transfer: Transfer) -> str:
        bundle = transfer.bundle
        arguments = TransferBundle(bundle.namespace, bundle.range, transfer.destination)
        for broker in await brokers.brokers():
            if broker.id == transfer.source:
                # No redirect is followed: a bundle that another broker owns by now was not planned to move from there.
                result = await brokers.call_on(broker, TRANSFER_BUNDLE, arguments)
                return MOVED if result["moved"] else f"unloaded only: {result['reason']}"
        raise Conflict(f"{transfer.source} is not registered")

    return move


class LoadLeader:
    """Plans and moves for one broker while it leads. ``run`` never returns."""

    def __init__(
        self,
        store: MetadataStore,
        registration: BrokerRegistration,
        cluster: str,
        clock: Clock,
        settings: Callable[[], LoadBalanceSettings],
        move: Move,
    ) -> None:
        self._store = store
        self._registration = registration
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self._move = move
        self._imbalances: Mapping[str, int] = {}
        self._logged: dict[tuple[str, str], None] = {}
        self.balance = Balance()
        self.bundles_moved = 0
        """Moves that owners have reported as done."""
        self.brokers_relieved = 0
        """Brokers with at least one such move, counted in each cycle."""
        self._log = bound(__name__, broker=registration.record.id)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Check the balance at each interval. A failed check is logged once, and repeated at the next interval."""
        failing = False
        while True:
            await sleep(self._settings().load_balancer_shedding_interval_minutes * 60.0)
            try:
                await self.check()
                failing = False
            except Exception as error:
                if not failing:
                    expected = isinstance(error, MagnetarError | ValueError)
                    self._log.warning(
                        "balance not checked reason=%s", error, exc_info=None if expected else error
                    )
                failing = True

    async def check(self) -> None:
        """Plan and move, if this broker leads. Raises the store's errors and ValueError; cancel-safe."""
        if not await self._registration.leads():
            self._imbalances = {}
            self._logged.clear()
            self.balance = Balance()
            return
        settings = self._settings()
        if not (settings.load_balancer_enabled and settings.load_balancer_shedding_enabled):
            self._imbalances = {}
            names = "loadBalancerEnabled", "loadBalancerSheddingEnabled"
            off = names[settings.load_balancer_enabled]
            reason = f"{off} is false: no bundle is moved"
            self._show(
                Balance(True, self._clock.wall_ms(), skips=(MoveSkip(CLUSTER, reason, off),))
            )
            return
        moves, version = await self._read_moves()
        brokers = await registered_brokers(self._store)
        made = await self._plan(brokers, moves, settings)
        self._imbalances = made.recent.imbalances
        if made.transfers:
            await self._carry_out(made, moves, version)
        else:
            self._show(Balance(True, self._clock.wall_ms(), made, made.skips))

    async def _plan(
        self,
        brokers: Mapping[str, RegisteredBroker],
        moves: RecentMoves,
        settings: LoadBalanceSettings,
    ) -> Plan:
        reports = {broker_id: broker.load for broker_id, broker in brokers.items()}
        namespaces = [bundle.namespace for load in reports.values() for bundle in load.bundles]
        policies = await placement_policies(self._store, self._cluster, namespaces)
        return plan(
            reports,
            owners_of(reports),
            policies.without({**_excluded(brokers), **dict.fromkeys(policies.draining, DRAINING)}),
            moves.recent(self._imbalances),
            self._clock.wall_ms(),
            settings.limits,
        )

    async def document(self) -> Document:
        """Return the last plan of this broker, if it leads, the last moves and splits, and the loads of all brokers.

        Raises the store's errors. The form is that of ``engine.admin.api.brokers.LOAD_BALANCE``.
        """
        balance = self.balance
        made = balance.plan
        try:
            value, _ = await self._store.get(paths.LOADBALANCE_MOVES)
            moves = RecentMoves.decode(value).moves
        except (NoNodeError, RecordFormatError):
            moves = ()
        rows = [{"kind": BALANCE, **move.document()} for move in moves]
        rows += [change.document() for change in await last_changes(self._store)]
        limits = self._settings().limits
        brokers = await registered_brokers(self._store)
        reports = {broker_id: broker.load for broker_id, broker in brokers.items()}
        return {
            "leads": balance.leads,
            "planned_ms": balance.planned_ms,
            "spread": None if made is None else made.spread,
            "spread_max": limits.spread_max,
            "reports": report_rows(reports, self._clock.wall_ms(), limits),
            "loads": {} if made is None else dict(made.loads),
            "skips": [skip._asdict() for skip in balance.skips],
            "moves": sorted(rows, key=lambda row: -row["atMs"]),
        }

    def _show(self, balance: Balance) -> None:
        """Publish ``balance``, and log each reason that is new."""
        self.balance = balance
        before, self._logged = self._logged, {}
        for skip in balance.skips:
            key = skip.subject, skip.kind
            self._logged[key] = None
            if key not in before:
                self._log.info("not moved subject=%s reason=%s", skip.subject, skip.reason)

    # The moves

    async def _carry_out(self, made: Plan, moves: RecentMoves, version: int | None) -> None:
        now_ms = self._clock.wall_ms()
        moves = moves.plus(self._registration.record.id, made.transfers, now_ms)
        written = await self._write_moves(moves, version)
        if written is None:
            self._imbalances = {}
            self._log.warning("no bundle moved reason=another broker leads")
            self.balance = Balance()
            return
        self._show(Balance(True, now_ms, made, made.skips))
        by_source: dict[str, list[Transfer]] = {}
        for transfer in made.transfers:
            by_source.setdefault(transfer.source, []).append(transfer)
        results: dict[BundleName, str] = {}
        # The owners move their bundles side by side, each one bundle after the other.
        await asyncio.gather(
            *(self._move_all(transfers, results) for transfers in by_source.values())
        )
        self.balance = Balance(True, now_ms, made, made.skips, results)
        moved = [move for move in made.transfers if results[move.bundle] == MOVED]
        self.bundles_moved += len(moved)
        self.brokers_relieved += len({move.source for move in moved})
        # Refused when another leader has written since; the results are in the log in any case.
        await self._write_moves(moves.with_results(results), written)

    async def _move_all(
        self, transfers: Iterable[Transfer], results: dict[BundleName, str]
    ) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(MOVE_DEADLINE_S):
                for transfer in transfers:
                    results[transfer.bundle] = UNKNOWN
                    results[transfer.bundle] = await self._move_one(transfer)
        for transfer in transfers:
            self._log.info(
                "bundle to move bundle=%s source=%s destination=%s reason=%s result=%s",
                transfer.bundle,
                transfer.source,
                transfer.destination,
                transfer.reason,
                results.setdefault(transfer.bundle, NO_TIME),
            )

    async def _move_one(self, transfer: Transfer) -> str:
        try:
            if not await self._registration.leads():
                return STOPPED
            return await self._move(transfer)
        except MagnetarError as error:
            return f"refused: {error}"

    # The record

    async def _read_moves(self) -> tuple[RecentMoves, int | None]:
        """Return the record and its version, None without one."""
        path = paths.LOADBALANCE_MOVES
        try:
            value, stat = await fresh(self._store, path).get(path)
        except NoNodeError:
            return RecentMoves(), None
        try:
            return RecentMoves.decode(value), stat.version
        except RecordFormatError as error:
            # The moves are not known, so a quiet time begins.
            self._log.warning("recent moves replaced reason=%s", error)
            begun = RecentMoves(self._registration.record.id, self._clock.wall_ms())
            return begun, await self._write_moves(begun, stat.version)

    async def _write_moves(self, moves: RecentMoves, version: int | None) -> int | None:
        """Store the record in place of ``version``; return its new version, None when another broker has written."""
        path = paths.LOADBALANCE_MOVES
        try:
            if version is None:
                await self._store.create(path, moves.encode(), make_parents=True)
                return 0
            return (await self._store.put(path, moves.encode(), version)).version
        except (BadVersionError, NodeExistsError, NoNodeError):
            return None


def _excluded(brokers: Mapping[str, RegisteredBroker]) -> dict[str, str]:
    """Return the brokers that this leader moves no bundle to or from, with the reason."""
    excluded: dict[str, str] = {}
    for broker_id, broker in brokers.items():
        if not broker.load.ours:
            excluded[broker_id] = "it is a broker of Apache Pulsar, which only its own leader asks"
        elif not broker.record.persistent or not broker.record.non_persistent:
            excluded[broker_id] = "it does not serve every kind of topic"
    return excluded
