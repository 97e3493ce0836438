"""``python -m tests.sim.run``: a campaign of seeds. Exit status 1 when a promise was broken. See docs/simulator.md."""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from typing import NamedTuple

from tests.sim.kit.play import Result
from tests.sim.kit.scenario import play_scenario
from tests.sim.plants import catalogue as plants
from tests.sim.scenarios import SCENARIOS, TURNS

SEEDS_PER_PROCESS = 20
CHECKED_TWICE = 6
"""Seeds of a campaign that are run again in other processes with other hash seeds."""


class Play(NamedTuple):
    """One run to be made."""

    workload: str
    seed: int
    plant: str | None = None
    verbose: bool = False

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        extra = f" --plant {self.plant}" if self.plant else ""
        return f"python -m tests.sim.run --workload {self.workload} --seed {self.seed}{extra} --verbose"


def workload_of(seed: int, named: str | None = None) -> str:
    """Return the workload that a seed plays."""
    return named or TURNS[seed % len(TURNS)]


def play_one(play: Play) -> Result:
    """Make one run in this process."""
    with plants.planted(play.plant):
        return play_scenario(SCENARIOS[play.workload], play.seed, verbose=play.verbose)


def play_all(plays: Sequence[Play], jobs: int) -> Generator[Result, None, None]:
    """Yield results in the order of ``plays``, made by ``jobs`` processes, until the caller stops."""
    context = multiprocessing.get_context("fork")
    # Processes are replaced: tasks that were killed in mid-air are never freed.
    with context.Pool(jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap(play_one, plays)


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.run", description=__doc__)
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds (300)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--seed", type=int, help="one seed alone")
    parser.add_argument("--workload", choices=sorted(SCENARIOS), help="this one alone (by turns)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--verbose", action="store_true", help="print what nodes log")
    parser.add_argument("--determinism", type=int, metavar="K", help="run every K-th seed twice")
    known = sorted({**plants.PLANTS, **plants.UNSEEN, **plants.CONTROLS})
    parser.add_argument("--plant", choices=known, help="plant a known mistake")
    parser.add_argument("--stop", action="store_true", help="stop at the first failing seed")
    parser.add_argument(
        "--traces",
        nargs="+",
        metavar="W:SEED",
        help="print the fingerprints of these runs (workload:seed) and nothing else",
    )
    return parser.parse_args(argv)


def report(play: Play, result: Result) -> None:
    """Print lines about a failing seed."""
    print(f"{play.workload} seed {play.seed} FAILED  replay: {play.command}")
    for text in result.violations[:8]:
        print("   ", text.replace("\n", "\n    "))
    sys.stdout.flush()


def summary(results: list[Result], wall_s: float) -> None:
    """Print figures of a campaign."""
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


def fingerprints(plays: Sequence[Play], hash_seed: int) -> list[str]:
    """Return traces of runs, made one after the other in one new process."""
    names = [f"{play.workload}:{play.seed}" for play in plays]
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.run", "--traces", *names],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    traces = done.stdout.split()
    return traces if len(traces) == len(plays) else [done.stderr[-500:]] * len(plays)


def differing(plays: Sequence[Play], known: Iterable[str] = ()) -> list[Play]:
    """Return runs that differ between processes with different hash seeds and orders of runs.

    ``known``: traces from yet another process, if there are any.
    """
    first = fingerprints(plays, 0)
    second = fingerprints(plays[::-1], 1)[::-1]
    third = list(known) or first
    unstable = []
    for play, *traces in zip(plays, first, second, third, strict=True):
        if len(set(traces)) > 1:
            print(f"{play.workload} seed {play.seed} is not deterministic: {traces}", flush=True)
            unstable.append(play)
    return unstable


def named(arguments: argparse.Namespace) -> str | None:
    """Return the requested workload: by name, or that of a planted mistake."""
    if arguments.workload or not arguments.plant:
        workload: str | None = arguments.workload
        return workload
    return {**plants.PLANTS, **plants.UNSEEN, **plants.CONTROLS}[arguments.plant].workload


def campaign(arguments: argparse.Namespace) -> int:
    plays = [
        Play(workload_of(seed, named(arguments)), seed, arguments.plant, arguments.verbose)
        for seed in range(arguments.first, arguments.first + arguments.seeds)
    ]
    results: list[Result] = []
    started = time.monotonic()
    for play, result in zip(plays, play_all(plays, arguments.jobs), strict=False):
        results.append(result)
        if result.violations:
            report(play, result)
            if arguments.stop:
                break
    summary(results, time.monotonic() - started)
    if arguments.plant:
        return 0
    # An odd step, so that every workload is checked.
    every = arguments.determinism or max(1, len(results) // CHECKED_TWICE) | 1
    again = slice(0, len(results), every)
    unstable = differing(plays[again], [result.trace for result in results[again]])
    return 1 if unstable or any(result.violations for result in results) else 0


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    if arguments.traces:
        for name in arguments.traces:
            workload, _, seed = name.partition(":")
            print(play_one(Play(workload, int(seed))).trace)
        return 0
    if arguments.seed is None:
        return campaign(arguments)
    workload = workload_of(arguments.seed, named(arguments))
    play = Play(workload, arguments.seed, arguments.plant, arguments.verbose)
    result = play_one(play)
    print(result.plan)
    if result.violations:
        report(play, result)
    summary([result], result.cpu_s)
    return 1 if result.violations else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Without freeing tasks that were killed in mid-air: their `finally` blocks must not run.
    os._exit(status)
