"""The console's numbers: one loop per process that asks every broker once a second for compact rows.

Nobody else polls brokers for lists: REST windows and live pushes all read the last snapshot. It starts at the first use
and then runs for the life of the process, so that the history of totals has no holes.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from engine.admin import api
from engine.admin.client import BrokerAddress
from engine.base.errors import MagnetarError
from gateway.services import catalog
from gateway.services.bookies import Bookies
from gateway.services.engine_link import Engine, EngineLink, link
from gateway.services.rows import Row, merge, select
from gateway.services.rows import totals as sum_rows

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
BROKER_TIMEOUT_S = 2.0
CATALOG_INTERVAL_S = 10.0
NEVER = float("-inf")
STALE_MS_MAX = 30_000
"""Rows of a broker that stopped answering are shown, with their age, for this long."""
SELECTIONS_MAX = 64
"""Sorted and filtered lists kept with a snapshot."""
HISTORY_POINTS = 900
"""Totals kept, one per second: 15 minutes."""
HISTORY_COLUMNS = (
    "at",
    "msg_rate_in",
    "msg_rate_out",
    "bytes_rate_in",
    "bytes_rate_out",
    "backlog",
)


@dataclass(slots=True)
class Snapshot:
    """What one round found. ``rows`` are sorted by name. Immutable once published."""

    at: int
    rows: list[Row]
    brokers: list[dict[str, Any]]
    bookies: list[dict[str, Any]]
    totals: dict[str, float]
    _selections: dict[tuple[str, ...], list[Row]] = field(default_factory=dict)

    def select(
        self,
        *,
        q: str = "",
        tenant: str = "",
        namespace: str = "",
        domain: str = "",
        sort: str = "name",
    ) -> list[Row]:
        """As ``rows.select``; the answers are kept for as long as the snapshot is current."""
        key = (q, tenant, namespace, domain, sort)
        chosen = self._selections.get(key)
        if chosen is None:
            chosen = select(
                self.rows, q=q, tenant=tenant, namespace=namespace, domain=domain, sort=sort
            )
            if len(self._selections) < SELECTIONS_MAX:
                self._selections[key] = chosen
        return chosen


def now_ms() -> int:
    """Wall clock in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Collector:
    """Owns the snapshot. All methods but ``latest`` run on the link's loop."""

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self._started = False
        self._snapshot: Snapshot | None = None
        self._error: Exception | None = None
        self._ready = asyncio.Event()
        self._by_broker: dict[str, tuple[int, list[Row]]] = {}
        self._bookies = Bookies()
        self._known: dict[str, int] = {}
        self._known_at = NEVER
        self._idle: dict[str, Row] = {}
        self.history: deque[tuple[float, ...]] = deque(maxlen=HISTORY_POINTS)

    @property
    def latest(self) -> Snapshot | None:
        """The last snapshot, from any thread; None before the first."""
        return self._snapshot

    async def snapshot(self) -> Snapshot:
        """The last snapshot; the first caller waits for the first round. Raises what the first round raised, and
        StoreUnavailableError's kind again while the metadata store stays away. Cancel-safe."""
        if not self._started:
            self._started = True
            self._link.start(self._run)
        await self._ready.wait()
        stale = self._snapshot is None or now_ms() - self._snapshot.at > STALE_MS_MAX
        if stale and self._error is not None:
            raise self._error
        assert self._snapshot is not None
        return self._snapshot

    def refresh_catalog(self) -> None:
        """Read the list of topics anew in the next round: something was created or deleted through this gateway."""
        self._known_at = NEVER

    async def _run(self) -> None:
        failing = False
        while True:
            started = time.monotonic()
            try:
                await self._round(await self._link.engine())
                self._error = None
                failing = False
            except (MagnetarError, TimeoutError, OSError) as error:
                self._error = error
                if not failing:  # one line per outage, not one per second
                    log.warning("no fresh numbers for the console error=%r", error)
                failing = True
            except Exception:
                # The loop must outlive a bug in one round; the next one may succeed.
                log.exception("a round of the collector failed")
                self._error = RuntimeError("the collector failed; see the gateway's log")
            self._ready.set()
            await asyncio.sleep(max(0.05, INTERVAL_S - (time.monotonic() - started)))

    async def _round(self, engine: Engine) -> None:
        brokers = await engine.admin.brokers()
        answers = await asyncio.gather(*(self._ask(engine, broker) for broker in brokers))
        bookies = await self._bookies.rows(engine.store)
        if time.monotonic() - self._known_at > CATALOG_INTERVAL_S:
            await self._read_catalog(engine)
        at = now_ms()
        self._forget(at, {broker.id for broker in brokers})
        loaded = [dict(row, at=taken) for taken, part in self._by_broker.values() for row in part]
        merged = merge(loaded, self._known, at, self._idle)
        sums = sum_rows(merged)
        self.history.append((at, *(sums[column] for column in HISTORY_COLUMNS[1:])))
        self._snapshot = Snapshot(at, merged, list(answers), bookies, sums)

    async def _read_catalog(self, engine: Engine) -> None:
        self._known_at = (
            time.monotonic()
        )  # before: what changes while it is read asks for another reading
        try:
            self._known = await catalog.topics(engine.store)
        except BaseException:
            self._known_at = NEVER  # the reading that somebody asked for is not done
            raise
        self._idle = {name: row for name, row in self._idle.items() if name in self._known}

    def _forget(self, at: int, registered: set[str]) -> None:
        for broker_id, (taken, _) in list(self._by_broker.items()):
            if (broker_id not in registered and at - taken > 2_000) or at - taken > STALE_MS_MAX:
                del self._by_broker[broker_id]

    async def _ask(self, engine: Engine, broker: BrokerAddress) -> dict[str, Any]:
        """The broker's line of the overview; its topics' rows are kept aside."""
        line: dict[str, Any] = {"id": broker.id, "url": broker.service_url, "state": "up"}
        try:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                answer = await engine.call_on(broker, api.BROKER_TOPICS_STATS, api.LoadedTopics())
        except (MagnetarError, TimeoutError, OSError):
            line["state"] = "unreachable"
        else:
            self._by_broker[broker.id] = (int(answer["at"]), answer["rows"])
        part = self._by_broker.get(broker.id, (0, []))[1]
        line["topics"] = len(part)
        line["msg_rate_in"] = round(sum(row["msg_rate_in"] for row in part), 3)
        line["msg_rate_out"] = round(sum(row["msg_rate_out"] for row in part), 3)
        return line


_lock = threading.Lock()
_current: tuple[EngineLink, Collector] | None = None


def collector() -> Collector:
    """The collector on this process's link."""
    global _current
    with _lock:
        mine = link()
        if _current is None or _current[0] is not mine:
            _current = (mine, Collector(mine))
        return _current[1]
