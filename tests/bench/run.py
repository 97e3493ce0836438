"""Side by side in one run: our instance, an earlier revision of ours, Apache Pulsar. ``make bench ARGS="--rounds 5"``.

``--revision REV`` runs the tree of that revision beside the working tree: the way to see what a change is worth. The
load comes from the working tree for all of them, work by work; every other round reverses their order.

Prints a table of medians and of ours to the others'; it asserts nothing. CPU per entry counts all processes on the
message path (ours: broker and bookie; Apache: the standalone JVM) and is the figure that holds on a noisy machine.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from engine.base.errors import MagnetarError
from tests.bench import loads
from tests.bench.by_turns import deduplicated
from tests.bench.consume import fans
from tests.bench.contenders import Contender, contenders
from tests.bench.figures import Figures, Results, short, table
from tests.bench.schemas import typed

Work = Callable[[Contender], Figures]
FOR_THE_FLOOR = ("publish 1", "publish 6", "one in flight", "official client")
"""Beginnings of names of works for the floor, which answers SENDs and delivers nothing."""


def works(scale: float) -> dict[str, Work]:
    """Return works by name; ``scale`` 1 makes each take seconds."""

    def n(count: int) -> int:
        return max(int(count * scale), 500)

    return {
        "publish 100 B": lambda c: loads.publish(c, 100, n(150_000)),
        "publish 1 KB": lambda c: loads.publish(c, 1024, n(80_000)),
        "publish 64 KB": lambda c: loads.publish(c, 65536, n(4_000), window=100),
        "publish 1 KB, 200 producers × 2": lambda c: loads.publish(c, 1024, n(20_000), 200, 400),
        "publish + consume 1 KB": lambda c: loads.publish_and_consume(c, 1024, n(50_000)),
        "consume backlog 1 KB": lambda c: loads.consume(c, 1024, n(50_000)),
        "consume backlog 1 KB, beyond the caches": lambda c: loads.consume(c, 1024, n(120_000)),
        "Shared, 20 consumers, an ack each": lambda c: fans.shared(c, n(40_000), 20, 1),
        "Shared, 20 consumers, acks of 100": lambda c: fans.shared(c, n(40_000), 20, 100),
        "Key_Shared, 8 consumers, 10,000 keys": lambda c: fans.key_shared(c, n(40_000), 8, 10_000),
        "fan-out 1 to 20": lambda c: fans.fan_out(c, n(20_000), 20),
        "publish 100 B, with deduplication and without": lambda c: deduplicated(c, 100, n(150_000)),
        "publish 1 KB, with deduplication and without": lambda c: deduplicated(c, 1024, n(80_000)),
        "publish 100 B, with a schema and without": lambda c: typed.publish(c, 100, n(150_000)),
        "publish 1 KB, with a schema and without": lambda c: typed.publish(c, 1024, n(80_000)),
        "consume 1 KB of eight schema versions": lambda c: typed.consume(c, 1024, n(50_000)),
        "look a schema version up": lambda c: typed.look_up(c, n(5_000)),
        "one in flight 1 KB": lambda c: loads.one_in_flight(c, 1024, n(2_000)),
        "end to end, 1000/s, 1 KB": lambda c: loads.steady(c, 1024, 1000, max(int(5 * scale), 2)),
        "official client, batched 100 B": lambda c: loads.client_publish(c, 100, n(60_000), True),
        "official client, unbatched 1 KB": lambda c: loads.client_publish(
            c, 1024, n(30_000), False
        ),
    }


def compare(
    works: Callable[[float], dict[str, Work]],
    description: str | None,
    *,
    transactions: bool = False,
) -> None:
    """Run the command line of a bench: ``works`` by scale, on all contenders, round by round. ``transactions``: these
    are enabled."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of each work; 1 takes seconds"
    )
    parser.add_argument(
        "--only",
        default="",
        help="works whose name contains this, or one of several with | between",
    )
    parser.add_argument("--revision", default="", help="beside this git revision of ours")
    parser.add_argument("--alone", action="store_true", help="without Apache, as without floor")
    args = parser.parse_args()
    parts = args.only.split("|")
    chosen = {
        name: work
        for name, work in works(args.scale).items()
        if any(part in name for part in parts)
    }
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        contenders(Path(folder), args.revision, args.alone, transactions=transactions) as running,
    ):
        idle = {c.name: (c.pss_mb(), c.rss_mb()) for c in running}
        results: Results = {}
        for round_number in range(args.rounds + 1):
            for name, work in chosen.items():
                for contender in running if round_number % 2 else running[::-1]:
                    figures = _measured(name, work, contender)
                    if figures and round_number:  # the first round warms all sides up
                        results.setdefault((name, contender.name), {})[round_number] = figures
                        print(
                            f"round {round_number} {name} {contender.name} {short(figures)}",
                            flush=True,
                        )
        mine, *others = (c.name for c in running)
        print("", *table(list(chosen), [mine], others, results), sep="\n")
        _print_processes(running, idle)


def _measured(name: str, work: Work, contender: Contender) -> Figures | None:
    """Return one work's figures, None when it cannot be done there."""
    if contender.name == "floor" and not name.startswith(FOR_THE_FLOOR):
        return None
    try:
        return work(contender)
    except (MagnetarError, RuntimeError, TimeoutError, OSError) as error:
        print(f"{name}: {contender.name} failed: {error!r}", flush=True)
        return None


def _print_processes(
    contenders: list[Contender], idle: dict[str, tuple[float, list[float]]]
) -> None:
    print(
        "\n| | start s | PSS idle MB | RSS idle by process MB | PSS after load MB |\n|---|---|---|---|---|"
    )
    for c in contenders:
        pss, rss = idle[c.name]
        parts = ", ".join(f"{value:.0f}" for value in rss)
        print(f"| {c.name} | {c.start_s:.1f} | {pss:.0f} | {parts} | {c.pss_mb():.0f} |")
    print(f"\nload average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    compare(works, __doc__)
