"""Many topics, many connections, failover. ``python -m tests.bench.topics [--only PART]``, where the parts are topics,
known, connections, failover, rolling, balance and cores.

Topics are made, used, and served again after a clean stop and a ``kill -9`` (Apache's standalone is not restarted);
thousands of connections come to one topic; and, in an instance with two brokers, how long a producer pauses whose
broker dies; with three brokers, what clients see of a rolling restart, and how long the topics of a killed broker are
not served; and how long they take to share a load that one of them had alone; and what one and
two brokers take that share the cores.

``--revision REV`` runs the tree of that revision of ours beside the working tree, by turns. CPU is that
of all processes of a side. It asserts nothing.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from engine.base.errors import MagnetarError
from tests.bench.figures import Results, short
from tests.bench.gateway.__main__ import Parts, print_tables
from tests.bench.gateway.measuring import Rows
from tests.bench.gateway.sides import Options, Side, sides
from tests.bench.topics.balance import balanced
from tests.bench.topics.connecting import connecting
from tests.bench.topics.cores import shared_cores
from tests.bench.topics.failover import gaps
from tests.bench.topics.known import known
from tests.bench.topics.loading import loading
from tests.bench.topics.rolling import leaving

TOPICS = 2_000
ENTRIES_PER_S = 60_000.0
PARTS = ("topics", "known", "connections", "failover", "rolling", "balance", "cores")
ALONE = {"failover", "rolling", "balance", "cores"}
"""Parts with instances of their own."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help=f"1: {TOPICS} topics")
    parser.add_argument("--without-apache", action="store_true")
    parser.add_argument("--revision", default="", help="beside this git revision of ours")
    parser.add_argument("--only", choices=PARTS)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children inherit it
    chosen = PARTS if args.only is None else (args.only,)
    if not ALONE.issuperset(chosen):
        results: Results = {}
        parts: Parts = {}
        options, beside_apache = [Options()], not args.without_apache
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
            sides(Path(folder), options, args.revision, beside_apache, False) as running,
        ):
            try:
                for number in range(args.rounds):
                    for side in running if number % 2 else running[::-1]:
                        _round(side, chosen, args.scale, number, results, parts)
            finally:
                print_tables(running, results, parts)
                print(f"\nLoad average {os.getloadavg()[0]:.1f}")
    if "failover" in chosen:
        for revision in dict.fromkeys(("", args.revision)):
            print(f"failover {revision or 'ours'}: {short(gaps(revision))}", flush=True)
    if "rolling" in chosen:
        topics = max(int(TOPICS * args.scale), 10)
        for revision in dict.fromkeys(("", args.revision)):
            print(f"rolling {revision or 'ours'}: {short(leaving(topics, revision))}", flush=True)
    if "cores" in chosen:
        for number in range(args.rounds):
            for brokers in (1, 2):
                print(f"cores {number + 1}: {short(shared_cores(brokers))}", flush=True)
    if "balance" in chosen:
        print(f"balance: {short(balanced(ENTRIES_PER_S * args.scale))}", flush=True)


def _round(
    side: Side, chosen: Sequence[str], scale: float, number: int, results: Results, parts: Parts
) -> None:
    rows: Rows = {}
    works = {
        "connections": partial(connecting, side, scale, number),
        "known": partial(known, side, scale, number),
        "topics": partial(loading, side, max(int(TOPICS * scale), 10), number),
    }
    for part, work in works.items():
        if part in chosen:
            try:
                rows |= asyncio.run(work())
            except* (MagnetarError, RuntimeError, OSError, ValueError) as failed:
                print(f"{part}: {side.name} failed: {failed.exceptions[0]!r}", flush=True)
    for row, measured in rows.items():
        print(f"{number} {row} {side.name} {short(measured.figures)}", flush=True)
        results.setdefault((row, side.name), {})[number] = measured.figures
        parts.setdefault((row, side.name), {})[number] = measured.parts


if __name__ == "__main__":
    main()
