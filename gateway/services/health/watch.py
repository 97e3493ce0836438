"""Health of the instance as this process observes it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from django.conf import settings

from engine.metadata.apart.routed import PREFIXES
from gateway.services.engine_link import EngineLink
from gateway.services.health.checks import Checks
from gateway.services.health.function_workers import FunctionWorkers
from gateway.services.health.hops import REST, Hops, Kind
from gateway.services.health.parts import Database, DatabaseServer, Redis, Store, check_gateway


def _database() -> Database | DatabaseServer:
    if settings.DATABASE.database_url:
        return DatabaseServer(settings.DATABASE.parameters)
    return Database(Path(str(settings.DATABASES["default"]["NAME"])))


class Health:
    """Checks of all parts, on the link's loop; the owner adds brokers and bookies.

    ``now``: milliseconds since the epoch. ``on_change`` is called when a hop starts or stops answering.
    """

    def __init__(
        self, link: EngineLink, now: Callable[[], int], on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._on_change = on_change
        self._now = now
        self.hops = Hops(now, self._notify)
        self._changed = asyncio.Event()
        self.store = Store(link, link.address, on_lost=partial(self._check_store, ""))
        self._link = link
        self._source_ms = 0
        """Time until which the metadata of a polled source are known, ms."""
        self._checks: Checks | None = None
        self._redis: Redis | None = None
        self._database: Database | DatabaseServer | None = None
        self._function_workers: FunctionWorkers | None = None

    @property
    def known_ms(self) -> int:
        """Time until which the metadata are known, ms; 0 before they are."""
        return self.store.answered_ms if self._link.source.check is None else self._source_ms

    def _check_store(self, id: str) -> None:
        if self._checks is not None:
            self._checks.check_now(Kind.STORE, id)

    async def _check_source(self) -> None:
        assert self._link.source.check is not None
        self._source_ms = await self._link.source.check()

    @property
    def checks(self) -> Checks:
        """The checks, which start with the first use."""
        if self._checks is None:
            checks = self._checks = Checks(self.hops)
            is_own = self._link.source.check is None
            store = self.store.check if is_own else self._check_source
            checks.start(Kind.STORE, "" if is_own else REST, store, idle_s=1.0)
            for role, url in self._link.other_stores.items():
                on_lost = partial(self._check_store, role)
                other = Store(self._link, url, PREFIXES[role][0], on_lost)
                checks.start(Kind.STORE, role, other.check, idle_s=1.0)
            checks.start(Kind.GATEWAY, "", partial(check_gateway, checks))
            if settings.REDIS.redis_url:
                on_demand = settings.ENVIRONMENT.workers_on_demand
                self._redis = Redis(settings.REDIS, on_demand=on_demand)
                checks.start(Kind.REDIS, "", self._redis.check)
                checks.start(Kind.SPARK, "", self._redis.check_worker)
            self._database = _database()
            checks.start(Kind.DATABASE, "", self._database.check, period_s=1.0)
        return self._checks

    @property
    def function_workers(self) -> FunctionWorkers:
        """The checks of functions workers, which the owner refreshes."""
        if self._function_workers is None:
            tls = settings.BROKER_CLIENT.tls()
            self._function_workers = FunctionWorkers(self.checks, self._now, tls)
        return self._function_workers

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._on_change()

    async def change(self, timeout_s: float) -> None:
        """Wait until a hop starts or stops answering, at most ``timeout_s``. Cancel-safe."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def close(self) -> None:
        if self._checks is not None:
            await self._checks.close()
        if self._redis is not None:
            await self._redis.close()
        if isinstance(self._database, Database):
            await self._database.close()
        if self._function_workers is not None:
            self._function_workers.close()
