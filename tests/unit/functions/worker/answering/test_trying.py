"""A worker runs few trials at a time, and leaves no code of them."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from engine.base.disk.files import ThreadLane
from engine.base.entropy import RandomEntropy
from engine.base.errors import InvalidRequest, NotReady
from engine.base.names import NamespaceName
from engine.functions.definitions.records import encode
from engine.functions.runtime.errors import InstanceError
from engine.functions.worker.answering.trying import AT_ONCE_MAX, TriedFunctions
from engine.functions.worker.running.preparing import Preparation
from engine.functions.worker_operations import TRY_FUNCTION, TriedFunction
from tests.support.instances.function_instances import function_details
from tests.support.waiting import until


class Runner:
    """Runs trials that last until they are ended."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.end = asyncio.Event()

    async def run(self, trial: Any) -> dict[str, Any]:
        self.requests.append(trial)
        assert trial.package.read_bytes() == b"code"
        await self.end.wait()
        if trial.limit == 7:
            raise InstanceError("it does not load")
        return {"messages": []}


def request(messages: int = 3) -> TriedFunction:
    details = base64.b64encode(encode(function_details("f", "F", ["in"]))).decode()
    code = base64.b64encode(b"code").decode()
    of = NamespaceName.parse("public/default")
    return TriedFunction("function", of, "f", details, "../f.py", code, "", [], messages)


async def test_trials_beyond_the_bound_are_refused_and_leave_no_folder(tmp_path: Path) -> None:
    async def fetch(url: str, target: Path) -> None:
        raise AssertionError("the code came with the request")

    async def no_urls() -> str:
        return ""

    lane, runner = ThreadLane("trials"), Runner()
    preparation = Preparation(tmp_path, lane, fetch, no_urls)
    tried = TriedFunctions(preparation, runner, RandomEntropy())  # type: ignore[arg-type]
    call: Any = tried._try
    loop = asyncio.get_running_loop()
    running = [loop.create_task(call(request())) for _ in range(AT_ONCE_MAX)]
    await until(lambda: len(runner.requests) == AT_ONCE_MAX, "the trials run")
    with pytest.raises(NotReady, match="try again"):
        await call(request())
    assert all(trial.package.parent.parent == tmp_path for trial in runner.requests)
    runner.end.set()
    assert [await task for task in running] == [{"messages": []}] * AT_ONCE_MAX
    with pytest.raises(InvalidRequest, match="it does not load"):
        await call(request(7))
    assert list(tmp_path.iterdir()) == []
    assert TRY_FUNCTION.name in tried.handlers
    lane.close()
