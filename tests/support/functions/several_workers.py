"""Workers of a cluster in memory over real brokers, with instances that only count; each worker can be killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from engine.admin.client import AdminClient
from engine.base.entropy import RandomEntropy
from engine.base.names import NamespaceName
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.ports import OnFunction
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.ports import (
    ExitReason,
    InstanceSpec,
    InstanceStats,
    InstanceStatus,
    IntervalStats,
)
from engine.functions.worker.placing.known_assignments import instance_key, key_of
from engine.functions.worker.placing.known_functions import full_name
from engine.functions.worker.settings import PROGRAM
from engine.functions.worker.worker_service import FunctionsWorker, WorkerResources
from engine.functions.worker_client import WorkerClient
from engine.metadata.store import MetadataStore
from tests.support.admin.several_brokers import TOKEN, SeveralBrokers

NAMESPACE = NamespaceName.parse("public/default")


def on(name: str) -> OnFunction:
    return OnFunction("function", NAMESPACE, name)


def details(name: str, parallelism: int = 1, *, output: str = "") -> pb.FunctionDetails:
    """Return the details of a function that reads the topic ``NAME-in``."""
    made = pb.FunctionDetails(
        tenant=NAMESPACE.tenant,
        namespace=NAMESPACE.local,
        name=name,
        className="module.Function",
        runtime=pb.FunctionDetails.PYTHON,
        autoAck=True,
        parallelism=parallelism,
        componentType=pb.FunctionDetails.FUNCTION,
    )
    made.source.inputSpecs[f"persistent://{NAMESPACE}/{name}-in"].CopyFrom(pb.ConsumerSpec())
    made.source.cleanupSubscription = True
    if output:
        made.sink.topic = output
    return made


class CountedInstance:
    """An instance that runs until it is stopped or killed."""

    pid = 1

    def __init__(self, runtime: "CountingRuntime", spec: InstanceSpec) -> None:
        self.runtime = runtime
        self.spec = spec
        self.key = instance_key(full_name(spec.function), spec.instance)
        self.lease_end_s = float("inf") if spec.lease_end is None else spec.lease_end()
        self._end: asyncio.Future[ExitReason] = asyncio.get_running_loop().create_future()

    def lease_until(self, end_s: float) -> None:
        self.lease_end_s = end_s

    async def status(self) -> InstanceStatus:
        return InstanceStatus(running=True, received=3, processed=2)

    async def stats(self) -> InstanceStats:
        return InstanceStats(IntervalStats(received=3, processed=2), IntervalStats())

    async def metrics(self) -> str:
        text = "# HELP pulsar_function_received_total Received.\n"
        text += "# TYPE pulsar_function_received_total counter\n"
        return text + f'pulsar_function_received_total{{instance_id="{self.spec.instance}"}} 3\n'

    async def trigger(self, topic: str, data: bytes) -> bytes:
        return data

    async def state_get(self, key: str) -> dict[str, Any] | None:
        return self.runtime.state.get(key)

    async def state_put(self, key: str, value: bytes | None, number: int | None) -> None:
        self.runtime.state[key] = {"value": value, "number": number, "version": 0}

    async def log_tail(self, lines: int) -> str:
        return f"the last {lines} lines"

    def die(self, text: str = "Traceback: it died") -> None:
        """End by itself."""
        self._finish(ExitReason(False, text, 1))

    async def stop(self, grace_s: float) -> None:
        if not self._end.done():
            await asyncio.sleep(self.runtime.stop_takes_s if grace_s else 0.0)
        self._finish(ExitReason(True, "", 0))

    def _finish(self, reason: ExitReason) -> None:
        if not self._end.done():
            self._end.set_result(reason)
            self.runtime.running.remove(self)

    async def wait(self) -> ExitReason:
        return await asyncio.shield(self._end)


class CountingRuntime:
    """Instances of one worker; ``refuses``: why none can start."""

    def __init__(self) -> None:
        self.running: list[CountedInstance] = []
        self.starts = 0
        self.refuses = ""
        self.stop_takes_s = 0.3
        self.state: dict[str, Any] = {}

    async def start(self, spec: InstanceSpec) -> CountedInstance:
        await asyncio.sleep(0.05)
        if self.refuses:
            raise InstanceError(self.refuses)
        self.starts += 1
        instance = CountedInstance(self, spec)
        self.running.append(instance)
        return instance


class MemoryPreparation:
    """Preparation without files."""

    def __init__(self) -> None:
        self.prepared = 0

    async def clear(self) -> None:
        self.prepared = 0

    def close(self) -> None:
        pass

    @asynccontextmanager
    async def __call__(self, assignment: pb.Assignment) -> AsyncIterator[InstanceSpec]:
        instance = assignment.instance
        self.prepared += 1
        try:
            yield InstanceSpec(
                function=instance.functionMetaData,
                instance=instance.instanceId,
                package=None,
                folder=Path("/nowhere") / key_of(assignment),
                service_url="pulsar://broker:1",
            )
        finally:
            self.prepared -= 1


class RunningWorker:
    """A worker with its runtime and its session."""

    def __init__(self, worker: FunctionsWorker, store: MetadataStore) -> None:
        self.worker = worker
        self.store = store
        self.runtime: CountingRuntime = worker.base.runtime  # type: ignore[assignment]

    @property
    def id(self) -> str:
        assert self.worker.parts is not None
        return self.worker.parts.record.id

    @property
    def leads(self) -> bool:
        assert self.worker.parts is not None
        return self.worker.parts.leader.ready


class SeveralWorkers:
    """Workers over one broker and bookie, and a client of theirs."""

    def __init__(self, **settings: str) -> None:
        self.brokers = SeveralBrokers()
        self.workers: list[RunningWorker] = []
        self._settings = settings
        self._made = 0
        self.client = WorkerClient(self.brokers.store, self.brokers.cluster.network, TOKEN)
        self.admin = AdminClient(self.brokers.store, self.brokers.cluster.network, TOKEN)

    async def start(self, count: int, brokers: int = 1) -> None:
        await self.brokers.start(brokers)
        for _ in range(count):
            await self.add()

    async def add(self, worker_id: str = "") -> RunningWorker:
        """Start a worker."""
        self._made += 1
        environ = {
            "MAGNETAR_FUNCTIONS_WORKER_WORKER_PORT": "0",
            "MAGNETAR_FUNCTIONS_WORKER_WORKER_ID": worker_id or f"w{self._made}",
            **{
                f"MAGNETAR_FUNCTIONS_WORKER_{name.upper()}": value
                for name, value in self._settings.items()
            },
        }
        cluster = self.brokers.cluster
        store = cluster.server.session(10.0)
        worker = FunctionsWorker(
            WorkerResources(
                settings=PROGRAM.load(environ, Path("/nowhere")),
                token=TOKEN,
                clock=cluster.clock,
                entropy=RandomEntropy(),
                network=cluster.network,
                store=store,
                runtime=CountingRuntime(),
                preparation=MemoryPreparation(),  # type: ignore[arg-type]
                brokers=AdminClient(store, cluster.network, TOKEN),
            )
        )
        await worker.start()
        running = RunningWorker(worker, store)
        self.workers.append(running)
        return running

    async def stop(self, worker: RunningWorker) -> None:
        """Stop a worker in order."""
        self.workers.remove(worker)
        await worker.worker.drain()
        await worker.store.close()

    @property
    def instances(self) -> list[str]:
        """The keys of all running instances, sorted; a key twice is an instance that runs twice."""
        return sorted(
            instance.key for worker in self.workers for instance in worker.runtime.running
        )

    def runs(self, *names: str, parallelism: int = 1) -> bool:
        """Return whether exactly the instances of these functions run."""
        return self.instances == sorted(
            f"{NAMESPACE}/{name}:{instance}" for name in names for instance in range(parallelism)
        )

    async def close(self) -> None:
        for worker in list(self.workers):
            await self.stop(worker)
        self.client.close()
        self.admin.close()
        await self.brokers.close()
