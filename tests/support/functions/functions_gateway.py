"""A gateway in this process with functions: workers in memory, and packages in ledgers in memory."""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.functions.registered_workers import WorkerRecord
from engine.ledger.client import LedgerClient
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.packages.package_store import PackageStore
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.gateway_client import memory_link
from tests.support.functions.memory_ledgers import MemoryLedgers
from tests.support.functions.memory_workers import MemoryWorkers
from tests.support.functions.package_brokers import PackageServers


class FunctionsWorld(NamedTuple):
    """The parts behind the gateway."""

    link: EngineLink
    workers: MemoryWorkers
    ledgers: MemoryLedgers
    brokers: PackageServers

    def switch_off(self) -> None:
        """Let no worker be registered."""

        async def remove(engine: Engine) -> None:
            await engine.store.delete(f"{paths.FUNCTION_WORKERS}/w")

        self.link.run(remove)
        self.workers.is_off = True


@pytest.fixture
def world() -> Iterator[FunctionsWorld]:
    """A cluster with a registered worker and a broker that serves packages."""
    workers, ledgers = MemoryWorkers(), MemoryLedgers()
    servers: list[PackageServers] = []
    with memory_link() as link:
        connect = link._connect

        async def open_world() -> Engine:
            engine = await connect()
            record = WorkerRecord("w", "127.0.0.1", 6750, "http://127.0.0.1:6750", 1)
            path = f"{paths.FUNCTION_WORKERS}/w"
            await engine.store.create(path, record.encode(), make_parents=True)
            store = PackageStore(
                engine.store,
                cast(LedgerClient, ledgers),
                LedgerConfig(),
                LoopClock(),
                RandomEntropy(),
            )
            servers.append(PackageServers(store))
            replaced: Any = engine._replace(admin=servers[0], workers=workers)  # type: ignore[arg-type]
            return cast(Engine, replaced)

        link._connect = open_world

        async def opened(engine: Engine) -> None:
            return None

        link.run(opened)
        yield FunctionsWorld(link, workers, ledgers, servers[0])


@pytest.fixture
def engine(world: FunctionsWorld) -> EngineLink:
    """The link of the gateway's cluster."""
    return world.link
