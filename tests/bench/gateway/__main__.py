"""The gateway beside Apache's, REST and WebSocket, by turns in one run. ``python -m tests.bench.gateway --rounds 3``.

``--revision REV`` runs the tree of that revision of ours beside the working tree, ``--identity`` ours with tokens and
rights, ``--floor`` an empty ASGI application under the same server: what of each request is the server's own. The load
comes from the working tree for all of them, work by work; every other round turns their order round. Before each figure
its load runs for a moment (Apache's JVM compiles), and a whole round before the first that counts.

CPU is that of all processes of a side: ours ZooKeeper, Redis, bookie, broker and gateway, Apache's one JVM. It asserts
nothing, and takes minutes: about 10 s for each work, side and round.
"""

import argparse
import asyncio
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.base.errors import MagnetarError
from tests.bench.figures import Results, Rounds, medians, short, table
from tests.bench.gateway import large, rest, websocket
from tests.bench.gateway.measuring import Rows, Work
from tests.bench.gateway.sides import COUNTED, Options, Side, sides

Parts = dict[tuple[str, str], Rounds]
SERVERS = ("daphne", "uvicorn")


def works(scale: float) -> dict[str, Work]:
    """Return the works by name, in the order of the table."""
    return rest.works(scale) | websocket.works(scale) | large.works(scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="after one to warm up")
    parser.add_argument("--scale", type=float, default=1.0, help="length of each work; 1: seconds")
    parser.add_argument(
        "--rows",
        default="",
        help="works whose name contains this, or one of several with | between",
    )
    parser.add_argument(
        "--server",
        choices=(*SERVERS, "both"),
        default="daphne",
        help="of ours; both: an instance each",
    )
    parser.add_argument("--gateways", type=int, default=1, help="gateway processes of ours")
    parser.add_argument("--without-apache", action="store_true")
    parser.add_argument("--revision", default="", help="beside this git revision of ours")
    parser.add_argument(
        "--identity", action="store_true", help="beside ours with tokens and rights; REST only"
    )
    parser.add_argument("--floor", action="store_true", help="beside an empty ASGI application")
    args = parser.parse_args()
    servers = SERVERS if args.server == "both" else (args.server,)
    options = [
        Options(server, args.gateways, identity)
        for server in servers
        for identity in ((False, True) if args.identity else (False,))
    ]
    wanted = args.rows.split("|")
    chosen = {
        name: work
        for name, work in works(args.scale).items()
        if any(part in name for part in wanted)
    }
    if not chosen:
        parser.error(f"--rows: none of {', '.join(works(args.scale))}")
    # Processes that were started are also stopped when this one receives SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children inherit it
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        sides(Path(folder), options, args.revision, not args.without_apache, args.floor) as running,
    ):
        results: Results = {}
        parts: Parts = {}
        try:
            measure(chosen, running, args.rounds, results, parts)
        finally:  # the results so far, also after SIGTERM
            print_tables(running, results, parts)
            print(f"\nGateways: {args.gateways}, load average {os.getloadavg()[0]:.1f}")


def print_tables(running: list[Side], results: Results, parts: Parts) -> None:
    """Print the tables."""
    rows = list(dict.fromkeys(row for row, _ in results))
    names = [side.name for side in running]
    mine = [name for name in names if name.startswith("ours ")]
    floors = [name for name in names if name.startswith("floor ")]
    others = [name for name in names if name not in (*mine, *floors)]
    print("", *table(rows, mine, others, results, floors), sep="\n")
    print("\nCPU of ours by process, in the unit of the row:\n")
    print(*split(rows, running, parts), sep="\n", flush=True)


def measure(
    chosen: dict[str, Work], running: list[Side], count: int, results: Results, parts: Parts
) -> None:
    """Run every work on every side ``count`` times after one to warm up; last, those that run once."""
    often = {name: work for name, work in chosen.items() if not work.once}
    once = {name: work for name, work in chosen.items() if work.once}
    for number in range(count + 2 if once else count + 1):
        for name, work in (often if number <= count else once).items():
            for side in running if number % 2 else running[::-1]:
                if side.instance is None and side.name.partition(" ")[0] not in work.sides:
                    continue
                for row, measured in taken(name, work, side).items():
                    text = f"{short(measured.figures)} (load {measured.load:.0%} of a core)"
                    print(f"{number} {row} {side.name} {text}", flush=True)
                    if number:
                        results.setdefault((row, side.name), {})[number] = measured.figures
                        parts.setdefault((row, side.name), {})[number] = measured.parts


def split(rows: Sequence[str], running: Sequence[Side], parts: Parts) -> Iterator[str]:
    """Yield lines of Markdown: medians of the CPU of each kind of process, for the sides that are ours."""
    yield f"| work | | {' | '.join(COUNTED)} |"
    yield "|" + "---|" * (2 + len(COUNTED))
    for row in rows:
        for side in running:
            if side.instance is not None and (numbered := parts.get((row, side.name))):
                middle = medians(list(numbered.values()))
                cells = " | ".join(f"{middle[name]:.3g}" for name in COUNTED)
                yield f"| {row} | {side.name} | {cells} |"


def taken(name: str, work: Work, side: Side) -> Rows:
    """Run a work and return its rows, none when it fails."""

    async def within_limit() -> Rows:
        async with asyncio.timeout(work.limit_s):
            return await work.run(side)

    try:
        return asyncio.run(within_limit())
    except (MagnetarError, RuntimeError, TimeoutError, OSError, ValueError) as error:
        print(f"{name}: {side.name} failed: {error!r}", flush=True)
        return {}


if __name__ == "__main__":
    main()
