"""Functions workers under faults, and an administrator who creates, changes, stops and deletes functions: no instance
ever runs twice (F2), no confirmed change is lost (F1), and in the end exactly the wanted instances run (F3)."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine.admin.client import AdminClient
from engine.base.errors import Conflict, MagnetarError, NotFound
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.ports import OnInstances
from engine.functions.runtime.ports import ExitReason, InstanceSpec
from engine.functions.worker.placing.known_assignments import instance_key
from engine.functions.worker.placing.known_functions import full_name
from engine.functions.worker.settings import PROGRAM
from engine.functions.worker.worker_service import FunctionsWorker, WorkerResources
from engine.functions.worker_client import WorkerClient
from tests.sim.kit.cluster import EPOCH_MS, TOKEN, Machine
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.kit.scenario import Run, first_of
from tests.support.functions.several_workers import (
    NAMESPACE,
    CountedInstance,
    CountingRuntime,
    MemoryPreparation,
    details,
    on,
)

SETTLE_S = 120.0
CALL_S = 10.0
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Placing:
    """``workers`` machines; ``functions`` names that come and go; ``dies``: ends of each instance per second."""

    workers: int
    functions: int
    dies: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Placing":
        return cls(rng.choice((2, 3)), rng.choice((2, 4)), rng.choice((0.0, 0.05, 0.3)))

    def setup(self, run: Run) -> "PlacingWorkload":
        return PlacingWorkload(run, self)


@dataclass
class Started:
    """An instance that was started by a process, and not ended by it."""

    key: str
    package: str
    machine: Machine
    node: Node
    lease_end_s: float

    @property
    def runs(self) -> bool:
        """True while its process lives: it ends with its worker, and by itself with its lease while that is paused."""
        return not self.node.dead and asyncio.get_running_loop().time() < self.lease_end_s


class BookedInstance(CountedInstance):
    """An instance that ends by itself now and then."""

    booked: Started

    def lease_until(self, end_s: float) -> None:
        self.booked.lease_end_s = end_s

    def _finish(self, reason: ExitReason) -> None:
        super()._finish(reason)
        if isinstance(self.runtime, BookedRuntime):
            self.runtime.workload.ended(self.booked)


class BookedRuntime(CountingRuntime):
    """A worker's runtime, whose starts and ends the workload sees."""

    def __init__(self, workload: "PlacingWorkload", machine: Machine) -> None:
        super().__init__()
        assert machine.node is not None
        self.workload = workload
        self._machine, self._node = machine, machine.node

    async def start(self, spec: InstanceSpec) -> CountedInstance:
        rng = self.workload.rng
        await asyncio.sleep(rng.choice((0.0, 0.05, 0.5)))
        instance = BookedInstance(self, spec)
        package = spec.function.packageLocation.packagePath
        instance.booked = Started(
            instance.key, package, self._machine, self._node, instance.lease_end_s
        )
        self.running.append(instance)
        self.stop_takes_s = rng.choice((0.0, 0.3, 1.0))
        self.workload.started(instance.booked)
        if self.workload.plan.dies and not self.workload.calm:
            asyncio.get_running_loop().call_later(
                rng.expovariate(self.workload.plan.dies), self._die, instance
            )
        return instance

    def _die(self, instance: CountedInstance) -> None:
        if instance in self.running:
            instance.die()


class PlacingWorkload:
    """The workers, the administrator, and the book of running instances."""

    def __init__(self, run: Run, plan: Placing) -> None:
        self.run = run
        self.plan = plan
        self.cluster = run.cluster
        self.rng = random.Random(f"{run.loop.seed}/placing")
        self.calm = False
        self._wrong: list[str] = []
        self._running: list[Started] = []
        self._confirmed: dict[str, pb.FunctionMetaData | str | None] = {}
        """State of each function by the last confirmed change: what is stored, None for a deleted one, UNKNOWN after a
        change whose outcome is not known."""
        self._stored: dict[str, pb.FunctionMetaData] = {}
        self._packages = 0
        self._names = [f"f{number}" for number in range(plan.functions)]
        self._machines: list[Machine] = []
        for number in range(plan.workers):
            name = f"worker-{number + 1}"
            skew_ms = run.loop.rng.choice((0, -3_000, 5_000))
            machine = Machine(name, "functions", EPOCH_MS + skew_ms, 0.001, self._process)
            self.cluster.machines[name] = machine
            self._machines.append(machine)
        self._node = Node("administrator")
        self.cluster.clients.append("administrator")
        self._work: asyncio.Task[None] | None = None

    # -- what workers do

    async def _process(self, machine: Machine) -> None:
        store = machine.store = self.cluster.metadata.session(self.cluster.shape.session_s)
        network = SimNetwork(self.cluster.world)
        prefix = "MAGNETAR_FUNCTIONS_WORKER_"
        environ = {
            f"{prefix}WORKER_PORT": "6750",
            f"{prefix}WORKER_HOSTNAME": machine.name,
            f"{prefix}WORKER_ID": machine.name,
            f"{prefix}RESCHEDULE_TIMEOUT_MS": "100",
            f"{prefix}FAILURE_CHECK_FREQ_MS": "1000",
            f"{prefix}FUNCTION_RESTART_FIRST_MS": "100",
            f"{prefix}FUNCTION_RESTART_LONGEST_MS": "1000",
            f"{prefix}FUNCTION_STOP_TIMEOUT_MS": "500",
            f"{prefix}TOPIC_COMPACTION_FREQUENCY_SEC": "5",
        }
        worker = FunctionsWorker(
            WorkerResources(
                settings=PROGRAM.load(environ, Path("/nowhere")),
                token=TOKEN,
                clock=machine.clock,
                entropy=self.cluster.entropy(machine),
                network=network,
                store=store,
                runtime=BookedRuntime(self, machine),
                preparation=MemoryPreparation(),  # type: ignore[arg-type]
                brokers=AdminClient(store, network, TOKEN, timeout_s=CALL_S),
            )
        )
        stop = machine.stop = asyncio.Event()
        try:
            await worker.start()
            machine.ready = True
            await stop.wait()
        finally:
            await worker.drain()
            await store.close()

    def started(self, started: Started) -> None:
        """Note a start, and whether the instance runs elsewhere already."""
        twins = [other for other in self._running if other.key == started.key and other.runs]
        for other in twins:
            self._wrong.append(
                f"F2: {started.key} runs on {other.machine.name} and {started.machine.name}"
            )
        self._running.append(started)
        self.cluster.count("instances started")

    def ended(self, started: Started) -> None:
        if started in self._running:
            self._running.remove(started)

    @property
    def running(self) -> list[Started]:
        return [started for started in self._running if not started.node.dead]

    # -- what the administrator does

    async def start(self) -> None:
        self._work = self.run.loop.spawn(self._node, self._administer())
        await self.run.reach("create a function", lambda: self._confirmed, SETTLE_S, self._why)

    async def _administer(self) -> None:
        store = self.cluster.metadata.session(self.cluster.shape.session_s)
        client = WorkerClient(store, SimNetwork(self.cluster.world), TOKEN, timeout_s=CALL_S)
        try:
            while not self.calm:
                name = self.rng.choice(self._names)
                try:
                    await self._change(client, name)
                    self.cluster.count("changes confirmed")
                except MagnetarError:
                    self.cluster.count("changes refused")
                await asyncio.sleep(self.rng.choice((0.05, 0.5, 2.0)))
            while True:
                try:
                    await self._read(client)
                    break
                except MagnetarError:
                    await asyncio.sleep(0.5)
        finally:
            client.close()
            await store.close()

    async def _change(self, client: WorkerClient, name: str) -> None:
        """Change a function. Raises MagnetarError; the outcome is unknown then, but for refusals of what is known."""
        known = self._confirmed.get(name)
        if known is UNKNOWN or isinstance(known, str):
            self._confirmed[name] = await self._look(client, name)
            return
        changed = details(name, self.rng.choice((1, 2, 4)))
        self._packages += 1
        package = f"builtin://{self._packages}"
        before, self._confirmed[name] = known, UNKNOWN
        try:
            if before is None:
                await client.create(on(name), changed, package)
            elif self.rng.random() < 0.2:
                await client.delete(on(name))
            elif self.rng.random() < 0.5:
                version = before.version
                await client.update(on(name), changed, package, expected_version=version)
            else:
                of = OnInstances("function", NAMESPACE, name, None)
                await (client.stop(of) if self.rng.random() < 0.5 else client.start(of))
        except (Conflict, NotFound) as error:
            # A repetition of a change of which the first answer was lost meets its own work.
            self.cluster.count(f"met its own work: {error.code}")
            return
        self._confirmed[name] = await self._look(client, name)

    async def _look(self, client: WorkerClient, name: str) -> pb.FunctionMetaData | None:
        try:
            return await client.metadata(on(name))
        except NotFound:
            return None

    async def _read(self, client: WorkerClient) -> None:
        """Read what is stored in the end. Raises MagnetarError."""
        stored: dict[str, pb.FunctionMetaData] = {}
        for name in self._names:
            metadata = await self._look(client, name)
            if metadata is not None:
                stored[name] = metadata
        self._stored = stored

    # -- the end

    async def quiet(self) -> None:
        self.calm = True
        work = self._work
        assert work is not None
        await self.run.reach("read the functions", work.done, SETTLE_S, self._why)
        if work.done() and work.exception() is not None:
            raise work.exception() or AssertionError
        await self.run.reach("run what is wanted", lambda: not self._missing(), SETTLE_S, self._why)

    def _wanted(self) -> Counter[tuple[str, str]]:
        return Counter(
            (instance_key(full_name(metadata), number), metadata.packageLocation.packagePath)
            for metadata in self._stored.values()
            for number in range(metadata.functionDetails.parallelism)
            if metadata.instanceStates.get(number, pb.RUNNING) == pb.RUNNING
        )

    def _missing(self) -> list[str]:
        """Return instances that should run and do not, and those that should not."""
        wanted = self._wanted()
        running = Counter((started.key, started.package) for started in self.running)
        return [
            *(f"{key} of {package} does not run" for key, package in wanted - running),
            *(f"{key} of {package} runs" for key, package in running - wanted),
        ]

    def _why(self) -> list[str]:
        down = [machine.name for machine in self.cluster.machines.values() if not machine.ready]
        return [*self._missing()[:3], *([f"not ready: {down}"] if down else [])]

    def check(self) -> list[str]:
        wrong = list(self._wrong)
        for name, confirmed in self._confirmed.items():
            if isinstance(confirmed, str):
                continue
            if confirmed != self._stored.get(name) and self._read_all:
                wrong.append(f"F1: {name} is not as its last confirmed change left it")
        return first_of(wrong, "placing")

    @property
    def _read_all(self) -> bool:
        """True when the functions were read in the end."""
        work = self._work
        return work is not None and work.done() and not work.cancelled() and not work.exception()
