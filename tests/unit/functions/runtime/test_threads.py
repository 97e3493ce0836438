"""Instances on threads leave nothing when they are stopped, also while they start."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path

import pytest

from engine.functions.definitions.functions_pb2 import FunctionMetaData
from engine.functions.runtime import threads
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import InstanceSpec
from engine.functions.runtime.runtime_kinds import runtime_of
from tests.support.instances.function_instances import function_details, unique
from tests.support.waiting import until


class SilentBroker:
    """A broker that accepts connections and says nothing: an instance that starts there waits."""

    def __init__(self) -> None:
        self.open = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"pulsar://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        await reader.read()  # to the end of the connection
        self.open -= 1
        writer.close()


def spec_of(url: str, folder: Path) -> InstanceSpec:
    (folder / "users_function.py").write_text("def process(x):\n    return x\n")
    details = function_details("early", "users_function", [unique("in")], unique("out"))
    metadata = FunctionMetaData(functionDetails=details)
    return InstanceSpec(metadata, 0, folder / "users_function.py", folder / "run", url)


async def test_an_instance_that_is_stopped_while_it_starts_leaves_no_connection_thread_or_folder(
    tmp_path: Path,
) -> None:
    broker = SilentBroker()
    async with broker as url:
        runtime = runtime_of("thread", tmp_path / "environments")
        async with asyncio.timeout(60):
            started = await runtime.start(spec_of(url, tmp_path))
            await until(lambda: broker.open, "the connection")
            assert not (await started.status()).running
            with pytest.raises(InstanceError, match="not ready"):
                await started.trigger("", b"x")
            await started.stop(5)
            assert (await started.wait()).expected
            await until(lambda: not broker.open, "the end of the connection")
    assert not [thread for thread in threading.enumerate() if thread.name == "function"]
    assert not (tmp_path / "run").exists()


async def test_instances_that_were_stopped_leave_no_memory_though_old_objects_are_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "ENDS_PER_COLLECTION", 5)
    left: list[weakref.ref[object]] = []
    async with SilentBroker() as url:
        runtime = runtime_of("thread", tmp_path / "environments")
        gc.disable()
        try:
            for _ in range(10):
                started = await runtime.start(spec_of(url, tmp_path))
                left.append(weakref.ref(started._instance))  # type: ignore[attr-defined]
                gc.freeze()
                await started.stop(5)
                del started
            await until(lambda: sum(ref() is not None for ref in left) <= 1, "their memory")
        finally:
            gc.enable()
            gc.unfreeze()
