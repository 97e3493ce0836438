"""``python -m tests.sim.run``: a campaign of seeds. Exit status 1 when a promise was broken. See docs/simulator.md."""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

from tests.sim import plants
from tests.sim.ledger_scenario import run_ledger_seed
from tests.sim.play import Result
from tests.sim.scenario import run_seed

WORKLOADS: dict[str, Callable[..., Result]] = {"topics": run_seed, "ledger": run_ledger_seed}
TURNS = ("topics", "ledger")
"""Workloads that the seeds of a campaign take in turn, unless one is named."""
SEEDS_PER_PROCESS = 20
CHECKED_TWICE = 4
"""Seeds of a campaign that are run again in other processes with other hash seeds."""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds (300)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--seed", type=int, help="one seed alone")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), help="only this one (all in turn)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--verbose", action="store_true", help="print what nodes log")
    parser.add_argument("--determinism", type=int, metavar="K", help="run every K-th seed twice")
    parser.add_argument("--plant", choices=sorted(plants.PLANTS), help="plant a known mistake")
    parser.add_argument("--stop", action="store_true", help="stop at the first failing seed")
    parser.add_argument("--trace", action="store_true", help="print the run's fingerprint only")
    return parser.parse_args(argv)


def workload_of(seed: int, named: str | None) -> str:
    """The workload that a seed plays."""
    return named or TURNS[seed % len(TURNS)]


def _one(work: tuple[int, str | None, bool, str]) -> Result:
    seed, plant, verbose, workload = work
    with plants.planted(plant):
        return WORKLOADS[workload](seed, verbose=verbose)


def report(result: Result, plant: str | None, workload: str) -> None:
    """Lines about a failing seed."""
    extra = f" --plant {plant}" if plant else ""
    print(
        f"seed {result.seed} FAILED  replay: python -m tests.sim.run --workload {workload}"
        f" --seed {result.seed}{extra} --verbose"
    )
    for text in result.violations[:8]:
        print("   ", text.replace("\n", "\n    "))
    sys.stdout.flush()


def summary(results: list[Result], wall_s: float) -> None:
    """Figures of a campaign."""
    simulated = sum(result.simulated_s for result in results)
    cpu = sum(result.cpu_s for result in results)
    events = sum(result.events for result in results)
    totals: dict[str, int] = {}
    for result in results:
        for name, n in result.counts.items():
            totals[name] = totals.get(name, 0) + n
    failed = sum(bool(result.violations) for result in results)
    print(
        f"{len(results)} seeds, {simulated:.0f} simulated s in {cpu:.0f} CPU s ({simulated / max(cpu, 1e-9):.0f}x),"
        f" {wall_s:.0f} s wall, {events} events ({events / max(cpu, 1e-9):.0f}/s)"
    )
    print(", ".join(f"{name} {n}" for name, n in sorted(totals.items())))
    print(f"{failed} seeds failed")


def fingerprint(seed: int, hash_seed: int, workload: str) -> str:
    """Trace of a seed in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.sim.run", "--workload", workload),
            *("--seed", str(seed), "--trace"),
        ],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr[-500:]


def differing(seeds: Iterable[int], named: str | None = None) -> list[int]:
    """Seeds whose run is not the same in processes with different hash seeds."""
    found = []
    for seed in seeds:
        workload = workload_of(seed, named)
        first, second = (fingerprint(seed, hash_seed, workload) for hash_seed in (0, 1))
        if first != second:
            print(f"seed {seed} is not deterministic: {first} and {second}", flush=True)
            found.append(seed)
    return found


def campaign(arguments: argparse.Namespace) -> int:
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    named = arguments.workload or ("topics" if arguments.plant else None)
    work = [(seed, arguments.plant, arguments.verbose, workload_of(seed, named)) for seed in seeds]
    results: list[Result] = []
    started = time.monotonic()
    context = multiprocessing.get_context("fork")
    # Processes are replaced: tasks that were killed in mid-air are never freed.
    with context.Pool(arguments.jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        for result in pool.imap(_one, work):
            results.append(result)
            if result.violations:
                report(result, arguments.plant, workload_of(result.seed, named))
                if arguments.stop:
                    pool.terminate()
                    break
    summary(results, time.monotonic() - started)
    if arguments.plant:
        return 0
    every = arguments.determinism or max(1, len(seeds) // CHECKED_TWICE)
    unstable = differing(seeds[::every], named)
    return 1 if unstable or any(result.violations for result in results) else 0


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    if arguments.seed is None:
        return campaign(arguments)
    workload = workload_of(arguments.seed, arguments.workload)
    result = _one((arguments.seed, arguments.plant, arguments.verbose, workload))
    if arguments.trace:
        print(result.trace)
        return 0
    print(result.plan)
    if result.violations:
        report(result, arguments.plant, workload)
    summary([result], result.cpu_s)
    return 1 if result.violations else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(
        status
    )  # without freeing tasks that were killed in mid-air: their `finally` blocks must not run
