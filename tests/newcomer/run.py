"""Run the scenarios on fresh Debian releases and print a table: ``python -m tests.newcomer.run``, as root.

It needs debootstrap. Root file systems are removed at the end, unless ``--roots`` names a folder that keeps them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.newcomer.root import USER, Outcome, Root, RootError, command_in, make_root
from tests.newcomer.scenarios import CLONE, INSTALL, SCENARIOS, Scenario

TREE = Path(__file__).resolve().parents[2]
ARCHIVE = "magnetar-console.tar.gz"


def problem_of(scenario: Scenario, outcome: Outcome) -> str:
    """Return what an outcome lacks; empty for one that is as it should be."""
    if outcome.code == 124:
        return "it did not end"
    if (outcome.code != 0) is not scenario.refuses:
        return f"it ended with {outcome.code}"
    missing = [text for text in scenario.expects if text not in outcome.output]
    if missing:
        return f"it does not say {missing[0]!r}"
    return "it shows a stack trace" if "Traceback" in outcome.output else ""


def line_of(scenario: Scenario, outcome: Outcome) -> str:
    """Return the line of the output that says how it ended."""
    lines = [line.strip() for line in outcome.output.splitlines() if line.strip()]
    for text in scenario.expects:
        for line in lines:
            if text in line:
                return line.removeprefix("magnetar: ")
    return lines[-1] if lines else ""


class Campaign:
    """The scenarios on one release; each begins from the same state."""

    def __init__(self, root: Root, folder: Path) -> None:
        self.root = root
        self._folder = folder
        self._number = 0
        self.rows: list[str] = []
        self.failed = 0

    def _layer(self) -> Path:
        self._number += 1
        return self._folder / f"{self.root.suite}-{self._number}"

    def clone(self) -> None:
        """Add a clone of this tree to the root, which has its last commit and none of what is built."""
        layer = self._layer()
        target = layer / "up" / CLONE.lstrip("/")
        target.parent.mkdir(parents=True)
        source = ["git", "clone", "-q", "--no-hardlinks", str(TREE), str(target)]
        subprocess.run(source, check=True)
        for path in (target.parent, *target.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)
        os.chown(target, USER, USER)
        self.root = self.root.on(layer)

    def run(self, scenario: Scenario, root: Root) -> Path:
        """Run a scenario, print its row, and return its layer."""
        layer = self._layer()
        began = time.monotonic()
        outcome = command_in(
            root,
            layer,
            scenario.steps,
            network=scenario.network,
            as_root=scenario.as_root,
            variables=dict(scenario.variables),
            timeout_s=scenario.timeout_s,
        )
        problem = problem_of(scenario, outcome)
        took_s = time.monotonic() - began
        line = line_of(scenario, outcome).replace("|", "/")[:160]
        row = f"| {self.root.suite} | {scenario.name} | {took_s:.0f} s | {problem or 'good'} | {line} |"
        print(row, flush=True)
        if problem:
            self.failed += 1
            print(outcome.output[-3000:], file=sys.stderr)
        self.rows.append(row)
        return layer


def campaign(args: argparse.Namespace, suite: str, folder: Path) -> Campaign:
    """Run the chosen scenarios on a release. Raises RootError."""
    roots = Path(args.roots) if args.roots else folder
    roots.mkdir(parents=True, exist_ok=True)
    known = Campaign(make_root(suite, roots, args.mirror), folder)
    known.clone()
    layer = known.run(INSTALL, known.root)
    installed = known.root.on(layer)
    packed = layer / "up" / CLONE.lstrip("/") / "dist" / ARCHIVE
    if not packed.exists():
        return known
    beside = known.root.layers[0] / "up" / "home" / "user" / ARCHIVE
    # The scenarios take it from there and need not build it.
    shutil.copy(packed, beside)
    os.chown(beside, USER, USER)
    for scenario in SCENARIOS:
        wanted = not scenario.only_with or getattr(args, scenario.only_with)
        if wanted and (not args.only or args.only in scenario.name):
            done = known.run(scenario, installed if scenario.installed else known.root)
            shutil.rmtree(done, ignore_errors=True)
    return known


def main() -> None:
    """Run the command line; exit with 1 when a scenario did not end well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suites", nargs="+", default=["bookworm", "trixie"])
    parser.add_argument("--only", default="", help="scenarios whose name has this text")
    parser.add_argument("--spark", action="store_true", help="also install Spark: 600 MB")
    parser.add_argument("--roots", default="", help="folder that keeps the root file systems")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian")
    args = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("this needs root, and: apt install debootstrap")
    print("| release | machine | took | result | said |\n|---|---|---|---|---|")
    failed = 0
    for suite in args.suites:
        with tempfile.TemporaryDirectory(prefix="newcomer-", dir="/var/tmp") as folder:
            try:
                failed += campaign(args, suite, Path(folder)).failed
            except RootError as error:
                sys.exit(str(error))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
