"""Functions workers as parts of the instance, against the shipped HTTP server on real sockets."""

from collections.abc import AsyncIterator

import pytest

from engine.functions.registered_workers import WorkerRecord
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.http import HttpServer, Response, pages
from engine.net.network import LoopNetwork
from gateway.services.health import checks as checking
from gateway.services.health.checks import Checks
from gateway.services.health.function_workers import (
    ALIVE_PAGE,
    GONE_KEPT_MS,
    REPLACED_MS,
    FunctionWorkers,
)
from gateway.services.health.hops import Hop, Hops, HopState, Kind
from tests.support import waiting


class Clock:
    """The time of a test, ms."""

    def __init__(self) -> None:
        self.ms = 1_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store() -> MetadataStore:
    return MemoryServer().session()


@pytest.fixture
async def workers(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FunctionWorkers]:
    monkeypatch.setattr(checking, "PERIOD_S", 0.02)
    checks = Checks(Hops(clock))
    checks.note_viewer()
    made = FunctionWorkers(checks, clock)
    yield made
    made.close()
    await checks.close()


async def alive() -> Response:
    return Response(200, b"ok")


async def listening() -> HttpServer:
    server = HttpServer(LoopNetwork(), pages({ALIVE_PAGE: alive}), connections_max=0)
    await server.listen("127.0.0.1", 0)
    return server


async def register(store: MetadataStore, worker: str, port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    record = WorkerRecord(worker, "127.0.0.1", port, url, 1)
    await store.create(paths.function_worker(worker), record.encode(), make_parents=True)


async def until(workers: FunctionWorkers, *states: HopState) -> list[Hop]:
    """Wait until the workers, by id, have these states; return them."""

    def is_reached() -> bool:
        workers._checks.note_viewer()
        return [hop.state for hop in workers._checks.hops.of(Kind.FUNCTIONS)] == list(states)

    await waiting.until(is_reached)
    return workers._checks.hops.of(Kind.FUNCTIONS)


async def test_without_a_worker_none_is_missing(
    store: MetadataStore, workers: FunctionWorkers
) -> None:
    await workers.refresh(store)
    assert workers._checks.hops.all == []


async def test_a_worker_that_ends_is_down_before_and_after_its_registration_ends(
    store: MetadataStore, workers: FunctionWorkers, clock: Clock
) -> None:
    server = await listening()
    port = server.port
    await register(store, "fw-1", port)
    await workers.refresh(store)
    await until(workers, HopState.OK)
    await server.close()
    [hop] = await until(workers, HopState.DOWN)
    assert hop.reason.startswith("Functions worker fw-1 does not answer: ")
    assert "messages wait in their topics" in hop.advice
    await store.delete(paths.function_worker("fw-1"))
    clock.ms += REPLACED_MS + 1
    await workers.refresh(store)
    clock.ms += REPLACED_MS + 1
    await workers.refresh(store)
    await waiting.until(lambda: "is not registered any more" in hop.reason)
    assert hop.state is HopState.DOWN, "no other worker runs its instances"
    server = await listening()
    await register(store, "fw-1", server.port)
    await workers.refresh(store)
    await until(workers, HopState.OK)
    await server.close()


async def test_a_worker_that_is_replaced_is_forgotten(
    store: MetadataStore, workers: FunctionWorkers, clock: Clock
) -> None:
    server, other = await listening(), await listening()
    await register(store, "fw-1", server.port)
    await register(store, "fw-2", other.port)
    await workers.refresh(store)
    await until(workers, HopState.OK, HopState.OK)
    await server.close()
    await store.delete(paths.function_worker("fw-1"))
    await workers.refresh(store)
    await until(workers, HopState.DOWN, HopState.OK)
    clock.ms += REPLACED_MS + 1
    await workers.refresh(store)
    await until(workers, HopState.OK)
    await other.close()
    await store.delete(paths.function_worker("fw-2"))
    await workers.refresh(store)
    await until(workers, HopState.DOWN)
    clock.ms += GONE_KEPT_MS + 1
    await workers.refresh(store)
    assert workers._checks.hops.all == []


async def test_a_worker_that_answers_and_is_not_registered_is_late_and_not_down(
    store: MetadataStore, workers: FunctionWorkers
) -> None:
    server = await listening()
    await register(store, "fw-1", server.port)
    await workers.refresh(store)
    await until(workers, HopState.OK)
    await store.delete(paths.function_worker("fw-1"))
    await workers.refresh(store)
    [hop] = await until(workers, HopState.SLOW)
    assert hop.reason == "Functions worker fw-1 answers, and is not registered"
    await server.close()
