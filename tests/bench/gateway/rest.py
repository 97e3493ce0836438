"""REST: one request at a time on 1 and on 16 connections that stay open."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator

from tests.bench.gateway.http_client import Pool, Taken, build_request
from tests.bench.gateway.measuring import Meter, Row, Rows, Run, Work, latency
from tests.bench.gateway.sides import Side
from tests.support.access.callers import SUPERUSER

WARM_S = 0.7
SECONDS = 3.0
LISTED = 1000
CHANGES_MAX = 2000
_names = itertools.count(int(time.time()) % 1_000_000 * 1_000_000)


def works(scale: float) -> dict[str, Work]:
    """Return the works by name; ``scale`` 1 makes each take seconds."""
    seconds = max(SECONDS * scale, 0.2)
    chosen: dict[str, Work] = {}
    for connections in (1, 16):
        for name, (setup, sides) in READS.items():
            row = f"{name}, {connections}"
            chosen[row] = Work(_reading(row, setup, connections, seconds), sides)
        chosen[f"PUT and DELETE topic, {connections}"] = Work(_changing(connections, seconds))
    return chosen


def _tenants(_: Side) -> str:
    return "/admin/v2/tenants"


def _policies(_: Side) -> str:
    return "/admin/v2/namespaces/public/default"


def _lookup(side: Side) -> str:
    return f"/lookup/v2/topic/persistent/{_subscribed(side)}"


def _stats(side: Side) -> str:
    return f"/admin/v2/persistent/{_subscribed(side)}/stats"


def _subscribed(side: Side) -> str:
    """Return a loaded topic with one subscription, created at the first call."""
    topic = "public/default/bench-read"
    if topic not in side.prepared:
        side.ask("PUT", f"/admin/v2/persistent/{topic}", allowed=(409,))
        side.ask("PUT", f"/admin/v2/persistent/{topic}/subscription/s", allowed=(409,))
        side.ask("GET", f"/lookup/v2/topic/persistent/{topic}")
        side.prepared.add(topic)
    return topic


def _list(side: Side) -> str:
    return f"/admin/v2/persistent/{side.namespace('bench-list')}"


READS = {
    "GET tenants": (_tenants, ("apache", "floor")),
    "GET namespace policies": (_policies, ("apache",)),
    "lookup": (_lookup, ("apache",)),
    "GET topic stats": (_stats, ("apache",)),
    f"GET list of {LISTED:,} topics": (_list, ("apache",)),
}


def _row(meter: Meter, taken: Taken) -> Row:
    parts = meter.each(len(taken.request_s), 1e3)
    rate = {
        "requests/s": len(taken.request_s) / taken.seconds,
        "CPU ms/request": sum(parts.values()),
    }
    return Row(rate | latency(taken.request_s), parts, meter.load)


def _reading(row: str, path: Callable[[Side], str], connections: int, seconds: float) -> Run:
    async def run(side: Side) -> Rows:
        target = path(side)
        request = build_request("GET", target, token=_token(side, target))
        if path is _list:
            await _fill(side)
        async with Pool(side.http, connections) as pool:
            await pool.run(itertools.repeat(request), WARM_S)
            meter = Meter(side)
            taken = await pool.run(itertools.repeat(request), seconds)
            await meter.settle()
        if path is _list and taken.body.count(b"persistent://") != LISTED:
            raise RuntimeError(f"the list has {taken.body.count(b'persistent://')} topics")
        return {row: _row(meter, taken)}

    return run


async def _fill(side: Side) -> None:
    """Create a thousand topics in the namespace of the list, the first time."""
    if "list" in side.prepared:
        return
    where = side.namespace("bench-list")
    async with Pool(side.http, 16) as pool:
        await pool.run(_each(side, "PUT", where, [f"t-{i:04}" for i in range(LISTED)]), 110)
    side.prepared.add("list")


def _token(side: Side, path: str) -> str:
    """Return the token of a caller of ``path``: where that is enough, an administrator of the tenant ``public``."""
    if path == "/admin/v2/tenants":
        return side.token(SUPERUSER)
    if side.identity and "administrator" not in side.prepared:
        info = {"adminRoles": ["app"], "allowedClusters": ["standalone"]}
        side.ask("POST", "/admin/v2/tenants/public", info)
        side.prepared.add("administrator")
    return side.token("app")


def _each(side: Side, method: str, namespace: str, topics: Iterable[str]) -> Iterator[bytes]:
    """Yield a request of this method for each topic."""
    for topic in topics:
        path = f"/admin/v2/persistent/{namespace}/{topic}"
        yield build_request(method, path, token=_token(side, path))


def _changing(connections: int, seconds: float) -> Run:
    """Topics are made for ``seconds``, then all of them are deleted."""

    async def run(side: Side) -> Rows:
        where = side.namespace("bench-changes")
        made: list[str] = []

        def new() -> Iterator[str]:
            for _ in range(CHANGES_MAX):
                made.append(f"t-{next(_names)}")
                yield made[-1]

        async with Pool(side.http, connections) as pool:
            await pool.run(_each(side, "PUT", where, new()), WARM_S)
            await pool.run(_each(side, "DELETE", where, made), 30)
            made.clear()
            putting = Meter(side)
            put = await pool.run(_each(side, "PUT", where, new()), seconds)
            await putting.settle()
            deleting = Meter(side)
            deleted = await pool.run(_each(side, "DELETE", where, made), 60)
            await deleting.settle()
        if len(deleted.request_s) != len(made):
            raise RuntimeError(
                f"{len(deleted.request_s)} of {len(made)} topics were deleted in time"
            )
        return {
            f"PUT topic, {connections}": _row(putting, put),
            f"DELETE topic, {connections}": _row(deleting, deleted),
        }

    return run
