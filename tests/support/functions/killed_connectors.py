"""A source or sink whose instance is killed again and again while numbers pass through it."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from engine.functions.definitions.functions_pb2 import FunctionDetails, FunctionMetaData
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec
from engine.functions.runtime.processes import InstanceProcess
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.waiting import until

KILLS_S = (0.0, 0.3, 0.08, 0.7)
"""Seconds from the time at which an instance runs to its kill."""
RUN = 20
"""Numbers that are put at a time."""
PAUSE_S = 0.1
START_S = 120.0


class Passage(NamedTuple):
    """The two ends of a connector: ``put`` adds numbers at its beginning, ``stored`` returns those at its end."""

    put: Callable[[Sequence[int]], Awaitable[None]]
    stored: Callable[[], Awaitable[list[int]]]


class KilledConnector:
    """A connector by its details."""

    def __init__(self, url: str, folder: Path, details: FunctionDetails) -> None:
        self._url, self._folder = url, folder
        self._metadata = FunctionMetaData(functionDetails=details)
        self._runtime = runtime_of("process", folder / "environments")

    async def passed(self, passage: Passage) -> tuple[range, list[int]]:
        """Kill the instance at each of KILLS_S while numbers come; return all numbers that were put, and those that
        arrived in the end."""
        last = 0
        done = asyncio.Event()

        async def feed() -> None:
            nonlocal last
            while not done.is_set():
                await passage.put(range(last + 1, last + 1 + RUN))
                last += RUN
                await asyncio.sleep(PAUSE_S)

        feeding = asyncio.get_running_loop().create_task(feed())
        try:
            for delay_s in KILLS_S:
                process = await self._started()
                await asyncio.sleep(delay_s)
                os.kill(process.pid, signal.SIGKILL)
                await process.wait()
                await process.stop(1)
            done.set()
            process = await self._started()
            await feeding
        finally:
            done.set()
            feeding.cancel()
        stored: list[int] = []

        async def arrived() -> bool:
            nonlocal stored
            stored = await passage.stored()
            return set(stored) >= set(range(1, last + 1))

        try:
            await until(arrived, lambda: f"{len(set(stored))} of {last} arrived", bound_s=90)
        finally:
            await process.stop(10)
        return range(1, last + 1), await passage.stored()

    async def _started(self) -> InstanceProcess:
        """Return an instance that runs; one that ends is started again, as by its worker."""
        ends_at_s = time.monotonic() + START_S
        while True:
            folder = self._folder / uuid.uuid4().hex
            process = await self._runtime.start(
                InstanceSpec(self._metadata, 0, None, folder, self._url)
            )
            assert isinstance(process, InstanceProcess)
            ending = asyncio.ensure_future(process.wait())

            async def begun(
                process: InstanceProcess = process, ending: asyncio.Future[object] = ending
            ) -> bool:
                with suppress(InstanceError):
                    return ending.done() or (await process.status()).running
                return ending.done()

            await until(begun, "the instance", bound_s=START_S)
            if not ending.done():
                ending.cancel()
                return process
            reason = ending.result()
            await process.stop(1)
            if time.monotonic() > ends_at_s:
                raise AssertionError(f"no instance runs: {reason}")
            await asyncio.sleep(0.2)
