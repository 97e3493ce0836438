"""The console's lists of very many rows, each of them: its GETs, and where it has columns to sort by, in a browser."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from math import isnan, nan
from statistics import median
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
from tests.bench.contenders import cpu_s
from tests.bench.gateway.sides import of_instance
from tests.support.instance import Instance

TENANT = "bench"
BATCH = 2_000
IDLE_S = 5.0
SETTLE_S = 3.0
WATCH_S = 20.0
LIST_S = 240.0
"""Longest time for one list."""
Show = Callable[[str, dict[str, float]], None]


class BenchList(NamedTuple):
    """A list. ``queries`` of its GET by their names; ``columns`` that a browser clicks, ``typed`` into its filter."""

    name: str
    resource: str
    route: str
    queries: dict[str, str]
    columns: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()


LISTS = (
    BenchList(
        "topics",
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
        "connections",
        "/c/standalone/clients",
        {
            "first": "limit=100",
            "other order": "sort=-msg_rate_in&limit=100",
            "filter": "q=10.0.7&limit=100",
            "groups": "group=version&limit=100",
        },
        ("In/s", "Address", "Library", "Role", "Since"),
        ("10.0.7", "Go"),
    ),
    BenchList(
        "functions",
        "functions",
        "/c/standalone/functions",
        {
            "first": "limit=100",
            "again": "limit=100",
            "other order": "sort=-received_rate&limit=100",
            "filter": "q=task-07&limit=100",
        },
        ("In", "Name", "State", "Exceptions"),
        ("task-07", "9041"),
    ),
    BenchList(
        "namespaces",
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


class Row(NamedTuple):
    """Figures of a list for the table, ms; NaN: not measured, or it failed."""

    first: float
    order: float
    filtered: float
    cpu: float
    paint: float
    opened: float
    sorted: float
    long: float


NOT_MEASURED = Row(*[nan] * len(Row._fields))
HEADINGS = (
    *("GET first", "another order", "filter", "CPU of the order", "first paint", "first rows"),
    *("sorted p95", "longest task"),
)


async def all_lists(
    instance: Instance, rows: int, changing: float, show: Show, only: Collection[str] = ()
) -> None:
    """Show the times of every list with so many rows, or of those that ``only`` names, and print a table of them. Each
    row source runs for its lists alone. A list that fails or takes longer than LIST_S is shown so, and the next one is
    measured."""
    bench = _ListsBench(instance, rows, show)
    chosen = [item for item in LISTS if not only or item.name in only]
    tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
    assert instance.rest("PUT", f"/admin/v2/tenants/{TENANT}", tenant)[0] == 204
    await windows.asked(instance.http, bench.pids, {"": "limit=1"})
    show("gateway, idle", {"CPU ms/s": await bench.idle()})
    reported = [item for item in chosen if item.name in ("topics", "subscriptions", "connections")]
    if reported:
        async with running_source(bench.zookeeper, rows, changing, subscribed=True):
            await bench.settled("topics")
            for item in reported:
                await bench.measure(item)
            for item in reported:
                if item.name != "connections":
                    await bench.watch(item)
    for item in chosen:
        if item.name == "functions":
            async with running_functions(bench.zookeeper, rows):
                await bench.measure(item)
        elif item.name == "namespaces":
            began = time.perf_counter()
            await asyncio.to_thread(put_namespaces, bench.zookeeper, rows)
            show("namespaces stored", {"s": time.perf_counter() - began})
            await bench.measure(item)
    bench.print_table()


class _ListsBench:
    """The measured lists of an instance."""

    def __init__(self, instance: Instance, rows: int, show: Show) -> None:
        self.instance = instance
        self.rows = rows
        self.pids = of_instance(instance)["gateway"]
        self.zookeeper = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
        self._show = show
        self._table: dict[str, Row] = {}
        self._failures: dict[str, str] = {}

    async def idle(self) -> float:
        """Return ms of CPU in a second without clients."""
        await asyncio.sleep(IDLE_S)
        before = cpu_s(self.pids)
        await asyncio.sleep(IDLE_S)
        return (cpu_s(self.pids) - before) / IDLE_S * 1e3

    async def settled(self, resource: str) -> None:
        """Wait until the list has all rows, at most LIST_S."""
        began = time.perf_counter()
        path = f"/api/v1/clusters/standalone/{resource}?limit=1"
        while self.instance.rest("GET", path)[1]["total"] < self.rows:
            if time.perf_counter() - began > LIST_S:
                raise TimeoutError(f"the list of {resource} has not all rows after {LIST_S:g} s")
            await asyncio.sleep(0.5)
        self._show(f"{resource} reported", {"s": time.perf_counter() - began})
        await asyncio.sleep(SETTLE_S)

    async def measure(self, item: BenchList) -> None:
        """Request a list and open it in a browser."""
        self._table[item.name] = NOT_MEASURED
        try:
            async with asyncio.timeout(LIST_S):
                asked = await windows.asked(
                    self.instance.http, self.pids, item.queries, resource=item.resource
                )
                self._show(f"GET of {item.resource}, ms", asked)
                got = NOT_MEASURED._replace(
                    first=asked["first"],
                    order=asked["other order"],
                    filtered=asked["filter"],
                    cpu=asked["other order, CPU"],
                )
                self._table[item.name] = got
                opened = await asyncio.to_thread(_opened, self.instance.http, item, self._show)
                self._table[item.name] = got._replace(**opened)
        except Exception as error:  # the other lists are measured in any case
            self._failures[item.name] = repr(error)
            print(f"{item.name} failed: {error!r}", flush=True)

    async def watch(self, item: BenchList) -> None:
        """Watch windows of a list, one for all sockets and one for each."""
        for same in (True, False):
            figures = await windows.watched(
                self.instance.http, self.pids, 50, WATCH_S, same=same, channel=item.name
            )
            own = "one window" if same else "a window each"
            self._show(f"50 sockets of {item.name}, {own}", figures)

    def print_table(self) -> None:
        """Print the figures of all lists as Markdown."""
        print(f"\n| {self.rows:,} rows, ms | {' | '.join(HEADINGS)} |")
        print(f"|{'---|' * (len(HEADINGS) + 1)}")
        for name, row in self._table.items():
            cells = " | ".join("" if isnan(value) else f"{value:,.0f}" for value in row)
            print(f"| {name} | {cells} |")
        for name, error in self._failures.items():
            print(f"{name} failed: {error}")


def _opened(http: str, item: BenchList, show: Show) -> dict[str, float]:
    """Open a list three times, and sort and filter it; return figures of a ``Row``."""
    browser = Browser(http)
    try:
        openings = []
        for time_of in ("first", "second", "third"):
            openings.append(browser.opening(item.route))
            show(f"{item.resource} opened the {time_of} time", openings[-1])
        figures = {
            "paint": median(opening["first paint ms"] for opening in openings),
            "opened": median(opening["first rows ms"] for opening in openings),
            "long": max(opening["longest task ms"] for opening in openings),
        }
        if item.columns:
            reacting = browser.reacting(item.route, item.columns, item.typed)
            show(f"{item.resource} sorted and filtered", reacting)
            figures["sorted"] = reacting["sort ms p95"]
        return figures
    finally:
        browser.close()
