"""Large works: ten thousand idle sockets, a namespace of a hundred thousand topics. Each is measured once."""

import asyncio
import itertools

from kazoo.client import KazooClient

from engine.metadata import paths
from tests.bench.figures import medians
from tests.bench.gateway.http_client import Pool, build_request
from tests.bench.gateway.measuring import Meter, Row, Rows, Run, Work
from tests.bench.gateway.sides import Side
from tests.bench.gateway.websocket import Sockets

IDLE_SOCKETS = 10_000
OPENED_AT_ONCE = 50
IDLE_TOPICS = 100
IDLE_S = 5.0
SOURCES = [f"127.0.0.{i}" for i in range(1, 5)]
"""A source address has 28,000 ports by default, and waits a minute before it uses one again."""
TOPICS = 100_000
LISTS = 5
NOTICE_S = 12.0
CALM_S = 2.0
MANY = "bench-many"
TENANTS = build_request("GET", "/admin/v2/tenants")


def works(scale: float) -> dict[str, Work]:
    """Return the works by name; ``scale`` 1 for the sizes above."""
    sockets, topics = max(int(IDLE_SOCKETS * scale), 200), max(int(TOPICS * scale), 1000)
    idle, many = f"{sockets:,} idle sockets", f"GET list of {topics:,} topics"
    return {
        idle: Work(_idle(idle, sockets), limit_s=900, once=True),
        many: Work(_many(many, topics), (), limit_s=300, once=True),
    }


def _idle(row: str, count: int) -> Run:
    """Half of them producers, half consumers of shared subscriptions, in a gateway that has just started."""

    async def run(side: Side) -> Rows:
        side.restart_gateway()
        async with Sockets(side, IDLE_TOPICS) as work:
            await _opened(work, 2 * IDLE_TOPICS)
            before, meter = side.pss_kb(), Meter(side)
            await _opened(work, count)
            await meter.settle()
            opening = meter.each(count, 1e3)
            after, meter = side.pss_kb(), Meter(side)
            await work.hold(IDLE_S)
            meter.stop()
            grown = {name: (after[name] - kb) / count for name, kb in before.items()}
            figures = {
                "KB/socket, gateway": next(iter(grown.values())),
                "KB/socket, all": sum(grown.values()),
                "CPU ms/handshake": sum(opening.values()),
                "idle CPU % of a core": sum(meter.cpu.values()) / meter.seconds * 100,
            }
            return {row: Row(figures, opening, meter.load)}

    return run


async def _opened(work: Sockets, count: int) -> None:
    """Open so many more, some at a time."""
    numbers = iter(range(count))

    async def open_some() -> None:
        for i in numbers:
            topic = work.topics[i // 2 % len(work.topics)]
            source = SOURCES[i % len(SOURCES)]
            if i % 2:
                await work.consumer(topic, "?subscriptionType=Shared", source)
            else:
                await work.producer(topic, 0, source=source)

    async with asyncio.TaskGroup() as group:
        for _ in range(OPENED_AT_ONCE):
            group.create_task(open_some())


def _many(row: str, count: int) -> Run:
    """Lists in one piece, while another connection asks one thing after another."""

    async def run(side: Side) -> Rows:
        where = side.namespace(MANY)
        request = build_request("GET", f"/admin/v2/persistent/{where}")
        async with Pool(side.http, 1) as lists, Pool(side.http, 1) as others:
            rows = {f"{row}, while they appear": await _appearing(side, others, where, count)}
            alone = (await others.run(itertools.repeat(TENANTS), CALM_S)).request_s
            rows[f"{row}, first"] = await _listed(side, lists, others, request)
            again = [await _listed(side, lists, others, request) for _ in range(LISTS)]
            await others.run([build_request("PUT", f"/admin/v2/persistent/{where}/t-new")])
            rows[f"{row}, after a change"] = await _listed(side, lists, others, request)
        rows[f"{row}, unchanged"] = _middle(again)
        rows[f"{row}, unchanged"].figures["longest request without a list ms"] = max(alone) * 1e3
        return rows

    return run


async def _appearing(side: Side, others: Pool, namespace: str, count: int) -> Row:
    """Measure a gateway without requests for the topics: while they are created, and some seconds after that."""
    meter = Meter(side)
    making = asyncio.get_running_loop().create_task(
        asyncio.to_thread(make_topics, side, namespace, count)
    )
    waited: list[float] = []
    while not making.done():
        waited += (await others.run(itertools.repeat(TENANTS), 0.1)).request_s
    await making
    waited += (await others.run(itertools.repeat(TENANTS), NOTICE_S)).request_s
    meter.stop()
    parts = meter.each(1, 1e3)
    figures = {
        "longest other request ms": max(waited) * 1e3,
        "CPU ms, others included": sum(parts.values()),
    }
    return Row(figures, parts, meter.load)


async def _listed(side: Side, lists: Pool, others: Pool, request: bytes) -> Row:
    meter = Meter(side)
    listing = asyncio.get_running_loop().create_task(lists.run([request]))
    waited: list[float] = []
    while not listing.done():
        waited += (await others.run([TENANTS])).request_s
    taken = await listing
    await meter.settle()
    parts = meter.each(1, 1e3)
    figures = {
        "first byte ms": taken.first_byte * 1e3,
        "last byte ms": taken.seconds * 1e3,
        "longest other request ms": max(waited) * 1e3,
        "CPU ms, others included": sum(parts.values()),
        "MB": len(taken.body) / 1e6,
    }
    return Row(figures, parts, meter.load)


def _middle(rows: list[Row]) -> Row:
    """Medians, but the longest of all waits."""
    figures = medians([row.figures for row in rows])
    longest = "longest other request ms"
    figures[longest] = max(row.figures[longest] for row in rows)
    return Row(figures, medians([row.parts for row in rows]), max(row.load for row in rows))


def make_topics(side: Side, namespace: str, count: int) -> None:
    """Topics as brokers find them that were made and never loaded: a node each. REST would take half an hour."""
    assert side.instance is not None
    client = KazooClient(f"127.0.0.1:{side.instance.ports['ZOOKEEPER']}")
    client.start(timeout=20)
    try:
        parent = paths.managed_ledgers(namespace)
        client.ensure_path(parent)
        for first in range(0, count, 1000):
            transaction = client.transaction()
            for i in range(first, min(first + 1000, count)):
                transaction.create(f"{parent}/t-{i:06}", b"")
            for result in transaction.commit():
                if isinstance(result, Exception):
                    raise RuntimeError(f"topics cannot be made: {result!r}")
    finally:
        client.stop()
        client.close()
