"""Replication between two clusters of ours, and beside it between two of Apache's: ``python -m tests.bench.geo``.

The sides take turns for each work, every other round in reverse order. Prints a table of medians; asserts nothing.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine.base.errors import MagnetarError
from tests.bench.contenders import apache_missing
from tests.bench.figures import Figures, Results, short, table
from tests.bench.geo import works
from tests.bench.geo.pairs import Pair, apache_pair, our_pair

Work = Callable[[Pair], Figures]
ALONE = "ours alone: "
"""Beginning of the names of works that Apache's clusters have no links for."""


def named(scale: float) -> dict[str, Work]:
    """Return works by name; ``scale`` 1 makes each take seconds."""

    def n(count: int) -> int:
        return max(int(count * scale), 500)

    seconds = max(int(5 * scale), 2)
    return {
        "one topic, 100 B": lambda p: works.flow(p, 100, n(60_000)),
        "one topic, 1 KB": lambda p: works.flow(p, 1024, n(40_000)),
        "one topic, 64 KB": lambda p: works.flow(p, 65536, n(3_000)),
        "100 topics, 1 KB": lambda p: works.flow(p, 1024, n(40_000), topics=100),
        "added, 100 B": lambda p: works.added(p, 100, n(60_000)),
        "added, 1 KB": lambda p: works.added(p, 1024, n(40_000)),
        "delay at 2,000/s, 1 KB": lambda p: works.steady(p, 1024, 2_000, seconds),
        f"{ALONE}delay at 2,000/s, 1 KB, round trip 100 ms": lambda p: works.steady(
            p, 1024, 2_000, seconds, 0.05
        ),
        f"{ALONE}a backlog, 1 KB": lambda p: works.drain(p, 1024, n(2_000_000)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.geo", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument("--scale", type=float, default=1.0, help="size of each work")
    parser.add_argument("--only", default="", help="works whose name contains this, or one of a|b")
    parser.add_argument("--alone", action="store_true", help="without Apache")
    args = parser.parse_args()
    parts = args.only.split("|")
    chosen = {
        name: work
        for name, work in named(args.scale).items()
        if any(part in name for part in parts)
    }
    missing = None if args.alone else apache_missing()
    if missing:
        print(f"Apache Pulsar is not at hand ({missing})", flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        pairs = [stack.enter_context(our_pair(Path(folder)))]
        if not args.alone and missing is None:
            pairs.append(stack.enter_context(apache_pair(Path(folder))))
        results: Results = {}
        for number in range(args.rounds + 1):
            for name, work in chosen.items():
                for pair in pairs if number % 2 else pairs[::-1]:
                    if pair.links is None and name.startswith(ALONE):
                        continue
                    try:
                        figures = work(pair)
                    except (MagnetarError, RuntimeError, TimeoutError, OSError) as error:
                        print(f"{name}: {pair.name} failed: {error!r}", flush=True)
                        continue
                    if number or not args.rounds:  # the first round warms all sides up
                        results.setdefault((name, pair.name), {})[number] = figures
                        print(f"round {number} {name} {pair.name} {short(figures)}", flush=True)
        others = [pair.name for pair in pairs[1:]]
        print("", *table(list(chosen), ["ours"], others, results), sep="\n")
        print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
