"""``python -m tests.mutants.run``: check that the tests detect mistakes. Applies one edit at a time to a copy of the
tree and runs the tests that are to fail. Prints a row for each, and last how many were caught; exit status 1 when one
was not.

The tree in which it is started is only read. Before the edits the same tests run on the unchanged copy: a test that
fails there proves nothing. See docs/mutants.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutants.edit import Edit, PlaceGoneError, edited
from tests.mutants.edits import EDITS

ROOT = Path(__file__).parents[2]
TEST_S = 30
"""A test that takes longer has failed."""
EDIT_S = 150
"""An edit whose tests take longer is not caught."""
CLEAN_S = 900
LINKED = (".venv", "frontend/dist", "frontend/node_modules")
RESULT = re.compile(r"^(PASSED|FAILED|ERROR) tests/(\S+?::\w+)", re.MULTILINE)


class Row(NamedTuple):
    """Result of an edit; ``good``: it was caught."""

    edit: Edit
    good: bool
    text: str
    seconds: float = 0.0


class Tree:
    """Copy of the working tree: the files that git tracks or would add."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        for name in LINKED:
            if (ROOT / name).exists() and not (root / name).exists():
                (root / name).symlink_to((ROOT / name).resolve())
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.worker"],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @contextmanager
    def changed(self, edit: Edit) -> Iterator[None]:
        """Run the block with the edit in the tree. Raises PlaceGoneError."""
        source = (self.root / edit.file).read_text()
        self._write(edit.file, edited(source, edit))
        try:
            yield
        finally:
            self._write(edit.file, source)

    def _write(self, name: str, text: str) -> None:
        """Write a file and remove its compiled forms.

        Python compares only seconds and size of a source, which an edit may leave unchanged.
        """
        file = self.root / name
        file.write_text(text)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()

    def pytest(self, tests: Iterable[str], limit_s: float, *options: str) -> tuple[int | None, str]:
        """Run tests; return the exit status, None after ``limit_s``, and the output."""
        args = ["-q", "--tb=no", "-rpfE", f"--timeout={TEST_S}", *options]
        args += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the worker has loaded plugins
        args += [f"tests/{test}" for test in tests]
        output = self.root / "output.txt"
        request = {"args": args, "output": str(output), "limit_s": limit_s}
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(request) + "\n")
        self._worker.stdin.flush()
        status = json.loads(self._worker.stdout.readline())
        return status, output.read_text() if output.exists() else ""

    def close(self) -> None:
        self._worker.terminate()
        self._worker.communicate()


def passing(tree: Tree, tests: Sequence[str]) -> set[str]:
    """Return those of ``tests`` that exist and pass in the unchanged tree."""
    existing = [test for test in tests if exists(tree.root, test)]
    if not existing:
        return set()
    _, output = tree.pytest(existing, CLEAN_S)
    results: dict[str, set[str]] = {}
    for result, test in RESULT.findall(output):
        results.setdefault(test, set()).add(result)
    return {test for test in existing if results.get(test.partition("[")[0]) == {"PASSED"}}


def exists(root: Path, test: str) -> bool:
    file, _, name = test.partition("::")
    path = root / "tests" / file
    name = name.partition("[")[0]
    return (
        path.exists() and re.search(rf"^(async )?def {name}\(", path.read_text(), re.M) is not None
    )


def examine(tree: Tree, edit: Edit, clean: set[str]) -> Row:
    """Run an edit's tests with it in place."""
    started = time.monotonic()
    for test in edit.tests:
        if test not in clean:
            return Row(edit, False, f"PROVES NOTHING: {test} does not pass without the edit")
    try:
        with tree.changed(edit):
            status, output = tree.pytest(edit.tests, EDIT_S, "-x")
    except (PlaceGoneError, FileNotFoundError) as error:
        return Row(edit, False, f"PLACE GONE: {error}")
    return Row(edit, *judge(edit, status, output), time.monotonic() - started)


def judge(edit: Edit, status: int | None, output: str) -> tuple[bool, str]:
    failed = [test for result, test in RESULT.findall(output) if result != "PASSED"]
    if status == 1:
        # Resources that a failed test leaves open may end pytest before it has reported the failure.
        by = failed[0] if failed else f"{edit.tests[0]} or what it leaves open"
        return True, by
    if status == 0:
        return False, "LIVES"
    if status is None:
        return False, f"NO END within {EDIT_S} s"
    return False, f"NO TEST RAN: pytest ended with {status}: {output.strip()[-200:]}"


def examine_all(edits: Sequence[Edit], jobs: int, place: Path) -> Iterator[Row]:
    """Yield rows in the order of the list, with one job per copy of the tree."""
    trees: SimpleQueue[Tree] = SimpleQueue()
    with ThreadPoolExecutor(jobs) as pool:
        copies = list(pool.map(Tree, [place / str(i) for i in range(jobs)]))
        tests = sorted({test for edit in edits for test in edit.tests})
        clean = set().union(*pool.map(passing, copies, [tests[i::jobs] for i in range(jobs)]))
        for tree in copies:
            trees.put(tree)

        def examine_edit(edit: Edit) -> Row:
            tree = trees.get()
            try:
                return examine(tree, edit, clean)
            finally:
                trees.put(tree)

        try:
            yield from pool.map(examine_edit, edits)
        finally:
            for tree in copies:
                tree.close()


def show(edits: Sequence[Edit]) -> int:
    """Print the list without running anything; return 1 when a place or a test is gone."""
    gone = 0
    for edit in edits:
        print(f"{edit.name}  {edit.where}  {edit.holds}\n    {' '.join(edit.tests)}")
        for test in edit.tests:
            if not exists(ROOT, test):
                gone += 1
                print(f"    NO SUCH TEST: {test}")
        try:
            edited((ROOT / edit.file).read_text(), edit)
        except (PlaceGoneError, FileNotFoundError) as error:
            gone += 1
            print(f"    PLACE GONE: {error}")
    return 1 if gone else 0


def main(argv: list[str] | None = None) -> int:
    known = {edit.name: edit for edit in EDITS}
    assert len(known) == len(EDITS), "two edits have one name"
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=sorted(known), metavar="NAME", help="these alone"
    )
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--list", action="store_true", help="print the edits, run nothing")
    arguments = parser.parse_args(argv)
    edits = [known[name] for name in arguments.only] if arguments.only else list(EDITS)
    if arguments.list:
        return show(edits)
    started, good, width = time.monotonic(), 0, max(len(edit.name) for edit in edits)
    jobs = max(1, min(arguments.jobs, len(edits)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        for row in examine_all(edits, jobs, Path(place)):
            good += row.good
            print(
                f"{row.edit.name:{width}}  {row.edit.holds:7}  {row.seconds:5.1f} s  {row.text}",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s wall")
    print(f"caught {good} of {len(edits)}")
    return 0 if good == len(edits) else 1


if __name__ == "__main__":
    sys.exit(main())
