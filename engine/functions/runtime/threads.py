"""Instances on threads of the worker, for code that is trusted as the worker itself: no isolation, no limits."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from engine.base.clock import SystemClock
from engine.base.errors import MagnetarError
from engine.base.loop import collect_all
from engine.base.tasks import TaskScope, contained
from engine.functions.instance.connecting import ConnectorInstance
from engine.functions.instance.end_reason import ending_text
from engine.functions.instance.figures import InstanceFigures
from engine.functions.instance.instance import FunctionInstance
from engine.functions.instance.instance_client import client_of
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.plans import plan_of, with_token
from engine.functions.runtime.ports import ExitReason, InstanceSpec, InstanceStats, InstanceStatus
from engine.functions.runtime.processes import stats_of, status_of
from engine.functions.runtime.unpacking import Unpacker

ENDS_PER_COLLECTION = 50
"""Ended instances after which the whole heap is searched for cycles. An instance is full of them, and the collector of
a worker looks at young objects alone until the heap has doubled."""


class InstanceThread:
    """One instance inside this process; made by ``ThreadRuntime``."""

    def __init__(
        self,
        plan: InstancePlan,
        brokers: Callable[[], Awaitable[str]] | None,
        on_gone: Callable[[], None],
    ) -> None:
        """``on_gone`` is called once after ``stop`` has removed it."""
        self._plan = plan
        self._on_gone = on_gone
        self._clock = SystemClock()
        self._client = client_of(plan, brokers)
        self._figures = InstanceFigures(plan.labels, plan.component)
        kind = FunctionInstance if plan.component == "function" else ConnectorInstance
        self._instance = kind(plan, self._client, self._clock, self._figures, self._failed)
        self._scope = TaskScope(f"instance {plan.full_name}")
        self._stopped = False
        self._ended: asyncio.Future[ExitReason] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return os.getpid()

    def begin(self) -> None:
        """Start it in the background; how that fails is what ``wait`` returns.

        It can be stopped from now on. A caller that was cancelled while it waited for the start would have no instance
        to stop, and leave a connection, a thread and consumers.
        """
        self._scope.spawn("start", self._start())

    async def _start(self) -> None:
        try:
            await self._instance.start()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_result(ExitReason(False, ending_text(self._plan, error)))

    def lease_until(self, end_s: float) -> None:
        """Do nothing: what is suspended with its worker continues with it, and the worker ends it."""

    async def status(self) -> InstanceStatus:
        if self._ended.done():
            return InstanceStatus(False, self._ended.result().text)
        return status_of({"running": self._instance.running} | self._figures.status())

    async def stats(self) -> InstanceStats:
        return stats_of(self._figures.stats(self._clock.wall_ms()))

    async def metrics(self) -> str:
        return self._figures.prometheus(self._clock.wall_ms())

    async def trigger(self, topic: str, data: bytes) -> bytes:
        if not self._instance.running:
            raise InstanceError("the instance is not ready")
        try:
            return await self._instance.trigger(topic, data) or b""
        except MagnetarError as error:
            raise InstanceError(str(error)) from error

    async def state_get(self, key: str) -> Mapping[str, Any] | None:
        return await self._instance.state_get(key)

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None:
        await self._instance.state_put(key, value, number)

    async def log_tail(self, lines: int) -> str:
        """Return nothing: it logs where the worker does."""
        return ""

    async def stop(self, grace_s: float) -> None:
        """End it and remove its folder. Code that does not return within ``grace_s`` is left on its thread."""
        if not self._ended.done():
            self._ended.set_result(ExitReason(True))
        if self._stopped:
            return
        self._stopped = True
        await self._scope.close()
        with contained("stopping an instance"):
            await self._instance.stop(grace_s)
        await self._client.close()
        await asyncio.to_thread(shutil.rmtree, Path(self._plan.folder), ignore_errors=True)
        self._on_gone()

    async def wait(self) -> ExitReason:
        return await asyncio.shield(self._ended)


class ThreadRuntime:
    """Starts instances on threads of this process."""

    def __init__(self, unpacker: Unpacker) -> None:
        self._unpacker = unpacker
        self._gone = 0

    def _count_gone(self) -> None:
        self._gone += 1
        if self._gone % ENDS_PER_COLLECTION == 0:
            # Later: the last one is still in use by those who stop it.
            asyncio.get_running_loop().call_soon(collect_all)

    async def start(self, spec: InstanceSpec) -> InstanceThread:
        """Start an instance. Raises InstanceError."""
        folder = spec.folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        code: list[str] = []
        if spec.package is not None:
            code = await asyncio.to_thread(self._unpacker.unpack, spec.package, folder / "code")
        plan = plan_of(with_token(spec), code)
        instance = InstanceThread(plan, spec.brokers, self._count_gone)
        instance.begin()
        return instance
