"""Works of several systems on one machine, by turns: ``python -m tests.bench.systems [--only "100 B|flight"]``.

Each system has its own load program, on the same machine. Kafka, NATS and Redis are measured in two ways: synced to
disk before the receipt, as Magnetar always is, and with their defaults. A system whose programs are missing is left
out, with the way to get them. Prints medians of the rounds and asserts nothing.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from tests.bench.contenders import apache, apache_missing, ours
from tests.bench.figures import Results, cell, short
from tests.bench.systems.kafka import kafka
from tests.bench.systems.nats import nats
from tests.bench.systems.pulsar import pulsar_side
from tests.bench.systems.redis import redis
from tests.bench.systems.sides import MissingError, Side

WORKS = {
    "publish 100 B": 400_000,
    "publish 1 KB": 100_000,
    "publish 1 KB, no batches": 50_000,
    "one in flight 1 KB": 2_000,
    "consume 1 KB": 50_000,
}
"""Messages of each work."""
FIGURES = ("messages/s", "mean ms", "CPU µs/message")


@contextmanager
def magnetar(work: Path) -> Iterator[list[Side]]:
    with ours(work) as contender:
        yield [pulsar_side(contender, "Magnetar")]


@contextmanager
def apache_pulsar(work: Path) -> Iterator[list[Side]]:
    if (reason := apache_missing()) is not None:
        raise MissingError(reason)
    with apache(work) as contender:
        yield [pulsar_side(contender, "Apache Pulsar")]


SYSTEMS: dict[str, Callable[[Path], AbstractContextManager[list[Side]]]] = {
    "magnetar": magnetar,
    "pulsar": apache_pulsar,
    "kafka": kafka,
    "nats": lambda work: nats(work, "not synced", "2m", 1.0),
    "nats-synced": lambda work: nats(work, "synced", "always", 0.02),
    "redis": lambda work: redis(work, "each second", "everysec", 1.0),
    "redis-synced": lambda work: redis(work, "synced", "always", 1.0),
}


def started(stack: ExitStack, folder: Path, names: list[str]) -> list[Side]:
    """Return the sides of the systems that can be had, and print what the others lack."""
    sides: list[Side] = []
    for name in names:
        work = folder / name
        work.mkdir()
        try:
            sides += stack.enter_context(SYSTEMS[name](work))
        except MissingError as error:
            print(f"{name} is left out: {error}", flush=True)
    return sides


def table(figure: str, works: list[str], sides: list[Side], results: Results) -> Iterator[str]:
    """Yield lines of Markdown: the medians of a figure by side and work, with the lowest and highest of the rounds."""
    shown = [
        work
        for work in works
        if any(figure in f for side in sides for f in results.get((work, side.name), {}).values())
    ]
    yield f"| {figure} | {' | '.join(shown)} |"
    yield "|" + "---|" * (1 + len(shown))
    for side in sides:
        cells = [cell(figure, results.get((work, side.name), {})) for work in shown]
        yield f"| {side.name} | {' | '.join(cells)} |"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument("--scale", type=float, default=1.0, help="size of each work")
    parser.add_argument("--only", default="", help="parts of names of works, with | between")
    parser.add_argument("--systems", default="|".join(SYSTEMS), help="names, with | between")
    args = parser.parse_args()
    works = [name for name in WORKS if any(part in name for part in args.only.split("|"))]
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        sides = started(stack, Path(folder), args.systems.split("|"))
        idle = {side.name: side.pss_mb() for side in sides}
        for number in range(args.rounds + 1):
            for work in works:
                for side in sides if number % 2 else sides[::-1]:
                    if work not in side.works:
                        continue
                    try:
                        figures = side.run(work, int(WORKS[work] * args.scale))
                    except (RuntimeError, OSError, TimeoutError) as error:
                        print(f"{work}: {side.name} failed: {error}", flush=True)
                        continue
                    if number:  # the first round warms all sides up
                        results.setdefault((work, side.name), {})[number] = figures
                        print(f"round {number} {work} {side.name} {short(figures)}", flush=True)
        for figure in FIGURES:
            print("", *table(figure, works, sides, results), sep="\n")
        print("\n| | start s | memory at rest MB | memory after load MB |\n|---|---|---|---|")
        for side in sides:
            row = f"{side.start_s:.2f} | {idle[side.name]:.0f} | {side.pss_mb():.0f}"
            print(f"| {side.name} | {row} |")
        print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
