"""Thousands of versions of one topic's schema, over a real bookie: what each thing done with them takes.

Run: python -m tests.bench.schemas.many_versions [--versions 10000]

CPU is this process's, broker and bookie together. ``held up`` is the longest that the event loop stood still meanwhile,
which is what other topics notice; a busy machine adds its own. Memory is what tracemalloc finds.
"""

import argparse
import asyncio
import json
import logging
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from engine.base.clock import SystemClock
from engine.base.names import TopicName
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.schema.kinds import Schema, SchemaKind
from engine.schema.locator import (
    Registered,
    SchemaVersion,
    digest_of,
    entry,
    locator,
    parse_locator,
)
from engine.schema.schema_registry import SchemaRegistry, schema_id
from engine.tenancy.strategy import Strategy
from tests.support.ledger_cluster import Cluster, run_of

TOPIC = TopicName.parse("persistent://public/default/many")
TICK_S = 0.001


def definition(number: int) -> Schema:
    """Eight fields that need not be there, 500 bytes."""
    names = [f"f{number}_{i}" for i in range(8)]
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    document = {"type": "record", "name": "Many", "fields": fields}
    return Schema(SchemaKind.AVRO, json.dumps(document).encode(), {})


async def fill(cluster: Cluster, versions: int) -> None:
    """List ``versions`` versions; the additional ones are in one ledger, which is not read."""
    path = paths.schema(schema_id(TOPIC))
    _, listed = parse_locator((await cluster.store.get(path))[0])
    writer = await cluster.client().create(1, 1, 1)
    payloads = []
    for entry_id, number in enumerate(range(len(listed), versions)):
        schema = definition(number)
        listed.append(SchemaVersion(number, writer.ledger_id, entry_id, digest_of(schema)))
        payloads.append(entry(schema_id(TOPIC), Registered(schema, 1), listed[:1]))
    for start in range(0, len(payloads), 100):
        writer.append(run_of(*payloads[start : start + 100]))
    await writer.close()
    await cluster.store.put(path, locator(listed))


class Held:
    """The longest pause of the event loop, in seconds."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - began - TICK_S)


async def measured(what: str, times: int, work: Callable[[], Awaitable[Any]]) -> None:
    held = Held()
    watching = asyncio.ensure_future(held.watch())
    cpu, began = time.process_time(), time.perf_counter()
    for _ in range(times):
        await work()
    cpu, took = (time.process_time() - cpu) / times, (time.perf_counter() - began) / times
    await asyncio.sleep(2 * TICK_S)
    watching.cancel()
    print(
        f"| {what} | {took * 1e3:.3g} | {cpu * 1e3:.3g} | {held.longest_s * 1e3:.0f} |", flush=True
    )


async def main(versions: int) -> None:
    with tempfile.TemporaryDirectory(prefix="versions-") as folder:
        cluster = Cluster(Path(folder))
        await cluster.start("b0")
        config = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)

        def registry() -> SchemaRegistry:
            return SchemaRegistry(cluster.store, cluster.client(), config, SystemClock())

        ours = registry()
        numbers = iter((*range(100), *range(versions - 100, versions)))

        async def register() -> None:
            number = next(numbers)
            assert await ours.register(TOPIC, definition(number), Strategy.FULL) == number

        print("| of one topic | ms | CPU ms | held up ms |\n|---|---|---|---|")
        await measured("registering one of the first 100", 100, register)
        await fill(cluster, versions - 100)
        ours = registry()
        await measured(f"the first new one after a start, {versions - 100} before it", 1, register)
        await measured("registering one of the last 98", 98, register)
        again = definition(versions // 2)
        await measured("a known one", 20, lambda: ours.register(TOPIC, again, Strategy.FULL))
        await measured("a lookup by version", 20, lambda: ours.get(TOPIC, 7))
        await measured("listing them", 1, lambda: ours.versions(TOPIC))
        other = definition(versions)
        transitive = Strategy.FULL_TRANSITIVE
        await measured("a verdict on all", 1, lambda: ours.refusal(TOPIC, other, transitive))
        tracemalloc.start()
        fresh = registry()
        await measured("all read again, traced", 1, lambda: fresh.versions(TOPIC))
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"\nkept in memory {kept / 1e6:.1f} MB, at most {peak / 1e6:.1f} MB")
        await cluster.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=10_000)
    logging.disable(logging.INFO)
    asyncio.run(main(parser.parse_args().versions))
