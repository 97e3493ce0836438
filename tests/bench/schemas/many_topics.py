"""Thousands of topics with a schema of their own each, and as many without: what a topic takes of CPU and memory.

Run: python -m tests.bench.schemas.many_topics [--topics 10000] [--apache] [--shared]

A producer is opened on each topic, first when nothing of it is there, then when it is stored and the server was started
again (ours only). CPU is that of the processes on the message path for each topic, memory the growth of their private
and shared pages. ``--shared``: all topics have one definition.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine.wire import pulsar_pb2 as pb
from tests.bench import raw
from tests.bench.contenders import Contender, apache
from tests.bench.schemas.typed import record
from tests.support.instance import Instance, running_instance

LINKS = 8
LOOKED_UP = 50
AT_ONCE = 8
ROUNDS = 2
SETTLES_S = 3.0


async def opened(url: str, topics: list[tuple[str, pb.Schema | None]]) -> list[raw.Link]:
    """Open a producer on each topic, over some connections that stay open."""
    for topic, _ in topics[:LOOKED_UP]:  # so that the broker has all bundles
        (await raw.connect(url, topic)).close()
    links = [await raw.connect(url, topics[0][0]) for _ in range(LINKS)]
    left: Iterator[tuple[int, tuple[str, pb.Schema | None]]] = enumerate(topics, 1)

    async def worker(number: int) -> None:
        for producer_id, (topic, schema) in left:
            version = await raw.open_producer(links[number % LINKS], topic, producer_id, schema)
            if (schema is None) == bool(version):
                raise RuntimeError(f"{topic}: schema version {version!r}")

    await asyncio.gather(*map(worker, range(AT_ONCE)))
    return links


def topics_of(
    count: int, what: str, typed: bool, shared: bool
) -> list[tuple[str, pb.Schema | None]]:
    names = [f"persistent://public/default/{what}-{i:06d}" for i in range(count)]
    return [
        (name, record("all" if shared else f"t{i}") if typed else None)
        for i, name in enumerate(names)
    ]


def measured(contender: Contender, topics: list[tuple[str, pb.Schema | None]]) -> tuple[float, ...]:
    """CPU ms, wall ms and KB of memory for each topic; of ours the broker's memory alone, in which topics are."""

    async def work() -> tuple[float, float, float]:
        memory, cpu, began = contender.rss_mb()[0], contender.cpu_s(), time.perf_counter()
        links = await opened(contender.url, topics)
        took, cpu = time.perf_counter() - began, contender.cpu_s() - cpu
        await asyncio.sleep(SETTLES_S)
        grown = contender.rss_mb()[0] - memory
        for link in links:
            link.close()
        return cpu / len(topics) * 1e3, took / len(topics) * 1e3, grown / len(topics) * 1024

    return asyncio.run(work())


def restarted(instance: Instance) -> Contender:
    """Restart our broker; the bookie and the metadata stay."""
    instance.control("kill", "broker-1")
    instance.control("start", "broker-1")
    instance.wait_running("broker-1")
    return of(instance)


def of(instance: Instance) -> Contender:
    pids = [instance.child(name)["pid"] for name in ("broker-1", "bookie-1")]
    return Contender("ours", instance.url, pids, 0.0, instance.http)


def print_row(what: str, typed: bool, rows: list[tuple[float, ...]]) -> None:
    cpu, took, memory = (statistics.median(column) for column in zip(*rows, strict=True))
    name = "one schema each" if typed else "no schema"
    print(f"| {what} | {name} | {cpu:.2f} | {took:.2f} | {memory:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--apache", action="store_true", help="Apache Pulsar alone, instead of us")
    parser.add_argument("--shared", action="store_true", help="one definition for all topics")
    args = parser.parse_args()
    per_round = args.topics // ROUNDS
    print(f"| {args.topics} topics | | CPU ms/topic | ms/topic | KB/topic |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="topics-") as folder:
        made: dict[bool, list[tuple[float, ...]]] = {True: [], False: []}
        turns = [
            (i, typed) for i in range(ROUNDS) for typed in ((True, False), (False, True))[i % 2]
        ]
        lists = {
            (i, typed): topics_of(per_round, f"{typed}-{i}", typed, args.shared)
            for i, typed in turns
        }
        if args.apache:
            with apache(Path(folder)) as contender:
                measured(contender, topics_of(50, "warm", True, args.shared))
                for turn in turns:
                    made[turn[1]].append(measured(contender, lists[turn]))
                for typed, figures in made.items():
                    print_row("created", typed, figures)
            return
        with running_instance(Path(folder)) as instance:
            measured(of(instance), topics_of(50, "warm", True, args.shared))
            for turn in turns:
                made[turn[1]].append(measured(of(instance), lists[turn]))
            loaded: dict[bool, list[tuple[float, ...]]] = {True: [], False: []}
            for turn in turns:  # each in a process that has nothing yet
                contender = restarted(instance)
                measured(contender, topics_of(50, "warm", True, args.shared))
                loaded[turn[1]].append(measured(contender, lists[turn]))
            for what, results in (("created", made), ("loaded", loaded)):
                for typed, figures in results.items():
                    print_row(what, typed, figures)


if __name__ == "__main__":
    main()
