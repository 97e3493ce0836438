"""The process of one instance: ``FD`` is its socket to the worker, which answers its first line with the plan."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

from engine.base.clock import SystemClock
from engine.base.loop import EventLoop
from engine.functions.instance.connecting import ConnectorInstance
from engine.functions.instance.control import LINE_BYTES_MAX, ControlEnd, packed, unpacked
from engine.functions.instance.end_reason import ending_text
from engine.functions.instance.figures import InstanceFigures
from engine.functions.instance.instance import FunctionInstance, InstanceEnded
from engine.functions.instance.instance_client import client_of
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.process_lease import ProcessLease
from engine.functions.instance.process_limits import set_limits

log = logging.getLogger("engine.functions.instance")

FAILED = 3
"""Exit status of an instance that has sent its reason."""
SWITCH_S = 0.0005
"""Seconds for which one thread may hold up the other; Python's default of 5 ms would be most of the latency."""


class InstanceProgram:
    """The instance, its control socket and how both end."""

    def __init__(self, plan: InstancePlan, root: str, lease: ProcessLease) -> None:
        self._plan = plan
        self._lease = lease
        self._root = root
        self._clock = SystemClock()
        self._figures = InstanceFigures(plan.labels, plan.component)
        self._instance: FunctionInstance | ConnectorInstance | None = None
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason, empty for an end in order."""
        self._grace_s = 10.0

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        """Run until stopped, or until the instance ends itself; return the exit status."""
        plan, loop = self._plan, asyncio.get_running_loop()
        answers = {
            "status": self._status,
            "stats": self._stats,
            "metrics": self._metrics,
            "trigger": self._trigger,
            "state_get": self._state_get,
            "state_put": self._state_put,
            "stop": self._stop,
        }
        control = ControlEnd(answers, self._lease.renew)
        serving = loop.create_task(control.serve(reader, writer))
        loop.add_signal_handler(signal.SIGTERM, self._finish, "")
        client = client_of(plan, control.brokers)
        # Ours is imported: from here on the user's packages are found first.
        sys.path.remove(self._root)
        sys.path.append(self._root)
        kind = FunctionInstance if plan.component == "function" else ConnectorInstance
        self._instance = kind(plan, client, self._clock, self._figures, self._failed)
        try:
            await self._instance.start()
        except Exception as error:
            self._failed(error)
        reason = await self._end
        if reason:
            control.send({"end": reason})
            await control.drained()
        await self._instance.stop(self._grace_s)
        await client.close()
        serving.cancel()
        return FAILED if reason else 0

    def _finish(self, reason: str) -> None:
        if not self._end.done():
            self._end.set_result(reason)

    def _failed(self, error: BaseException) -> None:
        text = ending_text(self._plan, error)
        log.error("the instance ends: %s", text)
        self._finish(text)

    async def _status(self, request: Mapping[str, Any]) -> Any:
        running = self._instance is not None and self._instance.running
        return {"running": running} | self._figures.status()

    async def _stats(self, request: Mapping[str, Any]) -> Any:
        return self._figures.stats(self._clock.wall_ms())

    async def _metrics(self, request: Mapping[str, Any]) -> Any:
        return self._figures.prometheus(self._clock.wall_ms())

    def _started(self) -> FunctionInstance | ConnectorInstance:
        if self._instance is None or not self._instance.running:
            raise InstanceEnded("the instance is not ready")
        return self._instance

    async def _trigger(self, request: Mapping[str, Any]) -> Any:
        data = unpacked(request["data"]) or b""
        return packed(await self._started().trigger(request["topic"], data))

    async def _state_get(self, request: Mapping[str, Any]) -> Any:
        entry = await self._started().state_get(request["key"])
        return None if entry is None else {**entry, "value": packed(entry["value"])}

    async def _state_put(self, request: Mapping[str, Any]) -> Any:
        value, number = unpacked(request["value"]), request["number"]
        await self._started().state_put(request["key"], value, number)

    async def _stop(self, request: Mapping[str, Any]) -> Any:
        self._grace_s = request["grace_s"]
        self._finish("")


async def _serve(descriptor: int, root: str) -> int:
    end = socket.socket(fileno=descriptor)
    reader, writer = await asyncio.open_unix_connection(sock=end, limit=LINE_BYTES_MAX)
    writer.write(b'{"ready": true}\n')
    plan = InstancePlan.from_json((await reader.readline()).decode())
    lease = ProcessLease(SystemClock())
    if plan.lease_end_s is not None:
        lease.renew(plan.lease_end_s)
    set_limits(plan.ram_bytes, plan.disk_bytes, own_user=plan.own_user)
    if plan.cpu_limit:
        log.info("cpu limit: %s", plan.cpu_limit)
    return await InstanceProgram(plan, root, lease).run(reader, writer)


def main(descriptor: int, root: str) -> None:
    """Run one instance and exit, whatever threads the user's code has left."""
    logging.basicConfig(
        level=logging.INFO,
        format="[%(asctime)s] [%(levelname)s] %(name)s: %(message)s",
        stream=sys.stdout,
    )
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what code prints is its log
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()  # our modules stay: the collector need not look at them again, which takes longer than a message
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        status = runner.run(_serve(descriptor, root))
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
