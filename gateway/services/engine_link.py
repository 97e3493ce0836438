"""One metadata session and one admin client for a cluster.

They run on one event loop: the server's own, where a call costs nothing but its await, or one in a separate thread
where no server runs (tests). ``arun`` is for coroutines on any loop, ``run`` for threads without a loop; both raise
what the work raised, or TimeoutError. A slow broker delays only the calls that need it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from engine.admin.client import BrokerAddress
from engine.base.errors import Conflict, MagnetarError
from engine.base.tasks import TaskScope
from engine.functions.worker_client import WorkerClient
from engine.functions.worker_operations import NO_WORKER
from engine.metadata import account
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.rpc.operation import A, Operation, R, only_reads, to_json
from gateway.services.source import OWN, ClusterSource

CALL_TIMEOUT_S = 15.0
CONNECT_TIMEOUT_S = 5.0
SESSION_TIMEOUT_S = 10.0
PATIENCE_S = 1.5
"""Time that a caller waits for the connection to the metadata store; the attempt continues after that."""
FAILURES = (MagnetarError, TimeoutError, OSError)
"""Errors of a request to a broker or the metadata store."""

T = TypeVar("T")


class Brokers(Protocol):
    """The brokers of a cluster, as services use them. ``AdminClient`` reaches ours by their admin RPC.

    ``gateway.apache.brokers`` performs operations at an Apache Pulsar, by calls of its REST interface.
    ``gateway.clusters.configured`` is where a cluster gets its class.
    """

    async def brokers(self) -> list[BrokerAddress]:
        """Return the registered brokers. Errors of the metadata store pass through."""

    async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
        """Run ``operation`` on the owner of the topic or bundle of ``args``."""

    async def call_on(
        self, broker: BrokerAddress, operation: Operation[A, R], args: A, *, principal: str = ""
    ) -> R:
        """Run ``operation`` on this broker, whichever owns the topic or bundle."""

    def close(self) -> None:
        """Close the connections."""


class Engine(NamedTuple):
    """The argument of work: the metadata store and the brokers of a cluster, for use on the link's loop."""

    store: MetadataStore
    admin: Brokers
    cluster: str = "standalone"
    """The administered cluster."""
    principal: str = ""
    """The principal for which the work is done."""
    alias: str = ""
    """The name by which the gateway serves the cluster, where it is another than the cluster's own."""
    workers: WorkerClient | None = None
    """The functions workers of a cluster of our own."""

    @property
    def functions(self) -> WorkerClient:
        """The functions workers, as a service for the principal. Raises Conflict for an Apache Pulsar."""
        if self.workers is None:
            raise Conflict(NO_WORKER)
        return self.workers.acting_for(self.principal, _account_named)

    @property
    def served(self) -> str:
        """The name by which the gateway serves the cluster; no other cluster of the gateway has it."""
        return self.alias or self.cluster

    async def call(self, operation: Operation[A, R], args: A) -> R:
        """Run ``operation`` on the owner of the topic or bundle of ``args``."""
        answer = await self.admin.call(operation, args, principal=self.principal)
        _account(operation, args, answer)
        return answer

    async def call_on(self, broker: BrokerAddress, operation: Operation[A, R], args: A) -> R:
        """Run ``operation`` on this broker, whichever owns the topic or bundle."""
        answer = await self.admin.call_on(broker, operation, args, principal=self.principal)
        _account(operation, args, answer)
        return answer


def _account(operation: Operation[A, R], args: A, answer: R) -> None:
    """Record a change for the audit log: its arguments, and the values before and after it in the broker's answer."""
    accounted = None if only_reads(operation, args) else account.current()
    if accounted is not None:
        values = answer if isinstance(answer, dict) else {}
        after = {"now": values["after"]} if "after" in values else {}
        accounted.add(operation.name, values.get("before"), to_json(args) | after)


def _account_named(operation: str, changed: dict[str, str]) -> None:
    """Record a change of functions for the audit log."""
    accounted = account.current()
    if accounted is not None:
        accounted.add(operation, None, changed)


Work = Callable[[Engine], Awaitable[T]]


class EngineLink:
    """Access to the engine from any thread or event loop.

    ``connect`` opens the engine; it runs on the link's loop at the first call, and again after a failure. ``loop`` is
    the link's loop, which its owner runs and closes; without one the link runs a loop in a thread. ``address``: that of
    the metadata store, for messages. ``other_stores``: those of stores that are apart, by their part of
    ``engine.metadata.apart.routed.PREFIXES``. ``source``: what the engine's figures come from.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Engine]],
        loop: asyncio.AbstractEventLoop | None = None,
        address: str = "",
        other_stores: Mapping[str, str] = MappingProxyType({}),
        source: ClusterSource = OWN,
    ) -> None:
        self.source = source
        self.address = address
        self.other_stores = other_stores
        self._connect = connect
        self._engine: Engine | None = None
        self._connecting: asyncio.Task[Exception | None] | None = None
        self._tasks = TaskScope("engine-link")
        self._thread: threading.Thread | None = None
        self.loop = loop if loop is not None else asyncio.new_event_loop()
        if loop is None:
            self._thread = threading.Thread(target=self._serve, name="engine-link", daemon=True)
            self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def opened(self) -> Engine | None:
        """The engine, if it is open."""
        return self._engine

    @property
    def is_running_here(self) -> bool:
        """True on the link's loop."""
        return asyncio._get_running_loop() is self.loop

    def check_loop(self) -> None:
        """Raise AssertionError on any loop but the link's, where an await of its events would never return. Callers on
        any loop use ``on_loop`` and ``arun``."""
        running = asyncio.get_running_loop()
        assert running is self.loop, "to be awaited on the engine link's loop: use on_loop"

    async def engine(self) -> Engine:
        """Return the open engine; only on the link's loop.

        All callers wait for the same attempt to connect, each at most ``PATIENCE_S``. Raises StoreUnavailableError, and
        what ``connect`` raises. Cancel-safe.
        """
        self.check_loop()
        if self._engine is None:
            if self._connecting is None:
                self._connecting = self._tasks.spawn("connect", self._open())
            try:
                async with asyncio.timeout(PATIENCE_S):
                    error = await asyncio.shield(self._connecting)
            except TimeoutError:
                raise StoreUnavailableError("the metadata store cannot be reached") from None
            if error is not None:
                # A copy for each caller: one exception raised by several would collect all their tracebacks.
                raise type(error)(*error.args) from error
        assert self._engine is not None
        return self._engine

    async def _open(self) -> Exception | None:
        """Connect; return the error, which every waiting caller raises."""
        account.leave()  # it connects for all callers, not for the request that was first
        try:
            self._engine = await self._connect()
        except Exception as error:
            return error
        finally:
            self._connecting = None
        return None

    async def _perform(self, work: Work[T], principal: str, timeout_s: float) -> T:
        async with asyncio.timeout(timeout_s):
            engine = self._engine or await self.engine()
            if principal:
                engine = engine._replace(principal=principal)
            return await work(engine)

    def run(self, work: Work[T], *, principal: str = "", timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Run ``work(engine)`` for ``principal`` and return its result, in a thread other than the loop's. Raises
        TimeoutError; a change may then have happened or not."""
        performed = self._perform(work, principal, timeout_s)
        return asyncio.run_coroutine_threadsafe(performed, self.loop).result()

    async def arun(
        self, work: Work[T], *, principal: str = "", timeout_s: float = CALL_TIMEOUT_S
    ) -> T:
        """Run work as ``run`` does, from a coroutine on any loop. Cancelling it cancels the work."""
        performed = self._perform(work, principal, timeout_s)
        if asyncio.get_running_loop() is self.loop:
            return await performed
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(performed, self.loop))

    async def on_loop(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run ``work()`` on the link's loop, whether or not the engine is open. Cancelling it cancels the work."""

        async def perform() -> T:
            return await work()

        if asyncio.get_running_loop() is self.loop:
            return await perform()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(perform(), self.loop))

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work()`` on the link's loop for the life of the process; it must handle its own errors."""

        async def perform() -> None:
            await work()

        self.loop.call_soon_threadsafe(lambda: self._tasks.spawn("work", perform()))

    def close(self) -> None:
        """Close the session and end the thread, for tests and orderly exits. Not to be called on the link's loop."""
        asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(CONNECT_TIMEOUT_S)
        if self._thread is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(CONNECT_TIMEOUT_S)
            self.loop.close()

    async def aclose(self) -> None:
        """Close the session, on the link's loop."""
        await self._close()

    async def _close(self) -> None:
        await self._tasks.close()
        if self._thread is not None:  # the link's own loop: every task on it belongs to the link
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        if self._engine is not None:
            self._engine.admin.close()
            if self._engine.workers is not None:
                self._engine.workers.close()
            await self._engine.store.close()
            self._engine = None
