"""Time of the first minute on this machine, from a fresh clone: ``python -m tests.newcomer.stopwatch``.

It prints a table: set-up, start, first message, second start, disk. ``--wheel FILE`` measures the package instead.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
START_S = 300.0
TOPIC = "persistent://public/default/hello"


class Stopwatch:
    """Steps with their times, printed as rows."""

    def __init__(self) -> None:
        print("| step | seconds |\n|---|---|")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Print the time that the block takes."""
        began = time.monotonic()
        yield
        print(f"| {name} | {time.monotonic() - began:.1f} |", flush=True)


def megabytes(*folders: Path) -> int:
    """Return the disk of folders that exist; a file with several names counts once."""
    words = [str(folder) for folder in folders if folder.exists()]
    if not words:
        return 0
    total = subprocess.run(["du", "-smc", *words], capture_output=True, text=True, check=True)
    return int(total.stdout.splitlines()[-1].split()[0])


@contextmanager
def instance(command: list[str], cwd: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Run an instance for the length of the block; yield when it is ready, with its own figure."""
    with (cwd / "output").open("w+") as output:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=output, stderr=output)
        try:
            until = time.monotonic() + START_S
            while not (ready := re.search(r"ready in ([\d.]+) s", (cwd / "output").read_text())):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"it did not start: {(cwd / 'output').read_text()[-2000:]}")
                time.sleep(0.02)
            yield ready[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def measure(
    watch: Stopwatch, magnetar: Path, start: list[str], cwd: Path, env: Mapping[str, str]
) -> None:
    """Measure two starts and a first message of an installed instance."""
    began = time.monotonic()
    with instance(start, cwd, env):
        print(f"| first start, until ready | {time.monotonic() - began:.1f} |", flush=True)
        port = 6650 + int(env["MAGNETAR_PORT_OFFSET"])
        web = f"http://127.0.0.1:{8080 + int(env['MAGNETAR_PORT_OFFSET'])}"
        addresses = ["--url", f"pulsar://127.0.0.1:{port}", "--admin-url", web]
        with watch.step("first message: published by one command, received by another"):
            for words in (
                ["produce", TOPIC, "hello"],
                ["consume", TOPIC, "--from", "earliest", "-n", "1"],
            ):
                done = subprocess.run(
                    [str(magnetar), *words, *addresses],
                    cwd=cwd,
                    env=env,
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    sys.exit(f"{words}: {done.stdout}{done.stderr}")
    began = time.monotonic()
    with instance(start, cwd, env):
        print(f"| second start, until ready | {time.monotonic() - began:.1f} |", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="measure this package instead of a clone")
    parser.add_argument("--console", default="", help="a packed console, instead of building it")
    parser.add_argument("--offset", default="26000", help="of the instance's ports")
    args = parser.parse_args()
    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="stopwatch-", dir="/var/tmp") as name:
        folder = Path(name)
        env = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("MAGNETAR_", "PYTHON"))
        }
        env |= {"MAGNETAR_PORT_OFFSET": args.offset, "MAGNETAR_DATA_DIR": str(folder / "data")}
        if args.wheel is not None:
            with watch.step("python3 -m venv and pip install"):
                subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
                pip = [str(folder / "env" / "bin" / "pip"), "--no-cache-dir", "-q", "install"]
                subprocess.run([*pip, str(args.wheel.resolve())], check=True)
            magnetar = folder / "env" / "bin" / "magnetar"
            measure(watch, magnetar, [str(magnetar), "dev"], folder, env)
            print(f"| disk of the environment, MB | {megabytes(folder / 'env')} |")
            return
        clone = folder / "clone"
        subprocess.run(["git", "clone", "-q", str(TREE), str(clone)], check=True)
        console = {"MAGNETAR_CONSOLE": args.console} if args.console else {}
        with watch.step("make setup"):
            subprocess.run(
                ["make", "-s", "setup"], cwd=clone, env={**env, **console}, check=True, stdout=2
            )
        with watch.step("make setup when nothing changed"):
            subprocess.run(["make", "-s", "setup"], cwd=clone, env=env, check=True)
        start = [str(clone / ".venv" / "bin" / "python"), "manage.py", "standalone", "run"]
        measure(watch, clone / ".venv" / "bin" / "magnetar", start, clone, env)
        installed = (clone / name for name in (".venv", ".tools", "frontend/dist"))
        print(f"| disk of .venv, .tools and the console, MB | {megabytes(*installed)} |")


if __name__ == "__main__":
    main()
