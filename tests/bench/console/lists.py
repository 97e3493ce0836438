"""The console's lists of very many rows, each of them: its GETs, and where it has columns to sort by, in a browser."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from kazoo.client import KazooClient

from engine.functions import worker_operations as api
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import encode
from engine.functions.registered_workers import WorkerRecord
from engine.functions.runtime.ports import InstanceStats, IntervalStats
from engine.functions.worker.answering.instance_reports import stats_of
from engine.metadata import paths
from engine.net.http import HttpServer, Request, Response, json_response
from engine.net.network import LoopNetwork
from engine.tenancy.bundles import bundles
from engine.tenancy.documents import new_policies
from gateway.services.clock import now_ms
from tests.bench.console import windows
from tests.bench.console.painting import Browser
from tests.bench.console.row_source import running_source
from tests.bench.gateway.sides import of_instance
from tests.support.instance import Instance

TENANT = "bench"
BATCH = 2_000
IDLE_S = 10.0
Show = Callable[[str, dict[str, float]], None]


class BenchList(NamedTuple):
    """A list. ``queries`` of its GET by their names; ``columns`` that a browser clicks, ``typed`` into its filter."""

    resource: str
    route: str
    queries: dict[str, str]
    columns: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()


LISTS = (
    BenchList(
        "topics",
        "/c/standalone/topics",
        {
            "first": "sort=-backlog&limit=100",
            "other order": "sort=-msg_rate_in&limit=100",
            "filter": "sort=-backlog&q=topic%2007&limit=100",
        },
        ("In/s", "Stored", "Topic", "Out/s", "Consumers", "Backlog"),
        ("73142", "9041"),
    ),
    BenchList(
        "subscriptions",
        "/c/standalone/subscriptions",
        {
            "first": "limit=100",
            "other order": "sort=-backlog&limit=100",
            "filter": "q=topic%2007&limit=100",
        },
        ("Backlog", "Topic", "Subscription", "Oldest"),
        ("73142", "9041"),
    ),
    BenchList(
        "connections",
        "/c/standalone/clients",
        {
            "first": "limit=100",
            "other order": "sort=-msg_rate_in&limit=100",
            "filter": "q=10.0.7&limit=100",
            "groups": "group=version&limit=100",
        },
    ),
    BenchList(
        "functions",
        "/c/standalone/functions",
        {
            "first": "limit=100",
            "again": "limit=100",
            "other order": "sort=-received_rate&limit=100",
            "filter": "q=task-07&limit=100",
        },
    ),
    BenchList(
        f"tenants/{TENANT}/namespaces",
        f"/c/standalone/tenants/{TENANT}",
        {
            "first": "limit=100",
            "again": "limit=100",
            "other order": "sort=-backlog&limit=100",
            "filter": "q=ns-07&limit=100",
        },
    ),
)


class FunctionSource:
    """Answers of a functions worker that runs so many functions."""

    def __init__(self, functions: int) -> None:
        minute = IntervalStats(received=60, processed=60)
        metrics = stats_of(InstanceStats(minute, minute, now_ms()))
        self._stored, self._metrics = [], []
        for number in range(functions):
            name = f"task-{number:06}"
            self._stored.append({"metadata": _metadata(name), "workers": {"0": "bench"}})
            self._metrics.append({"name": f"public/default/{name}:0", "metrics": metrics})

    async def answer(self, request: Request) -> Response:
        """Answer a gateway's request."""
        rows = {
            api.ALL_FUNCTIONS.name: self._stored,
            api.FUNCTION_FIGURES.name: {"metrics": self._metrics, "silent": {}},
        }.get(request.path.removeprefix("/rpc/"))
        if rows is None:
            return json_response(422, {"code": "NotFound", "reason": "a bench, no worker"})
        return json_response(200, {"result": rows})


def _metadata(name: str) -> str:
    details = pb.FunctionDetails(
        tenant="public", namespace="default", name=name, parallelism=1, className="work.Task"
    )
    details.source.inputSpecs[f"persistent://public/default/{name}-in"].SetInParent()
    details.sink.topic = f"persistent://public/default/{name}-out"
    metadata = pb.FunctionMetaData(functionDetails=details, version=1, createTime=now_ms())
    return base64.b64encode(encode(metadata)).decode()


@asynccontextmanager
async def running_functions(zookeeper: str, functions: int) -> AsyncIterator[None]:
    """Register a worker that has so many functions, for the length of the block."""
    server = HttpServer(LoopNetwork(), FunctionSource(functions).answer, connections_max=100)
    port = await server.listen("127.0.0.1", 0)
    record = WorkerRecord("bench", "127.0.0.1", port, f"http://127.0.0.1:{port}", now_ms())
    client = KazooClient(zookeeper)
    await asyncio.to_thread(client.start, 20)
    try:
        path = paths.function_worker("bench")
        await asyncio.to_thread(client.create, path, record.encode(), ephemeral=True, makepath=True)
        yield
    finally:
        await asyncio.to_thread(client.stop)
        client.close()
        await server.close()


def put_namespaces(zookeeper: str, namespaces: int) -> None:
    """Store so many namespaces of TENANT, which has to exist."""
    client = KazooClient(zookeeper)
    client.start(20)
    policies = json.dumps(new_policies(["standalone"], bundles(None, 4), "standalone")).encode()
    try:
        for start in range(0, namespaces, BATCH):
            pending = [
                client.create_async(paths.namespace_policies(f"{TENANT}/ns-{i:06}"), policies)
                for i in range(start, min(start + BATCH, namespaces))
            ]
            for result in pending:
                result.get(60)
    finally:
        client.stop()
        client.close()


async def all_lists(instance: Instance, rows: int, changing: float, show: Show) -> None:
    """Show the times of every list with so many rows, each row source running for its list alone."""
    pids = of_instance(instance)["gateway"]
    zookeeper = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
    tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert instance.rest("PUT", f"/admin/v2/tenants/{TENANT}", tenant)[0] == 204
    await windows.asked(instance.http, pids, {"": "limit=1"})
    async with running_source(zookeeper, rows, changing, subscribed=True):
        await asyncio.sleep(20)
        for bench_list in LISTS[:3]:
            await _measured(instance, pids, bench_list, show)
        for same in (True, False):
            figures = await windows.watched(
                instance.http, pids, 50, 20, same=same, channel="subscriptions"
            )
            show(
                f"50 sockets of subscriptions, {'one window' if same else 'a window each'}", figures
            )
    async with running_functions(zookeeper, rows):
        await asyncio.sleep(1)
        await _measured(instance, pids, LISTS[3], show)
    began = time.perf_counter()
    await asyncio.to_thread(put_namespaces, zookeeper, rows)
    show("namespaces stored", {"s": time.perf_counter() - began})
    await asyncio.sleep(IDLE_S)
    await _measured(instance, pids, LISTS[4], show)


async def _measured(instance: Instance, pids: list[int], bench_list: BenchList, show: Show) -> None:
    figures = await windows.asked(
        instance.http, pids, bench_list.queries, resource=bench_list.resource
    )
    show(f"GET of {bench_list.resource}, ms", figures)
    await asyncio.to_thread(_opened, instance.http, bench_list, show)


def _opened(http: str, bench_list: BenchList, show: Show) -> None:
    browser = Browser(http)
    try:
        for time_of in ("first", "second", "third"):
            show(
                f"{bench_list.resource} opened the {time_of} time",
                browser.opening(bench_list.route),
            )
        if bench_list.columns:
            figures = browser.reacting(bench_list.route, bench_list.columns, bench_list.typed)
            show(f"{bench_list.resource} sorted and filtered", figures)
    finally:
        browser.close()
