"""A cluster shared with one of Apache's workers: changes succeed whichever worker leads, and each asks the other."""

from collections.abc import AsyncIterator

import pytest

from engine.base.errors import Conflict, InvalidRequest, NotFound, NotReady
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode
from engine.functions.ports import OnInstances
from tests.support.functions.fake_apache_worker import FakeApacheWorker
from tests.support.functions.several_workers import NAMESPACE, SeveralWorkers, details, on
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

PACKAGE = "function://public/default/f@0"
LEADER_CALL = ("PUT", "/admin/v3/functions/leader/public/default/f")


@pytest.fixture
async def workers() -> AsyncIterator[SeveralWorkers]:
    made = SeveralWorkers()
    await made.start(1)
    await until(lambda: made.workers[0].leads)
    try:
        yield made
    finally:
        await made.close()


@pytest.fixture
async def apache(workers: SeveralWorkers) -> AsyncIterator[FakeApacheWorker]:
    made = FakeApacheWorker(workers)
    try:
        yield made
    finally:
        await made.close()


async def follows(workers: SeveralWorkers, apache: FakeApacheWorker) -> None:
    """Let Apache's worker lead instead of ours."""
    await apache.join(leads=True)
    await until(lambda: not workers.workers[0].leads)
    await apache.lead()


def f(instance: int | None = None) -> OnInstances:
    return OnInstances("function", NAMESPACE, "f", instance)


def java(name: str, parallelism: int = 1) -> pb.FunctionDetails:
    made = details(name, parallelism)
    made.runtime = pb.FunctionDetails.JAVA
    return made


async def test_changes_go_to_apaches_leader(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await follows(workers, apache)
    client = workers.client
    await client.create(on("f"), details("f", 2), PACKAGE)
    assert await client.names(on("f")) == ["f"]
    await client.update(on("f"), details("f", 3), "", expected_version=0)
    await client.stop(f(1))
    stored = await client.metadata(on("f"))
    states = {0: pb.RUNNING, 1: pb.STOPPED, 2: pb.RUNNING}
    assert (stored.version, dict(stored.instanceStates)) == (2, states)
    assert stored.packageLocation.packagePath == PACKAGE
    await client.start(f())
    await client.delete(on("f"))
    assert await client.names(on("f")) == []
    assert apache.asked.count(LEADER_CALL) == 5


async def test_a_change_of_an_outdated_version_is_refused_by_any_leader(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await follows(workers, apache)
    await workers.client.create(on("f"), details("f"), PACKAGE)
    await workers.client.update(on("f"), details("f", 2), "", expected_version=0)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await workers.client.update(on("f"), details("f", 3), "", expected_version=0)
    apache.reason(*LEADER_CALL, 400, "Update request ignored because it is out of date.")
    with pytest.raises(Conflict, match="out of date"):
        await workers.client.update(on("f"), details("f", 3), "", expected_version=1)


@pytest.mark.parametrize(
    ("status", "match"),
    [
        (307, "not responsible any more"),
        (401, "refuses this worker's credentials"),
        (500, "answered 500: it"),
        (503, "answered 503: it"),
    ],
)
async def test_no_change_is_reported_that_apaches_leader_has_not_confirmed(
    workers: SeveralWorkers, apache: FakeApacheWorker, status: int, match: str
) -> None:
    await follows(workers, apache)
    apache.reason(*LEADER_CALL, status, "it does not")
    with pytest.raises(NotReady, match=match):
        await workers.client.create(on("f"), details("f"), PACKAGE)
    assert await workers.client.names(on("f")) == []


async def test_instances_on_apaches_worker_are_asked_there(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await follows(workers, apache)
    await workers.client.create(on("f"), details("f", 2), PACKAGE)
    metadata = await workers.client.metadata(on("f"))
    await apache.assign(metadata, 0, apache.id)
    await apache.assign(metadata, 1, "w1")
    await until(lambda: workers.instances == [f"{NAMESPACE}/f:1"])
    path = "/admin/v3/functions/public/default/f/0"
    there = {"running": True, "error": "", "numReceived": 7, "workerId": apache.id}
    apache.answers["GET", f"{path}/status"] = 200, there
    status = await workers.client.status(f())
    assert (status["numInstances"], status["numRunning"]) == (2, 2)
    assert [row["status"]["workerId"] for row in status["instances"]] == [apache.id, "w1"]
    assert (await workers.client.status(f(0)))["numReceived"] == 7
    apache.reason("GET", f"{path}/status", 503, "it starts")
    status = await workers.client.status(f(0))
    assert (status["running"], status["error"]) == (
        False,
        f"Worker {apache.id} answered 503: it starts",
    )
    apache.answers["POST", f"{path}/restart"] = 204, None
    await workers.client.restart(f())
    assert ("POST", f"{path}/restart") in apache.asked
    apache.reason("POST", f"{path}/restart", 500, "it cannot")
    with pytest.raises(NotReady, match=rf"may not have restarted \(0\): worker {apache.id}.*can"):
        await workers.client.restart(f())
    with pytest.raises(NotReady, match="Apache's, which does not say it"):
        await workers.client.log_lines(f(), 10)
    # Statistics of an instance that does not answer are not known, which is not zero.
    assert (await workers.client.stats(f()))["receivedTotal"] is None


async def test_a_change_that_apaches_worker_made_is_stored_by_our_leader(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await apache.join(leads=False)
    metadata = pb.FunctionMetaData(functionDetails=details("f"))
    metadata.packageLocation.packagePath = PACKAGE
    client = workers.client
    await client.store_metadata(on("f"), encode(metadata))
    assert await client.names(on("f")) == ["f"]
    with pytest.raises(InvalidRequest, match="Update request ignored because it is out of date"):
        await client.store_metadata(on("f"), encode(metadata))
    metadata.version = 1
    metadata.functionDetails.parallelism = 2
    await client.store_metadata(on("f"), encode(metadata))
    assert (await client.metadata(on("f"))).functionDetails.parallelism == 2
    with pytest.raises(InvalidRequest, match="functionMetaData: must be that of public/default/g"):
        await client.store_metadata(on("g"), encode(metadata))
    with pytest.raises(InvalidRequest, match="Corrupt Function MetaData"):
        await client.store_metadata(on("f"), b"\xff\xff")
    metadata.version = 2
    await client.store_metadata(on("f"), encode(metadata), delete=True)
    assert await client.names(on("f")) == []
    with pytest.raises(NotFound, match="Function f doesn't exist"):
        await client.store_metadata(on("f"), encode(metadata), delete=True)


async def test_our_leader_places_each_function_on_a_worker_that_can_run_it(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await apache.join(leads=False)
    client = workers.client
    await client.create(on("j"), java("j", 2), "builtin://x")
    await client.create(on("f"), details("f", 2), "builtin://y")

    async def placed() -> bool:
        return await client.assignments() == {
            apache.id: [f"{NAMESPACE}/j:0", f"{NAMESPACE}/j:1"],
            "w1": [f"{NAMESPACE}/f:0", f"{NAMESPACE}/f:1"],
        }

    await until(placed)
    await client.rebalance()
    assert await placed()


async def test_the_workers_of_both_kinds_are_shown(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await apache.join(leads=False)
    client = workers.client
    cluster = await client.cluster()
    assert [worker["workerId"] for worker in cluster] == sorted([apache.id, "w1"])
    leader = await client.leader()
    assert leader == workers.workers[0].worker.parts.record.info  # type: ignore[union-attr]
    with pytest.raises(InvalidRequest, match="one of Apache's: stop it instead"):
        await client.drain(apache.id)
    await client.drain("w1")
    assert await client.drain_status("w1") == {"status": "SUCCESS", "lastError": ""}


async def test_calls_about_workers_go_to_apaches_leader(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await follows(workers, apache)
    client = workers.client
    leader = await client.leader()
    assert leader == {"workerId": apache.id, "workerHostname": "127.0.0.1", "port": apache.port}
    ready = ("GET", "/admin/v2/worker/cluster/leader/ready")
    apache.reason(*ready, 503, "Leader not yet ready")
    assert not await client.leader_ready()
    apache.answers[ready] = 200, True
    assert await client.leader_ready()
    drain = "/admin/v2/worker/leader/drain?workerId=w1"
    apache.answers["PUT", drain] = apache.answers["PUT", "/admin/v2/worker/rebalance"] = 204, None
    apache.answers["GET", drain] = 200, {"status": "RUNNING", "lastError": ""}
    await client.rebalance()
    await client.drain("w1")
    assert (await client.drain_status("w1"))["status"] == "RUNNING"


async def test_our_worker_leads_again_when_apaches_has_left(
    workers: SeveralWorkers, apache: FakeApacheWorker
) -> None:
    await follows(workers, apache)
    await workers.client.create(on("f"), details("f"), PACKAGE)
    metadata = await workers.client.metadata(on("f"))
    await apache.assign(metadata, 0, apache.id)
    await apache.close()
    await until(lambda: workers.workers[0].leads)
    await until(lambda: workers.runs("f"))
