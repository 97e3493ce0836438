"""Calls about instances whose worker does not answer: none reports a success that is not, none a zero for unknown."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.errors import NotReady
from engine.functions.ports import OnInstances
from tests.support.functions.several_workers import (
    NAMESPACE,
    RunningWorker,
    SeveralWorkers,
    details,
    on,
)
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def workers() -> AsyncIterator[SeveralWorkers]:
    made = SeveralWorkers()
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def silent(workers: SeveralWorkers) -> RunningWorker:
    """Return a worker that runs instance 0 or 1 of ``f`` and is registered, and whose private port answers nothing."""
    await workers.start(2)
    await until(lambda: any(worker.leads for worker in workers.workers))
    await until(lambda: all(worker.worker.ready for worker in workers.workers))
    await workers.client.create(on("f"), details("f", 2), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=2))
    closed = next(worker for worker in workers.workers if not worker.leads)
    await closed.worker._http.close()
    return closed


def number_on(worker: RunningWorker) -> int:
    return worker.runtime.running[0].spec.instance


def of(instance: int | None = None) -> OnInstances:
    return OnInstances("function", NAMESPACE, "f", instance)


async def test_a_restart_names_the_instances_that_may_not_have_restarted(
    workers: SeveralWorkers, silent: RunningWorker
) -> None:
    there = number_on(silent)
    with pytest.raises(NotReady, match=rf"may not have restarted \({there}\): worker {silent.id}"):
        await workers.client.restart(of())
    with pytest.raises(NotReady, match=rf"\({there}\): worker {silent.id} does not answer"):
        await workers.client.restart(of(there))
    answering = next(worker for worker in workers.workers if worker is not silent)
    await until(lambda: answering.runtime.starts == 2)
    await workers.client.restart(of(1 - there))
    await until(lambda: answering.runtime.starts == 3)
    assert silent.runtime.starts == 1


async def test_a_stopped_instance_is_not_waited_for(
    workers: SeveralWorkers, silent: RunningWorker
) -> None:
    there = number_on(silent)
    await workers.client.stop(of(there))
    await until(lambda: not silent.runtime.running)
    await workers.client.restart(of())


async def test_an_instance_that_runs_nowhere_yet_is_not_restarted_with_success(
    workers: SeveralWorkers,
) -> None:
    await workers.start(1)
    await until(lambda: workers.workers[0].leads)
    worker = workers.workers[0].worker
    assert worker.parts is not None
    worker.parts.leader._assign = _nothing  # type: ignore[method-assign]
    await workers.client.create(on("f"), details("f"), "builtin://x")
    with pytest.raises(NotReady, match=r"\(0\): no worker runs them yet"):
        await workers.client.restart(of())


async def _nothing(changes: object) -> None:
    await asyncio.sleep(0)


async def test_status_says_why_and_statistics_are_null(
    workers: SeveralWorkers, silent: RunningWorker
) -> None:
    there = number_on(silent)
    status = await workers.client.status(of(there))
    assert (status["running"], status["error"]) == (False, f"worker {silent.id} does not answer")
    metrics = await workers.client.stats(of(there))
    assert metrics["receivedTotal"] is metrics["1min"]["receivedTotal"] is None
    total = await workers.client.stats(of())
    assert total["receivedTotal"] is total["1min"]["userExceptionsTotal"] is None
    known = total["instances"][1 - there]["metrics"]
    assert known["receivedTotal"] == 3


async def test_logs_that_are_not_complete_are_refused(
    workers: SeveralWorkers, silent: RunningWorker
) -> None:
    there = number_on(silent)
    with pytest.raises(NotReady, match=f"Not all logs can be read: worker {silent.id}"):
        await workers.client.log_lines(of(), 5)
    assert await workers.client.log_lines(of(1 - there), 5) == {str(1 - there): "the last 5 lines"}


async def test_a_stop_is_stored_and_kept_by_the_silent_worker(
    workers: SeveralWorkers, silent: RunningWorker
) -> None:
    await workers.client.stop(of())
    await until(lambda: workers.instances == [])
    await workers.client.start(of())
    await until(lambda: workers.runs("f", parallelism=2))
