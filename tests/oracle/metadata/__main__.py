"""Compare random sequences of operations on Apache's ZooKeeper and on ours.

    python -m tests.oracle.metadata --sequences 1000 --seed 1

Sequence number i of seed s is ``s.i``; ``--only s.i`` plays one and shows its transcript.
"""

import argparse
import asyncio
import itertools
import signal
import sys
import time

from tests.oracle.metadata.compare import (
    Difference,
    Mode,
    Server,
    compare,
    compare_many,
    lines_of,
    our_server,
    real_server,
)

SERVERS: dict[str, Server] = {"real": real_server, "ours": our_server}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.metadata", description=__doc__)
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="seed of one sequence, as s.i")
    parser.add_argument("--in-flight", type=int, default=12, help="sequences at a time")
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.SEVERAL)
    parser.add_argument("--servers", nargs=2, choices=SERVERS, default=("real", "ours"))
    parser.add_argument("--chunk", type=int, default=4000, help="sequences between new servers")
    parser.add_argument("--differences", type=int, default=20, help="stop after so many")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers end, too
    if options.only:
        return asyncio.run(show(options.only, options.servers, options.mode))
    return run(options)


async def show(seed: str, names: list[str], mode: Mode) -> int:
    with SERVERS[names[0]]() as theirs, SERVERS[names[1]]() as ours:
        print("\n".join(await lines_of(theirs, seed, "/m1/root", mode)))
        difference = await compare((theirs, ours), seed, "/m2/root", mode)
    print(difference.text if difference else "equal")
    return difference is not None


def run(options: argparse.Namespace) -> int:
    differences: list[Difference] = []
    numbers = iter(range(options.sequences))
    start = time.monotonic()
    done = 0

    def report(difference: Difference) -> None:
        differences.append(difference)
        print(f"--- {difference.seed}\n{difference.text}", flush=True)

    def seeds(count: int) -> "itertools.islice[str]":
        ahead = (f"{options.seed}.{i}" for i in numbers if len(differences) < options.differences)
        return itertools.islice(ahead, count)

    while done < options.sequences and len(differences) < options.differences:
        first, second = (SERVERS[name] for name in options.servers)
        with first() as theirs, second() as ours:
            ports = (theirs, ours)
            done += asyncio.run(
                compare_many(ports, seeds(options.chunk), options.in_flight, options.mode, report)
            )
        took_s = time.monotonic() - start
        print(f"{done} sequences, {len(differences)} differences, {took_s:.0f} s", flush=True)
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
