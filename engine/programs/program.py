"""A server of the engine as a process: its session with the metadata store, a drain on SIGTERM and SIGINT, which a
second signal ends."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from engine.auth.authenticators.provider import ProviderError
from engine.auth.internal import TokenError
from engine.base.clock import Clock, SystemClock
from engine.base.entropy import Entropy, RandomEntropy
from engine.base.loop import shorten_collections
from engine.metadata.apart.routed import OtherStoreUnavailableError
from engine.metadata.apart.stores import connect_stores
from engine.metadata.incomplete import IncompleteStoreError, check_complete
from engine.metadata.layout import LayoutError
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.net.network import LoopNetwork, Network
from engine.net.service_manager import notices
from engine.net.tls import TlsFileError
from engine.programs.process import LoggedSettings, StartError, run_process

log = logging.getLogger(__name__)

REPEATED_S = 1.0
"""Seconds after the first signal within which others are not counted."""


class EngineSettings(LoggedSettings, Protocol):
    """Groups of settings that a program with a metadata store has."""

    @property
    def metadata(self) -> MetadataSettings: ...


class EngineServer(Protocol):
    """A server that a program runs."""

    async def start(self) -> None:
        """Listen, then serve. Raises TokenError, TlsFileError, ProviderError, LayoutError, and OSError when it cannot
        listen."""

    async def drain(self) -> None:
        """Stop serving, also after a failed start."""


S = TypeVar("S", bound=EngineSettings)
S_contra = TypeVar("S_contra", contravariant=True)


class BuildServer(Protocol[S_contra]):
    """Builds a server from its settings and the seams, inside a running event loop. Raises TokenError."""

    def __call__(
        self,
        settings: S_contra,
        /,
        *,
        clock: Clock,
        entropy: Entropy,
        network: Network,
        store: MetadataStore,
    ) -> EngineServer: ...


@dataclass(frozen=True, slots=True)
class EngineProgram(Generic[S]):
    """Program that ``python -m engine <name>`` runs.

    ``load`` raises SettingsError. ``ports`` names the ports that the server listens on, for the operator.
    """

    load: Callable[[Mapping[str, str], Path], S]
    build: BuildServer[S]
    session_timeout_s: Callable[[S], float]
    ports: Callable[[S], str]


class Signals:
    """SIGTERM and SIGINT of this process: the first ends the service, a later one ends the drain, too.

    Signals within REPEATED_S of the first count as one: some are sent to a process and to its parent, which forwards
    them.
    """

    def __init__(self, clock: Clock) -> None:
        self.stop = asyncio.Event()
        self._drain: asyncio.Timeout | None = None
        self._clock = clock
        self._first_s = 0.0

    def listen(self) -> None:
        """Handle the signals on the running event loop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.received)

    def received(self) -> None:
        """Note a signal."""
        now_s = self._clock.monotonic_s()
        if not self.stop.is_set():
            self._first_s = now_s
            self.stop.set()
        elif now_s - self._first_s >= REPEATED_S and self._drain is not None:
            self._drain.reschedule(asyncio.get_running_loop().time())

    async def run(self, server: EngineServer) -> None:
        """Start the server, and drain it after a signal or a failed start. Raises what its start raises."""
        try:
            await server.start()
            shorten_collections()
            notices.ready()
            await self.stop.wait()
        finally:
            notices.stopping()
            await self.drained(server.drain())

    async def drained(self, drain: Awaitable[None]) -> None:
        """Await ``drain`` until a second signal, which cancels it. Raises what it raises."""
        try:
            async with asyncio.timeout(None) as limit:
                self._drain = limit
                await drain
        except TimeoutError:
            if not limit.expired():
                raise
            log.warning("stops at once: a second signal ended the drain")
        finally:
            self._drain = None


@asynccontextmanager
async def connect(settings: MetadataSettings, timeout_s: float) -> AsyncIterator[MetadataStore]:
    """Yield the metadata stores under a session of ``timeout_s``, and close them. Raises StartError."""
    urls, access = settings.stores, settings.access
    try:
        store = await connect_stores(urls, access=access, session_timeout_s=timeout_s)
    except (OtherStoreUnavailableError, TlsFileError) as error:
        raise StartError(str(error)) from error
    except StoreUnavailableError as error:
        raise StartError(f"cannot reach the metadata store {urls.metadata}: {error}") from error
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(settings: MetadataSettings, timeout_s: float) -> AsyncIterator[MetadataStore]:
    """Do as ``connect`` for a server. Raises StartError also for stores that an interrupted copy or restore left
    incomplete."""
    async with connect(settings, timeout_s) as store:
        try:
            await check_complete(store)
        except IncompleteStoreError as error:
            raise StartError(str(error)) from error
        except StoreUnavailableError as error:
            url = settings.stores.metadata
            raise StartError(f"no answer of the metadata store {url}: {error}") from error
        yield store


async def serve(program: EngineProgram[S], settings: S) -> int:
    """Run the server until SIGTERM or SIGINT and return 0. Raises StartError."""
    signals = Signals(SystemClock())
    signals.listen()
    async with connected(settings.metadata, program.session_timeout_s(settings)) as store:
        try:
            server = program.build(
                settings,
                clock=SystemClock(),
                entropy=RandomEntropy(),
                network=LoopNetwork(),
                store=store,
            )
            await signals.run(server)
        except (TokenError, TlsFileError, ProviderError, LayoutError) as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(f"cannot listen on {program.ports(settings)}: {error}") from error
    return 0


def run(program: EngineProgram[S]) -> int:
    """Run a program and return its exit status, see ``run_process``: 0 after a drain."""
    return run_process(program.load, partial(serve, program))
