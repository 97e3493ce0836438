"""A broker and a bookie on real sockets and disks, in a loop of their own thread; metadata in memory."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.base.clock import SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.broker.service import BrokerService
from engine.metadata.memory import MemoryServer
from engine.net.network import LoopNetwork
from engine.programs.broker import build_broker
from engine.settings import load

T = TypeVar("T")


class Standalone:
    """One broker over one bookie, metadata in memory. ``settings`` are the broker's; port and data survive restarts."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        self._settings = {f"MAGNETAR_{name.upper()}": text for name, text in settings.items()}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="standalone", daemon=True
        )
        self._thread.start()
        self._bookie: Bookie | None = None
        self.broker: BrokerService | None = None
        self.port = 0
        self._bookie_port = 0
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60.0) -> T:
        """Run ``work`` on the broker's loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    async def _start(self) -> None:
        self._metadata = MemoryServer(SystemClock())
        await self.start_bookie()
        await self.start_broker()

    async def start_bookie(self) -> None:
        self._bookie = Bookie(
            BookieSettings(
                data_dir=str(self._directory / "bookie"),
                bookie_port=self._bookie_port,
                bookie_id="b1",
            ),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            store=self._metadata.session(10.0),
            disk=SystemIndexDisk(),
            lanes=lambda lane: ThreadLane(lane),
        )
        await self._bookie.start()
        self._bookie_port = self._bookie.port

    async def stop_bookie(self) -> None:
        assert self._bookie is not None
        await self._bookie.stop()

    async def start_broker(self) -> None:
        settings = load(
            {
                "MAGNETAR_BROKER_PORT": str(self.port),
                "MAGNETAR_BROKER_HTTP_PORT": "0",
                "MAGNETAR_INTERNAL_TOKEN": "interop-tests-only",
                "MAGNETAR_DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES": "4",
                "MAGNETAR_DATA_DIR": str(self._directory),
                **self._settings,
            },
            self._directory,
        )
        self.store = self._metadata.session(10.0)
        broker = build_broker(
            settings,
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            store=self.store,
        )
        await broker.start()
        self.broker = broker
        self.port = broker.broker_port

    async def stop_broker(self) -> None:
        assert self.broker is not None
        await self.broker.drain()
        await self.store.close()

    async def _stop(self) -> None:
        await self.stop_broker()
        await self.stop_bookie()

    @property
    def url(self) -> str:
        return f"pulsar://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
