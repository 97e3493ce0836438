"""``python -m tests.sim.bugs``: check that the simulator detects mistakes. Plants one mistake at a time and runs seeds
until one breaks a promise. Prints a table, and last how many were caught; exit status 1 when one was not. See
docs/simulator.md."""

import argparse
import contextlib
import os
import re
import sys
import time
from typing import NamedTuple

from tests.sim.plants import catalogue as plants
from tests.sim.run import Play, play_all

SEEDS_MAX = 2000
RULE = re.compile(r"[A-Z]\d+\b")
CHECKER = re.compile(r"[a-z]+(_[a-z]+)+: ")


class Catch(NamedTuple):
    """Result of a hunt: ``seeds`` that it took; ``invariant`` in the words of the checker, None when nothing was
    found."""

    plant: str
    workload: str
    seeds: int
    invariant: str | None


def hunt(name: str, seeds_max: int, jobs: int) -> Catch:
    """Run the plant's workload from seed 1 on until it is caught.

    A seed that fails without the mistake as well proves nothing and is passed over.
    """
    workload = plants.PLANTS[name].workload
    work = [Play(workload, seed, name) for seed in range(1, seeds_max + 1)]
    with contextlib.closing(play_all(work, jobs)) as results:
        for play, result in zip(work, results, strict=True):
            if result.violations and holds_unplanted(play):
                return Catch(name, workload, play.seed, invariant(result.violations))
    return Catch(name, workload, seeds_max, None)


def holds_unplanted(play: Play) -> bool:
    """Return whether the same seed breaks nothing without the mistake."""
    [result] = play_all([play._replace(plant=None)], 1)
    return not result.violations


def invariant(violations: list[str]) -> str:
    """Return the violation that identifies the breach best: a numbered rule or a checker's name before its
    consequences."""

    def rank(text: str) -> int:
        if RULE.match(text):
            return 0
        if CHECKER.match(text):
            return 1
        return 3 if text.startswith("liveness") else 2

    return min(violations, key=rank).splitlines()[0][:100]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.bugs", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(plants.PLANTS), help="these alone")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="seeds per mistake at most")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    arguments = parser.parse_args(argv)
    started = time.monotonic()
    names = arguments.only or list(plants.PLANTS)
    width = max(map(len, names))
    print(f"{'bug':{width}}  workload  seeds  caught by", flush=True)
    caught = 0
    for name in names:
        catch = hunt(name, arguments.seeds, arguments.jobs)
        caught += catch.invariant is not None
        by = catch.invariant or "NOT CAUGHT"
        print(f"{name:{width}}  {catch.workload:8}  {catch.seeds:5}  {by}", flush=True)
    print(f"{time.monotonic() - started:.0f} s wall")
    print(f"caught {caught} of {len(names)}")
    return 0 if caught == len(names) else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # as tests.sim.run
