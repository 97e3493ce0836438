"""How each part that no broker tells of is asked: the metadata store, Redis, the worker of analyses, the console's
database, and this process itself. UnwellError says what is wrong with it."""

import asyncio
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from django.conf import settings
from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from engine.metadata.cached import fresh
from engine.metadata.store import SessionState
from gateway.services.engine_link import EngineLink
from gateway.services.health.asking import ANSWER_S, Asker, NotKnownError, UnwellError
from gateway.standalone.plan import WORKER_KEY

STORE_PATH = "/"
"""Asked for: there in any store, and nothing that is read from memory."""
WORKER_PERIOD_S = 1.0
WORKER_KEY_S = 600
"""A worker sets WORKER_KEY once a second, to be kept for this long: what is left of that says when it did so."""
WORKER_SILENT_S = 2.0
WORKER_RETURN_S = 5.0
"""When Redis is back, the worker has this long to report again before it is missed."""
LATE_S = 1.0
"""A process whose timers are so late is too busy to be relied on."""


class Store:
    """The session of this process, by a question that the cache does not answer. ``heard_ms`` by the wall clock."""

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self.heard_ms = 0

    async def ask(self) -> None:
        try:
            async with asyncio.timeout(ANSWER_S * 0.9):
                engine = await self._link.engine()
                began = time.time_ns() // 1_000_000
                await fresh(engine.store, STORE_PATH).exists(STORE_PATH)
        except TimeoutError:
            opened = self._link.opened
            if opened is None or opened.store.state is not SessionState.CONNECTED:
                raise UnwellError(f"({settings.METADATA_URL}) cannot be reached") from None
            raise
        self.heard_ms = began


class Redis:
    """Redis, and by way of it the worker."""

    def __init__(self, url: str) -> None:
        self._client = redis.from_url(
            url,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._worker_s: float | None = None
        """Seconds since a worker was heard; None: for very long. As of the last answer."""
        self._answered = False
        self._back_s = 0.0
        """When Redis began to answer, by the monotonic clock."""

    async def ask(self) -> None:
        try:
            left_ms = int(await self._client.pttl(WORKER_KEY))
        except RedisError as error:
            self._answered = False
            raise UnwellError(f"does not answer: {error}") from None
        except asyncio.CancelledError:
            self._answered = False
            await self._client.connection_pool.disconnect()  # its answer may come yet
            raise
        self._worker_s = WORKER_KEY_S - left_ms / 1000 if left_ms >= 0 else None
        if not self._answered:
            self._answered, self._back_s = True, time.monotonic()

    async def ask_worker(self) -> None:
        """What Redis answered last: it is asked all the time."""
        if not self._answered:
            raise NotKnownError("reports through Redis, which does not answer")
        silent_s = self._worker_s
        if silent_s is not None and silent_s <= WORKER_SILENT_S:
            return
        if time.monotonic() - self._back_s < WORKER_RETURN_S:
            raise NotKnownError("has not reported again since Redis is back")
        if silent_s is None:
            raise UnwellError("does not report")
        raise UnwellError(f"has not reported for {silent_s:.0f} s")

    async def close(self) -> None:
        await self._client.aclose()


_probe = ThreadPoolExecutor(1, thread_name_prefix="database-probe")
"""Of the database alone: it must not be blamed for what others wait for in a shared pool."""


class Database:
    """The console's database, by taking the lock that every change needs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._work: asyncio.Future[sqlite3.Error | None] | None = None

    async def ask(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().run_in_executor(_probe, self._lock)
        error = await asyncio.shield(self._work)
        if error is not None:
            raise UnwellError(f"cannot be written: {error}", slow="locked" in str(error))

    def _lock(self) -> sqlite3.Error | None:
        """What it failed by: returned, for whoever asked may have gone."""
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        try:
            with closing(
                sqlite3.connect(uri, uri=True, timeout=ANSWER_S / 2, isolation_level=None)
            ) as found:
                found.execute("BEGIN IMMEDIATE")
                found.execute("ROLLBACK")
        except sqlite3.Error as error:
            return error
        return None


async def ask_gateway(asker: Asker) -> None:
    """Whether this process's own timers come in time."""
    if asker.late_s > LATE_S:
        raise UnwellError(f"was busy for {asker.late_s:.1f} s", slow=True)
