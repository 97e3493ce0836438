"""Load reports of one broker: measured without work for messages, and written when the load has changed."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Set
from itertools import islice
from typing import Protocol

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.log import bound
from engine.base.names import BundleName
from engine.ownership.load.report import (
    MORE_MAX,
    BundleLoad,
    LoadReport,
    ResourceUsage,
    sum_of,
)
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.registration import BrokerRegistration

SMOOTHING_S = 30.0
"""Seconds in which the weight of a measurement of the event loop falls to a third."""
COUNT_INTERVAL_S = 60.0
"""Seconds between counts of topics and clients, which visit every loaded topic."""
USAGE_MIN = 0.01
RATE_MIN = 10.0
BYTES_MIN = 10_000.0
"""Smallest changes that count, whatever their percentage: of the load, of messages and of bytes per second."""
KBIT_PER_GBIT = 1e6


class _Bundles(Protocol):
    """Loads of the owned bundles."""

    async def count(self) -> None: ...

    def loads(self) -> dict[BundleName, BundleLoad]: ...


class BusyShare:
    """Smoothed share of time, 0..1, in which an event loop does not wait; ``waited_s`` sums its waits in seconds."""

    def __init__(self, waited_s: Callable[[], float | None], now_s: Callable[[], float]) -> None:
        self._waited_s = waited_s
        self._now_s = now_s
        self._before: tuple[float, float] | None = None
        self._share: float | None = None

    def measure(self) -> float | None:
        """Return the share up to now; None at the first call, and for loops that do not measure their waits."""
        waited_s, now_s = self._waited_s(), self._now_s()
        if waited_s is None:
            return None
        before, self._before = self._before, (waited_s, now_s)
        if before is None or now_s <= before[1]:
            return self._share
        elapsed_s = now_s - before[1]
        busy = min(1.0, max(0.0, 1.0 - (waited_s - before[0]) / elapsed_s))
        if self._share is None:
            self._share = busy
        else:
            self._share += (1.0 - math.exp(-elapsed_s / SMOOTHING_S)) * (busy - self._share)
        return self._share


class LoadReporter:
    """Measures the load of one broker and writes it. ``run`` never returns."""

    def __init__(
        self,
        registration: BrokerRegistration,
        bundles: _Bundles,
        busy: BusyShare,
        clock: Clock,
        settings: Callable[[], LoadBalanceSettings],
    ) -> None:
        self._registration = registration
        self._bundles = bundles
        self._busy = busy
        self._clock = clock
        self._settings = settings
        self._usage: float | None = None
        self._written: LoadReport | None = None
        self._written_s = -math.inf
        self._counted_s = -math.inf
        self._counted: Set[BundleName] = set()
        """Bundles at the last count."""
        self._log = bound(__name__)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Measure at each interval, and write what has changed. A failed write is repeated at the next interval."""
        failing = False
        while True:
            await sleep(self._settings().load_balancer_report_update_min_interval_millis / 1000)
            try:
                await self.check()
                failing = False
            except Exception as error:
                if not failing:  # an outage is logged once
                    expected = isinstance(error, MagnetarError)
                    self._log.warning(
                        "load not reported yet reason=%s",
                        error,
                        exc_info=None if expected else error,
                    )
                failing = True

    async def check(self) -> None:
        """Measure, and write the report when it is due. Raises the store's errors; cancel-safe."""
        now_s = self._clock.monotonic_s()
        self._usage = self._busy.measure()
        owned = self._bundles.loads().keys()
        # Bundles that have come since are counted at once: their topics are not none.
        if now_s - self._counted_s >= COUNT_INTERVAL_S or owned != self._counted:
            await self._bundles.count()
            self._counted_s, self._counted = now_s, owned
        listed = self._settings().load_balancer_max_number_of_bundles_in_bundle_load_report
        report = self.report(listed, MORE_MAX)
        if self._is_due(report, now_s) and await self._registration.report(report):
            self._written, self._written_s = report, now_s

    async def current(self) -> LoadReport:
        """Return the present load with all bundles, whose topics and clients are counted now. Cancel-safe."""
        await self._bundles.count()
        return self.report()

    def report(self, listed: int | None = None, more: int = 0) -> LoadReport:
        """Return the present load, with the ``listed`` bundles of most load and ``more`` for our own brokers, or with
        all."""
        loads = self._bundles.loads()
        total = sum_of(loads.values())
        owned = tuple(sorted(loads, key=str))
        before = () if self._written is None else self._written.owned
        top = islice(loads.items(), None if listed is None else listed + more)
        return LoadReport(
            self._registration.record.id,
            updated_ms=self._clock.wall_ms(),
            cpu=None if self._usage is None else ResourceUsage(self._usage * 100.0, 100.0),
            bandwidth_in=self._bandwidth(total.bytes_in),
            bandwidth_out=self._bandwidth(total.bytes_out),
            total=total,
            bundles=dict(top),
            listed=listed,
            owned=owned,
            owned_count=len(owned),
            gains=_without(owned, before),
            losses=_without(before, owned),
        )

    def _bandwidth(self, bytes_per_s: float) -> ResourceUsage | None:
        speed = self._settings().load_balancer_override_broker_nic_speed_gbps
        return ResourceUsage(bytes_per_s * 8 / 1000, speed * KBIT_PER_GBIT) if speed else None

    def _is_due(self, report: LoadReport, now_s: float) -> bool:
        settings, written = self._settings(), self._written
        interval_s = settings.load_balancer_report_update_max_interval_minutes * 60.0
        if written is None or now_s - self._written_s >= interval_s:
            return True
        percentage = settings.load_balancer_report_update_threshold_percentage
        return bool(report.gains or report.losses) or changed_much(written, report, percentage)


def changed_much(before: LoadReport, now: LoadReport, percentage: float) -> bool:
    """Return whether the load, the messages or the bytes per second differ by more than ``percentage``, 0..100."""
    if (before.usage is None) != (now.usage is None):
        return True
    old, new = before.total or BundleLoad(), now.total or BundleLoad()
    pairs = (
        (before.usage or 0.0, now.usage or 0.0, USAGE_MIN),
        (old.messages, new.messages, RATE_MIN),
        (old.bytes, new.bytes, BYTES_MIN),
    )
    return any(
        abs(later - former) > max(least, former * percentage / 100)
        for former, later, least in pairs
    )


def _without(
    bundles: tuple[BundleName, ...], others: tuple[BundleName, ...]
) -> tuple[BundleName, ...]:
    left = dict.fromkeys(bundles)
    for bundle in others:
        left.pop(bundle, None)
    return tuple(left)
