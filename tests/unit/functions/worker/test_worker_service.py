"""Workers over real brokers: every function runs exactly its instances, whatever happens to workers and instances."""

from collections.abc import AsyncIterator, Mapping

import pytest

from engine.base.errors import (
    AlreadyExists,
    Conflict,
    InvalidRequest,
    NotFound,
    NotReady,
)
from engine.functions.ports import OnComponents, OnInstances
from engine.functions.worker.running.instance_keeper import InstanceKeeper
from engine.functions.worker_operations import NO_WORKER
from tests.support.functions.several_workers import (
    NAMESPACE,
    RunningWorker,
    SeveralWorkers,
    details,
    on,
)
from tests.support.waiting import stays, until

pytestmark = pytest.mark.virtual_time

FUNCTIONS = OnComponents("function", NAMESPACE)


@pytest.fixture
async def workers() -> AsyncIterator[SeveralWorkers]:
    made = SeveralWorkers()
    try:
        yield made
    finally:
        await made.close()


def _registered(workers: SeveralWorkers) -> bool:
    parts = workers.workers[0].worker.parts
    return parts is not None and parts.presence.proven


def leaders(workers: SeveralWorkers) -> list[RunningWorker]:
    return [worker for worker in workers.workers if worker.leads]


async def started(workers: SeveralWorkers, count: int) -> None:
    await workers.start(count)
    await until(lambda: len(leaders(workers)) == 1)
    await until(lambda: all(worker.worker.ready for worker in workers.workers))


def all_of(name: str, instance: int | None = None) -> OnInstances:
    return OnInstances("function", NAMESPACE, name, instance)


async def test_without_a_worker_the_answer_is_apaches(workers: SeveralWorkers) -> None:
    await workers.start(0)
    with pytest.raises(Conflict, match=NO_WORKER):
        await workers.client.names(FUNCTIONS)


async def test_before_the_topics_are_read_operations_are_not_ready(workers: SeveralWorkers) -> None:
    await workers.start(0)
    await workers.brokers.stop(workers.brokers.brokers[0])
    await workers.add()
    await until(lambda: _registered(workers))
    with pytest.raises(NotReady, match="not done initializing"):
        await workers.client.names(FUNCTIONS)


async def test_a_created_function_runs_spread_over_the_workers(workers: SeveralWorkers) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 4), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=4))
    assert [len(worker.runtime.running) for worker in workers.workers] == [2, 2]
    assert await workers.client.names(FUNCTIONS) == ["f"]
    assert await workers.client.names(on("f")) == ["f"]
    stored = await workers.client.metadata(on("f"))
    assert (stored.version, stored.packageLocation.packagePath) == (0, "builtin://x")
    status = await workers.client.status(all_of("f"))
    assert (status["numInstances"], status["numRunning"]) == (4, 4)
    assert status["instances"][3]["status"]["numReceived"] == 3
    stats = await workers.client.stats(all_of("f"))
    assert stats["receivedTotal"] == 12


async def test_a_function_is_created_once(workers: SeveralWorkers) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f"), "builtin://x")
    with pytest.raises(AlreadyExists, match="Function f already exists"):
        await workers.client.create(on("f"), details("f"), "builtin://x")


async def test_a_deleted_function_ends_and_can_be_created_again(workers: SeveralWorkers) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 2), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=2))
    await workers.client.delete(on("f"))
    await until(lambda: workers.instances == [])
    with pytest.raises(NotFound, match="Function f doesn't exist"):
        await workers.client.status(all_of("f"))
    await workers.client.create(on("f"), details("f", 1), "builtin://x")
    await until(lambda: workers.runs("f"))


async def test_an_update_restarts_the_instances_and_removes_those_too_many(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f", 3), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=3))
    await workers.client.update(on("f"), details("f", 2), "builtin://y", expected_version=0)
    await until(lambda: workers.runs("f", parallelism=2))
    await until(lambda: _packages(workers) == {"builtin://y"})
    assert workers.workers[0].runtime.starts == 5


def _packages(workers: SeveralWorkers) -> set[str]:
    return {
        instance.spec.function.packageLocation.packagePath
        for worker in workers.workers
        for instance in worker.runtime.running
    }


async def test_an_update_of_another_version_is_refused(workers: SeveralWorkers) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f"), "builtin://x")
    await workers.client.update(on("f"), details("f"), "builtin://y", expected_version=0)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await workers.client.update(on("f"), details("f"), "builtin://z", expected_version=0)


async def test_a_stopped_instance_stays_stopped_and_the_others_go_on(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f", 2), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=2))
    await workers.client.stop(all_of("f", 0))
    await until(lambda: workers.instances == [f"{NAMESPACE}/f:1"])
    assert workers.workers[0].runtime.starts == 2
    status = await workers.client.status(all_of("f", 0))
    assert (status["running"], status["error"]) == (False, "")
    # Also after the worker has started again.
    await workers.stop(workers.workers[0])
    await workers.add()
    await until(lambda: workers.instances == [f"{NAMESPACE}/f:1"])
    await stays(lambda: workers.instances == [f"{NAMESPACE}/f:1"], 5.0)  # time: virtual
    await workers.client.start(all_of("f", 0))
    await until(lambda: workers.runs("f", parallelism=2))


async def test_an_instance_out_of_range_is_refused_with_apaches_texts(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f"), "builtin://x")
    with pytest.raises(InvalidRequest, match="Operation not permitted"):
        await workers.client.stop(all_of("f", 9))
    with pytest.raises(InvalidRequest, match="Function f doesn't have instance with id 9"):
        await workers.client.status(all_of("f", 9))
    with pytest.raises(InvalidRequest, match="public/default/f/9 doesn't exist"):
        await workers.client.restart(all_of("f", 9))


async def test_an_instance_that_dies_is_restarted_and_its_error_is_shown(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f"), "builtin://x")
    await until(lambda: workers.runs("f"))
    workers.workers[0].runtime.running[0].die("Traceback: no luck")
    await until(lambda: workers.instances == [])
    status = await workers.client.status(all_of("f", 0))
    assert (status["running"], status["error"]) == (False, "Traceback: no luck")
    await until(lambda: workers.runs("f"))
    assert (await workers.client.status(all_of("f", 0)))["numRestarts"] == 1


async def test_an_instance_that_cannot_start_is_tried_with_rising_pauses(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 1)
    runtime = workers.workers[0].runtime
    runtime.refuses = "no such class"
    await workers.client.create(on("f"), details("f"), "builtin://x")
    await until(lambda: _keepers(workers))
    await until(lambda: _keeper(workers).restarts == 4)
    tries = _keeper(workers).restarts
    await stays(lambda: _keeper(workers).restarts == tries, 5.0)  # time: virtual
    status = await workers.client.status(all_of("f", 0))
    assert (status["running"], status["error"]) == (False, "no such class")
    runtime.refuses = ""
    await workers.client.restart(all_of("f"))
    await until(lambda: workers.runs("f"), bound_s=2.0)


def _keepers(workers: SeveralWorkers) -> Mapping[str, InstanceKeeper]:
    parts = workers.workers[0].worker.parts
    assert parts is not None
    return parts.instances.keepers


def _keeper(workers: SeveralWorkers) -> InstanceKeeper:
    return _keepers(workers)[f"{NAMESPACE}/f:0"]


async def test_a_restart_starts_each_instance_once_more(workers: SeveralWorkers) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 4), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=4))
    await workers.client.restart(all_of("f"))
    await until(lambda: sum(worker.runtime.starts for worker in workers.workers) == 8)
    await until(lambda: workers.runs("f", parallelism=4))


async def test_instances_of_a_stopped_worker_start_on_the_others(workers: SeveralWorkers) -> None:
    await started(workers, 3)
    await workers.client.create(on("f"), details("f", 6), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=6))
    await workers.stop(leaders(workers)[0])
    await until(lambda: workers.runs("f", parallelism=6))
    await until(lambda: [len(w.runtime.running) for w in workers.workers] == [3, 3])


async def test_a_worker_that_joins_gets_its_share(workers: SeveralWorkers) -> None:
    await started(workers, 1)
    await workers.client.create(on("f"), details("f", 6), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=6))
    await workers.add()
    await until(lambda: [len(w.runtime.running) for w in workers.workers] == [3, 3])
    assert workers.runs("f", parallelism=6)


async def test_a_drained_worker_gives_everything_away_until_it_starts_again(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 4), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=4))
    drained = workers.workers[0]
    await workers.client.drain(drained.id)
    await until(lambda: not drained.runtime.running)
    await until(lambda: workers.runs("f", parallelism=4))
    assert (await workers.client.drain_status(drained.id))["status"] == "SUCCESS"
    await workers.stop(drained)
    again = await workers.add(drained.id)
    await until(lambda: len(again.runtime.running) == 2)
    with pytest.raises(NotFound):
        await workers.client.drain_status(drained.id)


async def test_one_worker_can_be_neither_drained_nor_evened_out(workers: SeveralWorkers) -> None:
    await started(workers, 1)
    with pytest.raises(InvalidRequest, match="Too few workers"):
        await workers.client.rebalance()
    with pytest.raises(InvalidRequest, match="Too few workers"):
        await workers.client.drain(workers.workers[0].id)


async def test_a_worker_without_its_session_ends_its_instances_before_another_starts_them(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 4), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=4))
    lost = next(worker for worker in workers.workers if not worker.leads)
    workers.brokers.cluster.server.partition(lost.store.session_id)
    await until(lambda: not lost.runtime.running)
    await until(lambda: workers.runs("f", parallelism=4))


async def test_the_state_of_a_function_is_read_and_written_at_a_running_instance(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f"), "builtin://x")
    await until(lambda: workers.runs("f"))
    with pytest.raises(NotFound, match="'k' is not found"):
        await workers.client.state(on("f"), "k")
    await workers.client.put_state(on("f"), "k", {"key": "k", "stringValue": "v"})
    assert await workers.client.state(on("f"), "k") == {
        "key": "k",
        "stringValue": "v",
        "version": 0,
    }
    with pytest.raises(InvalidRequest, match="Path key doesn't match key in json"):
        await workers.client.put_state(on("f"), "k", {"key": "j", "numberValue": 1})


async def test_cluster_leader_assignments_and_metrics_are_reported(
    workers: SeveralWorkers,
) -> None:
    await started(workers, 2)
    await workers.client.create(on("f"), details("f", 2), "builtin://x")
    await until(lambda: workers.runs("f", parallelism=2))
    assert [worker["workerId"] for worker in await workers.client.cluster()] == ["w1", "w2"]
    leader = await workers.client.leader()
    assert leader is not None
    assert leader["workerId"] == leaders(workers)[0].id
    assert await workers.client.leader_ready()
    assert await workers.client.assignments() == {
        "w1": ["public/default/f:0"],
        "w2": ["public/default/f:1"],
    }
    rows = await workers.client.function_metrics()
    assert [row["name"] for row in rows] == ["public/default/f:0", "public/default/f:1"]
    assert await workers.client.function_figures() == {"metrics": rows, "silent": {}}
    page = await _page(workers.workers[0])
    assert 'pulsar_function_worker_running_instances{cluster="standalone",worker_id="w1"} 1' in page
    assert 'pulsar_function_received_total{instance_id="0"} 3' in page


async def _page(worker: RunningWorker) -> str:
    return b"".join([piece async for piece in worker.worker._metrics()]).decode()
