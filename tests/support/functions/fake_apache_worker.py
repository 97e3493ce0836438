"""A worker of Apache Pulsar as ours see one: a consumer of the coordination topic, a REST interface, and, while it
leads, the only writer of the functions."""

import asyncio
import json
from typing import Any

from engine.base.entropy import RandomEntropy
from engine.broker.dispatch.choose.active import choose_active, rank
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.raw_consumer import FAILOVER, RawConsumer
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode, parse
from engine.functions.worker.placing.exclusive_writer import ExclusiveWriter
from engine.functions.worker.placing.known_functions import KnownFunctions, full_name
from engine.functions.worker.placing.leadership import PARTICIPANTS
from engine.net.http import HttpServer, Request, Response, json_response
from gateway.http.forms.multipart import parts_of
from tests.support.functions.several_workers import SeveralWorkers

TOPICS = "persistent://public/functions"
COORDINATION = f"{TOPICS}/coordinate"


class FakeApacheWorker:
    """``answers``: status and body by method and path, before its own. ``asked``: the calls of others."""

    def __init__(self, workers: SeveralWorkers) -> None:
        cluster = workers.brokers.cluster
        self._workers = workers
        self._clock = cluster.clock
        self.client = PulsarClient(
            network=cluster.network,
            clock=cluster.clock,
            entropy=RandomEntropy(),
            brokers=self._urls,
            settings=LinkSettings(client_version="Fake"),
        )
        self._http = HttpServer(cluster.network, self._answer, connections_max=10)
        self._consumer: RawConsumer | None = None
        self._functions: ExclusiveWriter | None = None
        self._assignments: ExclusiveWriter | None = None
        self.known = KnownFunctions()
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.id = ""
        self.port = 0

    async def _urls(self) -> list[str]:
        return [broker.service_url for broker in await self._workers.admin.brokers()]

    async def join(self, *, leads: bool) -> None:
        """Become a member; ``leads``: with a name by which brokers choose it, otherwise with one by which they do
        not."""
        self.port = await self._http.listen("127.0.0.1", 0)
        labels = [w.worker.parts.record.label for w in self._workers.workers if w.worker.parts]
        for number in range(1000):
            self.id = f"apache{number}"
            members = sorted(((0, name) for name in (*labels, self.label)), key=lambda m: rank(*m))
            chosen = choose_active(members, -1, COORDINATION)
            if chosen is not None and (members[chosen][1] == self.label) == leads:
                break
        link = await self.client.owner(COORDINATION)
        self._consumer = await RawConsumer.open(
            *(link, COORDINATION, PARTICIPANTS, FAILOVER),
            name=self.label,
            metadata={"id": self.label},
            on_messages=lambda messages: None,
        )

    @property
    def label(self) -> str:
        return f"{self.id}:127.0.0.1:{self.port}"

    async def lead(self) -> None:
        """Attach both producers, as soon as the leader before has left."""
        self._functions = await self._writer("metadata", "leader")
        self._assignments = await self._writer("assignments", "scheduler-manager")

    async def _writer(self, topic: str, role: str) -> ExclusiveWriter:
        while True:
            try:
                return await ExclusiveWriter.open(
                    self.client, f"{TOPICS}/{topic}", f"{self.id}-{role}", self._clock
                )
            except Exception:  # another is attached
                await asyncio.sleep(0.2)

    async def assign(self, metadata: pb.FunctionMetaData, instance: int, worker: str) -> None:
        """Assign an instance, as the leader."""
        assert self._assignments is not None
        made = pb.Assignment(
            instance=pb.Instance(functionMetaData=metadata, instanceId=instance), workerId=worker
        )
        await self._assignments.write(encode(made), key=f"{full_name(metadata)}:{instance}")

    async def _answer(self, request: Request) -> Response:
        path = request.path + (f"?{request.query}" if request.query else "")
        self.asked.append((request.method, path))
        if (request.method, path) in self.answers:
            status, body = self.answers[request.method, path]
            return Response(204) if status == 204 else json_response(status, body)
        if path.startswith("/admin/v3/functions/leader/"):
            return await self._store(request)
        return json_response(404, {"reason": f"no {path}"})

    async def _store(self, request: Request) -> Response:
        parts = parts_of(request.body, request.headers["content-type"])
        metadata = parse(pb.FunctionMetaData, bytes(parts["functionMetaData"].content))
        kind = pb.ServiceRequest.DELETE if parts["delete"].text == "true" else 0
        change = pb.ServiceRequest(
            serviceRequestType=kind,  # type: ignore[arg-type]
            requestId="r",
            functionMetaData=metadata,
            workerId=self.id,
        )
        stored = self.known.functions.get(full_name(metadata))
        if stored is not None and metadata.version <= stored.version:
            reason = "Update request ignored because it is out of date. Please try again."
            return json_response(400, {"reason": reason})
        self.known.apply(change, 0)
        assert self._functions is not None
        await self._functions.write(encode(change), properties={"version": str(metadata.version)})
        return Response(204)

    def reason(self, method: str, path: str, status: int, reason: str) -> None:
        """Answer a call with a refusal from now on."""
        self.answers[method, path] = status, json.loads(json.dumps({"reason": reason}))

    async def close(self) -> None:
        for writer in (self._functions, self._assignments):
            if writer is not None:
                await writer.close()
        await self._http.close()
        await self.client.close()
