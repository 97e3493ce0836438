"""Side by side: our instance and Apache Pulsar, interleaved in one run. ``make bench ARGS="--rounds 3"``.

``--base REVISION`` compares with an earlier state of ours instead: the way to see what a change is worth.

Prints a table of medians and of the ratios to the other side; it asserts nothing. CPU per entry counts all processes on
the message path (ours: broker and bookie; Apache: the standalone JVM) and is the figure that holds on a noisy machine.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import loads
from tests.bench.contenders import Contender, both
from tests.bench.loads import Figures

Work = Callable[[Contender], Figures]


def works(scale: float) -> dict[str, Work]:
    """Name to work; ``scale`` 1 makes each take seconds."""

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
        "one in flight 1 KB": lambda c: loads.one_in_flight(c, 1024, n(2_000)),
        "end to end, 1000/s, 1 KB": lambda c: loads.steady(c, 1024, 1000, max(int(5 * scale), 2)),
        "official client, batched 100 B": lambda c: loads.client_publish(c, 100, n(60_000), True),
        "official client, unbatched 1 KB": lambda c: loads.client_publish(
            c, 1024, n(30_000), False
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of each work; 1 takes seconds"
    )
    parser.add_argument("--only", default="", help="run the works whose name contains this")
    parser.add_argument("--base", default="", help="compare with this git revision, not Apache")
    args = parser.parse_args()
    chosen = {name: work for name, work in works(args.scale).items() if args.only in name}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        both(Path(folder), args.base) as contenders,
    ):
        idle = {c.name: (c.pss_mb(), c.rss_mb()) for c in contenders}
        results: dict[tuple[str, str], list[Figures]] = {}
        for round_number in range(args.rounds + 1):
            for name, work in chosen.items():
                for contender in contenders if round_number % 2 else contenders[::-1]:
                    if contender.name == "floor" and ("consume" in name or "end to" in name):
                        continue
                    try:
                        figures = work(contender)
                    except (RuntimeError, TimeoutError, OSError) as error:
                        print(f"{name}: {contender.name} failed: {error!r}", flush=True)
                        continue
                    if round_number:  # the first round warms both sides up
                        results.setdefault((name, contender.name), []).append(figures)
                        print(
                            f"round {round_number} {name} {contender.name} {_short(figures)}",
                            flush=True,
                        )
        _print_table(list(chosen), contenders, results)
        _print_processes(contenders, idle)


def _short(figures: Figures) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in figures.items())


def _print_table(
    names: list[str], contenders: list[Contender], results: dict[tuple[str, str], list[Figures]]
) -> None:
    first, other = contenders
    print(f"\n| work | figure | {first.name} | {other.name} | ratio |\n|---|---|---|---|---|")
    for name in names:
        mine, theirs = (results.get((name, c.name), []) for c in contenders)
        if not mine:
            continue
        left, right = loads.medians(mine), loads.medians(theirs) if theirs else {}
        for figure, value in left.items():
            there = right.get(figure)
            ratio = f"{value / there:.2f}" if there else "–"
            print(
                f"| {name} | {figure} | {value:.4g} | {there if there is None else f'{there:.4g}'} | {ratio} |"
            )


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
    main()
