"""Checks of the parts that brokers do not report on: metadata store, Redis, analysis worker, the console's database and
this process. Each check raises UnwellError with the fault."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from engine.metadata.apart.routed import OtherStoreUnavailableError, store_at
from engine.metadata.cached import fresh
from engine.metadata.incomplete import IncompleteStoreError
from engine.metadata.store import MetadataStore, SessionState
from gateway.redis_link import RedisSettings
from gateway.services.engine_link import EngineLink
from gateway.services.health.checks import ANSWER_S, Checks, NotKnownError, UnwellError
from gateway.standalone.plan import WORKER_KEY

STORE_PATH = "/"
"""Path that exists in every store."""
NOT_STARTED = "starts with the first analysis"
WORKER_PERIOD_S = 1.0
WORKER_KEY_S = 600
"""Time to live that a worker gives WORKER_KEY once a second: its remainder shows when the worker last did so."""
WORKER_SILENT_S = 2.0
WORKER_RETURN_S = 5.0
"""Time that the worker has to report again after Redis is back."""
RECONNECT_S = 0.4
"""Time that a session whose connection is lost has to connect again before its store counts as down."""
LATE_S = 1.0
"""Delay of its timers from which on a process counts as too busy."""


class Store:
    """Check of this process's session with a metadata store, by a read that bypasses the cache.

    ``path``: any path of that store. ``address``: its URL, for messages. ``on_lost`` is called when the connection to
    the store is lost: a check then states within ``RECONNECT_S`` whether it is there again.
    """

    def __init__(
        self,
        link: EngineLink,
        address: str,
        path: str = STORE_PATH,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._link = link
        self._on_lost = on_lost
        self._followed: MetadataStore | None = None
        """The store whose session is followed."""
        self._limit: asyncio.Timeout | None = None
        """Time limit of the running check."""
        self._address = address
        self._path = path
        self.answered_ms = 0
        """Start of the last read that was answered, ms since the epoch."""

    def _follow(self, store: MetadataStore) -> None:
        if store is not self._followed:
            self._followed = store
            store.on_state(self._on_state)

    def _on_state(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            return
        if self._limit is not None:
            lost_s = asyncio.get_running_loop().time()
            self._limit.reschedule(min(self._limit.when() or inf, lost_s + RECONNECT_S))
        self._on_lost()

    async def check(self) -> None:
        is_lost = self._followed is not None and self._followed.state is not SessionState.CONNECTED
        try:
            async with asyncio.timeout(RECONNECT_S if is_lost else ANSWER_S * 0.9) as self._limit:
                engine = await self._link.engine()
                self._follow(store_at(engine.store, self._path))
                began = time.time_ns() // 1_000_000
                await fresh(engine.store, self._path).exists(self._path)
        except TimeoutError:
            opened = self._link.opened
            store = None if opened is None else store_at(opened.store, self._path)
            if store is None or store.state is not SessionState.CONNECTED:
                raise UnwellError(f"({self._address}) cannot be reached") from None
            raise
        except IncompleteStoreError as error:
            raise UnwellError(f"({self._address}) is not used: {error}") from None
        except OtherStoreUnavailableError:
            raise UnwellError(f"({self._address}) cannot be reached") from None
        finally:
            self._limit = None
        self.answered_ms = began


class Redis:
    """Checks of Redis and, through it, of the analysis worker.

    ``on_demand``: both start with the first analysis, so that Redis is not missed before it answered once.
    """

    def __init__(self, link: RedisSettings, *, on_demand: bool = False) -> None:
        self._awaited = not on_demand
        self._client = redis.from_url(
            link.redis_url,
            **link.options(),
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._worker_s: float | None = None
        """Seconds between the worker's last report and Redis's last answer; None: no report is stored."""
        self._answered = False
        self._back_s = 0.0
        """Time on the monotonic clock when Redis began to answer."""

    async def check(self) -> None:
        try:
            remaining_ms = int(await self._client.pttl(WORKER_KEY))
        except RedisError as error:
            if not self._awaited:
                raise NotKnownError(NOT_STARTED) from None
            self._answered = False
            raise UnwellError(f"does not answer: {error}") from None
        except asyncio.CancelledError:
            self._answered = False
            # The late answer would be read as that of the next command.
            await self._client.connection_pool.disconnect()
            raise
        self._worker_s = WORKER_KEY_S - remaining_ms / 1000 if remaining_ms >= 0 else None
        self._awaited = True
        if not self._answered:
            self._answered, self._back_s = True, time.monotonic()

    async def check_worker(self) -> None:
        """Judge the worker by the last answer of Redis, which ``check`` renews."""
        if not self._awaited:
            raise NotKnownError(NOT_STARTED)
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
"""Thread for the database check alone: in a shared pool the check could be late because of other work."""


class Database:
    """Check of the console's database: it acquires the lock that every change needs, and reads a table, since a file
    that was emptied or replaced can be locked, too.

    The connection is kept while the file is unchanged: a new one reads the definitions of all tables first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._work: asyncio.Future[sqlite3.Error | None] | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = ()
        """Identity of the file when the connection was opened; empty without one."""

    async def check(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().run_in_executor(_probe, self._lock)
        error = await asyncio.shield(self._work)
        if error is not None:
            raise UnwellError(f"cannot be written: {error}", slow="locked" in str(error))

    async def close(self) -> None:
        """Close the connection."""
        await asyncio.get_running_loop().run_in_executor(_probe, self._disconnect)

    def _lock(self) -> sqlite3.Error | None:
        """Acquire and release the lock; return the error.

        An exception would be reported as never retrieved when the caller was cancelled.
        """
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("SELECT 1 FROM django_migrations LIMIT 1")
            connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._disconnect()
            return error
        return None

    def _connected(self) -> sqlite3.Connection:
        """Return a connection to the file that is there now. Raises sqlite3.Error."""
        file = _identity(self._path)
        if self._connection is None or file != self._file:
            self._disconnect()
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=ANSWER_S / 2, isolation_level=None
            )
            self._file = file
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _identity(path: Path) -> tuple[int, ...]:
    """Return values of which one differs after the file was replaced or written; empty for a missing file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class DatabaseServer:
    """Check of PostgreSQL on a connection of its own, which the limit of the pool does not concern."""

    def __init__(self, parameters: Callable[[], dict[str, Any]]) -> None:
        """``parameters`` returns those of a connection; it reads the password anew."""
        self._parameters = parameters
        self._connection: Any = None
        self._work: asyncio.Future[Exception | None] | None = None

    async def check(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().run_in_executor(_probe, self._ask)
        error = await asyncio.shield(self._work)
        if error is not None:
            raise UnwellError(f"cannot be written: {' '.join(str(error).split())}")

    def _ask(self) -> Exception | None:
        """Return the error of a query, as ``Database._lock``; a server that only reads is one."""
        import psycopg

        from gateway.database.postgresql.bounded import BoundedConnection

        try:
            if self._connection is None:
                limit = f"-c statement_timeout={int(ANSWER_S * 500)}"
                self._connection = BoundedConnection.connect(
                    **self._parameters(), autocommit=True, options=limit
                )
                self._connection.limit_s = ANSWER_S
            # A standby only reads, and so does a server whose operator or host made it so, as where its disk is full.
            row = self._connection.execute("SELECT current_setting('transaction_read_only')")
            only_reads = row.fetchone()[0] == "on"
        except (psycopg.Error, OSError) as error:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            return error
        return RuntimeError("the server only reads") if only_reads else None


async def check_gateway(checks: Checks) -> None:
    """Check that this process's timers are on time."""
    if checks.late_s > LATE_S:
        raise UnwellError(f"was busy for {checks.late_s:.1f} s", slow=True)
